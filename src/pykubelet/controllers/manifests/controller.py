"""Makes objects follow the manifests on disk: applied when edited, deleted when removed.

In: paths, followed. Out: server-side applies and deletes, by the Kubernetes API alone. Pods are left to the node. Each
pass reads what the server has and does what is missing (`plan.py`); it comes when files change, soon again while
something fails, and at every periodic look. An object that someone else changed stays so until its document is
edited; one that someone deleted comes back.

Why the server did not take a document, in words for whoever wrote it, and when to say so.

In: documents and the server's errors, pass after pass. Out: texts with line and field, by file.

What to apply, delete and leave alone, from what the files say and what follows them already.

In: the files as they were last found, the marked objects of the server, and what it serves. Out: a `Plan`. It needs no
memory: the same question gives the same answer, so what failed is simply asked for again.

Deleting needs evidence. An object goes only if a manifest made it, and its file is in good order without it, or was
removed from a folder that is there. It stays while its file has a problem, if its folder vanished or is another, empty
one now, and if its file is not followed any more.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.aio.backoff import Backoff, Retries
from pykubelet.aio.tasks import start_supervised
from pykubelet.api.errors import ApiError, Conflict, NotFound
from pykubelet.api.generated.meta import DeleteOptions, Preconditions
from pykubelet.api.scheme import as_documents
from pykubelet.client.interface import ControllerClient, PatchType, Selection
from pykubelet.client.manifests.follower import ManifestContent, ManifestFollower
from pykubelet.client.manifests.last_known_good import (
    FileClaim,
    FoundManifests,
    PathView,
    ProblemBook,
    ProblemReporter,
    resolve_claims,
    with_losses,
)
from pykubelet.client.manifests.scanner import DocumentProblem, document_problem
from pykubelet.controllers.manifests.desired import (
    FIELD_MANAGER,
    LABEL,
    AppliedObject,
    DesiredObject,
    Kinds,
    ManifestDocument,
    ManifestObject,
    ManifestReference,
    applied_object,
    kinds_of,
    origin_removal_patch,
    read_manifest_documents,
    resolve_kinds,
    with_origin,
)

# What others live in or refer to comes first and goes last. Any order would end the same way, after more tries.
_RANKS = {
    "Namespace": 0,
    "CustomResourceDefinition": 0,
    "PriorityClass": 1,
    "RuntimeClass": 1,
    "StorageClass": 1,
    "ServiceAccount": 1,
    "ClusterRole": 1,
    "Role": 1,
    "ConfigMap": 1,
    "Secret": 1,
}
_LAST = 2


class ManifestPlan(Struct, frozen=True, kw_only=True):
    """What is to be done, each list in order."""

    applies: tuple[DesiredObject, ...] = ()
    unknown: tuple[ManifestDocument, ...] = ()
    """Documents of kinds that are not served, or not yet."""
    ending: tuple[DesiredObject, ...] = ()
    """What cannot be applied before the old object of that name is gone."""
    deletes: tuple[AppliedObject, ...] = ()
    releases: tuple[AppliedObject, ...] = ()
    """Adopted objects whose document is gone: they stay, and follow nothing any more."""
    problems: Mapping[str, str] = {}
    """What is wrong, by file or path; for users."""


def make_plan(found: FoundManifests[ManifestDocument], present: Iterable[AppliedObject], kinds: Kinds) -> ManifestPlan:
    """Decide everything."""
    before = {each.identity: each for each in present}
    documents = resolve_kinds(found, kinds)
    owners = {str(identity): each.mark.file for identity, each in before.items()}
    outcome = resolve_claims(documents.files, owners, lambda one: FileClaim(str(one.identity), str(one.identity)))
    wanted = {one.identity: replace(one, present=before.get(one.identity)) for one in outcome.items}
    problems = with_losses(with_losses(found.problems, documents.problems), outcome.losses)
    # A document that is no object now may be what an object was made from.
    unclear = {*documents.problems, *(wish.item.origin for wish in documents.unknown)}
    gone: list[AppliedObject] = []
    for each in before.values():
        if each.identity in wanted or each.is_ending or each.mark.file in unclear:
            continue
        keep = _reason_to_keep(each.mark, found)
        if keep is None:
            gone.append(each)
        elif keep.message:
            problems[keep.place] = keep.message
    gone.sort(key=lambda each: -_rank(each.identity))
    return ManifestPlan(
        applies=tuple(sorted(filter(_is_due, wanted.values()), key=lambda one: _rank(one.identity))),
        unknown=documents.unknown,
        ending=tuple(one for one in wanted.values() if one.present and one.present.is_ending),
        deletes=tuple(each for each in gone if each.is_created),
        releases=tuple(each for each in gone if not each.is_created),
        problems=problems,
    )


def _is_due(one: DesiredObject) -> bool:
    return one.present is None or (one.present.mark != one.mark and not one.present.is_ending)


def _rank(identity: ManifestObject) -> int:
    return _RANKS.get(identity.kind, _LAST)


class _Keep(NamedTuple):
    """Why an object stays; the message is empty if the reason is told anyway."""

    place: str = ""
    message: str = ""


def _reason_to_keep(mark: ManifestReference, found: FoundManifests[ManifestDocument]) -> _Keep | None:
    """None if the document of an object has gone for sure."""
    reading = found.files.get(mark.file)
    if reading is not None:
        return _Keep() if reading.problem else None
    folder = mark.file.rpartition("/")[0] or "/"
    views = [view for view in found.views if view.path in {mark.file, folder}]
    if not views:
        return _Keep(mark.file, "is not followed any more: the objects made from it are left as they are")
    for view in views:
        is_known = view.is_definite and not view.has_vanished
        if not is_known or (view.path != mark.file and not view.is_folder):
            return _Keep()
        if not view.files and _inode(view) != mark.folder:
            return _Keep(view.path, "another, empty folder is here now; the objects known from it are kept")
    return None


def _inode(view: PathView[ManifestDocument]) -> int:
    return view.folder[1] if view.folder else 0


PATIENT_TRIES = 4
"""So often a document may fail for a reason that passes, such as a namespace that is made just now, before it is told."""


class ApplyFailure(NamedTuple):
    """What a pass could not do."""

    file: str
    subject: str
    """The object or document, always by the same name."""
    text: str
    may_pass: bool
    """Whether a later pass may succeed without anybody mending anything."""


class FailureReporter:
    """Counts failures in a row; owned by one task."""

    def __init__(self) -> None:
        self._tries: Counter[str] = Counter()

    def worth_telling(self, failures: Iterable[ApplyFailure]) -> dict[str, tuple[str, ...]]:
        """Of all failures of a pass those that will not pass by themselves, or have not for a while; by file."""
        failures = tuple(failures)
        self._tries = Counter({each.subject: self._tries[each.subject] + 1 for each in failures})
        told: dict[str, tuple[str, ...]] = {}
        for each in failures:
            if not each.may_pass or self._tries[each.subject] >= PATIENT_TRIES:
                told[each.file] = (*told.get(each.file, ()), each.text)
        return told


def apply_failure(one: DesiredObject, error: ApiError) -> ApplyFailure:
    """The server did not take a document."""
    may_pass = _may_pass(error) or isinstance(error, NotFound) or error.has_cause("NamespaceTerminating")
    return ApplyFailure(one.mark.file, str(one.identity), _words(one.wish, error), may_pass)


def delete_failure(each: AppliedObject, error: ApiError) -> ApplyFailure:
    """The server did not delete an object."""
    text = f"{each.identity} is not deleted: {error.message}"
    return ApplyFailure(each.mark.file, str(each.identity), text, _may_pass(error))


def unknown_kind_failure(wish: ManifestDocument) -> ApplyFailure:
    """A document of a kind that is not served."""
    item = wish.item
    message = f"the server has no kind {item.kind} of {item.api_version}: a CustomResourceDefinition must define it"
    text = str(DocumentProblem(message, line=item.line))
    return ApplyFailure(item.origin, f"{item.origin} {wish.name}", text, may_pass=True)


def still_deleting_failure(one: DesiredObject) -> ApplyFailure:
    """A document whose object is being deleted."""
    message = f"{one.identity} is being deleted, and is made anew after that"
    text = str(DocumentProblem(message, line=one.wish.item.line))
    return ApplyFailure(one.mark.file, str(one.identity), text, may_pass=True)


def _may_pass(error: ApiError) -> bool:
    return error.retry or isinstance(error, Conflict)


def _words(wish: ManifestDocument, error: ApiError) -> str:
    """What the server said, at the lines it spoke of."""
    causes = [cause for cause in error.causes if cause.get("field")]
    if causes:
        problems = (wish.item.problem(cause["field"], str(cause.get("message", ""))) for cause in causes)
        return "; ".join(str(document_problem(problem)) for problem in problems)
    message = error.message
    if isinstance(error, NotFound) and error.details.get("kind") == "namespaces":
        message += ": a Namespace is needed, here or made by hand"
    return str(DocumentProblem(message, line=wish.item.line))


SOURCE = "manifests"
RETRY = Backoff(first_seconds=0.1, limit_seconds=20.0)
_MARKED = Selection(labels=LABEL)
# Never made from a manifest here, and many.
_NOT_SEARCHED = {"pods", "events", "events.events.k8s.io"}
_THE_SERVER = "API server"


class ManifestController:
    """Follows some paths; one task reads files, another one talks to the server."""

    def __init__(
        self,
        *,
        paths: Sequence[str | Path],
        client: ControllerClient,
        problems: ProblemReporter,
        say: Callable[[str], None] = lambda _line: None,
    ) -> None:
        """`say` gets a line for each thing done and each thing wrong; the latter are told to `problems` as well."""
        content = ManifestContent(noun="objects", read=read_manifest_documents, name_of=lambda wish: wish.name)
        self._follower = ManifestFollower(paths=paths, content=content)
        self._client, self._say = client, say
        self._book = ProblemBook(SOURCE, problems, say=say)
        self._found: FoundManifests[ManifestDocument] = FoundManifests()
        self._looked_again = asyncio.Event()
        self._retries = Retries(RETRY)
        self._patience = FailureReporter()
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

    async def _looked(self, found: FoundManifests[ManifestDocument]) -> None:
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
            self._record_event([ApplyFailure(_THE_SERVER, _THE_SERVER, error.message, may_pass=True)])
            return False
        self._wrong = plan.problems
        failures = [*map(unknown_kind_failure, plan.unknown), *map(still_deleting_failure, plan.ending)]
        failures += [failure for one in plan.applies if (failure := await self._apply(one))]
        # What a file no longer names goes once all that it names is there.
        unfinished = {failure.file for failure in failures}
        failures += [
            failure
            for each in (*plan.deletes, *plan.releases)
            if each.mark.file not in unfinished and (failure := await self._part_with(each))
        ]
        self._record_event(failures)
        if not failures:
            self._retries.reset()
        return not failures

    def _record_event(self, failures: Sequence[ApplyFailure]) -> None:
        self._book.update(with_losses(self._wrong, self._patience.worth_telling(failures)))

    async def _present(self, found: FoundManifests[ManifestDocument], kinds: Kinds) -> list[AppliedObject]:
        """The objects of the server that follow manifests: of all kinds at first, then of those that matter."""
        resources = {(resource.group, resource.kind): resource for resource in reversed(tuple(kinds.values()))}
        wanted = {wish.name[:2] for reading in found.files.values() for wish in reading.items}
        names = self._of_ours | wanted
        if not self._has_searched_all:
            names |= {name for name, resource in resources.items() if resource.group_resource not in _NOT_SEARCHED}
        objects: list[AppliedObject] = []
        for name in sorted(names & resources.keys()):
            # A kind may go at any moment, and its objects with it.
            with suppress(NotFound):
                listing = await self._client.list(as_documents(resources[name]), selection=_MARKED)
                objects += filter(None, (applied_object(resources[name], item) for item in listing.items))
        self._of_ours |= {(each.identity.group, each.identity.kind) for each in objects}
        self._has_searched_all = True
        return objects

    async def _apply(self, one: DesiredObject) -> ApplyFailure | None:
        identity = one.identity
        self._of_ours.add((identity.group, identity.kind))
        try:
            is_created = one.present.is_created if one.present else not await self._exists(one)
            body = with_origin(
                one.wish.item.document, namespace=identity.namespace, mark=one.mark, is_created=is_created
            )
            await self._client.apply(one.resource, body, namespace=identity.namespace, field_manager=FIELD_MANAGER)
        except ApiError as error:
            return apply_failure(one, error)
        if one.present is None:
            self._say(f"{'created' if is_created else 'took over'} {identity} from {one.mark.file}")
        elif one.present.mark.digest != one.mark.digest:
            self._say(f"changed {identity} from {one.mark.file}")
        return None

    async def _exists(self, one: DesiredObject) -> bool:
        try:
            await self._client.get(as_documents(one.resource), one.identity.name, namespace=one.identity.namespace)
        except NotFound:
            return False
        return True

    async def _part_with(self, each: AppliedObject) -> ApplyFailure | None:
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
                        kind, name, origin_removal_patch(each.uid), namespace=namespace, patch_type=PatchType.MERGE
                    )
                    self._say(f"left {each.identity} as it is: it was there before {each.mark.file}")
        except ApiError as error:
            return delete_failure(each, error)
        return None
