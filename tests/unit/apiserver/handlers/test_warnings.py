"""Warnings to clients: which requests give them, and which responses carry them."""

from typing import Any

import pytest

from pykubelet.api.errors import ApiError
from pykubelet.apiserver.apiextensions.controller import served_rows
from pykubelet.apiserver.apiextensions.status import with_accepted_names
from pykubelet.apiserver.request import ApiResponse, WatchStream
from verb_requests import Asker, pod
from widgets import NOW, definition, version, widget

PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"

_HIDDEN = 'spec.{}containers[0].env[1]: hides previous definition of "a", which may be dropped when using apply'
_ENV_TWICE = {"containers": [{"name": "c", "image": "x:1", "env": [{"name": "a"}, {"name": "a", "value": "b"}]}]}


def _deployment(name: str = "d", **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": _ENV_TWICE}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template, **spec},
    }


async def _refusal(asker: Asker, method: str, target: str, body: Any, content_type: str = "") -> ApiError:
    with pytest.raises(ApiError) as caught:
        await asker.handle(method, target, body, content_type)
    return caught.value


@pytest.mark.parametrize("query", ["", "?dryRun=All"])
async def test_creation_warns_also_when_it_is_a_dry_run(asker: Asker, query: str) -> None:
    """The warnings are about the object as it would be stored."""
    answer = await asker.answer("POST", f"{PODS}{query}", pod("web", **_ENV_TWICE))
    assert answer.warnings == (_HIDDEN.format(""),)


async def test_apply_that_creates_warns_as_a_creation(asker: Asker) -> None:
    """An apply that changes an object warns like an update."""
    target = f"{DEPLOYMENTS}/a.b?fieldManager=me"
    made = _deployment("a.b")
    made["spec"]["template"]["spec"] = {**pod("x")["spec"], "nodeSelector": {"beta.kubernetes.io/os": "linux"}}
    answer = await asker.answer("PATCH", target, made, APPLY)
    name, label = answer.warnings
    assert name.startswith("metadata.name: this is used in Pod names and hostnames")
    assert label.startswith("spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14")
    assert (await asker.answer("PATCH", target, made, APPLY)).warnings == ()
    made["spec"]["minReadySeconds"] = 1
    assert (await asker.answer("PATCH", target, made, APPLY)).warnings == (label,)


async def test_changes_warn_when_the_generation_moves(asker: Asker) -> None:
    """Updates, patches and scaling increment it; a change of labels does not."""
    said = (_HIDDEN.format("template.spec."),)
    await asker.answer("POST", DEPLOYMENTS, _deployment())
    updated = await asker.answer("PUT", f"{DEPLOYMENTS}/d", _deployment(minReadySeconds=1))
    labelled = await asker.answer("PATCH", f"{DEPLOYMENTS}/d", {"metadata": {"labels": {"x": "y"}}}, MERGE)
    patched = await asker.answer("PATCH", f"{DEPLOYMENTS}/d", {"spec": {"minReadySeconds": 2}}, MERGE)
    scaled = await asker.answer("PATCH", f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 3}}, MERGE)
    assert (updated.warnings, labelled.warnings, patched.warnings, scaled.warnings) == (said, (), said, said)


async def test_status_warns_about_itself_alone(asker: Asker) -> None:
    """Its sender does not change the rest of the pod."""
    await asker.answer("POST", PODS, pod("web", **_ENV_TWICE))
    status = {"status": {"podIPs": [{"ip": "FD00::1"}], "podIP": "FD00::1"}}
    answer = await asker.answer("PATCH", f"{PODS}/web/status", status, MERGE)
    assert answer.warnings == (
        'status.podIPs[0].ip: IPv6 address "FD00::1" should be in RFC 5952 canonical format ("fd00::1")',
    )


async def test_refusals_carry_the_warnings_found_so_far(asker: Asker) -> None:
    """For an invalid object these are its unknown fields, for a taken name all warnings."""
    unknown = pod("web", **_ENV_TWICE, foo="x")
    invalid = await _refusal(asker, "POST", PODS, {**unknown, "metadata": {"name": "Web"}})
    assert (invalid.code, invalid.warnings) == (422, ('unknown field "spec.foo"',))
    await asker.answer("POST", PODS, unknown)
    taken = await _refusal(asker, "POST", PODS, unknown)
    assert (taken.code, taken.warnings) == (409, ('unknown field "spec.foo"', _HIDDEN.format("")))
    missing = await _refusal(asker, "DELETE", f"{JOBS}/j", None)
    assert (missing.code, len(missing.warnings)) == (404, 1)


async def test_apparmor_annotation_warns_before_validation(asker: Asker) -> None:
    """A refusal carries the warning too."""
    key = "container.apparmor.security.beta.kubernetes.io/c"
    said = f'metadata.annotations[{key}]: deprecated since v1.30; use the "appArmorProfile" field instead'
    made = pod("web")
    made["metadata"]["annotations"] = {key: "runtime/default"}
    answer = await asker.answer("POST", PODS, made)
    assert answer.warnings == (said,)
    assert answer.document["spec"]["containers"][0]["securityContext"]["appArmorProfile"]["type"] == "RuntimeDefault"
    made["metadata"]["annotations"] = {key: "nonsense"}
    assert (await _refusal(asker, "POST", PODS, made)).warnings == (said,)


async def test_deprecated_version_warns_on_every_request(asker: Asker) -> None:
    """Reads, watches and refusals have the warning too; a list has the kind that the definition names."""
    stated = definition(version(deprecated=True, deprecationWarning="old"))
    stated["spec"]["names"]["listKind"] = "Widgetry"
    for row in served_rows(with_accepted_names(stated, [], NOW)):
        asker.api.registry.add(row)
    made = widget(size=1)
    del made["metadata"]["resourceVersion"]
    made["metadata"]["finalizers"] = ["x"]
    first, second = (await asker.answer("POST", WIDGETS, made)).warnings
    assert (first, second.partition(": prefer")[0]) == ("old", 'metadata.finalizers: "x"')
    patch = {"spec": {"size": 2}}
    for method, target, body in (
        ("GET", f"{WIDGETS}/w", None),
        ("PATCH", f"{WIDGETS}/w", patch),
        ("GET", WIDGETS, None),
    ):
        answer = await asker.answer(method, target, body, MERGE)
        assert answer.warnings == ("old",)
    assert answer.document["kind"] == "Widgetry"
    watch = await asker.handle("GET", f"{WIDGETS}?watch=true&timeoutSeconds=1")
    assert isinstance(watch, WatchStream)
    assert watch.warnings == ("old",)
    await watch.batches.aclose()
    assert (await _refusal(asker, "GET", f"{WIDGETS}/x", None)).warnings == ("old",)
    deleted = await asker.handle("DELETE", f"{WIDGETS}/w")
    assert isinstance(deleted, ApiResponse)
    assert deleted.warnings == ("old",)


async def test_definition_warns_about_unrecognized_formats(asker: Asker) -> None:
    """Warnings follow the order of the fields; known formats, and formats of numbers, give none."""
    formats = {"a": "thing", "b": "date-time", "c": "k8s-short-name", "d": "other"}
    fields: dict[str, Any] = {name: {"type": "string", "format": format} for name, format in formats.items()}
    fields["e"] = {"type": "integer", "format": "odd"}
    fields["f"] = {"type": "array", "items": {"type": "string", "format": "deep"}}
    spec = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
    stated = definition(version(schema={"openAPIV3Schema": spec}))
    target = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    answer = await asker.answer("POST", target, stated)
    assert answer.warnings == tuple(f'unrecognized format "{name}"' for name in ("thing", "other", "deep"))
    fields["g"] = {"type": "string", "format": "new"}
    patch = {"spec": {"versions": [version(schema={"openAPIV3Schema": spec})]}}
    changed = await asker.answer("PATCH", f"{target}/widgets.example.com", patch, MERGE)
    assert changed.warnings == ('unrecognized format "new"',)


_POD_LABELS = {"metadata": {"labels": {"a": "b"}}}
_TEMPLATE = {**_POD_LABELS, "spec": _ENV_TWICE}
_ENDING = {**_POD_LABELS, "spec": {**_ENV_TWICE, "restartPolicy": "Never"}}


@pytest.mark.parametrize(
    ("path", "content", "template", "change"),
    [
        *(
            (
                f"/apis/apps/v1/{{}}/{plural}",
                {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": _TEMPLATE}},
                "spec.template.spec.",
                {"template": {"metadata": {"labels": {"x": "y"}}}},
            )
            for plural in ("deployments", "replicasets", "daemonsets", "statefulsets")
        ),
        (
            "/api/v1/{}/replicationcontrollers",
            {"spec": {"template": _TEMPLATE}},
            "spec.template.spec.",
            {"minReadySeconds": 1},
        ),
        ("/api/v1/{}/podtemplates", {"template": _TEMPLATE}, "template.spec.", None),
        ("/apis/batch/v1/{}/jobs", {"spec": {"template": _ENDING}}, "spec.template.spec.", {"backoffLimit": 9}),
        (
            "/apis/batch/v1/{}/cronjobs",
            {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": _ENDING}}}},
            "spec.jobTemplate.spec.template.spec.",
            {"suspend": True},
        ),
    ],
)
async def test_every_kind_with_a_pod_template_warns_about_it(
    asker: Asker, path: str, content: dict[str, Any], template: str, change: dict[str, Any] | None
) -> None:
    """A new object warns, and so does one whose spec changes; other updates do not."""
    target = path.format("namespaces/default")
    made = await asker.answer("POST", target, {"metadata": {"name": "a"}, **content})
    hidden = f"{template}{_HIDDEN.removeprefix('spec.{}')}"
    assert hidden in made.warnings
    labelled = await asker.answer("PATCH", f"{target}/a", {"metadata": {"labels": {"x": "y"}}}, MERGE)
    assert labelled.warnings == ()
    if change is not None:
        changed = await asker.answer("PATCH", f"{target}/a", {"spec": change}, MERGE)
        assert hidden in changed.warnings
