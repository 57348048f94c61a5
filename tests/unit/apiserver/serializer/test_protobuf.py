"""Objects in protobuf: read and written as the JSON of the same objects."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any_document import any_document
from protobuf_library import rewritten
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import definitions
from pykubelet.apiserver.registry import BUILT_IN_KINDS
from pykubelet.apiserver.serializer.protobuf_decoder import read_protobuf
from pykubelet.apiserver.serializer.protobuf_encoder import document_bytes, message_bytes, watch_frame, with_type
from pykubelet.apiserver.serializer.protobuf_messages import MAGIC, fields_of, has_message

KINDS = {
    served.definition: (served.resource.api_version, served.resource.kind)
    for served in BUILT_IN_KINDS
    if served.definition
}
MANAGED = {
    "manager": "kubectl",
    "operation": "Update",
    "apiVersion": "v1",
    "time": "2024-01-01T00:00:00Z",
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:spec": {"f:x": {}, ".": {}}},
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "default": {"a": None},
    "enum": [None, 1, "x", {"b": []}],
    "example": 1.5,
    "maximum": 0.0,
    "minLength": 0,
    "x-kubernetes-preserve-unknown-fields": False,
    "properties": {
        "list": {"type": "array", "items": {"type": "object", "additionalProperties": {"type": "string"}}},
        "tuple": {"items": [{"type": "string"}, {"format": "int32"}], "additionalItems": False},
        "nothing": {"default": None},
        "open": {"additionalProperties": True, "dependencies": {"a": ["b"], "c": {"type": "string"}}},
    },
}
TYPED = {
    name: [schema[name] for schema in SCHEMA["properties"].values() if name in schema]
    for name in ("items", "additionalItems", "additionalProperties", "dependencies")
}


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def body(version: str, kind: str, message: bytes) -> bytes:
    type_meta = field(1, version.encode()) + field(2, kind.encode())
    return MAGIC + field(1, type_meta) + field(2, message)


def with_known_types(value: Any, random: Any) -> Any:
    """Replaces values whose type the schema does not state by some of the right type."""
    if isinstance(value, list):
        return [with_known_types(item, random) for item in value]
    if not isinstance(value, dict):
        return value
    found = {name: with_known_types(item, random) for name, item in value.items()}
    if "managedFields" in found:
        found["managedFields"] = [MANAGED]
    for name, values in TYPED.items():
        # Fields of schemas; elsewhere, items are a list.
        if name in found and not isinstance(found[name], list):
            found[name] = random.choice(values)
    return found


def meaning(value: Any) -> Any:
    """The value without what protobuf cannot say: empty and null lists and maps, null fields, the type of inner objects."""
    if isinstance(value, dict):
        inner = {name: meaning(item) for name, item in value.items()}
        return {name: item for name, item in inner.items() if item not in ([], {}, None)}
    return [meaning(item) for item in value] if isinstance(value, list) else value


def without_inner_types(value: Any, *, top: bool = True) -> Any:
    if isinstance(value, dict):
        is_object = "metadata" in value and not top
        return {
            name: without_inner_types(item, top=False)
            for name, item in value.items()
            if not (is_object and name in ("kind", "apiVersion"))
        }
    return [without_inner_types(item, top=False) for item in value] if isinstance(value, list) else value


def test_pod_has_the_published_numbers() -> None:
    """It has inlined messages, maps, lists, numbers, int-or-string values, quantities and times."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "labels": {"a": ""}, "creationTimestamp": "2026-01-02T03:04:05Z"},
        "spec": {
            "volumes": [{"name": "e", "emptyDir": {}}],
            "containers": [
                {
                    "name": "c",
                    "livenessProbe": {"httpGet": {"port": "http"}, "periodSeconds": -3},
                    "readinessProbe": {"tcpSocket": {"port": 80}},
                    "resources": {"limits": {"cpu": "100m"}},
                    "securityContext": {"runAsUser": 0, "privileged": False},
                }
            ],
            "hostNetwork": True,
        },
    }
    probes = (
        field(10, field(1, field(2, field(2, field(1, 1) + field(3, b"http")))) + field(4, -3)),
        field(11, field(1, field(3, field(1, field(1, 0) + field(2, 80))))),
    )
    container = (
        field(1, b"c"),
        *probes,
        field(8, field(1, field(1, b"cpu") + field(2, field(1, b"100m")))),
        field(15, field(4, 0) + field(2, 0)),
    )
    spec = field(1, field(1, b"e") + field(2, field(2, b""))) + field(2, b"".join(container)) + field(11, 1)
    meta = field(1, b"web") + field(11, field(1, b"a") + field(2, b"")) + field(8, field(1, 1767323045))
    written = body("v1", "Pod", field(1, meta) + field(2, spec))
    assert document_bytes(pod) == written
    assert read_protobuf(written) == pod


def test_custom_resource_definition_is_read_and_written() -> None:
    """Its schemas are recursive, contain JSON, and have fields that are a schema or something else."""
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com", "managedFields": [MANAGED]},
        "spec": {"group": "example.com", "names": {"plural": "widgets", "kind": "Widget"}, "versions": [version]},
    }
    assert read_protobuf(document_bytes(crd)) == crd


def test_delete_options_are_read_whatever_group_they_name() -> None:
    """A Go client names the group of what it deletes."""
    options = {"apiVersion": "apps/v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "preconditions": {"uid": "u"}}
    assert read_protobuf(document_bytes(options)) == options


@pytest.mark.parametrize("definition", KINDS)
@settings(max_examples=5, deadline=None)
@given(st.randoms(use_true_random=True))
def test_any_object_is_written_and_read_as_its_json(definition: str, random: Any) -> None:
    """This holds for every served kind, and for Google's protobuf library in between."""
    document = normal_form(with_known_types(any_document(random, definition), random), definition)
    version, kind = KINDS[definition]
    message = message_bytes(document, definition)
    expected = meaning(without_inner_types(document | {"apiVersion": version, "kind": kind}))
    for written in (message, rewritten(message, definition)):
        read = read_protobuf(with_type(version, kind, written))
        assert (read["apiVersion"], read["kind"]) == (version, kind)
        assert (
            meaning(without_inner_types(normal_form(read, definition) | {"apiVersion": version, "kind": kind}))
            == expected
        )


@pytest.mark.parametrize(
    ("name", "time", "read"),
    [
        ("acquireTime", "2024-02-03T04:05:06.000007Z", "2024-02-03T04:05:06.000007Z"),
        ("acquireTime", "2024-02-03T06:05:06.123456+02:00", "2024-02-03T04:05:06.123456Z"),
        ("acquireTime", "1969-12-31T23:59:59.500000Z", "1969-12-31T23:59:59.500000Z"),
        ("acquireTime", "0001-01-01T00:00:00.000000Z", None),
    ],
)
def test_times_keep_microseconds_and_zones(name: str, time: str, read: str | None) -> None:
    """The zero time of Go is no time."""
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {name: time}}
    assert read_protobuf(document_bytes(lease))["spec"][name] == read


@pytest.mark.parametrize(
    ("kind", "document", "read"),
    [
        ("PodDisruptionBudget", {"status": {"disruptedPods": {"p": None}}}, {"status": {"disruptedPods": {"p": None}}}),
        ("Pod", {"spec": {"hostname": None, "volumes": None, "nodeSelector": None}}, {"spec": {}}),
        (
            "Pod",
            {"spec": {"containers": [{"args": [None, "a"], "env": [None]}]}},
            {"spec": {"containers": [{"args": ["", "a"], "env": [{}]}]}},
        ),
    ],
)
def test_null_is_absent_or_empty(kind: str, document: dict[str, Any], read: dict[str, Any]) -> None:
    """Only JSON itself, and a time in a map, are null again."""
    type_meta = {"apiVersion": "v1" if kind == "Pod" else "policy/v1", "kind": kind}
    assert read_protobuf(document_bytes(type_meta | document)) == type_meta | read


def test_list_has_its_items_without_type() -> None:
    """The metadata comes first."""
    item = {"metadata": {"name": "a"}, "data": {"k": "v"}}
    document = {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": [item]}
    message = field(1, field(2, b"7")) + field(2, message_bytes(item, "core.v1.ConfigMap"))
    assert document_bytes(document) == body("v1", "ConfigMapList", message)


def test_watch_frame_has_its_length_the_event_and_a_complete_body() -> None:
    """Go clients read four bytes of length, then a WatchEvent whose object is raw."""
    message = field(1, b"ADDED") + field(2, field(1, b"body" * 100))
    assert watch_frame("ADDED", b"body" * 100) == len(message).to_bytes(4) + message


@given(st.binary(max_size=80), st.sampled_from(sorted(KINDS)))
def test_any_bytes_are_read_or_refused(data: bytes, definition: str) -> None:
    """Invalid bytes raise only ValueError."""
    version, kind = KINDS[definition]
    for given_body in (data, MAGIC + data, body(version, kind, data)):
        try:
            read = read_protobuf(given_body)
        except ValueError:
            continue
        assert read["kind"]


def test_every_served_kind_has_the_numbers_of_all_its_fields() -> None:
    """Go clients send all kinds in this form; a new kind needs its rows in protobuf_numbers.txt."""
    missing = []
    for definition, known in definitions().items():
        if has_message(definition):
            names = named(definition, definition)
            missing += [f"{definition}.{name}" for name in known.fields.keys() - names - {"kind", "apiVersion"}]
    assert missing == []
    assert [definition for definition in KINDS if not has_message(definition)] == []


def named(message: str, definition: str) -> set[str]:
    names: set[str] = set()
    for _, name, _, inlined in fields_of(message, definition):
        names |= named(inlined, definition) if inlined else {name}
    return names


def nested_schema(depth: int) -> bytes:
    message = field(5, b"object")
    for _ in range(depth):
        message = field(28, message)
    return message


@pytest.mark.parametrize(
    ("sent", "complaint"),
    [
        (b"{}", "does not appear to be a protobuf message"),
        (body("v1", "Pot", b""), 'no kind "Pot" in version "v1"'),
        (body("v1", "Pod", b"\x0a\xff"), "unexpected EOF"),
        (body("v1", "Pod", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), "unexpected EOF"),
        (body("v1", "Pod", b"\x0a" + b"\xff" * 11), "integer overflow"),
        (body("v1", "Pod", field(1, 7)), "wrong wireType"),
        (body("v1", "Pod", field(2, field(4, b"x"))), "wrong wireType"),
        (body("v1", "Pod", b"\x0b"), "illegal wireType"),
        (body("v1", "Pod", field(1, field(8, field(1, 1 << 62)))), "time out of range"),
        (
            body(
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                field(2, field(7, field(4, field(1, nested_schema(300))))),
            ),
            "nested too deep",
        ),
    ],
    ids=["json", "kind", "cut", "long", "overflow", "number", "text", "group", "time", "deep"],
)
def test_invalid_body_gives_the_reason(sent: bytes, complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        read_protobuf(sent)


def test_deeply_nested_schema_is_read() -> None:
    """Each level of a schema takes two messages."""
    message = field(2, field(7, field(4, field(1, nested_schema(150)))))
    read = read_protobuf(body("apiextensions.k8s.io/v1", "CustomResourceDefinition", message))
    assert read["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["not"]["not"]
