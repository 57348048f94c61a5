"""Looks at a path once: which manifests are there, and what the changed ones say.

In: the path, and what is known from the look before. Out: a `Scan`. It blocks while it reads, so it runs in a thread. Only
regular files are ever opened: opening a FIFO would wait for its writer, for ever. Symbolic links are followed.

Upstream: pkg/kubelet/config/file.go (listConfig, extractFromDir, extractFromFile).

The objects of a manifest, or what is wrong with it, in the words all who follow files use.

In: bytes. Out: every object, lists taken apart; if the text itself is wrong, an unknown field included, only problems.
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

MAX_MANIFEST_BYTES = 10 * 2**20
_PLACE = re.compile(r"(?:\A|; )line (\d+)(?:, column (\d+))?: ")


@dataclass(frozen=True, slots=True)
class DocumentProblem:
    """What is wrong with a document of a manifest; line and column are 0 where there is no such place."""

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
    """The objects of a manifest in their order, or what is wrong with it; neither: an explicit empty list."""

    items: tuple[ManifestItem, ...] = ()
    problems: tuple[DocumentProblem, ...] = ()


def read_documents(data: bytes, *, origin: str) -> ManifestDocuments:
    """What a manifest holds; `origin` is its path or URL."""
    if len(data) >= MAX_MANIFEST_BYTES:
        return ManifestDocuments(problems=(DocumentProblem("the read limit is reached"),))
    try:
        return ManifestDocuments(read_manifest(data, origin=origin).items)
    except ManifestError as error:
        return ManifestDocuments(problems=tuple(map(document_problem, error.problems)))


def document_problem(problem: ManifestProblem) -> DocumentProblem:
    """The same without the name of the file, which is told apart from it."""
    message = f"{problem.path}: {problem.message}" if problem.path else problem.message
    return DocumentProblem(message, problem.line, problem.column)


def problem_text(problems: Iterable[DocumentProblem]) -> str:
    """All problems of a manifest in one text."""
    return "; ".join(map(str, problems))


def parse_problems(text: str) -> tuple[DocumentProblem, ...]:
    """The problems that such a text tells; what has no place belongs to what is said before it."""
    first, *rest = _PLACE.split(text)
    told = [DocumentProblem(first)] if first else []
    places = zip(rest[::3], rest[1::3], rest[2::3], strict=True)
    return (*told, *(DocumentProblem(message, int(line), int(column or 0)) for line, column, message in places))


def is_pod(item: ManifestItem) -> bool:
    """Whether an object is a pod, which a node runs from its file, or of another kind, which only an API server keeps."""
    return (item.api_version, item.kind) == ("v1", "Pod")


T = TypeVar("T")
log = get_logger(__name__)

MANIFEST_EXTENSIONS = (".yaml", ".yml", ".json")
EDITOR_LEFTOVERS = ("~", "#", ".swp", ".swo", ".swx", ".tmp", ".bak", ".orig", ".rej")


def is_manifest_name(name: str, extensions: tuple[str, ...] = MANIFEST_EXTENSIONS) -> bool:
    """Whether a file of this name in a folder is a manifest.

    Never: hidden files, and what editors leave beside the file they edit. The extension "" admits any other name.
    """
    return not name.startswith((".", "#")) and not name.endswith(EDITOR_LEFTOVERS) and name.endswith(extensions)


def is_open_to_all(mode: int) -> bool:
    """Whether everybody on the machine may write to a file, or put files into a folder."""
    return bool(mode & stat.S_IWOTH)


@dataclass(frozen=True, slots=True)
class ScanHints:
    """What is known about changes since the last look; names without their folder."""

    changed: AbstractSet[str] = frozenset()
    """To be read even if they look the same: two edits within one tick of the file system's clock do."""
    unsettled: AbstractSet[str] = frozenset()
    """Not to be read: someone may be in the middle of writing them."""


class _UnstableError(Exception):
    """The file changed while it was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanner(Generic[T]):
    """Looks at one path: a folder of manifests, or a single one."""

    path: Path
    read: Callable[[bytes, str], FileReading[T]]
    """What the bytes of a file, given with its path, say."""
    extensions: tuple[str, ...] = MANIFEST_EXTENSIONS

    def scan(self, view: PathView[T], hints: ScanHints) -> PathScan[T]:
        """Look once; OSErrors become problems."""
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
        """Nothing is there. A file gone from a folder that is still there was removed; anything else vanished."""
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
        # An editor may have moved a file away just now, to write the next version in its place.
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
        # A file that makes no sense and never did says nothing: not even that there is nothing.
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
                log.debug("folders in the manifest folder are not looked into", path=path)
            except FileNotFoundError:
                if path.is_symlink():
                    files[str(path)] = FileReading(problem="is a link to nothing")
            except OSError as error:
                files[str(path)] = FileReading(problem=f"cannot be read: {error.strerror}")
        return files, frozenset(unstable)

    def _read(self, path: Path, known: Stamp) -> FileReading[T] | None:
        """What a file says; None if it looks as it did when it was last read."""
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError
        if not stat.S_ISREG(status.st_mode):
            return FileReading(problem="is not a regular file")
        if known and known == _stamp(status):
            return None
        # Without blocking, in case it was swapped for a FIFO just now.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            before = os.fstat(file.fileno())
            if not stat.S_ISREG(before.st_mode):
                return FileReading(problem="is not a regular file")
            # A manifest of this size or more is refused, so there is no need to see its end.
            data = file.read(MAX_MANIFEST_BYTES)
            if _stamp(os.fstat(file.fileno())) != _stamp(before):
                raise _UnstableError
        _note(path, before, data)
        return replace(self.read(data, str(path)), stamp=_stamp(before))


def _stamp(status: os.stat_result) -> Stamp:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _folder_id(path: Path) -> FolderId | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _note(path: Path, status: os.stat_result, data: bytes) -> None:
    """Have the log tell what was read, for whoever asks later what ran here.

    Whoever writes a manifest runs pods, past every check of an API server; upstream, too, leaves that to the folder's rights.
    """
    is_exposed = any(is_open_to_all(mode) for mode in (status.st_mode, path.parent.stat().st_mode))
    tell = log.warning if is_exposed else log.debug
    writers = {"writable_by": "everybody (chmod o-w)"} if is_exposed else {}
    tell("manifest read", path=path, owner=status.st_uid, sha256=hashlib.sha256(data).hexdigest(), **writers)
