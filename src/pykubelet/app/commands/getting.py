"""Gets objects as people name them, as tables or as they are, and their changes."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from pykubelet.api.errors import ApiError, Expired, from_status
from pykubelet.api.resources import Resource
from pykubelet.api.wire import Document, decode_document
from pykubelet.app.commands.session import Session
from pykubelet.kube.client import EVERYTHING, Selection
from pykubelet.kube.command_plans import changes_plan, object_plan
from pykubelet.kube.resource_names import Wanted
from pykubelet.kube.watch_stream import LineSplitter

_PAUSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Scope:
    """Where to look: a namespace, or every one if it is empty, and for what."""

    namespace: str
    selection: Selection = EVERYTHING


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found of one kind, as the server answered: tables, objects or lists; and what was not."""

    wanted: Wanted
    answers: tuple[Document, ...]
    errors: tuple[ApiError, ...] = ()


async def look_up(session: Session, wanted: Wanted, scope: Scope, *, as_table: bool) -> Findings:
    """The objects that are wanted of one kind; what cannot be had is among the errors."""
    resource = wanted.served.resource
    answers: list[Document] = []
    errors: list[ApiError] = []
    if not wanted.names:
        try:
            pages = session.pages(resource, scope.namespace, scope.selection, as_table=as_table)
            answers += [page async for page in pages]
        except ApiError as error:
            errors.append(error)
    for name in wanted.names:
        try:
            answers.append(await session.document(object_plan(resource, scope.namespace, name, as_table=as_table)))
        except ApiError as error:
            errors.append(error)
    return Findings(wanted, tuple(answers), tuple(errors))


async def follow(
    session: Session, resource: Resource, scope: Scope, resource_version: str, *, as_table: bool
) -> AsyncGenerator[tuple[str, Document], None]:
    """Changes after a revision: their type and object, without bookmarks. Raises ApiError; ends only with the server."""
    seen = resource_version
    while True:
        plan = changes_plan(resource, scope.namespace, scope.selection, seen, as_table=as_table)
        async with session.client.stream(plan) as chunks:
            splitter = LineSplitter()
            async for chunk in chunks:
                for line in splitter.lines(chunk):
                    event = decode_document(line)
                    kind, document = event["type"], event["object"]
                    if kind == "ERROR":
                        raise from_status(document, int(document.get("code") or Expired.code))
                    seen = _revision(document) or seen
                    if kind != "BOOKMARK":
                        yield kind, document
        # A server that ends every stream at once is not to be asked without a pause.
        await asyncio.sleep(_PAUSE_SECONDS)


def _revision(document: Document) -> str:
    """That of the object, or of the one row of a table."""
    own = str((document.get("metadata") or {}).get("resourceVersion", ""))
    for row in document.get("rows") or () if document.get("kind") == "Table" else ():
        own = str(((row.get("object") or {}).get("metadata") or {}).get("resourceVersion", "")) or own
    return own
