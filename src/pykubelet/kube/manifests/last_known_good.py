"""What the files at a path say, or said when they last made sense.

In: one look at a path (`Scan`) and what was known before (`PathView`). Out: the new `PathView`; `Found` is all paths.
What a file named goes only when the file is removed, or when the file, in good order, no longer names it. A file that
cannot be read or understood, and a folder that vanished, keep what they named.

Upstream drops the pods of a file in all these cases: pkg/kubelet/config/file.go.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

T = TypeVar("T")

Stamp = tuple[int, ...]
"""Tells two states of a file apart without reading it; empty: always read it."""
FolderId = tuple[int, int]
"""Device and inode of a folder."""


class Reading(Struct, Generic[T], frozen=True, kw_only=True):
    """What a file said when it was read, and what is wrong with it."""

    items: tuple[T, ...] = ()
    problem: str = ""
    stamp: Stamp = ()


class Scan(Struct, Generic[T], frozen=True, kw_only=True):
    """One look at a path."""

    path: str
    is_folder: bool = False
    folder: FolderId | None = None
    """The folder that was listed; None if that was not possible."""
    files: Mapping[str, Reading[T] | None] = {}
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
    files: Mapping[str, Reading[T]] = {}
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
class Found(Generic[T]):
    """What is known after a look: a view of each path, in the order in which they were given."""

    views: tuple[PathView[T], ...] = ()

    @property
    def files(self) -> Mapping[str, Reading[T]]:
        """Every file once: by the order of the paths, then by name."""
        files: dict[str, Reading[T]] = {}
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


def advance(view: PathView[T], scan: Scan[T], *, name_of: Callable[[T], Hashable], noun: str) -> PathView[T]:
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


def _kept(before: Reading[T] | None, now: Reading[T] | None, name_of: Callable[[T], Hashable]) -> Reading[T] | None:
    """What counts of a file: what it says now and, while something is wrong with it, what it said before."""
    if now is None or before is None:
        return now or before
    items = now.items
    if now.problem:
        named = {name_of(item) for item in items}
        items += tuple(item for item in before.items if name_of(item) not in named)
    # Equal items stay the same objects, so that whoever compares them later need not look inside.
    return Reading(items=before.items if items == before.items else items, problem=now.problem, stamp=now.stamp)
