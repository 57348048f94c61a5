"""Structs and their wire form: published names, lossless round trips, Go's rules for empty values."""

import importlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pykubelet.api import generated, serializer
from pykubelet.api.generated.core import ConfigMap, ContainerStatus, Pod, PodCondition, Secret
from pykubelet.api.generated.meta import ObjectMeta

SCHEMA: dict[str, Any] = json.loads((Path(generated.__file__).parent / "schema.json").read_text())
GROUPS = (
    "apps",
    "authentication",
    "authorization",
    "batch",
    "coordination",
    "core",
    "meta",
    "node",
    "policy",
    "scheduling",
)
STRUCTS = {
    f"{group}.v1.{name}": struct
    for group in GROUPS
    for name, struct in vars(importlib.import_module(f"pykubelet.api.generated.{group}")).items()
    if isinstance(struct, type) and issubclass(struct, msgspec.Struct) and struct.__module__.endswith(group)
}
SAMPLES: dict[str, Any] = {
    "string": "x",
    "integer": 7,
    "number": 1.5,
    "boolean": True,
    "bytes": "eA==",
    "time": "2026-01-01T00:00:00Z",
    "quantity": "1Gi",
    "int-or-string": "http",
    "any": {"a": 1},
}


def filled(spec: dict[str, Any]) -> Any:
    """Returns a value of this schema with every field set."""
    match spec["type"]:
        case "ref":
            return {name: filled(inner) for name, inner in SCHEMA[spec["ref"]]["fields"].items()}
        case "array":
            return [filled(spec["items"])]
        case "map":
            return {"key": filled(spec["items"])}
        case kind:
            return SAMPLES[kind]


@pytest.mark.parametrize("name", sorted(STRUCTS))
def test_wire_names_are_exactly_the_published_ones(name: str) -> None:
    """A plain camel case rule would get hostIP, podIPs and hostPID wrong."""
    assert {field.encode_name for field in msgspec.structs.fields(STRUCTS[name])} == set(SCHEMA[name]["fields"])


@pytest.mark.parametrize("name", sorted(name for name in STRUCTS if "kind" in SCHEMA[name]))
def test_nothing_is_lost_when_a_kind_with_every_field_set_is_decoded(name: str) -> None:
    """Decoding and encoding keeps every published field."""
    document = filled({"type": "ref", "ref": name})
    struct = serializer.decode(serializer.encode(document), STRUCTS[name])
    assert serializer.to_document(struct) == document


def test_empty_values_are_written_as_go_writes_them() -> None:
    """Required fields, value structs and value times are written even when empty; pointers are omitted."""
    assert serializer.to_document(ContainerStatus(name="c")) == {
        "name": "c",
        "image": "",
        "imageID": "",
        "lastState": {},
        "ready": False,
        "restartCount": 0,
        "state": {},
    }
    assert serializer.to_document(PodCondition(type="Ready", status="True")) == {
        "type": "Ready",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": None,
    }


def test_null_counts_as_absent() -> None:
    """Go writes null for empty lists that it does not omit."""
    text = b'{"metadata":{"name":"a","creationTimestamp":null},"spec":{"containers":null}}'
    assert serializer.decode(text, Pod) == Pod(metadata=ObjectMeta(name="a"))


@pytest.mark.parametrize("text", [b"{", b"[1]", b'{"spec":{"containers":7}}', b"\xff", b"[" * 100_000])
def test_undecodable_text_raises_decode_error(text: bytes) -> None:
    """Malformed text, wrong types and excessive nesting all raise DecodeError."""
    with pytest.raises(serializer.DecodeError):
        serializer.decode(text, Pod)


def test_secrets_do_not_show_in_a_repr() -> None:
    """Neither data nor annotations of a Secret; a ConfigMap shows its data."""
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "hunter2"}
    secret = Secret(metadata=ObjectMeta(name="s", namespace="n", annotations=annotations), data={"k": b"hunter2"})
    assert "hunter2" not in repr(secret)
    assert "n/s" in repr(secret)
    assert "plain" in repr(ConfigMap(data={"k": "plain"}))
