"""Makes objects be as manifests say, by server-side apply."""

import asyncio
from dataclasses import dataclass

from pykubelet.api.errors import NotFound
from pykubelet.api.manifest import ManifestItem
from pykubelet.api.wire import Document, decode_document
from pykubelet.app.commands.session import Session
from pykubelet.kube.command_plans import ApplyOptions, apply_plan
from pykubelet.kube.discovery import Served
from pykubelet.kube.resource_names import served_kind

_DEFINITIONS = "CustomResourceDefinition"
# A definition is served a moment after it was taken.
_LOOKS = 20
_PAUSE_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Applied:
    """An object before and after; before is None if it was not there."""

    served: Served
    before: Document | None
    after: Document


class NoSuchKind(Exception):
    """The server does not serve a kind."""


class Applying:
    """Applies one document after the other; knows what the server serves, and notices when that changes."""

    def __init__(self, session: Session, options: ApplyOptions) -> None:
        self._session, self._options = session, options
        self._catalogue: tuple[Served, ...] = ()
        self._defines_kinds = False

    async def apply(self, item: ManifestItem) -> Applied:
        """Apply a document. NoSuchKind; ApiError if it is refused."""
        served = await self._served(item)
        resource = served.resource
        metadata = item.document.get("metadata") or {}
        namespace = metadata.get("namespace") or self._session.namespace
        before = await self._before(served, namespace, str(metadata.get("name", "")))
        answer = await self._session.ask(apply_plan(resource, item.document, namespace, self._options))
        self._defines_kinds |= item.kind == _DEFINITIONS
        return Applied(served, before, decode_document(answer.body))

    async def _before(self, served: Served, namespace: str, name: str) -> Document | None:
        try:
            return await self._session.get(served.resource, namespace, name)
        except NotFound:
            return None

    async def _served(self, item: ManifestItem) -> Served:
        for look in range(_LOOKS):
            if look or not self._catalogue:
                self._catalogue = await self._session.catalogue()
            served = served_kind(item.api_version, item.kind, self._catalogue)
            if served is not None:
                return served
            if not self._defines_kinds:
                break
            await asyncio.sleep(_PAUSE_SECONDS)
        raise NoSuchKind(f'the server has no kind "{item.kind}" in version "{item.api_version}"')
