"""The protobuf messages of Kubernetes' types: the number, name and type of each field.

The numbers are Kubernetes' published ones, kept in `protobuf_numbers.txt`. One table serves the decoder and the
encoder.

Upstream: staging/src/k8s.io/api/core/v1/generated.proto, staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto
"""

from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import NamedTuple

from pykubelet.api.schema import Field, definition_of, definitions

MAGIC = b"k8s\x00"
"""The bytes before a message that says which type it has."""
JSON_SCHEMA_PROPS = "apiextensions.v1.JSONSchemaProps"
_META_KINDS = [
    "DeleteOptions",
    "Status",
    "PartialObjectMetadata",
    "PartialObjectMetadataList",
    "APIVersions",
    "APIGroupList",
    "APIGroup",
    "APIResourceList",
]
# Every group has DeleteOptions, and the others stand for any kind or for none.
_OF_ANY_GROUP = {kind: f"meta.v1.{kind}" for kind in _META_KINDS}
_SHAPES = {"[]": "array", "{}": "map"}


class MessageField(NamedTuple):
    """One field of a message. The fields of an inlined message stand, in JSON, among those of the one around it."""

    number: int
    name: str
    field: Field
    inlined: str = ""


def message_of(api_version: str, kind: str) -> str | None:
    """The message of a kind; None if it has none, as the kinds of custom resources."""
    definition = _OF_ANY_GROUP.get(kind) or definition_of(api_version, kind)
    return definition if definition in _rows() else None


def has_message(definition: str) -> bool:
    """Whether the objects of a definition can be sent as protobuf."""
    return definition in _rows()


def fields_of(message: str, definition: str) -> Iterator[MessageField]:
    """The fields of a message; `definition` has their types, and differs from the message if that is inlined."""
    known = definitions().get(definition)
    for number, name, given in _rows()[message]:
        if name.startswith("+"):
            yield MessageField(number, "", Field("inlined"), name[1:])
        elif given:
            yield MessageField(number, name, _typed(given))
        elif known is not None and name in known.fields:
            yield MessageField(number, name, known.fields[name])


@cache
def _rows() -> dict[str, list[tuple[int, str, str]]]:
    """The number, name and given type of each message's fields."""
    text = resources.files("pykubelet.apiserver.serializer").joinpath("protobuf_numbers.txt").read_text()
    return {
        message: [_row(pair) for pair in pairs]
        for message, *pairs in (line.split() for line in text.splitlines() if not line.startswith("#"))
    }


def _row(pair: str) -> tuple[int, str, str]:
    number, _, rest = pair.partition("=")
    name, _, given = rest.partition(":")
    return int(number), name, given


def _typed(given: str) -> Field:
    if shape := _SHAPES.get(given[:2]):
        return Field(shape, items=_typed(given[2:]))
    return Field("ref", ref=given) if "." in given else Field(given)
