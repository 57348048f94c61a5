"""Applies manifest documents with server-side apply, and describes the outcome.

Upstream: staging/src/k8s.io/kubectl/pkg/cmd/apply/apply.go
"""

import asyncio
import re
from dataclasses import dataclass

from pykubelet.api.errors import ApiError, Conflict, NotFound
from pykubelet.api.manifest import ManifestItem
from pykubelet.api.serializer import Document, decode_document
from pykubelet.cli.actions.resource_args import served_kind
from pykubelet.cli.actions.session import ApiSession, ApplyOptions, apply_plan
from pykubelet.client.discovery import ServedResource

_DEFINITIONS = "CustomResourceDefinition"
# A custom resource is served a moment after its definition was created.
_DISCOVERY_ATTEMPTS = 20
_PAUSE_SECONDS = 0.25
_KEY = re.compile(r"\[([^\]=]+)=(\"[^\"]*\"|[^\]]*)\]")
# Fields that the server maintains itself.
_NOT_OURS = frozenset({"managedFields", "resourceVersion", "generation"})


@dataclass(frozen=True, slots=True)
class ApplyOutcome:
    """An object before and after the apply; before is None if it did not exist."""

    served: ServedResource
    before: Document | None
    after: Document


class NoSuchKind(Exception):
    """The server does not serve a kind."""


class ManifestApplier:
    """Applies documents one by one; refreshes its discovery for new custom resources."""

    def __init__(self, session: ApiSession, options: ApplyOptions) -> None:
        self._session, self._options = session, options
        self._catalogue: tuple[ServedResource, ...] = ()
        self._defines_kinds = False

    async def apply(self, item: ManifestItem) -> ApplyOutcome:
        """Apply a document. Raises NoSuchKind, or ApiError if the server refuses it."""
        served = await self._served(item)
        resource = served.resource
        metadata = item.document.get("metadata") or {}
        namespace = metadata.get("namespace") or self._session.namespace
        before = await self._before(served, namespace, str(metadata.get("name", "")))
        answer = await self._session.ask(apply_plan(resource, item.document, namespace, self._options))
        self._defines_kinds |= item.kind == _DEFINITIONS
        return ApplyOutcome(served, before, decode_document(answer.body))

    async def _before(self, served: ServedResource, namespace: str, name: str) -> Document | None:
        try:
            return await self._session.get(served.resource, namespace, name)
        except NotFound:
            return None

    async def _served(self, item: ManifestItem) -> ServedResource:
        for attempt in range(_DISCOVERY_ATTEMPTS):
            if attempt or not self._catalogue:
                self._catalogue = await self._session.catalogue()
            served = served_kind(item.api_version, item.kind, self._catalogue)
            if served is not None:
                return served
            if not self._defines_kinds:
                break
            await asyncio.sleep(_PAUSE_SECONDS)
        raise NoSuchKind(f'the server has no kind "{item.kind}" in version "{item.api_version}"')


def outcome(before: Document | None, after: Document) -> str:
    """The outcome of an apply: created, configured or unchanged."""
    if before is None:
        return "created"
    return "unchanged" if _applied_fields(before) == _applied_fields(after) else "configured"


def _applied_fields(document: Document) -> Document:
    metadata = {key: value for key, value in (document.get("metadata") or {}).items() if key not in _NOT_OURS}
    return {**{key: value for key, value in document.items() if key != "status"}, "metadata": metadata}


def refusal_lines(item: ManifestItem, error: ApiError) -> list[str]:
    """The reasons why a document was refused, with file, line and field if known."""
    if isinstance(error, Conflict) and error.has_cause("FieldManagerConflict"):
        return [_owner_line(item, cause) for cause in error.causes]
    causes = [cause for cause in error.causes if cause.get("field")]
    if not causes:
        return [str(item.problem("", error.message))]
    return [str(item.problem(_field(item, cause), str(cause.get("message", "")))) for cause in causes]


def conflict_hint(error: ApiError) -> str:
    """How to resolve a field conflict; empty for other errors."""
    if not isinstance(error, Conflict) or not error.has_cause("FieldManagerConflict"):
        return ""
    return "leave these fields out of the manifest, or take them over with --force-conflicts"


def _owner_line(item: ManifestItem, cause: Document) -> str:
    owner = str(cause.get("message", "")).removeprefix("conflict with ")
    return str(item.problem(_field(item, cause), f"another manager owns this field: {owner}"))


def _field(item: ManifestItem, cause: Document) -> str:
    """The field path of the manifest, with list indexes instead of keys."""
    steps = _KEY.split(str(cause.get("field", "")).removeprefix("."))
    text = steps[0]
    for key, value, rest in zip(steps[1::3], steps[2::3], steps[3::3], strict=True):
        found = _place(_at(item.document, text), key, value.strip('"'))
        text += f"[{found if found is not None else f'{key}={value}'}]" + rest
    return text


def _place(elements: object, key: str, value: str) -> int | None:
    if not isinstance(elements, list):
        return None
    # The server may name several keys; the first is enough to find the line.
    matches = (i for i, one in enumerate(elements) if isinstance(one, dict) and str(one.get(key)) == value)
    return next(matches, None)


def _at(value: object, path: str) -> object:
    for step in re.findall(r"[^.\[\]]+", path):
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value
