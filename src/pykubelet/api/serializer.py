"""Encodes and decodes JSON, Structs and plain documents.

A document is decoded JSON: dicts, lists and scalars. A Struct is a frozen, typed view of one. Structs drop unknown
fields, so a Struct that was read is never written back: changes are sent as patches.

Upstream: staging/src/k8s.io/apimachinery/pkg/runtime/serializer/json/json.go
"""

from typing import Any, TypeVar

import msgspec
from msgspec.structs import fields as struct_fields

from pykubelet.aio.msgspec_types import register_type

Document = dict[str, Any]
T = TypeVar("T")


class DecodeError(ValueError):
    """The input does not fit the type; the message names the field."""


def decode(data: bytes | str, kind: type[T]) -> T:
    """Decodes JSON into a Struct or any other type that msgspec supports."""
    try:
        return msgspec.json.decode(data, type=register_type(kind))
    except msgspec.ValidationError:
        # Go writes null for an empty list or map without omitempty; a Struct accepts no null there.
        return from_document(decode_document(data), kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(str(error)) from error


def decode_document(data: bytes | str) -> Any:
    """Decodes JSON into plain dicts and lists."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(str(error)) from error


def from_document(document: Any, kind: type[T]) -> T:
    """Converts a document to a Struct; null fields count as absent, as in Kubernetes."""
    try:
        return msgspec.convert(without_nulls(document), register_type(kind))
    except (msgspec.ValidationError, RecursionError) as error:
        raise DecodeError(str(error)) from error


def without_nulls(value: Any) -> Any:
    """Removes null fields at any depth; null list items stay."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def copied(value: Any) -> Any:
    """Copies dicts and lists at any depth."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value


def encode(value: Any) -> bytes:
    """Encodes a Struct or document as JSON."""
    return msgspec.json.encode(value)


def indented(text: bytes) -> bytes:
    """Reformats JSON with two spaces per level, as Go indents it."""
    return msgspec.json.format(text, indent=2)


def to_document(value: Any) -> Document:
    """Converts a Struct to a document with the fields that Go would write."""
    # Encoding and decoding turns the tuples of Structs into lists.
    document: Document = msgspec.json.decode(msgspec.json.encode(value))
    return document


def redacted(value: msgspec.Struct, *hidden: str) -> str:
    """Returns a repr that only says whether the named fields are set, and shows no metadata but name and namespace."""
    parts = []
    for field in struct_fields(type(value)):
        shown = getattr(value, field.name)
        if field.name == "metadata":
            # The annotation last-applied-configuration may contain secrets.
            parts.append(f"metadata={shown.namespace}/{shown.name}")
        elif shown:
            parts.append(f"{field.name}={'<redacted>' if field.name in hidden else repr(shown)}")
    return f"{type(value).__name__}({', '.join(parts)})"
