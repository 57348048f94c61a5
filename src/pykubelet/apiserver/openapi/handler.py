"""Serves OpenAPI: encodes the documents as JSON or protobuf, caches them until the kinds change.

The published definitions are read from a file for each build and then released: they would take more memory than an
idle server. The protobuf encoder writes only what these documents contain.

Upstream: vendor/k8s.io/kube-openapi/pkg/handler/handler.go, vendor/k8s.io/kube-openapi/pkg/handler3/handler.go,
vendor/github.com/google/gnostic-models/openapiv2/OpenAPIv2.proto
"""

import asyncio
import gzip
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from struct import pack
from typing import Any

from pykubelet.api.serializer import Document, decode_document, encode
from pykubelet.apiserver.openapi.builder import group_path, v2_document, v3_document, v3_index
from pykubelet.apiserver.registry import ServedKinds

JSON = "application/json"
V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
"""The media type that kubectl accepts."""
V2_PROTOBUF_SENT = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""The media type of the response: the accepted one is not a valid media type."""
Put = Callable[[int, Any], bytes]
MessageTable = dict[str, tuple[int, Put]]
"""By field name: its number and its encoder."""
_BYTES, _DOUBLE = 2, 1
_EXTENSION = "x-"


@dataclass(frozen=True, slots=True)
class PublishedDocument:
    """A document's text, its content type, and its ETag."""

    text: bytes
    content_type: str
    etag: str


class OpenApi:
    def __init__(self, kinds: ServedKinds) -> None:
        self._kinds = kinds
        self._generation = -1
        self._made: dict[str, PublishedDocument] = {}

    async def v2(self, *, protobuf: bool) -> PublishedDocument:
        served = self._kinds.all()
        if protobuf:
            return await self._once(
                "v2 protobuf", V2_PROTOBUF_SENT, lambda: _message(v2_document(served, _definitions()), _DOCUMENT)
            )
        return await self._once("v2", JSON, lambda: encode(v2_document(served, _definitions())))

    async def v3(self) -> PublishedDocument:
        served = self._kinds.all()
        return await self._once("v3", JSON, lambda: encode(v3_index(served, hashlib.sha256(_file()).hexdigest())))

    async def v3_of(self, path: str) -> PublishedDocument | None:
        """The v3 document of `api/v1` or `apis/GROUP/VERSION`; None if nothing is served there."""
        served = [one for one in self._kinds.all() if group_path(one) == path]
        if not served:
            return None
        return await self._once(path, JSON, lambda: encode(v3_document(served, _definitions())))

    async def _once(self, name: str, content_type: str, make: Callable[[], bytes]) -> PublishedDocument:
        generation = self._kinds.generation
        if generation != self._generation:
            self._generation = generation
            self._made.clear()
        found = self._made.get(name)
        if found is None:
            text = await asyncio.to_thread(make)
            found = PublishedDocument(text, content_type, f'"{hashlib.sha256(text).hexdigest().upper()}"')
            if generation == self._kinds.generation:
                self._made[name] = found
        return found


def _file() -> bytes:
    return (resources.files("pykubelet.apiserver.openapi") / "generated" / "definitions.json.gz").read_bytes()


def _definitions() -> dict[str, Document]:
    definitions: dict[str, Document] = decode_document(gzip.decompress(_file()))
    return definitions


def _varint(value: int) -> bytes:
    out = bytearray()
    value &= (1 << 64) - 1
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _put_bytes(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(value)) + value


def _put_text(number: int, value: str) -> bytes:
    return _put_bytes(number, value.encode())


def _put_number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(int(value))


def _put_double(number: int, value: float) -> bytes:
    return _varint(number << 3 | _DOUBLE) + pack("<d", value)


def _put_any(number: int, value: Any) -> bytes:
    """Encodes a free value as YAML, of which JSON is a subset."""
    return _put_bytes(number, _put_bytes(2, encode(value)))


def _put_each(put: Put) -> Put:
    return lambda number, values: b"".join(put(number, value) for value in values)


def _put_named(put: Put, inner: int = 1) -> Put:
    """Encodes a map as a message with repeated name and value."""

    def put_map(number: int, values: Document) -> bytes:
        entries = (_put_bytes(inner, _put_text(1, name) + put(2, value)) for name, value in values.items())
        return _put_bytes(number, b"".join(entries))

    return put_map


def _put_message(table: Callable[[], MessageTable]) -> Put:
    return lambda number, value: _put_bytes(number, _message(value, table()))


def _message(value: Document, table: MessageTable) -> bytes:
    parts = [table[key][1](table[key][0], item) for key, item in value.items() if key in table]
    if _EXTENSION in table:
        number, names = table[_EXTENSION][0], (name for name in value if name.startswith(_EXTENSION))
        parts += [_put_bytes(number, _put_text(1, name) + _put_any(2, value[name])) for name in names]
    return b"".join(parts)


def _put_items(number: int, schema: Document) -> bytes:
    return _put_bytes(number, _put_schema(1, schema))


def _put_type(number: int, value: str) -> bytes:
    return _put_bytes(number, _put_text(1, value))


def _put_additional(number: int, value: Document | bool) -> bytes:
    return _put_bytes(number, _put_number(2, value) if isinstance(value, bool) else _put_schema(1, value))


def _put_parameter(number: int, value: Document) -> bytes:
    """Encodes ParametersItem > Parameter > body, or non-body > query or path."""
    if value["in"] == "body":
        return _put_bytes(number, _put_bytes(1, _put_bytes(1, _message(value, _BODY))))
    kind = 4 if value["in"] == "path" else 3
    table = _PATH_PARAMETER if kind == 4 else _QUERY_PARAMETER
    return _put_bytes(number, _put_bytes(1, _put_bytes(2, _put_bytes(kind, _message(value, table)))))


def _put_response(number: int, value: Document) -> bytes:
    """Encodes ResponseValue > Response, whose schema is a SchemaItem."""
    schema = _put_bytes(2, _put_schema(1, value["schema"])) if "schema" in value else b""
    return _put_bytes(number, _put_bytes(1, _put_text(1, value["description"]) + schema))


_put_schema = _put_message(lambda: _SCHEMA)
_put_operation = _put_message(lambda: _OPERATION)

_SCHEMA: MessageTable = {
    "$ref": (1, _put_text),
    "format": (2, _put_text),
    "title": (3, _put_text),
    "description": (4, _put_text),
    "default": (5, _put_any),
    "multipleOf": (6, _put_double),
    "maximum": (7, _put_double),
    "exclusiveMaximum": (8, _put_number),
    "minimum": (9, _put_double),
    "exclusiveMinimum": (10, _put_number),
    "maxLength": (11, _put_number),
    "minLength": (12, _put_number),
    "pattern": (13, _put_text),
    "maxItems": (14, _put_number),
    "minItems": (15, _put_number),
    "uniqueItems": (16, _put_number),
    "maxProperties": (17, _put_number),
    "minProperties": (18, _put_number),
    "required": (19, _put_each(_put_text)),
    "enum": (20, _put_each(_put_any)),
    "additionalProperties": (21, _put_additional),
    "type": (22, _put_type),
    "items": (23, _put_items),
    "allOf": (24, _put_each(_put_schema)),
    "properties": (25, _put_named(_put_schema)),
    _EXTENSION: (31, _put_any),
}
_BODY: MessageTable = {
    "name": (2, _put_text),
    "in": (3, _put_text),
    "required": (4, _put_number),
    "schema": (5, _put_schema),
}
_PATH_PARAMETER: MessageTable = {
    "required": (1, _put_number),
    "in": (2, _put_text),
    "name": (4, _put_text),
    "type": (5, _put_text),
}
_QUERY_PARAMETER = _PATH_PARAMETER | {"type": (6, _put_text)}
_OPERATION: MessageTable = {
    "operationId": (5, _put_text),
    "produces": (6, _put_each(_put_text)),
    "consumes": (7, _put_each(_put_text)),
    "parameters": (8, _put_each(_put_parameter)),
    "responses": (9, _put_named(_put_response)),
    _EXTENSION: (13, _put_any),
}
_PATH_ITEM: MessageTable = {
    "get": (2, _put_operation),
    "put": (3, _put_operation),
    "post": (4, _put_operation),
    "delete": (5, _put_operation),
    "patch": (8, _put_operation),
    "parameters": (9, _put_each(_put_parameter)),
}
_INFO: MessageTable = {"title": (1, _put_text), "version": (2, _put_text)}
_DOCUMENT: MessageTable = {
    "swagger": (1, _put_text),
    "info": (2, _put_message(lambda: _INFO)),
    "paths": (8, _put_named(_put_message(lambda: _PATH_ITEM), inner=2)),
    "definitions": (9, _put_named(_put_schema)),
}
