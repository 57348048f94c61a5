"""What the files at a path say, or said when they last made sense.

In: one look at a path (`Scan`) and what was known before (`PathView`). Out: the new `PathView`; `Found` is all paths.
What a file named goes only when the file is removed, or when the file, in good order, no longer names it. A file that
cannot be read or understood, and a folder that vanished, keep what they named.

Upstream drops the pods of a file in all these cases: pkg/kubelet/config/file.go.

What is wrong with a source of manifests, said when it begins and when it is healed.

In: at each look at a source, everything that is wrong with it now. Out: `report` and `clear` for what changed since.

Which file has what, where several name the same.

In: what each file names, and who had it before. Out: one owner for each name. Who has it keeps it, else the first in
order gets it; who loses is told why. Upstream lets the last file win, silently: pkg/kubelet/config/file.go.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.aio.log import get_logger

T = TypeVar("T")

Stamp = tuple[int, ...]
"""Tells two states of a file apart without reading it; empty: always read it."""
FolderId = tuple[int, int]
"""Device and inode of a folder."""


class FileReading(Struct, Generic[T], frozen=True, kw_only=True):
    """What a file said when it was read, and what is wrong with it."""

    items: tuple[T, ...] = ()
    problem: str = ""
    stamp: Stamp = ()


class PathScan(Struct, Generic[T], frozen=True, kw_only=True):
    """One look at a path."""

    path: str
    is_folder: bool = False
    folder: FolderId | None = None
    """The folder that was listed; None if that was not possible."""
    files: Mapping[str, FileReading[T] | None] = {}
    """Every file there by its path; None: unchanged, or in the middle of being written."""
    unstable: frozenset[str] = frozenset()
    """Names that changed while they were read; look again soon."""
    problem: str = ""
    """What is wrong with the path itself."""
    is_definite: bool = False
    """Whether nothing means that there is nothing, not that it could not be read."""


class PathView(Struct, Generic[T], frozen=True, kw_only=True):
    """All that is known of a path."""

    path: str
    files: Mapping[str, FileReading[T]] = {}
    """By path, in sorted order."""
    folder: FolderId | None = None
    """The folder that was listed last."""
    is_folder: bool = False
    has_vanished: bool = False
    """Whether the path could not be looked at just now: what is said here is from before."""
    is_definite: bool = False
    """Whether a look at the path has ever been definite; before, nothing here means nothing."""
    problem: str = ""
    """What is wrong with the path itself now."""


@dataclass(frozen=True, slots=True)
class FoundManifests(Generic[T]):
    """What is known after a look: a view of each path, in the order in which they were given."""

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
        """What is wrong now, by file or path."""
        found = {path: reading.problem for path, reading in self.files.items() if reading.problem}
        return found | {view.path: view.problem for view in self.views if view.problem}

    @property
    def is_definite(self) -> bool:
        """Whether nothing means that there is nothing; one path that is known well is enough for that."""
        return any(view.is_definite for view in self.views)


def advance(view: PathView[T], scan: PathScan[T], *, name_of: Callable[[T], Hashable], noun: str) -> PathView[T]:
    """What is known after one more look; `noun` is the user's word for what files name."""
    is_definite = view.is_definite or scan.is_definite
    # An unmounted folder leaves an empty one in its place, which says nothing about the files.
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
    """What counts of a file: what it says now and, while something is wrong with it, what it said before."""
    if now is None or before is None:
        return now or before
    items = now.items
    if now.problem:
        named = {name_of(item) for item in items}
        items += tuple(item for item in before.items if name_of(item) not in named)
    # Equal items stay the same objects, so that whoever compares them later need not look inside.
    return FileReading(items=before.items if items == before.items else items, problem=now.problem, stamp=now.stamp)


@dataclass(frozen=True, slots=True)
class FileClaim:
    """What an item must have for itself: its name, and a UID if it has one; and the user's words for it."""

    name: str
    label: str
    uid: str = ""


@dataclass(frozen=True, slots=True)
class ClaimedObjects(Generic[T]):
    """The outcome."""

    owners: Mapping[str, str]
    """By name, the file that has it."""
    items: tuple[T, ...]
    """What won, in the order of the files."""
    losses: Mapping[str, tuple[str, ...]]
    """By file, which claims were lost and to whom."""


def resolve_claims(
    files: Mapping[str, FileReading[T]], owners: Mapping[str, str], claim_of: Callable[[T], FileClaim]
) -> ClaimedObjects[T]:
    """Decide; the files in the order in which they choose."""
    claims = [(path, claim_of(item), item) for path, reading in files.items() for item in reading.items]
    names: dict[str, str] = {}
    uids: dict[str, tuple[str, str]] = {}
    won: set[int] = set()
    losses: dict[str, tuple[str, ...]] = {}
    # Who has something already chooses first; the sort is stable, so otherwise the order of the files decides.
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
    """All that is wrong by file or path: what was known already, then the lost claims."""
    return dict(problems) | {
        path: "; ".join([*([problems[path]] if path in problems else []), *lost]) for path, lost in losses.items()
    }


log = get_logger(__name__)


class SourceProblem(Struct, frozen=True):
    """Something a user should mend: in which source, where (a path or a URL), and what. Holds no file contents."""

    source: str
    where: str
    message: str


class ProblemReporter(Protocol):
    """Tells the user what is wrong with the sources."""

    def report(self, problem: SourceProblem) -> None:
        """This is wrong now; it replaces what was said of the same source and place. Never waits."""

    def clear(self, source: str, where: str) -> None:
        """Nothing is wrong any more at this place of the source. Never waits."""


class ProblemBook:
    """What has been reported about one source; belongs to that source."""

    def __init__(self, source: str, problems: ProblemReporter, *, say: Callable[[str], None] | None = None) -> None:
        """With `say` each problem is a line for the terminal, else one of the log."""
        self._source, self._problems, self._say = source, problems, say
        self._open: Mapping[str, str] = {}

    def update(self, messages: Mapping[str, str]) -> None:
        """Take all that is wrong now, by place; tells only what is new, different or healed."""
        before, self._open = self._open, dict(messages)
        for where, message in messages.items():
            if before.get(where) != message:
                self._tell(where, message)
                self._problems.report(SourceProblem(self._source, where, message))
        for where in before.keys() - messages.keys():
            self._tell(where, "")
            self._problems.clear(self._source, where)

    def _tell(self, where: str, message: str) -> None:
        if self._say is not None:
            self._say(f"{where}: {message or 'is in good order again'}")
        elif message:
            log.warning("source has a problem", source=self._source, where=where, problem=message)
        else:
            log.info("source is healed", source=self._source, where=where)
