"""Encodes documents as protobuf, from the JSON that the server stores.

Empty fields that JSON lacks are left out; decoders read them as empty. Encoding a pod takes about 0.1 ms, so the server
does it only when a client asks, and keeps the bytes with the stored object (`StoreEntry.encoded`).

Upstream: staging/src/k8s.io/apimachinery/pkg/runtime/serializer/protobuf/protobuf.go,
staging/src/k8s.io/apimachinery/pkg/runtime/serializer/protobuf/collections.go
"""

from base64 import b64decode
from collections.abc import Callable, Iterable
from functools import cache, cached_property, lru_cache
from struct import pack
from typing import Any, NamedTuple

from pykubelet.api.schema import LIST_META, Field
from pykubelet.api.serializer import Document, decode_document, encode
from pykubelet.api.times import nanoseconds
from pykubelet.apiserver.serializer.protobuf_messages import JSON_SCHEMA_PROPS, MAGIC, fields_of, message_of

Write = Callable[[Any, "_MessageWriter | None"], bytes]
"""Encodes a value, with its length where it has one."""
FRAME_LENGTH_BYTES = 4
"""An event of a watch starts with its length in so many bytes."""
_ALL_BITS = (1 << 64) - 1
_SECOND = 1_000_000_000
_LENGTH_DELIMITED = 2
_ZERO_TIME = -62_135_596_800


class _FieldWriter(NamedTuple):
    """How the value of a name is written."""

    tag: bytes
    write: Write
    message: "_MessageWriter | None"
    shape: str = ""


class _MessageWriter:
    """The slots of a message by the names of its fields; made on first use, because messages may be recursive."""

    def __init__(self, message: str, definition: str) -> None:
        self._message, self._definition = message, definition

    @cached_property
    def slots(self) -> dict[str, _FieldWriter]:
        found: dict[str, _FieldWriter] = {}
        for number, name, field, inlined in fields_of(self._message, self._definition):
            if inlined:
                inner = _message(inlined, self._definition)
                slot = _FieldWriter(_tag(number, _LENGTH_DELIMITED), _write_message, inner, "inlined")
                found |= dict.fromkeys(inner.slots, slot)
            else:
                found[name] = _slot(number, field)
        return found


@cache
def _message(message: str, definition: str) -> _MessageWriter:
    return _MessageWriter(message, definition)


def message_bytes(document: Document, definition: str) -> bytes:
    """The message of an object without its type, as lists contain it."""
    return _encoded(document, _message(definition, definition).slots)


@cache
def message_encoder(definition: str) -> Callable[[bytes], bytes]:
    """Returns `message_bytes` for the JSON text of objects of a definition."""
    return lambda text: message_bytes(decode_document(text), definition)


def with_type(api_version: str, kind: str, *message: bytes) -> bytes:
    """A complete body: the type, and the parts of the message."""
    return b"".join((*_head(api_version, kind), _length(sum(map(len, message))), *message))


def list_start(api_version: str, kind: str, metadata: Document, size: int) -> bytes:
    """The body of a list before its items, of which `item_bytes` has made so many bytes."""
    head = message_bytes(metadata, LIST_META)
    start = b"".join((b"\x0a", _length(len(head)), head))
    return b"".join((*_head(api_version, kind), _length(len(start) + size), start))


def item_bytes(messages: Iterable[bytes]) -> bytes:
    """Encoded objects as the items of a list."""
    parts: list[bytes] = []
    for message in messages:
        parts += (b"\x12", _length(len(message)), message)
    return b"".join(parts)


def document_bytes(document: Document) -> bytes:
    """The body of an object or list, whose kind must have a message."""
    # Lists of API versions have none themselves.
    api_version, kind = document.get("apiVersion", ""), document["kind"]
    message = message_of(api_version, kind)
    if message is not None:
        return with_type(api_version, kind, message_bytes(document, message))
    item = message_of(api_version, kind.removesuffix("List"))
    assert item is not None
    items = item_bytes(message_bytes(each, item) for each in document["items"] or ())
    return list_start(api_version, kind, document.get("metadata") or {}, len(items)) + items


def watch_frame(event: str, body: bytes) -> bytes:
    """An event of a watch: its length in four bytes, its type, and a complete body within a RawExtension."""
    kind, raw = event.encode(), _length(len(body))
    object_size = 1 + len(raw) + len(body)
    head = b"".join((b"\x0a", _length(len(kind)), kind, b"\x12", _length(object_size), b"\x0a", raw))
    return b"".join((pack(">I", len(head) + len(body)), head, body))


@cache
def _head(api_version: str, kind: str) -> tuple[bytes, ...]:
    version, name = api_version.encode(), kind.encode()
    meta = b"".join((b"\x0a", _length(len(version)), version, b"\x12", _length(len(name)), name))
    return MAGIC, b"\x0a", _length(len(meta)), meta, b"\x12"


def _encoded(document: Document, slots: dict[str, _FieldWriter]) -> bytes:
    parts: list[bytes] = []
    for name, value in document.items():
        slot = slots.get(name)
        if slot is None:
            continue
        tag, write, message, shape = slot
        if not shape:
            if value is not None or write is _write_any:
                parts += (tag, write(value, message))
        elif shape == "array":
            for item in value or ():
                parts += (tag, _EMPTY if item is None else write(item, message))
        elif shape == "map":
            for key, item in (value or {}).items():
                parts += (tag, write((key, item), message))
        elif value is not None:
            parts += (tag, write({name: value}, message))
    return b"".join(parts)


def _slot(number: int, field: Field) -> _FieldWriter:
    items = field.items
    if items is None:
        write, wire = _WRITERS[field.type]
        return _FieldWriter(_tag(number, wire), write, _inner(field))
    if field.type == "array":
        return _slot(number, items)._replace(shape="array")
    return _FieldWriter(_tag(number, _LENGTH_DELIMITED), _entry_writer(items), None, "map")


def _inner(field: Field) -> _MessageWriter | None:
    if field.type == "ref":
        return _message(field.ref, field.ref)
    return _message(JSON_SCHEMA_PROPS, JSON_SCHEMA_PROPS) if field.type.startswith("schema-or-") else None


def _entry_writer(items: Field) -> Write:
    """Returns the encoder of a map's entries; a list as a value is wrapped in a message of its own."""
    tag, write, inner, _ = _slot(2, items if items.items is None else Field("strings"))

    def entry(pair: tuple[str, Any], _: _MessageWriter | None) -> bytes:
        key, value = pair
        data = b"".join((b"\x0a", _write_string(key, None), tag, _EMPTY if value is None else write(value, inner)))
        return _length(len(data)) + data

    return entry


def _tag(number: int, wire: int) -> bytes:
    return _varint(number << 3 | wire)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_EMPTY = b"\x00"
_FEW = 512
_SHORT = tuple(_varint(value) for value in range(_FEW))


def _length(size: int) -> bytes:
    return _SHORT[size] if size < _FEW else _varint(size)


def _delimited(data: bytes) -> bytes:
    return _length(len(data)) + data


def _write_string(value: str, _: _MessageWriter | None) -> bytes:
    data = value.encode()
    size = len(data)
    return (_SHORT[size] if size < _FEW else _varint(size)) + data


def _write_message(value: Document, message: _MessageWriter | None) -> bytes:
    assert message is not None
    data = _encoded(value, message.slots)
    size = len(data)
    return (_SHORT[size] if size < _FEW else _varint(size)) + data


def _write_integer(value: int, _: _MessageWriter | None) -> bytes:
    return _SHORT[value] if 0 <= value < _FEW else _varint(value & _ALL_BITS)


def _write_boolean(value: bool, _: _MessageWriter | None) -> bytes:
    return b"\x01" if value else b"\x00"


def _write_number(value: float, _: _MessageWriter | None) -> bytes:
    return pack("<d", value)


def _write_bytes(value: str, _: _MessageWriter | None) -> bytes:
    return _delimited(b64decode(value))


def _write_any(value: Any, _: _MessageWriter | None) -> bytes:
    """JSON as it is; a null is an empty message."""
    return _EMPTY if value is None else _delimited(b"\x0a" + _delimited(encode(value)))


@lru_cache(maxsize=1024)
def _write_time(value: str, _: _MessageWriter | None) -> bytes:
    seconds, nanos = divmod(nanoseconds(value), _SECOND)
    if seconds == _ZERO_TIME:
        return _EMPTY
    return _delimited(b"\x08" + _varint(seconds & _ALL_BITS) + (b"\x10" + _varint(nanos) if nanos else b""))


@lru_cache(maxsize=1024)
def _write_quantity(value: str, _: _MessageWriter | None) -> bytes:
    return _delimited(b"\x0a" + _write_string(value, None))


def _write_int_or_string(value: int | str, _: _MessageWriter | None) -> bytes:
    if isinstance(value, str):
        return _delimited(b"\x08\x01\x1a" + _write_string(value, None))
    return _delimited(b"\x08\x00\x10" + _write_integer(value, None))


def _write_strings(value: list[str], _: _MessageWriter | None) -> bytes:
    return _delimited(b"".join(b"\x0a" + _write_string(item, None) for item in value))


def _write_schema_or_array(value: Any, message: _MessageWriter | None) -> bytes:
    if isinstance(value, list):
        return _delimited(b"".join(b"\x12" + _write_message(item, message) for item in value))
    return _delimited(b"\x0a" + _write_message(value, message))


def _write_schema_or_boolean(value: Any, message: _MessageWriter | None) -> bytes:
    if isinstance(value, dict):
        return _delimited(b"\x08\x01\x12" + _write_message(value, message))
    return _delimited(b"\x08" + _write_boolean(value, None))


def _write_schema_or_strings(value: Any, message: _MessageWriter | None) -> bytes:
    if isinstance(value, dict):
        return _delimited(b"\x0a" + _write_message(value, message))
    return _delimited(b"".join(b"\x12" + _write_string(item, None) for item in value))


_WRITERS: dict[str, tuple[Write, int]] = {
    "ref": (_write_message, 2),
    "string": (_write_string, 2),
    "integer": (_write_integer, 0),
    "boolean": (_write_boolean, 0),
    "number": (_write_number, 1),
    "bytes": (_write_bytes, 2),
    "time": (_write_time, 2),
    "quantity": (_write_quantity, 2),
    "int-or-string": (_write_int_or_string, 2),
    "any": (_write_any, 2),
    "strings": (_write_strings, 2),
    "schema-or-array": (_write_schema_or_array, 2),
    "schema-or-boolean": (_write_schema_or_boolean, 2),
    "schema-or-strings": (_write_schema_or_strings, 2),
}
"""The encoder and wire type of each type of the schema."""
