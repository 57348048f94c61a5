"""Scans a path once: lists its manifests and reads the changed ones.

Blocks, so it runs in a thread. Only regular files are opened, because opening a FIFO would wait for its writer.
Symbolic links are followed. A manifest yields every object, with lists expanded, or only problems if the text is
invalid or has an unknown field.

Upstream: pkg/kubelet/config/file.go, pkg/kubelet/config/common.go
"""

import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from msgspec.structs import replace

from pykubelet.aio.log import get_logger
from pykubelet.api.manifest import ManifestError, ManifestItem, ManifestProblem, read_manifest
from pykubelet.client.manifests.last_known_good import FileReading, FolderId, PathScan, PathView, Stamp

log = get_logger(__name__)

MAX_MANIFEST_BYTES = 10 * 2**20
_PLACE = re.compile(r"(?:\A|; )line (\d+)(?:, column (\d+))?: ")
T = TypeVar("T")
MANIFEST_EXTENSIONS = (".yaml", ".yml", ".json")
EDITOR_LEFTOVERS = ("~", "#", ".swp", ".swo", ".swx", ".tmp", ".bak", ".orig", ".rej")


@dataclass(frozen=True, slots=True)
class DocumentProblem:
    """A problem in a manifest; line and column are 0 if unknown."""

    message: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        if not self.line:
            return self.message
        place = f"line {self.line}, column {self.column}" if self.column else f"line {self.line}"
        return f"{place}: {self.message}"


@dataclass(frozen=True, slots=True)
class ManifestDocuments:
    """The objects of a manifest in order, or its problems; neither for an explicit empty list."""

    items: tuple[ManifestItem, ...] = ()
    problems: tuple[DocumentProblem, ...] = ()


def read_documents(data: bytes, *, origin: str) -> ManifestDocuments:
    """Decode a manifest; `origin` is its path or URL."""
    if len(data) >= MAX_MANIFEST_BYTES:
        return ManifestDocuments(problems=(DocumentProblem("the read limit is reached"),))
    try:
        return ManifestDocuments(read_manifest(data, origin=origin).items)
    except ManifestError as error:
        return ManifestDocuments(problems=tuple(map(document_problem, error.problems)))


def document_problem(problem: ManifestProblem) -> DocumentProblem:
    """A manifest problem without the file name, which is reported separately."""
    message = f"{problem.path}: {problem.message}" if problem.path else problem.message
    return DocumentProblem(message, problem.line, problem.column)


def problem_text(problems: Iterable[DocumentProblem]) -> str:
    """All problems of a manifest in one text."""
    return "; ".join(map(str, problems))


def parse_problems(text: str) -> tuple[DocumentProblem, ...]:
    """The problems in such a text; text without a position belongs to the problem before it."""
    first, *rest = _PLACE.split(text)
    unplaced = [DocumentProblem(first)] if first else []
    places = zip(rest[::3], rest[1::3], rest[2::3], strict=True)
    return (*unplaced, *(DocumentProblem(message, int(line), int(column or 0)) for line, column, message in places))


def is_pod(item: ManifestItem) -> bool:
    """Whether an object is a pod, which the node runs from its file; other kinds need an API server."""
    return (item.api_version, item.kind) == ("v1", "Pod")


def is_manifest_name(name: str, extensions: tuple[str, ...] = MANIFEST_EXTENSIONS) -> bool:
    """Whether a file name in a folder is that of a manifest.

    Hidden files and editors' backup files never are. The extension "" admits any other name.
    """
    return not name.startswith((".", "#")) and not name.endswith(EDITOR_LEFTOVERS) and name.endswith(extensions)


@dataclass(frozen=True, slots=True)
class ScanHints:
    """Changes since the last scan, as names without their folder."""

    changed: AbstractSet[str] = frozenset()
    """Read even if their stamp is unchanged: two edits may fall into one tick of the file system's clock."""
    unsettled: AbstractSet[str] = frozenset()
    """Not read: they may be incomplete."""


class _UnstableError(Exception):
    """The file changed while it was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanner(Generic[T]):
    """Scans one path: a folder of manifests or a single one."""

    path: Path
    read: Callable[[bytes, str], FileReading[T]]
    """Decodes the bytes of a file, given with its path."""
    extensions: tuple[str, ...] = MANIFEST_EXTENSIONS

    def scan(self, view: PathView[T], hints: ScanHints) -> PathScan[T]:
        """Scan once; OSErrors become problems."""
        try:
            status = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return self._absent(view, hints)
        except OSError as error:
            return PathScan(path=str(self.path), problem=f"cannot be read: {error.strerror}")
        if stat.S_ISDIR(status.st_mode):
            return self._folder(view, hints, (status.st_dev, status.st_ino))
        if stat.S_ISREG(status.st_mode):
            return self._single(view, hints)
        return PathScan(path=str(self.path), problem="path is not a directory or file")

    def _absent(self, view: PathView[T], hints: ScanHints) -> PathScan[T]:
        """The path does not exist. A file missing from an existing folder was removed; anything else vanished."""
        if self.path.name in hints.unsettled and str(self.path) in view.files:
            return PathScan(path=str(self.path), folder=view.folder, files={str(self.path): None})
        is_removed = not view.is_folder and not self.path.is_symlink()
        return PathScan(
            path=str(self.path),
            folder=_folder_id(self.path.parent) if is_removed else None,
            problem="path does not exist",
            is_definite=True,
        )

    def _folder(self, view: PathView[T], hints: ScanHints, folder: FolderId) -> PathScan[T]:
        try:
            paths = {entry for entry in self.path.iterdir() if is_manifest_name(entry.name, self.extensions)}
        except OSError as error:
            return PathScan(path=str(self.path), problem=f"cannot be listed: {error.strerror}")
        # An editor may just have moved a file away to write its next version.
        paths |= {path for name in hints.unsettled if str(path := self.path / name) in view.files}
        files, unstable = self._read_all(paths, view, hints)
        return PathScan(
            path=str(self.path),
            is_folder=True,
            folder=folder,
            files=files,
            unstable=unstable,
            is_definite=not unstable,
        )

    def _single(self, view: PathView[T], hints: ScanHints) -> PathScan[T]:
        files, unstable = self._read_all([self.path], view, hints)
        # A file that was never valid does not even say that there are no items.
        is_definite = any(reading and (reading.items or not reading.problem) for reading in files.values())
        folder = _folder_id(self.path.parent)
        return PathScan(path=str(self.path), folder=folder, files=files, unstable=unstable, is_definite=is_definite)

    def _read_all(
        self, paths: Iterable[Path], view: PathView[T], hints: ScanHints
    ) -> tuple[dict[str, FileReading[T] | None], frozenset[str]]:
        files: dict[str, FileReading[T] | None] = {}
        unstable: set[str] = set()
        for path in paths:
            known = view.files.get(str(path))
            if path.name in hints.unsettled:
                files[str(path)] = None
                continue
            try:
                files[str(path)] = self._read(path, known.stamp if known and path.name not in hints.changed else ())
            except _UnstableError:
                files[str(path)] = None
                unstable.add(path.name)
            except IsADirectoryError:
                log.debug("subfolder of the manifest folder ignored", path=path)
            except FileNotFoundError:
                if path.is_symlink():
                    files[str(path)] = FileReading(problem="is a link to nothing")
            except OSError as error:
                files[str(path)] = FileReading(problem=f"cannot be read: {error.strerror}")
        return files, frozenset(unstable)

    def _read(self, path: Path, known: Stamp) -> FileReading[T] | None:
        """The reading of a file; None if its stamp is unchanged."""
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError
        if not stat.S_ISREG(status.st_mode):
            return FileReading(problem="is not a regular file")
        if known and known == _stamp(status):
            return None
        # Non-blocking, in case it was just replaced by a FIFO.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            before = os.fstat(file.fileno())
            if not stat.S_ISREG(before.st_mode):
                return FileReading(problem="is not a regular file")
            # Larger manifests are rejected, so their end need not be read.
            data = file.read(MAX_MANIFEST_BYTES)
            if _stamp(os.fstat(file.fileno())) != _stamp(before):
                raise _UnstableError
        _log_read(path, before, data)
        return replace(self.read(data, str(path)), stamp=_stamp(before))


def _stamp(status: os.stat_result) -> Stamp:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _folder_id(path: Path) -> FolderId | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _log_read(path: Path, status: os.stat_result, data: bytes) -> None:
    """Log what was read, for later audits.

    A user who can write a manifest can run pods without any check by an API server; upstream leaves that to the
    folder's permissions too.
    """
    is_exposed = bool((status.st_mode | path.parent.stat().st_mode) & stat.S_IWOTH)
    write = log.warning if is_exposed else log.debug
    writers = {"writable_by": "everybody (chmod o-w)"} if is_exposed else {}
    write("manifest read", path=path, owner=status.st_uid, sha256=hashlib.sha256(data).hexdigest(), **writers)
