"""The last known good content of manifest files, their problems, and which file defines an object.

An object goes only when its file is removed, or when its file is valid and no longer names it. A file that cannot be
read or decoded, and a folder that vanished, keep their objects. Upstream drops the pods in these cases.

If several files define one object, its present file keeps it, otherwise the first in order gets it, and the others get
a problem. Upstream lets the last file win silently.

Upstream: pkg/kubelet/config/file.go
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.aio.log import get_logger

log = get_logger(__name__)

T = TypeVar("T")
Stamp = tuple[int, ...]
"""Distinguishes two states of a file without reading it; empty: always read the file."""
FolderId = tuple[int, int]
"""The device and inode of a folder."""


class FileReading(Struct, Generic[T], frozen=True, kw_only=True):
    """The items of a file when it was read, and its problem."""

    items: tuple[T, ...] = ()
    problem: str = ""
    stamp: Stamp = ()


class PathScan(Struct, Generic[T], frozen=True, kw_only=True):
    """The result of one scan of a path."""

    path: str
    is_folder: bool = False
    folder: FolderId | None = None
    """The listed folder; None if listing failed."""
    files: Mapping[str, FileReading[T] | None] = {}
    """Every file by its path; None: unchanged, or being written."""
    unstable: frozenset[str] = frozenset()
    """Names that changed while they were read; scan again soon."""
    problem: str = ""
    """The problem of the path itself."""
    is_definite: bool = False
    """Whether an empty result means that there are no files, not that they could not be read."""


class PathView(Struct, Generic[T], frozen=True, kw_only=True):
    """All that is known of a path."""

    path: str
    files: Mapping[str, FileReading[T]] = {}
    """Readings by path, sorted."""
    folder: FolderId | None = None
    """The folder listed last."""
    is_folder: bool = False
    has_vanished: bool = False
    """Whether the last scan failed: the content here is older."""
    is_definite: bool = False
    """Whether a scan of the path was ever definite; before that, an empty view means nothing."""
    problem: str = ""
    """The present problem of the path itself."""


@dataclass(frozen=True, slots=True)
class FoundManifests(Generic[T]):
    """The state after a scan: a view of each path, in the given order."""

    views: tuple[PathView[T], ...] = ()

    @property
    def files(self) -> Mapping[str, FileReading[T]]:
        """Every file once: by the order of the paths, then by name."""
        files: dict[str, FileReading[T]] = {}
        for view in self.views:
            files.update((path, reading) for path, reading in view.files.items() if path not in files)
        return files

    @property
    def problems(self) -> Mapping[str, str]:
        """The present problems by file or path."""
        found = {path: reading.problem for path, reading in self.files.items() if reading.problem}
        return found | {view.path: view.problem for view in self.views if view.problem}

    @property
    def is_definite(self) -> bool:
        """Whether an empty result means that there are no files; one definite path is enough."""
        return any(view.is_definite for view in self.views)


def advance(view: PathView[T], scan: PathScan[T], *, name_of: Callable[[T], Hashable], noun: str) -> PathView[T]:
    """The view after one more scan; `noun` names the items in messages."""
    is_definite = view.is_definite or scan.is_definite
    # Unmounting leaves an empty folder in place, which says nothing about the files.
    is_another_empty_one = not scan.files and bool(view.files) and scan.folder != view.folder
    if scan.folder is None or is_another_empty_one:
        problem = scan.problem or "another, empty folder is here now"
        if any(reading.items for reading in view.files.values()):
            problem += f"; the {noun} known from it are kept"
        return replace(view, is_definite=is_definite, has_vanished=True, problem=problem)
    files = {
        path: kept
        for path, reading in sorted(scan.files.items())
        if (kept := _kept(view.files.get(path), reading, name_of)) is not None
    }
    return PathView(
        path=view.path,
        files=files,
        folder=scan.folder,
        is_folder=scan.is_folder,
        is_definite=is_definite,
        problem=scan.problem,
    )


def _kept(
    before: FileReading[T] | None, now: FileReading[T] | None, name_of: Callable[[T], Hashable]
) -> FileReading[T] | None:
    """The items that count: those of the new reading and, while it has a problem, the previous ones."""
    if now is None or before is None:
        return now or before
    items = now.items
    if now.problem:
        named = {name_of(item) for item in items}
        items += tuple(item for item in before.items if name_of(item) not in named)
    # Equal items stay the same objects, so that later comparisons are cheap.
    return FileReading(items=before.items if items == before.items else items, problem=now.problem, stamp=now.stamp)


@dataclass(frozen=True, slots=True)
class FileClaim:
    """The name and UID that an item needs for itself, and its label for messages."""

    name: str
    label: str
    uid: str = ""


@dataclass(frozen=True, slots=True)
class ClaimedObjects(Generic[T]):
    owners: Mapping[str, str]
    """The winning file by name."""
    items: tuple[T, ...]
    """The winning items, in the order of the files."""
    losses: Mapping[str, tuple[str, ...]]
    """The lost claims by file, with the winners."""


def resolve_claims(
    files: Mapping[str, FileReading[T]], owners: Mapping[str, str], claim_of: Callable[[T], FileClaim]
) -> ClaimedObjects[T]:
    """Decide which file defines each object; earlier files win unless another one has it already."""
    claims = [(path, claim_of(item), item) for path, reading in files.items() for item in reading.items]
    names: dict[str, str] = {}
    uids: dict[str, tuple[str, str]] = {}
    won: set[int] = set()
    losses: dict[str, tuple[str, ...]] = {}
    # Present owners come first; the sort is stable, so otherwise the order of the files decides.
    for position, (path, claim, _) in sorted(
        enumerate(claims), key=lambda entry: owners.get(entry[1][1].name) != entry[1][0]
    ):
        if claim.name in names:
            loss = _name_lost(claim, path, names[claim.name])
        elif claim.uid in uids:
            other, label = uids[claim.uid]
            loss = f"{claim.label} is ignored here: its uid belongs to {label} of {other}"
        else:
            names[claim.name] = path
            if claim.uid:
                uids[claim.uid] = (path, claim.label)
            won.add(position)
            continue
        losses[path] = (*losses.get(path, ()), loss)
    return ClaimedObjects(names, tuple(item for position, (_, _, item) in enumerate(claims) if position in won), losses)


def _name_lost(claim: FileClaim, path: str, winner: str) -> str:
    if winner == path:
        return f"{claim.label} is defined more than once here: the first counts"
    return f"{claim.label} is ignored here: {winner} defines it"


def with_losses(problems: Mapping[str, str], losses: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """The problems by file or path, with the lost claims added."""
    return dict(problems) | {
        path: "; ".join([*([problems[path]] if path in problems else []), *lost]) for path, lost in losses.items()
    }


class SourceProblem(Struct, frozen=True):
    """A problem that a user should fix: its source, place (path or URL) and message. Holds no file content."""

    source: str
    where: str
    message: str


class ProblemReporter(Protocol):
    """Publishes the problems of sources; implemented above by the kubelet's sources."""

    def report(self, problem: SourceProblem) -> None:
        """Publish a problem; it replaces the previous one of the same source and place. Never waits."""

    def clear(self, source: str, where: str) -> None:
        """The place of the source has no problem any more. Never waits."""


class ProblemBook:
    """The reported problems of one source. Owned by that source."""

    def __init__(self, source: str, problems: ProblemReporter, *, say: Callable[[str], None] | None = None) -> None:
        """With `say` each problem is a line on the terminal, otherwise one in the log."""
        self._source, self._problems, self._say = source, problems, say
        self._open: Mapping[str, str] = {}

    def update(self, messages: Mapping[str, str]) -> None:
        """Take all present problems by place; reports only new, changed and resolved ones."""
        before, self._open = self._open, dict(messages)
        for where, message in messages.items():
            if before.get(where) != message:
                self._log(where, message)
                self._problems.report(SourceProblem(self._source, where, message))
        for where in before.keys() - messages.keys():
            self._log(where, "")
            self._problems.clear(self._source, where)

    def _log(self, where: str, message: str) -> None:
        if self._say is not None:
            self._say(f"{where}: {message or 'is in good order again'}")
        elif message:
            log.warning("manifest source has a problem", source=self._source, where=where, problem=message)
        else:
            log.info("manifest source recovered", source=self._source, where=where)
