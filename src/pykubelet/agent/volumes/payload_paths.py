"""Which paths of files a volume may hold, and what of them is seen at its top.

Upstream: validatePath, pathsToRemove and createUserVisibleFiles in pkg/volume/util/atomic_writer.go. On purpose
otherwise: a path is looked at again after it was cleaned (`./..data` is not let through), a path that is both a file and
a folder is refused before anything is written, and folders may be nested a hundred deep, not two thousand.
"""

import posixpath
from collections.abc import Iterable, Mapping
from typing import TypeVar

from pykubelet.agent.volumes.problems import VolumeProblem

MAX_NAME_BYTES = 255
MAX_PATH_BYTES = 4096
# As many folders are held open at once while their files are written.
MAX_DEPTH = 100
DATA_LINK = "..data"
"""What the visible links go through; it is swapped as a whole."""
RESERVED_PREFIX = ".."

T = TypeVar("T")


def cleaned(payload: Mapping[str, T]) -> dict[str, T]:
    """The same files under the shortest form of their paths; VolumeProblem if one of them is not allowed."""
    clean: dict[str, T] = {}
    for path, content in payload.items():
        _check(path)
        short = posixpath.normpath(path)
        _check(short)
        clean[short] = content
    for path in clean:
        for parent in parents(path):
            if parent in clean:
                raise VolumeProblem(f"invalid path: {parent} is a file and a directory at once")
    return clean


def parents(path: str) -> Iterable[str]:
    """The folders above a clean path, from the top."""
    return (path[:at] for at, letter in enumerate(path) if letter == "/")


def top_names(paths: Iterable[str]) -> frozenset[str]:
    """The names that these files, or the folders they are in, have at the top of a volume."""
    return frozenset(path.partition("/")[0] for path in paths)


def _check(path: str) -> None:
    if not path or path == ".":
        raise VolumeProblem(f'invalid path: must not be empty: "{path}"')
    if path.startswith("/"):
        raise VolumeProblem(f"invalid path: must be relative path: {path}")
    if _byte_length(path) > MAX_PATH_BYTES:
        raise VolumeProblem(f"invalid path: must be less than or equal to {MAX_PATH_BYTES} characters")
    names = path.split("/")
    if ".." in names:
        raise VolumeProblem(f"invalid path: must not contain '..': {path}")
    if any(_byte_length(name) > MAX_NAME_BYTES for name in names):
        raise VolumeProblem(f"invalid path: filenames must be less than or equal to {MAX_NAME_BYTES} characters")
    if len(names) > MAX_DEPTH:
        raise VolumeProblem(f"invalid path: must have at most {MAX_DEPTH} elements")
    if path.startswith(RESERVED_PREFIX):
        raise VolumeProblem(f"invalid path: must not start with '..': {path}")


def _byte_length(text: str) -> int:
    if "\0" in text:
        raise VolumeProblem("invalid path: must not contain a NUL byte")
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise VolumeProblem("invalid path: must be valid UTF-8") from None
