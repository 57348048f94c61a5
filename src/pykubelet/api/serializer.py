"""Between JSON and Structs: decode, encode, and the plain document form.

A document is what JSON gives: dicts, lists and scalars. A Struct is a frozen, typed view of one. Structs drop fields
they do not know, so nobody ever writes back a Struct that was read: changes go out as patches.
"""

from typing import Any, TypeVar

import msgspec
from msgspec.structs import fields as struct_fields

from pykubelet.aio.msgspec_types import register_type

Document = dict[str, Any]
T = TypeVar("T")


class DecodeError(ValueError):
    """The bytes or the document do not fit the type; the message names the field."""


def decode(data: bytes | str, kind: type[T]) -> T:
    """A Struct (or any type msgspec knows) from JSON text."""
    try:
        return msgspec.json.decode(data, type=register_type(kind))
    except msgspec.ValidationError:
        # Go writes null for an empty list or map it does not omit; a Struct has no null there.
        return from_document(decode_document(data), kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(str(error)) from error


def decode_document(data: bytes | str) -> Any:
    """Plain dicts and lists from JSON text."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(str(error)) from error


def from_document(document: Any, kind: type[T]) -> T:
    """A Struct from a document; a field that is null counts as absent, as in Kubernetes."""
    try:
        return msgspec.convert(without_nulls(document), register_type(kind))
    except (msgspec.ValidationError, RecursionError) as error:
        raise DecodeError(str(error)) from error


def without_nulls(value: Any) -> Any:
    """The same document without fields that are null."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def encode(value: Any) -> bytes:
    """JSON text of a Struct or document."""
    return msgspec.json.encode(value)


def indented(text: bytes) -> bytes:
    """JSON text for people: two spaces a level, as Go indents it."""
    return msgspec.json.format(text, indent=2)


def to_document(value: Any) -> Document:
    """The document of a Struct, with the fields that Go would write."""
    # Through the text: a document has lists where a Struct has tuples.
    document: Document = msgspec.json.decode(msgspec.json.encode(value))
    return document


def redacted(value: msgspec.Struct, *hidden: str) -> str:
    """A repr in which the named fields show only that they are set, and metadata only whose it is."""
    parts = []
    for field in struct_fields(type(value)):
        shown = getattr(value, field.name)
        if field.name == "metadata":
            # An annotation may hold the last applied configuration, secrets and all.
            parts.append(f"metadata={shown.namespace}/{shown.name}")
        elif shown:
            parts.append(f"{field.name}={'<redacted>' if field.name in hidden else repr(shown)}")
    return f"{type(value).__name__}({', '.join(parts)})"
