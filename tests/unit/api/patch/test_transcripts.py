"""Patches recorded from kube-apiserver 1.34.11; each step applies to the result of the step before."""

from typing import Any

import pytest

from pykubelet.api.patch.errors import MalformedPatchError, PatchError
from pykubelet.api.patch.json_merge_patch import apply_merge, apply_merge_text
from pykubelet.api.patch.json_patch import apply_json
from pykubelet.api.patch.strategic_apply import apply_strategic

Map = dict[str, Any]


def pod_template(containers: list[Map], **labels: str) -> Map:
    return {"metadata": {"labels": {"app": "d", **labels}}, "spec": {"containers": containers}}


def deployment(containers: list[Map], strategy: Map, **labels: str) -> Map:
    return {"metadata": {"name": "d"}, "spec": {"template": pod_template(containers, **labels), "strategy": strategy}}


def container(*env: Map, **fields: Any) -> Map:
    return {"name": "c", "image": "x:1", "ports": [{"containerPort": 80, "protocol": "TCP"}], "env": [*env], **fields}


def env(name: str, value: str) -> Map:
    return {"name": name, "value": value}


def template_patch(*containers: Map) -> Map:
    return {"spec": {"template": {"spec": {"containers": [*containers]}}}}


ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}
ONLY = {"name": "only", "image": "y"}
STEPS: list[tuple[str, Map, Map]] = [
    (
        "env-merge",
        template_patch({"name": "c", "env": [env("B", "22"), env("C", "3")]}),
        deployment([container(env("A", "1"), env("B", "22"), env("C", "3"))], ROLLING),
    ),
    (
        "env-delete",
        template_patch({"name": "c", "env": [{"name": "A", "$patch": "delete"}]}),
        deployment([container(env("B", "22"), env("C", "3"))], ROLLING),
    ),
    (
        "order",
        template_patch(
            {"name": "c", "$setElementOrder/env": [{"name": "C"}, {"name": "B"}], "env": [env("C", "33")]},
        ),
        deployment([container(env("C", "33"), env("B", "22"))], ROLLING),
    ),
    ("replace", template_patch({"$patch": "replace"}, ONLY), deployment([ONLY], ROLLING)),
    (
        "retain",
        {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}},
        deployment([ONLY], {"type": "Recreate"}),
    ),
    (
        "map-replace",
        {"spec": {"template": {"metadata": {"labels": {"$patch": "replace", "app": "d", "n": "1"}}}}},
        deployment([ONLY], {"type": "Recreate"}, n="1"),
    ),
]


@pytest.mark.parametrize("step", range(len(STEPS)), ids=[name for name, _, _ in STEPS])
def test_strategic_patches_of_a_deployment_give_what_the_server_gave(step: int) -> None:
    before = deployment([container(env("A", "1"), env("B", "2"))], ROLLING) if step == 0 else STEPS[step - 1][2]
    _, patch, expected = STEPS[step]
    assert apply_strategic(before, patch, ("apps/v1", "Deployment")) == expected


def test_patches_of_three_types_follow_each_other_on_one_pod() -> None:
    """A JSON patch, a merge patch and a strategic patch, as in the transcript patch-types."""
    pod: Map = {"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"containers": [{"name": "c1"}, {"name": "c2"}]}}
    operations = [
        {"op": "add", "path": "/metadata/labels/c", "value": "3"},
        {"op": "remove", "path": "/metadata/labels/a"},
    ]
    pod = apply_json(pod, operations)
    assert pod["metadata"]["labels"] == {"b": "2", "c": "3"}
    pod = apply_merge(pod, {"metadata": {"labels": {"b": None, "d": "4"}}})
    assert pod["metadata"]["labels"] == {"c": "3", "d": "4"}
    pod = apply_strategic(pod, {"spec": {"containers": [{"name": "c2", "image": "i2b"}]}}, "core.v1.Pod")
    assert pod["spec"]["containers"] == [{"name": "c1"}, {"name": "c2", "image": "i2b"}]


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param([{"op": "test", "path": "/labels/b", "value": "9"}], id="json-test-fails"),
        pytest.param([{"op": "remove", "path": "/labels/zzz"}], id="json-missing"),
    ],
)
def test_json_patch_that_the_server_found_unprocessable_does_not_apply(patch: list[Map]) -> None:
    with pytest.raises(PatchError) as failure:
        apply_json({"labels": {"b": "2"}}, patch)
    assert not isinstance(failure.value, MalformedPatchError)


def test_patches_that_the_server_called_bad_requests_are_malformed() -> None:
    """Transcript steps json-bad and yaml-merge."""
    with pytest.raises(MalformedPatchError):
        apply_json({}, {"op": "x"})
    with pytest.raises(MalformedPatchError):
        apply_merge_text("{}", "metadata: {labels: {y: z}}")
