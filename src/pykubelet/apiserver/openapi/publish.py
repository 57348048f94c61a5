"""OpenAPI as bytes to send, made when first asked for and again when custom kinds come or go.

In: the registry. Out: `Published` texts with their entity tags. The published definitions are read from a file beside
this one for each making and given up again: they would weigh more than all else an idle server holds.
"""

import asyncio
import gzip
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from typing import Protocol

from pykubelet.api.wire import Document, decode_document, encode
from pykubelet.apiserver.openapi.documents import group_path, v2_document, v3_document, v3_index
from pykubelet.apiserver.openapi.protobuf_form import v2_protobuf
from pykubelet.apiserver.served import Served

JSON = "application/json"
V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
"""What kubectl asks for."""
V2_PROTOBUF_SENT = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""What it is sent: the form above is no media type."""


@dataclass(frozen=True, slots=True)
class Published:
    """A text, its type, and the tag that changes with it."""

    text: bytes
    content_type: str
    etag: str


class Kinds(Protocol):
    """What is served now; `generation` moves when that changes."""

    @property
    def generation(self) -> int:
        """A counter of changes."""

    def all(self) -> tuple[Served, ...]:
        """Every resource."""


class OpenApi:
    """The documents below /openapi."""

    def __init__(self, kinds: Kinds) -> None:
        self._kinds = kinds
        self._generation = -1
        self._made: dict[str, Published] = {}

    async def v2(self, *, protobuf: bool) -> Published:
        """Everything, as JSON or as protobuf."""
        served = self._kinds.all()
        if protobuf:
            return await self._once(
                "v2 protobuf", V2_PROTOBUF_SENT, lambda: v2_protobuf(v2_document(served, _definitions()))
            )
        return await self._once("v2", JSON, lambda: encode(v2_document(served, _definitions())))

    async def v3(self) -> Published:
        """The index of the documents of version 3."""
        served = self._kinds.all()
        return await self._once("v3", JSON, lambda: encode(v3_index(served, _fingerprint())))

    async def v3_of(self, path: str) -> Published | None:
        """The document of `api/v1` or `apis/GROUP/VERSION`; None if nothing is served there."""
        served = [one for one in self._kinds.all() if group_path(one) == path]
        if not served:
            return None
        return await self._once(path, JSON, lambda: encode(v3_document(served, _definitions())))

    async def _once(self, name: str, content_type: str, make: Callable[[], bytes]) -> Published:
        generation = self._kinds.generation
        if generation != self._generation:
            self._generation = generation
            self._made.clear()
        found = self._made.get(name)
        if found is None:
            text = await asyncio.to_thread(make)
            found = Published(text, content_type, f'"{hashlib.sha256(text).hexdigest().upper()}"')
            if generation == self._kinds.generation:
                self._made[name] = found
        return found


def _file() -> bytes:
    return (resources.files("pykubelet.apiserver.openapi") / "generated" / "definitions.json.gz").read_bytes()


def _definitions() -> dict[str, Document]:
    definitions: dict[str, Document] = decode_document(gzip.decompress(_file()))
    return definitions


def _fingerprint() -> str:
    return hashlib.sha256(_file()).hexdigest()
