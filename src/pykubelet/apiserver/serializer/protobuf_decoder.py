"""Decodes objects that Go clients send as application/vnd.kubernetes.protobuf into documents.

The zeros that protobuf writes for empty fields stay in the document; the kind's normal form drops them. The cost is
linear in the size of the body.

Upstream: staging/src/k8s.io/apimachinery/pkg/runtime/serializer/protobuf/protobuf.go
"""

from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property
from struct import unpack_from
from typing import Any, NamedTuple

from pykubelet.api.schema import Field
from pykubelet.api.serializer import Document, decode_document
from pykubelet.api.times import MICRO_TIME_FIELDS, format_micro_time, format_time
from pykubelet.apiserver.serializer.protobuf_messages import JSON_SCHEMA_PROPS, MAGIC, fields_of, message_of

# Schemas of custom resources nest deepest, up to 150 levels. Python allows about 1,000 calls, three for a level.
_DEEPEST = 200
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Span = tuple[int, int]
"""Where a length-delimited value starts and ends."""
Read = Callable[["_Body", Any, "_MessageReader | None"], Any]
"""Decodes a value: an integer, eight or four bytes, or the span of a length-delimited one."""


class _FieldReader(NamedTuple):
    """Where the value of a field number goes: the field's name, its decoder, and whether it repeats."""

    name: str
    read: Read
    message: "_MessageReader | None" = None
    shape: str = ""


class _MessageReader:
    """The slots of a message by field number; made on first use, because messages may be recursive."""

    def __init__(self, message: str, definition: str) -> None:
        self._message, self._definition = message, definition

    @cached_property
    def slots(self) -> dict[int, _FieldReader]:
        found: dict[int, _FieldReader] = {}
        for number, name, field, inlined in fields_of(self._message, self._definition):
            if inlined:
                found[number] = _FieldReader("", _read_message, _message(inlined, self._definition), "inlined")
            else:
                found[number] = _slot(name, field)
        return found


@cache
def _message(message: str, definition: str) -> _MessageReader:
    return _MessageReader(message, definition)


def read_protobuf(body: bytes) -> Document:
    """Decodes a protobuf body; ValueError if it is invalid."""
    if not body.startswith(MAGIC):
        raise ValueError("provided data does not appear to be a protobuf message, expected prefix 6b 38 73 00")
    data = _Body(body)
    envelope = data.fields((len(MAGIC), len(body)))
    type_meta = data.fields(envelope.get(1, (0, 0)))
    api_version, kind = data.text(type_meta.get(1, (0, 0))), data.text(type_meta.get(2, (0, 0)))
    message = message_of(api_version, kind)
    if message is None:
        raise ValueError(f'no kind "{kind}" in version "{api_version}" can be read as protobuf')
    raw = data.message(envelope.get(2, (0, 0)), _message(message, message))
    return {"apiVersion": api_version, "kind": kind, **raw}


class _Body:
    """The bytes of a body, and how deep the message that is being read is nested."""

    __slots__ = ("_data", "_depth")

    def __init__(self, data: bytes) -> None:
        self._data, self._depth = data, 0

    def message(self, span: Any, message: _MessageReader) -> Document:
        """Reads a message; the values of a repeated message are merged one level deep."""
        if self._depth >= _DEEPEST:
            raise ValueError("proto: nested too deep")
        self._depth += 1
        found: Document = {}
        slots = message.slots
        place, end = _span(span)
        while place < end:
            number, value, place = self._next(place, end)
            slot = slots.get(number)
            if slot is None:
                continue
            name, read, inner, shape = slot
            if not shape:
                found[name] = read(self, value, inner)
            elif shape == "array":
                found.setdefault(name, []).append(read(self, value, inner))
            elif shape == "numbers":
                found.setdefault(name, []).extend(read(self, value, inner))
            elif shape == "map":
                found.setdefault(name, {}).update(read(self, value, inner))
            else:
                found.update(read(self, value, inner))
        self._depth -= 1
        return found

    def fields(self, span: Any) -> dict[int, Any]:
        """The last value of each field of a small message, whose numbers have one digit."""
        place, end = _span(span)
        found: dict[int, Any] = {}
        while place < end:
            number, value, place = self._next(place, end)
            if number < 10:
                found[number] = value
        return found

    def values(self, span: Any, number: int) -> list[Any]:
        """The values of a repeated field."""
        place, end = _span(span)
        found = []
        while place < end:
            other, value, place = self._next(place, end)
            if other == number:
                found.append(value)
        return found

    def integers(self, span: Any) -> list[int]:
        """Packed integers, or a single one."""
        if isinstance(span, int):
            return [span]
        place, end = span
        found = []
        while place < end:
            value, place = self._varint(place, end)
            found.append(value)
        return found

    def bytes(self, span: Any) -> bytes:
        start, end = _span(span)
        return self._data[start:end]

    def text(self, span: Any) -> str:
        start, end = _span(span)
        return self._data[start:end].decode()

    def _next(self, place: int, end: int) -> tuple[int, Any, int]:
        """The number and value of the field at a place, and the place after it."""
        data = self._data
        tag = data[place]
        if tag < 0x80:
            place += 1
        else:
            tag, place = self._varint(place, end)
        value: int | bytes | Span
        match tag & 7:
            case 2:
                if place < end and data[place] < 0x80:
                    start = place + 1
                    place = start + data[place]
                else:
                    size, start = self._varint(place, end)
                    place = start + size
                value = (start, place)
            case 0:
                value, place = self._varint(place, end)
            case 1:
                value, place = data[place : place + 8], place + 8
            case 5:
                value, place = data[place : place + 4], place + 4
            case _:
                raise ValueError("proto: illegal wireType")
        if place > end:
            raise ValueError("unexpected EOF")
        return tag >> 3, value, place

    def _varint(self, place: int, end: int) -> tuple[int, int]:
        value = 0
        for shift in range(0, 70, 7):
            if place >= end:
                raise ValueError("unexpected EOF")
            byte = self._data[place]
            place += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, place
        raise ValueError("proto: integer overflow")


def _span(value: Any) -> Span:
    if type(value) is not tuple:
        raise ValueError("proto: wrong wireType")
    return value


def _slot(name: str, field: Field) -> _FieldReader:
    items = field.items
    if items is None:
        read = _read_micro_time if name in MICRO_TIME_FIELDS else _READERS[field.type]
        return _FieldReader(name, read, _inner(field))
    if field.type == "map":
        return _FieldReader(name, _entry_reader(items), None, "map")
    if items.type == "integer":
        return _FieldReader(name, _read_integers, None, "numbers")
    return _slot(name, items)._replace(shape="array")


def _inner(field: Field) -> _MessageReader | None:
    if field.type == "ref":
        return _message(field.ref, field.ref)
    return _message(JSON_SCHEMA_PROPS, JSON_SCHEMA_PROPS) if field.type.startswith("schema-or-") else None


def _entry_reader(items: Field) -> Read:
    """Returns the decoder of a map's entries; a list as a value is wrapped in a message of its own."""
    read = _READERS[items.type if items.items is None else "strings"]
    inner, empty = _inner(items), 0 if items.type in ("integer", "boolean") else (0, 0)

    def entry(body: _Body, span: Any, _: _MessageReader | None) -> Document:
        parts = body.fields(span)
        return {body.text(parts.get(1, (0, 0))): read(body, parts.get(2, empty), inner)}

    return entry


def _read_message(body: _Body, span: Any, message: _MessageReader | None) -> Document:
    assert message is not None
    return body.message(span, message)


def _read_text(body: _Body, span: Any, _: _MessageReader | None) -> str:
    return body.text(span)


def _integer(value: Any) -> int:
    if not isinstance(value, int):
        raise ValueError("proto: wrong wireType")  # noqa: TRY004  the text is wrong, not the program
    return (value & (1 << 64) - 1) - (1 << 64) if value >= 1 << 63 else value


def _read_integer(_body: _Body, value: Any, _: _MessageReader | None) -> int:
    return _integer(value)


def _read_boolean(_body: _Body, value: Any, _: _MessageReader | None) -> bool:
    return bool(_integer(value))


def _read_number(_body: _Body, value: Any, _: _MessageReader | None) -> float:
    if not isinstance(value, bytes) or len(value) != 8:
        raise ValueError("proto: wrong wireType")
    return float(unpack_from("<d", value)[0])


def _read_integers(body: _Body, value: Any, _: _MessageReader | None) -> list[int]:
    return [_integer(each) for each in body.integers(value)]


def _read_bytes(body: _Body, span: Any, _: _MessageReader | None) -> str:
    return b64encode(body.bytes(span)).decode()


def _read_time(body: _Body, span: Any, _: _MessageReader | None) -> str | None:
    return None if (at := _time(body, span)) is None else format_time(at)


def _read_micro_time(body: _Body, span: Any, _: _MessageReader | None) -> str | None:
    return None if (at := _time(body, span)) is None else format_micro_time(at)


def _time(body: _Body, span: Any) -> datetime | None:
    parts = body.fields(span)
    if not parts:
        return None
    seconds, nanos = _integer(parts.get(1, 0)), _integer(parts.get(2, 0))
    try:
        return _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError as error:
        raise ValueError("time out of range") from error


def _read_quantity(body: _Body, span: Any, _: _MessageReader | None) -> str:
    return body.text(body.fields(span).get(1, (0, 0)))


def _read_int_or_string(body: _Body, span: Any, _: _MessageReader | None) -> int | str:
    parts = body.fields(span)
    return body.text(parts.get(3, (0, 0))) if parts.get(1) else _integer(parts.get(2, 0))


def _read_any(body: _Body, span: Any, _: _MessageReader | None) -> Any:
    text = body.bytes(body.fields(span).get(1, (0, 0)))
    return decode_document(text) if text else None


def _read_strings(body: _Body, span: Any, _: _MessageReader | None) -> list[str]:
    return list(map(body.text, body.values(span, 1)))


def _read_schema_or_array(body: _Body, span: Any, message: _MessageReader | None) -> Any:
    parts = body.fields(span)
    if 1 in parts:
        return _read_message(body, parts[1], message)
    return [_read_message(body, each, message) for each in body.values(span, 2)]


def _read_schema_or_boolean(body: _Body, span: Any, message: _MessageReader | None) -> Any:
    parts = body.fields(span)
    return _read_message(body, parts[2], message) if 2 in parts else bool(_integer(parts.get(1, 0)))


def _read_schema_or_strings(body: _Body, span: Any, message: _MessageReader | None) -> Any:
    parts = body.fields(span)
    return _read_message(body, parts[1], message) if 1 in parts else list(map(body.text, body.values(span, 2)))


_READERS: dict[str, Read] = {
    "ref": _read_message,
    "string": _read_text,
    "integer": _read_integer,
    "boolean": _read_boolean,
    "number": _read_number,
    "bytes": _read_bytes,
    "time": _read_time,
    "quantity": _read_quantity,
    "int-or-string": _read_int_or_string,
    "any": _read_any,
    "strings": _read_strings,
    "schema-or-array": _read_schema_or_array,
    "schema-or-boolean": _read_schema_or_boolean,
    "schema-or-strings": _read_schema_or_strings,
}
"""The decoder of each type of the schema."""
