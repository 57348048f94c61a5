"""Strict validation of documents against the fields of their kind."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.generated.core import Pod, Secret
from pykubelet.api.schema import Field, definition_of, definitions, unknown_kind_reason
from pykubelet.api.serializer import from_document
from pykubelet.api.strict import MAX_FINDINGS, WIDE_INTEGERS, check_metadata, check_object

laws = settings(max_examples=150, deadline=None)


def container(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "a", **fields}]}}


def messages(document: dict[str, Any], definition: str = "core.v1.Pod") -> list[tuple[str, str]]:
    return [("/".join(map(str, path)), message) for path, message, _ in check_object(document, definition)]


@pytest.mark.parametrize(
    ("fields", "step", "message"),
    [
        ({"imag": "x"}, "imag", 'unknown field (did you mean "image"?)'),
        ({"Image": "x"}, "Image", 'unknown field (did you mean "image"?)'),
        ({"zzz": "x"}, "zzz", "unknown field"),
        ({"x" * 100: "x"}, "x" * 100, "unknown field"),
        ({"image": 8080}, "image", "expected a string, found the number 8080"),
        ({"image": True}, "image", "expected a string, found the boolean true"),
        ({"image": ["x"]}, "image", "expected a string, found a list"),
        ({"args": "x"}, "args", 'expected a list, found the string "x"'),
        ({"args": [1]}, "args/0", "expected a string, found the number 1"),
        ({"args": [["x"]]}, "args/0", "expected a string, found a list"),
        ({"env": {"a": "b"}}, "env", "expected a list, found an object"),
        ({"ports": [{"containerPort": "80"}]}, "ports/0/containerPort", 'expected an integer, found the string "80"'),
        ({"ports": [{"containerPort": 1.5}]}, "ports/0/containerPort", "expected an integer, found the number 1.5"),
        ({"ports": [{"containerPort": 8.0}]}, "ports/0/containerPort", "expected an integer, found the number 8.0"),
        ({"ports": [{"containerPort": True}]}, "ports/0/containerPort", "expected an integer, found the boolean true"),
        ({"ports": [3]}, "ports/0", "expected an object, found the number 3"),
        ({"stdin": "yes"}, "stdin", 'expected true or false, found the string "yes"'),
        ({"resources": {"limits": ["x"]}}, "resources/limits", "expected an object, found a list"),
        ({"resources": {"limits": {"cpu": []}}}, "resources/limits/cpu", "expected a quantity, found a list"),
        (
            {"livenessProbe": {"tcpSocket": {"port": 2**31}}},
            "livenessProbe/tcpSocket/port",
            "expected an integer or a string, found the number 2147483648",
        ),
        ({"image": {"a": "x" * 50}}, "image", "expected a string, found an object"),
        ({"stdin": "x" * 50}, "stdin", f'expected true or false, found the string "{"x" * 40}..."'),
    ],
)
def test_finding_names_field_and_fault(fields: dict[str, Any], step: str, message: str) -> None:
    """The message has the expected type, the value found, or the nearest known field."""
    assert messages(container(**fields)) == [(f"spec/containers/0/{step}", message)]


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"limits": {"cpu": "1Gx"}}, "limits/cpu"),
        ({"limits": {"cpu": ""}}, "limits/cpu"),
        ({"requests": {"memory": "lots"}}, "requests/memory"),
    ],
)
def test_wrong_quantity_is_found(fields: dict[str, Any], path: str) -> None:
    """The message includes Kubernetes' own text."""
    ((where, message),) = messages(container(resources=fields))
    assert where == f"spec/containers/0/resources/{path}"
    assert message.startswith('expected a quantity, found the string "')
    assert "quantities must match the regular expression" in message


@pytest.mark.parametrize("time", ["yesterday", "2026-01-02", "2026-13-02T00:00:00Z", "", 5])
def test_wrong_time_is_found(time: object) -> None:
    ((where, message),) = messages({"metadata": {"creationTimestamp": time}})
    assert where == "metadata/creationTimestamp"
    assert message.startswith("expected an RFC 3339 time, found the ")


def test_right_document_has_no_findings() -> None:
    """Null counts as absent, managed fields are known, and int-or-string fields accept both."""
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "creationTimestamp": None, "managedFields": [{"fieldsV1": {"f:x": {}}}]},
        "spec": {
            "containers": [
                {
                    "name": "a",
                    "command": None,
                    "readinessProbe": {"httpGet": {"port": "http"}, "periodSeconds": 5},
                    "livenessProbe": {"httpGet": {"port": 80}},
                }
            ],
            "tolerations": [{"tolerationSeconds": 2**40}],
        },
        "status": {"startTime": "2026-01-02T03:04:05Z"},
    }
    assert messages(document) == []
    assert from_document(document, Pod).spec is not None


def test_values_that_go_accepts_are_normalized_for_structs() -> None:
    """Numbers for quantities, nulls in lists and maps, line breaks in base64."""
    document = {
        "metadata": {"labels": {"app": None}, "ownerReferences": [None]},
        "spec": {
            "containers": [
                {"name": "a", "args": ["x", None], "resources": {"limits": {"cpu": 1, "memory": 0.5, "x": " 1 ", "y": None}}}
            ],
            "overhead": {"cpu": 10**18},
            "securityContext": {"supplementalGroups": [1, None]},
        },
    }  # fmt: skip
    assert messages(document) == []
    assert document["metadata"] == {"labels": {"app": ""}, "ownerReferences": [{}]}
    first = document["spec"]["containers"][0]  # type: ignore[index]  # a plain document
    assert first["args"] == ["x", ""]
    assert document["spec"]["securityContext"] == {"supplementalGroups": [1, 0]}  # type: ignore[index]  # as above
    assert first["resources"]["limits"] == {"cpu": "1", "memory": "0.5", "x": "1", "y": "0"}
    secret = {"data": {"a": "aGVs\nbG8=\n", "b": None}}
    assert messages(secret, "core.v1.Secret") == []
    assert secret == {"data": {"a": "aGVsbG8=", "b": ""}}
    assert from_document(secret, Secret).data


@pytest.mark.parametrize("value", ["hunter2!", "abc", 12345, True, 1.5, "a==="])
def test_secret_value_is_never_quoted(value: object) -> None:
    """A finding names the key, never the value."""
    findings = check_object({"data": {"a": value}, "stringData": {"b": 12345}}, "core.v1.Secret", secret=True)
    assert [finding.path for finding in findings] == [("data", "a"), ("stringData", "b")]
    assert not any(str(secret) in str(findings) for secret in ("hunter2", "abc", "12345", "1.5", "a==="))


def test_findings_are_bounded() -> None:
    """However many fields are unknown, at most MAX_FINDINGS findings are returned."""
    assert len(check_object({f"field{n}": 1 for n in range(10_000)}, "core.v1.Pod")) == MAX_FINDINGS


def test_null_in_a_map_of_lists_is_an_empty_list() -> None:
    """Go decodes it the same way."""
    document = {"spec": {"extra": {"a": None, "b": ["c"]}}}
    assert messages(document, "authorization.v1.SubjectAccessReview") == []
    assert document == {"spec": {"extra": {"a": [], "b": ["c"]}}}


def test_metadata_of_custom_resource_is_checked() -> None:
    """The other fields of a custom resource are not checked."""
    assert check_metadata({"spec": 3, "metadata": {"name": "a"}}, "meta.v1.ObjectMeta") == []
    assert check_metadata({}, "meta.v1.ObjectMeta") == []
    (finding,) = check_metadata({"metadata": {"label": {}}}, "meta.v1.ObjectMeta")
    assert finding == (("metadata", "label"), 'unknown field (did you mean "labels"?)', True)
    (finding,) = check_metadata({"metadata": []}, "meta.v1.ObjectMeta")
    assert finding.message == "expected an object, found a list"


@pytest.mark.parametrize(
    ("api_version", "kind", "mistake"),
    [
        ("v1", "Pood", 'unknown kind "Pood" in "v1" (did you mean "Pod"?)'),
        ("v1", "pod", 'unknown kind "pod" in "v1" (did you mean "Pod"?)'),
        ("v1", "Deployment", 'no kind "Deployment" in "v1" (did you mean "apps/v1"?)'),
        ("apps/v1beta1", "Deployment", 'no kind "Deployment" in "apps/v1beta1" (did you mean "apps/v1"?)'),
        ("app/v1", "Thing", 'unknown apiVersion "app/v1" (did you mean "apps/v1"?)'),
        ("v2", "Thing", 'unknown apiVersion "v2"'),
        ("apps/v1", "Thing", 'unknown kind "Thing" in "apps/v1"'),
        ("apiregistration.k8s.io/v1", "APIService", None),
        ("example.com/v1", "Pod", None),
    ],
)
def test_wrong_kind_is_distinguished_from_a_custom_resource(api_version: str, kind: str, mistake: str | None) -> None:
    """An unknown kind in one of Kubernetes' own groups is an error; other domains are custom resources."""
    assert definition_of(api_version, kind) is None
    assert unknown_kind_reason(api_version, kind) == mistake


@pytest.mark.parametrize(
    ("api_version", "kind", "definition"),
    [
        pytest.param("v1", "Pod", "core.v1.Pod", id="group without a name"),
        pytest.param("apps/v1", "Deployment", "apps.v1.Deployment", id="group"),
        pytest.param(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            "apiextensions.v1.CustomResourceDefinition",
            id="what defines kinds",
        ),
    ],
)
def test_known_kind_has_a_definition(api_version: str, kind: str, definition: str) -> None:
    assert definition_of(api_version, kind) == definition


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        pytest.param({"priority": 2**31}, "spec/priority", id="more than 32 bits"),
        pytest.param({"priority": -(2**31) - 1}, "spec/priority", id="less"),
        pytest.param({"activeDeadlineSeconds": 2**63}, "spec/activeDeadlineSeconds", id="more than 64 bits"),
        pytest.param({"securityContext": {"supplementalGroups": [2**63]}}, "spec/securityContext/supplementalGroups/0", id="list"),
    ],
)  # fmt: skip
def test_integer_beyond_the_width_of_its_go_type_is_an_error(spec: dict[str, Any], path: str) -> None:
    ((where, message),) = messages({"spec": spec})
    assert (where, message.startswith("expected an integer, found the number ")) == (path, True)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"priority": 2**31 - 1}, id="32 bits"),
        pytest.param({"activeDeadlineSeconds": 2**63 - 1}, id="64 bits"),
        pytest.param({"securityContext": {"supplementalGroups": [-(2**63)]}}, id="list"),
    ],
)
def test_integer_is_fine_up_to_its_width(spec: dict[str, Any]) -> None:
    assert messages({"spec": spec}) == []


SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text(max_size=5),
    "integer": st.integers(-(2**63), 2**63 - 1),
    "boolean": st.booleans(),
    "quantity": st.sampled_from(["1", "500m", "1Gi", 1, 0.5, "1e3"]),
    "int-or-string": st.integers(-(2**31), 2**31 - 1) | st.text(max_size=5),
    "time": st.just("2026-01-02T03:04:05Z"),
    "bytes": st.sampled_from(["", "aGk=", "aGk=\n"]),
    "any": st.just({}),
}


def values(name: str, field: Field, depth: int) -> st.SearchStrategy[Any]:
    """Generates values that fit the named field, down to the given depth."""
    if field.type == "integer" and name not in WIDE_INTEGERS:
        return st.integers(-(2**31), 2**31 - 1)
    if field.items is None:
        return SCALARS[field.type] if field.type in SCALARS else objects(field.ref, depth - 1)
    items = st.none() | values(name, field.items, depth - 1)
    if field.type == "array":
        return st.lists(items, max_size=2)
    return st.dictionaries(st.text(max_size=3), items, max_size=2)


def objects(definition: str, depth: int = 4) -> st.SearchStrategy[dict[str, Any]]:
    if depth <= 0:
        return st.just({})
    fields = definitions()[definition].fields
    return st.dictionaries(st.sampled_from(sorted(fields)), st.none(), max_size=4).flatmap(
        lambda chosen: st.fixed_dictionaries({name: st.none() | values(name, fields[name], depth) for name in chosen})
    )


@laws
@given(objects("core.v1.PodSpec"))
def test_document_that_fits_has_no_findings_and_is_a_struct(spec: dict[str, Any]) -> None:
    """A document that passes can be decoded, and passes a second check."""
    document = {"spec": spec}
    assert messages(document) == []
    assert messages(document) == []
    assert isinstance(from_document(document, Pod), Pod)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@laws
@given(st.sampled_from(sorted(definitions())), st.data())
def test_any_document_is_checked_without_a_crash(definition: str, data: st.DataObject) -> None:
    """The path of each finding exists in the document."""
    names = st.sampled_from(sorted(definitions()[definition].fields) or [""])
    document = data.draw(st.dictionaries(names | st.text(max_size=5), JSON, max_size=5))
    before = json.loads(json.dumps(document))
    for path, message, _ in check_object(document, definition):
        assert message
        value = before
        for step in path:
            value = value[step]
