"""Objects in protobuf, read as the JSON of the same objects."""

from base64 import b64decode
from datetime import UTC
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any_document import any_document
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import Field, definitions
from pykubelet.api.times import parse_time
from pykubelet.apiserver.registry import BUILT_IN_KINDS
from pykubelet.apiserver.serializer.protobuf import MAGIC, _numbers, read_protobuf

KINDS = ("core.v1.Pod", "core.v1.Service", "apps.v1.Deployment", "batch.v1.Job", "rbac.v1.Role", "core.v1.Secret")


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


def scalar(kind: str, value: Any) -> bytes | int:
    match kind:
        case "string":
            return str(value).encode()
        case "integer" | "boolean":
            return int(value)
        case "bytes":
            return b64decode(value)
        case "quantity":
            return field(1, str(value).encode())
        case "time":
            return field(1, int(parse_time(value).astimezone(UTC).timestamp()))
        case "int-or-string":
            return field(1, 1) + field(3, value.encode()) if isinstance(value, str) else field(2, value)
    raise AssertionError(kind)


def message(value: dict[str, Any], definition: str, numbers: str = "") -> bytes:
    """A document as Go would write it."""
    out = b""
    for number, name in _numbers()[numbers or definition].items():
        if name.startswith("+"):
            out += field(number, message(value, definition, name[1:]))
        elif name in value and value[name] is not None:
            out += written(number, definitions()[definition].fields[name], value[name])
    return out


def written(number: int, known: Field, value: Any) -> bytes:
    if known.type == "array":
        assert known.items is not None
        return b"".join(written(number, known.items, item) for item in value)
    if known.type == "map":
        assert known.items is not None
        items = ((field(1, key.encode()), item) for key, item in value.items())
        return b"".join(field(number, key + written(2, known.items, item)) for key, item in items)
    return field(number, message(value, known.ref) if known.type == "ref" else scalar(known.type, value))


def sent(document: dict[str, Any], definition: str) -> bytes:
    """The whole body: the magic number, the type, the object."""
    kind = field(1, document["apiVersion"].encode()) + field(2, document["kind"].encode())
    return MAGIC + field(1, kind) + field(2, message(document, definition))


def without_managed_fields(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_managed_fields(item) for name, item in value.items() if name != "managedFields"}
    return [without_managed_fields(item) for item in value] if isinstance(value, list) else value


def without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        inner = {name: without_empty(item) for name, item in value.items()}
        return {name: item for name, item in inner.items() if item not in ([], {})}
    return [without_empty(item) for item in value] if isinstance(value, list) else value


def test_pod_is_read_field_by_field() -> None:
    """It has inlined messages, maps, lists, numbers, int-or-string values and times."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "labels": {"a": "b", "c": ""}, "creationTimestamp": "2026-01-02T03:04:05.000000Z"},
        "spec": {
            "volumes": [
                {"name": "v", "configMap": {"name": "settings", "defaultMode": 0}},
                {"name": "e", "emptyDir": {}},
            ],
            "containers": [
                {
                    "name": "c",
                    "livenessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": -3},
                    "readinessProbe": {"tcpSocket": {"port": 80}},
                    "resources": {"limits": {"cpu": "100m", "memory": "1Gi"}},
                    "env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
                }
            ],
            "hostNetwork": True,
        },
    }
    assert read_protobuf(sent(pod, "core.v1.Pod")) == pod


def test_delete_options_are_read_whatever_group_they_name() -> None:
    """A Go client names the group of what it deletes."""
    options = {"apiVersion": "apps/v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "preconditions": {"uid": "u"}}
    assert read_protobuf(sent(options, "meta.v1.DeleteOptions")) == options


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from(KINDS))
def test_any_object_reads_as_its_json(random: Any, definition: str) -> None:
    """Any document of a kind is read back; protobuf has no empty lists, and managed fields are not sent."""
    known = definitions()[definition]
    document = normal_form(without_managed_fields(any_document(random, definition)), definition)
    document |= {"apiVersion": known.api_version, "kind": known.kind}
    read = normal_form(read_protobuf(sent(document, definition)), definition)
    assert without_empty(read) == without_empty(document)


@given(st.binary(max_size=80), st.booleans())
def test_any_bytes_are_read_or_refused(body: bytes, magic: bool) -> None:
    """Invalid bytes raise only ValueError."""
    prefix = MAGIC + field(1, field(1, b"v1") + field(2, b"Pod")) if magic else b""
    try:
        read = read_protobuf(prefix + field(2, body))
    except ValueError:
        return
    assert read["kind"] == "Pod"


def test_every_kind_that_is_served_is_read() -> None:
    """Go clients send all kinds in this form; CustomResourceDefinitions are not read yet."""
    kinds = {(served.resource.api_version, served.resource.kind) for served in BUILT_IN_KINDS}
    kinds -= {("apiextensions.k8s.io/v1", "CustomResourceDefinition")}
    for version, kind in sorted(kinds):
        type_meta = field(1, version.encode()) + field(2, kind.encode())
        assert read_protobuf(MAGIC + field(1, type_meta) + field(2, b"")) == {"apiVersion": version, "kind": kind}


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"{}", "does not appear to be a protobuf message"),
        (MAGIC + field(1, field(1, b"v1") + field(2, b"Pot")), 'no kind "Pot" in version "v1"'),
        (MAGIC + field(1, field(1, b"v1") + field(2, b"Pod")) + field(2, b"\x0a\xff"), "unexpected EOF"),
    ],
    ids=["json", "unknown-kind", "cut"],
)
def test_invalid_body_gives_the_reason(body: bytes, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        read_protobuf(body)
