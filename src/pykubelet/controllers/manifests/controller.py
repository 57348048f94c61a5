"""Applies manifests on disk: edited files are applied, the objects of removed files deleted.

Pods are left to the node. Each pass compares the files with the objects on the server that carry our label, and does
what is missing; a pass runs when files change, with backoff while something fails, and at every periodic rescan. An
object changed by others stays as it is until its document is edited; a deleted one is created again.

Deleting needs evidence: an object is deleted only if a manifest created it, and its file is valid without it or was
removed from a folder that still exists. It stays while its file has a problem, if its folder vanished or was replaced
by an empty one, and if its file is not followed any more.
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

# Kinds that others need are applied first and deleted last. Any order would succeed, after more retries.
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
PATIENT_TRIES = 4
"""How often a document may fail for a transient reason, such as a missing namespace, before it is reported."""
SOURCE = "manifests"
RETRY = Backoff(first_seconds=0.1, limit_seconds=20.0)
_MARKED = Selection(labels=LABEL)
# Never created from a manifest here, and numerous.
_NOT_SEARCHED = {"pods", "events", "events.events.k8s.io"}
_THE_SERVER = "API server"


class ManifestPlan(Struct, frozen=True, kw_only=True):
    """What one pass does, in order."""

    applies: tuple[DesiredObject, ...] = ()
    unknown: tuple[ManifestDocument, ...] = ()
    """Documents of kinds that are not served, or not yet."""
    ending: tuple[DesiredObject, ...] = ()
    """Documents whose old object is still being deleted."""
    deletes: tuple[AppliedObject, ...] = ()
    releases: tuple[AppliedObject, ...] = ()
    """Adopted objects whose document is gone: they stay, without our label."""
    problems: Mapping[str, str] = {}
    """Problems by file or path, for users."""


class _Keep(NamedTuple):
    """Why an object stays; the message is empty if the reason is reported anyway."""

    place: str = ""
    message: str = ""


class ApplyFailure(NamedTuple):
    """Something a pass could not do."""

    file: str
    subject: str
    """The object or document, always under the same name."""
    text: str
    may_pass: bool
    """Whether a later pass may succeed without a change by the user."""


class ManifestController:
    """Follows manifest paths; one task reads files, another one calls the server."""

    def __init__(
        self,
        *,
        paths: Sequence[str | Path],
        client: ControllerClient,
        problems: ProblemReporter,
        say: Callable[[str], None] = lambda _line: None,
    ) -> None:
        """`say` gets a line for each action and each problem; problems are also reported to `problems`."""
        content = ManifestContent(noun="objects", read=read_manifest_documents, name_of=lambda document: document.name)
        self._follower = ManifestFollower(paths=paths, content=content)
        self._client, self._say = client, say
        self._book = ProblemBook(SOURCE, problems, say=say)
        self._found: FoundManifests[ManifestDocument] = FoundManifests()
        self._rescanned = asyncio.Event()
        self._retries = Retries(RETRY)
        self._failures = FailureReporter()
        self._problems: Mapping[str, str] = {}
        # Groups and kinds that may have objects with our label.
        self._known_kinds: set[tuple[str, str]] = set()
        self._has_searched_all = False

    async def run(self, ready: asyncio.Event) -> None:
        """Follows the paths until cancelled; sets `ready` after the first pass, successful or not."""
        async with asyncio.TaskGroup() as group:
            start_supervised(group, "follow manifests", lambda: self._follower.run(self._scanned))
            await self._rescanned.wait()
            while True:
                self._rescanned.clear()
                is_done = await self._pass()
                ready.set()
                await self._wait(None if is_done else self._retries.next_delay_seconds())

    async def _scanned(self, found: FoundManifests[ManifestDocument]) -> None:
        if found != self._found:
            self._retries.reset()
        self._found = found
        self._rescanned.set()

    async def _wait(self, seconds: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._rescanned.wait()

    async def _pass(self) -> bool:
        """Runs one pass; returns whether nothing is left to do."""
        found = self._found
        try:
            kinds = kinds_of(await self._client.served())
            plan = make_plan(found, await self._present(found, kinds), kinds)
        except ApiError as error:
            self._report([ApplyFailure(_THE_SERVER, _THE_SERVER, error.message, may_pass=True)])
            return False
        self._problems = plan.problems
        failures = [*map(unknown_kind_failure, plan.unknown), *map(still_deleting_failure, plan.ending)]
        failures += [failure for one in plan.applies if (failure := await self._apply(one))]
        # Objects a file no longer contains are deleted once all it contains are applied.
        unfinished = {failure.file for failure in failures}
        failures += [
            failure
            for each in (*plan.deletes, *plan.releases)
            if each.mark.file not in unfinished and (failure := await self._remove(each))
        ]
        self._report(failures)
        if not failures:
            self._retries.reset()
        return not failures

    def _report(self, failures: Sequence[ApplyFailure]) -> None:
        self._book.update(with_losses(self._problems, self._failures.to_report(failures)))

    async def _present(self, found: FoundManifests[ManifestDocument], kinds: Kinds) -> list[AppliedObject]:
        """The objects with our label: of all kinds in the first pass, then of the kinds that matter."""
        resources = {(resource.group, resource.kind): resource for resource in reversed(tuple(kinds.values()))}
        wanted = {document.name[:2] for reading in found.files.values() for document in reading.items}
        names = self._known_kinds | wanted
        if not self._has_searched_all:
            names |= {name for name, resource in resources.items() if resource.group_resource not in _NOT_SEARCHED}
        objects: list[AppliedObject] = []
        for name in sorted(names & resources.keys()):
            # A kind, and its objects, may be deleted at any moment.
            with suppress(NotFound):
                listing = await self._client.list(as_documents(resources[name]), selection=_MARKED)
                objects += filter(None, (applied_object(resources[name], item) for item in listing.items))
        self._known_kinds |= {(each.identity.group, each.identity.kind) for each in objects}
        self._has_searched_all = True
        return objects

    async def _apply(self, one: DesiredObject) -> ApplyFailure | None:
        identity = one.identity
        self._known_kinds.add((identity.group, identity.kind))
        try:
            is_created = one.present.is_created if one.present else not await self._exists(one)
            body = with_origin(
                one.document.item.document, namespace=identity.namespace, mark=one.mark, is_created=is_created
            )
            await self._client.apply(one.resource, body, namespace=identity.namespace, field_manager=FIELD_MANAGER)
        except ApiError as error:
            return apply_failure(one, error)
        if one.present is None:
            self._say(f"{'created' if is_created else 'adopted'} {identity} from {one.mark.file}")
        elif one.present.mark.digest != one.mark.digest:
            self._say(f"updated {identity} from {one.mark.file}")
        return None

    async def _exists(self, one: DesiredObject) -> bool:
        try:
            await self._client.get(as_documents(one.resource), one.identity.name, namespace=one.identity.namespace)
        except NotFound:
            return False
        return True

    async def _remove(self, each: AppliedObject) -> ApplyFailure | None:
        """Deletes an object that a manifest created; an adopted one only loses our label."""
        kind, name, namespace = as_documents(each.resource), each.identity.name, each.identity.namespace
        try:
            with suppress(NotFound):
                if each.is_created:
                    options = DeleteOptions(propagation_policy="Background", preconditions=Preconditions(uid=each.uid))
                    await self._client.delete(kind, name, namespace=namespace, options=options)
                    self._say(f"deleted {each.identity}, created from {each.mark.file}")
                else:
                    await self._client.patch(
                        kind, name, origin_removal_patch(each.uid), namespace=namespace, patch_type=PatchType.MERGE
                    )
                    self._say(f"kept {each.identity}, which existed before {each.mark.file}")
        except ApiError as error:
            return delete_failure(each, error)
        return None


class FailureReporter:
    """Counts consecutive failures and selects those to report."""

    def __init__(self) -> None:
        self._tries: Counter[str] = Counter()

    def to_report(self, failures: Iterable[ApplyFailure]) -> dict[str, tuple[str, ...]]:
        """The failures of a pass that are permanent or have lasted for a while, by file."""
        failures = tuple(failures)
        self._tries = Counter({each.subject: self._tries[each.subject] + 1 for each in failures})
        reported: dict[str, tuple[str, ...]] = {}
        for each in failures:
            if not each.may_pass or self._tries[each.subject] >= PATIENT_TRIES:
                reported[each.file] = (*reported.get(each.file, ()), each.text)
        return reported


def make_plan(found: FoundManifests[ManifestDocument], present: Iterable[AppliedObject], kinds: Kinds) -> ManifestPlan:
    """Plans a pass from files, applied objects and served kinds. Stateless: failures are planned again."""
    before = {each.identity: each for each in present}
    documents = resolve_kinds(found, kinds)
    owners = {str(identity): each.mark.file for identity, each in before.items()}
    outcome = resolve_claims(documents.files, owners, lambda one: FileClaim(str(one.identity), str(one.identity)))
    wanted = {one.identity: replace(one, present=before.get(one.identity)) for one in outcome.items}
    problems = with_losses(with_losses(found.problems, documents.problems), outcome.losses)
    # An invalid or unknown document may be the one an object was created from.
    unclear = {*documents.problems, *(document.item.origin for document in documents.unknown)}
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


def _reason_to_keep(mark: ManifestReference, found: FoundManifests[ManifestDocument]) -> _Keep | None:
    """Why an object without a document must stay; None if its document was certainly removed."""
    reading = found.files.get(mark.file)
    if reading is not None:
        return _Keep() if reading.problem else None
    folder = mark.file.rpartition("/")[0] or "/"
    views = [view for view in found.views if view.path in {mark.file, folder}]
    if not views:
        return _Keep(mark.file, "is no longer followed; the objects created from it are kept")
    for view in views:
        is_known = view.is_definite and not view.has_vanished
        if not is_known or (view.path != mark.file and not view.is_folder):
            return _Keep()
        if not view.files and _inode(view) != mark.folder:
            return _Keep(view.path, "was replaced by an empty folder; the objects created from it are kept")
    return None


def _inode(view: PathView[ManifestDocument]) -> int:
    return view.folder[1] if view.folder else 0


def apply_failure(one: DesiredObject, error: ApiError) -> ApplyFailure:
    may_pass = _may_pass(error) or isinstance(error, NotFound) or error.has_cause("NamespaceTerminating")
    return ApplyFailure(one.mark.file, str(one.identity), _error_text(one.document, error), may_pass)


def delete_failure(each: AppliedObject, error: ApiError) -> ApplyFailure:
    text = f"{each.identity} is not deleted: {error.message}"
    return ApplyFailure(each.mark.file, str(each.identity), text, _may_pass(error))


def unknown_kind_failure(document: ManifestDocument) -> ApplyFailure:
    item = document.item
    message = f"the server has no kind {item.kind} of {item.api_version}: create its CustomResourceDefinition"
    text = str(DocumentProblem(message, line=item.line))
    return ApplyFailure(item.origin, f"{item.origin} {document.name}", text, may_pass=True)


def still_deleting_failure(one: DesiredObject) -> ApplyFailure:
    message = f"{one.identity} is being deleted and will be created again afterwards"
    text = str(DocumentProblem(message, line=one.document.item.line))
    return ApplyFailure(one.mark.file, str(one.identity), text, may_pass=True)


def _may_pass(error: ApiError) -> bool:
    return error.retry or isinstance(error, Conflict)


def _error_text(document: ManifestDocument, error: ApiError) -> str:
    """The server's error with the lines of the fields it names."""
    causes = [cause for cause in error.causes if cause.get("field")]
    if causes:
        problems = (document.item.problem(cause["field"], str(cause.get("message", ""))) for cause in causes)
        return "; ".join(str(document_problem(problem)) for problem in problems)
    message = error.message
    if isinstance(error, NotFound) and error.details.get("kind") == "namespaces":
        message += ": create the Namespace, in a manifest or by hand"
    return str(DocumentProblem(message, line=document.item.line))
