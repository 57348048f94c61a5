"""Referenced objects fetched when asked for, and kept for a while.

A failing API server does not take away what was fetched before. Upstream: objectStore in
pkg/kubelet/util/manager/cache_based_manager.go.
"""

import asyncio
import re
from collections.abc import Callable
from typing import Generic

from pykubelet.agent.refs.store import NotRegistered, ObjectKey, ObjectSource, T, revision
from pykubelet.api.errors import ApiError, NotFound
from pykubelet.api.generated.core import Node

DEFAULT_TTL_SECONDS = 60.0
TTL_ANNOTATION = "node.alpha.kubernetes.io/ttl"
# Eighteen digits: what surely fits the 64 bits that upstream reads.
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")

TtlSeconds = Callable[[], float | None]
"""How long an object counts as fresh; None for the default."""


def no_ttl() -> float | None:
    """Always the default."""
    return None


def node_ttl(node: Callable[[], Node | None]) -> TtlSeconds:
    """The time the Node's annotation asks for, if the Node can be read and it asks for a whole number of seconds."""

    def ttl_seconds() -> float | None:
        try:
            found = node()
        except ApiError:
            return None
        text = found.metadata.annotations.get(TTL_ANNOTATION, "") if found is not None else ""
        return float(int(text)) if _INTEGER.fullmatch(text) else None

    return ttl_seconds


class LastAnswer(Generic[T]):
    """What the API server last said of one object. Requests for it happen one after the other."""

    def __init__(self, *, source: ObjectSource[T], key: ObjectKey, ttl_seconds: TtlSeconds) -> None:
        self._source, self._key, self._ttl_seconds = source, key, ttl_seconds
        self._object: T | None = None
        self._missing: NotFound | None = None
        self._answered_at = float("-inf")
        self._turn = asyncio.Lock()

    async def get(self) -> T:
        """The object, asked for anew if the last answer is too old or was NotFound."""
        async with self._turn:
            if self._object is None or not self._is_fresh():
                await self._refresh()
            if self._object is None:
                missing = self._missing or self._source.not_found(self._key)
                # The same error may be raised for many readers; its traceback must not grow with each.
                raise missing.with_traceback(None)
            return self._object

    def _is_fresh(self) -> bool:
        ttl = self._ttl_seconds()
        return self._source.clock.monotonic() < self._answered_at + (DEFAULT_TTL_SECONDS if ttl is None else ttl)

    async def _refresh(self) -> None:
        try:
            # A mere refresh may come from the server's cache; what was missing must be read for certain.
            found = await self._source.fetch(self._key, "" if self._object is None else "0")
        except NotFound as error:
            self._object, self._missing = None, error
        except ApiError:
            if self._object is None and self._missing is None:
                raise
            return
        else:
            if self._object is not None and revision(found) < revision(self._object):
                return
            self._object, self._missing = found, None
        self._answered_at = self._source.clock.monotonic()


class TtlStore(Generic[T]):
    """Reference counts, and the last answer for each object; a new reference makes the next get ask anew."""

    def __init__(
        self, *, source: ObjectSource[T], changed: Callable[[ObjectKey], None], ttl_seconds: TtlSeconds = no_ttl
    ) -> None:
        self._source, self._changed, self._ttl_seconds = source, changed, ttl_seconds
        self._references: dict[ObjectKey, int] = {}
        self._answers: dict[ObjectKey, LastAnswer[T]] = {}
        self._versions: dict[ObjectKey, str] = {}

    def add_reference(self, key: ObjectKey, referrer: str) -> None:  # noqa: ARG002  counted, not named
        self._references[key] = self._references.get(key, 0) + 1
        self._answers.pop(key, None)

    def delete_reference(self, key: ObjectKey, referrer: str) -> None:  # noqa: ARG002  likewise
        left = self._references.pop(key, 0) - 1
        if left > 0:
            self._references[key] = left
        else:
            self._answers.pop(key, None)
            self._versions.pop(key, None)

    async def get(self, key: ObjectKey, *, timeout_seconds: float) -> T:  # noqa: ARG002  requests have their own
        if key not in self._references:
            raise NotRegistered(key)
        answer = self._answers.get(key)
        if answer is None:
            answer = self._answers[key] = LastAnswer(source=self._source, key=key, ttl_seconds=self._ttl_seconds)
        try:
            found = await answer.get()
        except NotFound:
            self._note(key, "")
            raise
        self._note(key, found.metadata.resource_version)
        return found

    async def run(self, ready: asyncio.Event) -> None:
        """Nothing happens in the background."""
        ready.set()

    def _note(self, key: ObjectKey, version: str) -> None:
        if key in self._references and self._versions.get(key, "") != version:
            self._versions[key] = version
            self._changed(key)
