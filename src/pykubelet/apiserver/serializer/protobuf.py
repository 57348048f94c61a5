"""Decodes objects that Go clients send as application/vnd.kubernetes.protobuf into documents.

The zeros that protobuf writes for empty fields stay in the document. Responses are never protobuf: every client that
sends it also accepts JSON.

Upstream: staging/src/k8s.io/apimachinery/pkg/runtime/serializer/protobuf/protobuf.go
"""

from base64 import b64encode
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources
from struct import unpack_from
from typing import Any, NamedTuple

from pykubelet.api.schema import Field, definition_of, definitions
from pykubelet.api.serializer import Document, decode_document
from pykubelet.api.times import format_micro_time

MAGIC = b"k8s\x00"
_DELETE_OPTIONS = "meta.v1.DeleteOptions"
# No kind nests messages deeper than this.
_DEEPEST = 64
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Read = Callable[[Any, int], Any]


class _Slot(NamedTuple):
    """Where the value of a field number goes: the field's name, its decoder, and whether it repeats."""

    name: str
    read: Read
    kind: str = ""


def read_protobuf(body: bytes) -> Document:
    """Decodes a protobuf body; ValueError if it is invalid."""
    if not body.startswith(MAGIC):
        raise ValueError("provided data does not appear to be a protobuf message, expected prefix 6b 38 73 00")
    envelope = dict(_fields(body[len(MAGIC) :]))
    type_meta = dict(_fields(_bytes(envelope.get(1, b""))))
    api_version, kind = _text(type_meta.get(1, b""), 0), _text(type_meta.get(2, b""), 0)
    # Every group has its own DeleteOptions type.
    definition = _DELETE_OPTIONS if kind == "DeleteOptions" else definition_of(api_version, kind)
    if definition is None or definition not in _numbers():
        raise ValueError(f'no kind "{kind}" in version "{api_version}" can be read as protobuf')
    raw = _message(definition)(_bytes(envelope.get(2, b"")), 0)
    return {"apiVersion": api_version, "kind": kind, **raw}


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a message: their numbers, with integers or bytes."""
    place, end = 0, len(data)
    value: int | bytes
    while place < end:
        tag, place = _varint(data, place)
        match tag & 7:
            case 0:
                value, place = _varint(data, place)
            case 1:
                value, place = data[place : place + 8], place + 8
            case 2:
                size, place = _varint(data, place)
                value, place = data[place : place + size], place + size
            case 5:
                value, place = data[place : place + 4], place + 4
            case _:
                raise ValueError("proto: illegal wireType")
        if place > end:
            raise ValueError("unexpected EOF")
        yield tag >> 3, value


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if place >= len(data):
            raise ValueError("unexpected EOF")
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
    raise ValueError("proto: integer overflow")


@cache
def _numbers() -> dict[str, dict[int, str]]:
    text = resources.files("pykubelet.apiserver.serializer").joinpath("protobuf_numbers.txt").read_text()
    rows = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return {
        name: {int(number): field for number, _, field in (pair.partition("=") for pair in pairs)}
        for name, *pairs in rows
    }


@cache
def _message(definition: str) -> Read:
    """The decoder of a definition's messages; inlined messages write into the enclosing one."""
    return _reader(definition, definition)


def _reader(numbers: str, definition: str) -> Read:
    slots: dict[int, _Slot] = {}
    fields = definitions()[definition].fields
    for number, name in _numbers()[numbers].items():
        if name.startswith("+"):
            slots[number] = _Slot("", _reader(name[1:], definition), "inlined")
        else:
            slots[number] = _slot(name, fields[name])

    def read(data: Any, depth: int) -> Document:
        if depth > _DEEPEST:
            raise ValueError("proto: nested too deep")
        found: Document = {}
        for number, value in _fields(_bytes(data)):
            slot = slots.get(number)
            if slot is not None:
                _put(found, slot, slot.read(value, depth + 1))
        return found

    return read


def _put(found: Document, slot: _Slot, value: Any) -> None:
    match slot.kind:
        case "inlined":
            found.update(value)
        case "array":
            found.setdefault(slot.name, []).append(value)
        case "numbers":
            found.setdefault(slot.name, []).extend(value)
        case "map":
            found.setdefault(slot.name, {}).update(value)
        case _:
            found[slot.name] = value


def _slot(name: str, field: Field) -> _Slot:
    if field.type not in ("array", "map"):
        return _Slot(name, _value(field))
    assert field.items is not None
    inner = _value(field.items)
    if field.type == "array":
        return _Slot(name, _packed, "numbers") if field.items.type == "integer" else _Slot(name, inner, "array")

    def entry(data: Any, depth: int) -> Document:
        parts = dict(_fields(_bytes(data)))
        return {_text(parts.get(1, b""), depth): inner(parts.get(2, b""), depth)}

    return _Slot(name, entry, "map")


def _value(field: Field) -> Read:
    if field.type == "ref":
        reference = field.ref
        # Resolved on use, because definitions may be recursive.
        return lambda data, depth: _message(reference)(data, depth)  # noqa: PLW0108
    if field.type == "array":
        # A list as a map's value is wrapped in a message of its own.
        return lambda data, depth: [_text(item, depth) for _, item in _fields(_bytes(data))]
    return _SCALARS[field.type]


def _bytes(data: Any) -> bytes:
    if not isinstance(data, bytes):
        raise ValueError("proto: wrong wireType")  # noqa: TRY004  the text is wrong, not the program
    return data


def _text(data: Any, _: int) -> str:
    return _bytes(data).decode()


def _integer(data: Any, _: int) -> int:
    if not isinstance(data, int):
        raise ValueError("proto: wrong wireType")  # noqa: TRY004  the text is wrong, not the program
    return data - (1 << 64) if data >= 1 << 63 else data


def _packed(data: Any, depth: int) -> list[int]:
    if isinstance(data, int):
        return [_integer(data, depth)]
    found, place = [], 0
    while place < len(data):
        value, place = _varint(data, place)
        found.append(_integer(value, depth))
    return found


def _double(data: Any, _: int) -> float:
    if len(_bytes(data)) != 8:
        raise ValueError("proto: wrong wireType")
    return float(unpack_from("<d", data)[0])


def _time(data: Any, _: int) -> str | None:
    parts = dict(_fields(_bytes(data)))
    if not parts:
        return None
    seconds, nanos = _integer(parts.get(1, 0), 0), _integer(parts.get(2, 0), 0)
    try:
        return format_micro_time(_EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000))
    except OverflowError as error:
        raise ValueError("time out of range") from error


def _int_or_string(data: Any, depth: int) -> int | str:
    parts = dict(_fields(_bytes(data)))
    return _text(parts.get(3, b""), depth) if parts.get(1) else _integer(parts.get(2, 0), depth)


def _raw(data: Any, _: int) -> Any:
    text = _bytes(dict(_fields(_bytes(data))).get(1, b""))
    return decode_document(text) if text else None


_SCALARS: dict[str, Read] = {
    "string": _text,
    "integer": _integer,
    "boolean": lambda data, depth: bool(_integer(data, depth)),
    "number": _double,
    "bytes": lambda data, _: b64encode(_bytes(data)).decode(),
    "time": _time,
    "quantity": lambda data, depth: _text(dict(_fields(_bytes(data))).get(1, b""), depth),
    "int-or-string": _int_or_string,
    "any": _raw,
}
