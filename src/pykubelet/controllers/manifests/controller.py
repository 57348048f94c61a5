"""Makes objects follow the manifests on disk: applied when edited, deleted when removed.

In: paths, followed. Out: server-side applies and deletes, by the Kubernetes API alone. Pods are left to the node. Each
pass reads what the server has and does what is missing (`plan.py`); it comes when files change, soon again while
something fails, and at every periodic look. An object that someone else changed stays so until its document is
edited; one that someone deleted comes back.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from pykubelet.aio.backoff import Backoff, Retries
from pykubelet.aio.supervise import start_supervised
from pykubelet.api.errors import ApiError, NotFound
from pykubelet.api.generated.meta import DeleteOptions, Preconditions
from pykubelet.api.resources import Resource
from pykubelet.api.typed import Kind, as_documents
from pykubelet.api.wire import Document
from pykubelet.controllers.manifests.marks import FIELD_MANAGER, LABEL, Present, marked, present, unmarked
from pykubelet.controllers.manifests.plan import make_plan
from pykubelet.controllers.manifests.refusals import (
    Failure,
    Patience,
    refusal,
    still_ending,
    undeletable,
    unknown_kind,
)
from pykubelet.controllers.manifests.wishes import Apply, Kinds, Wish, kinds_of, read_wishes
from pykubelet.kube.client import EVERYTHING, Listing, PatchType, Selection
from pykubelet.kube.manifests import Content, Follower, Found, ProblemBook, Problems
from pykubelet.kube.manifests.claims import with_losses

SOURCE = "manifests"
RETRY = Backoff(first_seconds=0.1, limit_seconds=20.0)
_MARKED = Selection(labels=LABEL)
# Never made from a manifest here, and many.
_NOT_SEARCHED = {"pods", "events", "events.events.k8s.io"}
_THE_SERVER = "API server"


class Objects(Protocol):
    """What is needed of an API server."""

    async def served(self) -> tuple[Resource, ...]:
        """Every resource whose objects can be listed and patched."""

    async def get(self, kind: Kind[Document], name: str, *, namespace: str = "") -> Document:
        """One object; NotFound if there is none."""

    async def list(
        self, kind: Kind[Document], *, namespace: str = "", selection: Selection = EVERYTHING
    ) -> Listing[Document]:
        """All objects that are selected."""

    async def apply(self, resource: Resource, body: Document, *, namespace: str = "", field_manager: str) -> Document:
        """Server-side apply, by force."""

    async def patch(
        self, kind: Kind[Document], name: str, body: Any, *, namespace: str = "", patch_type: PatchType
    ) -> Document:
        """Change an object; `metadata.uid` in the body is a precondition."""

    async def delete(
        self, kind: Kind[Document], name: str, *, namespace: str = "", options: DeleteOptions | None = None
    ) -> None:
        """Delete an object; Conflict if a precondition fails."""


class ManifestController:
    """Follows some paths; one task reads files, another one talks to the server."""

    def __init__(
        self,
        *,
        paths: Sequence[str | Path],
        client: Objects,
        problems: Problems,
        say: Callable[[str], None] = lambda _line: None,
    ) -> None:
        """`say` gets a line for each thing done and each thing wrong; the latter are told to `problems` as well."""
        content = Content(noun="objects", read=read_wishes, name_of=lambda wish: wish.name)
        self._follower = Follower(paths=paths, content=content)
        self._client, self._say = client, say
        self._book = ProblemBook(SOURCE, problems, say=say)
        self._found: Found[Wish] = Found()
        self._looked_again = asyncio.Event()
        self._retries = Retries(RETRY)
        self._patience = Patience()
        self._wrong: Mapping[str, str] = {}
        # Groups and kinds of which there may be objects of ours, as far as known.
        self._of_ours: set[tuple[str, str]] = set()
        self._has_searched_all = False

    async def run(self, ready: asyncio.Event) -> None:
        """Follow the paths until cancelled; `ready` is set after the first pass, whatever came of it."""
        async with asyncio.TaskGroup() as group:
            start_supervised(group, "follow manifests", lambda: self._follower.run(self._looked))
            await self._looked_again.wait()
            while True:
                self._looked_again.clear()
                is_done = await self._pass()
                ready.set()
                await self._wait(None if is_done else self._retries.next_delay_seconds())

    async def _looked(self, found: Found[Wish]) -> None:
        if found != self._found:
            self._retries.reset()
        self._found = found
        self._looked_again.set()

    async def _wait(self, seconds: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._looked_again.wait()

    async def _pass(self) -> bool:
        """One go at everything; whether nothing is left to do."""
        found = self._found
        try:
            kinds = kinds_of(await self._client.served())
            plan = make_plan(found, await self._present(found, kinds), kinds)
        except ApiError as error:
            self._tell([Failure(_THE_SERVER, _THE_SERVER, error.message, may_pass=True)])
            return False
        self._wrong = plan.problems
        failures = [*map(unknown_kind, plan.unknown), *map(still_ending, plan.ending)]
        failures += [failure for one in plan.applies if (failure := await self._apply(one))]
        # What a file no longer names goes once all that it names is there.
        unfinished = {failure.file for failure in failures}
        failures += [
            failure
            for each in (*plan.deletes, *plan.releases)
            if each.mark.file not in unfinished and (failure := await self._part_with(each))
        ]
        self._tell(failures)
        if not failures:
            self._retries.reset()
        return not failures

    def _tell(self, failures: Sequence[Failure]) -> None:
        self._book.update(with_losses(self._wrong, self._patience.worth_telling(failures)))

    async def _present(self, found: Found[Wish], kinds: Kinds) -> list[Present]:
        """The objects of the server that follow manifests: of all kinds at first, then of those that matter."""
        resources = {(resource.group, resource.kind): resource for resource in reversed(tuple(kinds.values()))}
        wanted = {wish.name[:2] for reading in found.files.values() for wish in reading.items}
        names = self._of_ours | wanted
        if not self._has_searched_all:
            names |= {name for name, resource in resources.items() if resource.group_resource not in _NOT_SEARCHED}
        objects: list[Present] = []
        for name in sorted(names & resources.keys()):
            # A kind may go at any moment, and its objects with it.
            with suppress(NotFound):
                listing = await self._client.list(as_documents(resources[name]), selection=_MARKED)
                objects += filter(None, (present(resources[name], item) for item in listing.items))
        self._of_ours |= {(each.identity.group, each.identity.kind) for each in objects}
        self._has_searched_all = True
        return objects

    async def _apply(self, one: Apply) -> Failure | None:
        identity = one.identity
        self._of_ours.add((identity.group, identity.kind))
        try:
            is_created = one.present.is_created if one.present else not await self._exists(one)
            body = marked(one.wish.item.document, namespace=identity.namespace, mark=one.mark, is_created=is_created)
            await self._client.apply(one.resource, body, namespace=identity.namespace, field_manager=FIELD_MANAGER)
        except ApiError as error:
            return refusal(one, error)
        if one.present is None:
            self._say(f"{'created' if is_created else 'took over'} {identity} from {one.mark.file}")
        elif one.present.mark.digest != one.mark.digest:
            self._say(f"changed {identity} from {one.mark.file}")
        return None

    async def _exists(self, one: Apply) -> bool:
        try:
            await self._client.get(as_documents(one.resource), one.identity.name, namespace=one.identity.namespace)
        except NotFound:
            return False
        return True

    async def _part_with(self, each: Present) -> Failure | None:
        """Delete what a manifest made; what was there before it stays, and is marked no longer."""
        kind, name, namespace = as_documents(each.resource), each.identity.name, each.identity.namespace
        try:
            with suppress(NotFound):
                if each.is_created:
                    options = DeleteOptions(propagation_policy="Background", preconditions=Preconditions(uid=each.uid))
                    await self._client.delete(kind, name, namespace=namespace, options=options)
                    self._say(f"deleted {each.identity}, which {each.mark.file} made")
                else:
                    await self._client.patch(
                        kind, name, unmarked(each.uid), namespace=namespace, patch_type=PatchType.MERGE
                    )
                    self._say(f"left {each.identity} as it is: it was there before {each.mark.file}")
        except ApiError as error:
            return undeletable(each, error)
        return None
