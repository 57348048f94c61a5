"""Writes the files of a volume: readers see the old version or the new one, never a mixture.

    <volume>/..2026_01_02_03_04_05.000006/...    the files of this version
             ..data -> ..2026_01_02_03_04_05.000006
             key -> ..data/key                   one link for every name at the top

A version becomes visible by renaming one link. Whatever moment the process is killed at, the next write finds its way
and clears up what is left.

Upstream: pkg/volume/util/atomic_writer.go. On purpose otherwise: a leftover of a crash never stops a later write, links
and versions left by one are removed, and an `..data` that leads elsewhere is not followed.

Which paths of files a volume may hold, and what of them is seen at its top.

Upstream: validatePath, pathsToRemove and createUserVisibleFiles in pkg/volume/util/atomic_writer.go. On purpose
otherwise: a path is looked at again after it was cleaned (`./..data` is not let through), a path that is both a file and
a folder is refused before anything is written, and folders may be nested a hundred deep, not two thousand.
"""

import os
import posixpath
import re
import stat
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import TypeVar

from pykubelet.kubelet.volumemanager import filesystem
from pykubelet.kubelet.volumemanager.errors import VolumeError
from pykubelet.kubelet.volumemanager.projected import FileContent

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
                raise VolumeError(f"invalid path: {parent} is a file and a directory at once")
    return clean


def parents(path: str) -> Iterable[str]:
    """The folders above a clean path, from the top."""
    return (path[:at] for at, letter in enumerate(path) if letter == "/")


def top_names(paths: Iterable[str]) -> frozenset[str]:
    """The names that these files, or the folders they are in, have at the top of a volume."""
    return frozenset(path.partition("/")[0] for path in paths)


def _check(path: str) -> None:
    if not path or path == ".":
        raise VolumeError(f'invalid path: must not be empty: "{path}"')
    if path.startswith("/"):
        raise VolumeError(f"invalid path: must be relative path: {path}")
    if _byte_length(path) > MAX_PATH_BYTES:
        raise VolumeError(f"invalid path: must be less than or equal to {MAX_PATH_BYTES} characters")
    names = path.split("/")
    if ".." in names:
        raise VolumeError(f"invalid path: must not contain '..': {path}")
    if any(_byte_length(name) > MAX_NAME_BYTES for name in names):
        raise VolumeError(f"invalid path: filenames must be less than or equal to {MAX_NAME_BYTES} characters")
    if len(names) > MAX_DEPTH:
        raise VolumeError(f"invalid path: must have at most {MAX_DEPTH} elements")
    if path.startswith(RESERVED_PREFIX):
        raise VolumeError(f"invalid path: must not start with '..': {path}")


def _byte_length(text: str) -> int:
    if "\0" in text:
        raise VolumeError("invalid path: must not contain a NUL byte")
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise VolumeError("invalid path: must be valid UTF-8") from None


_NEXT_LINK = "..data_tmp"
_VERSION = re.compile(r"\.\.\d{4}_\d\d_\d\d_\d\d_\d\d_\d\d\.\d+")
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER_MODE = 0o755
# What a group that may read a volume needs, of its files and of its folders; folders hand the group down.
_GROUP_FILE_BITS = 0o440
_GROUP_FOLDER_BITS = 0o550 | stat.S_ISGID


def write_payload(volume: str, payload: Mapping[str, FileContent], *, now: datetime, group: int | None = None) -> bool:
    """Make these the files of a volume, an existing folder; True if that took a new version.

    Only content counts: a mode that changed alone is left. Files belong to `group` if there is one and we may say so.
    VolumeProblem if a path is not allowed, OSError if the disk does not do what it should.
    """
    files = cleaned(payload)
    with filesystem.opened(volume) as folder:
        old = _current_version(folder)
        is_new = old is None or not _holds(folder, old, files)
        if is_new:
            old = _write_version(folder, files, now, group)
            _point_to(folder, old)
        _make_links(folder, top_names(files))
        _clear_up(folder, top_names(files), old)
    return is_new


def has_version(volume: str) -> bool:
    """Whether a volume has been written already."""
    try:
        with filesystem.opened(volume) as folder:
            return _current_version(folder) is not None
    except OSError:
        return False


def _current_version(folder: int) -> str | None:
    """The version that is visible now."""
    try:
        target = os.readlink(DATA_LINK, dir_fd=folder)
    except OSError:
        return None
    return target if _VERSION.fullmatch(target) else None


def _holds(folder: int, version: str, files: Mapping[str, FileContent]) -> bool:
    """Whether a version has just these files, with just this content."""
    missing = set(files).union(*map(parents, files))
    try:
        with filesystem.opened(version, within=folder) as root, filesystem.Walk(root) as walk:
            for path in filesystem.paths_below(root):
                if path not in missing:
                    return False
                missing.remove(path)
            return not missing and all(
                _content(walk.folder_of(path), path, len(files[path].data)) == files[path].data
                for path in sorted(files, key=_in_order)
            )
    except OSError:
        # Whatever is in the way, a new version helps.
        return False


def _in_order(path: str) -> list[str]:
    """Sorts paths so that all of a folder come together."""
    return path.split("/")


def _content(folder: int, path: str, length: int) -> bytes:
    with filesystem.opened(path.rpartition("/")[2], filesystem.FILE, within=folder) as handle:
        # One byte more tells a longer file from an equal one.
        return filesystem.read_at_most(handle, length + 1)


def _write_version(folder: int, files: Mapping[str, FileContent], now: datetime, group: int | None) -> str:
    version = _make_version_folder(folder, now)

    def make_folder(name: str, within: int) -> None:
        os.mkdir(name, _FOLDER_MODE, dir_fd=within)
        with filesystem.opened(name, within=within) as made:
            _own_folder(made, group)

    try:
        with filesystem.opened(version, within=folder) as root, filesystem.Walk(root, make_folder) as walk:
            _own_folder(root, group)
            for path in sorted(files, key=_in_order):
                _write_file(walk.folder_of(path), path, files[path], group)
    except OSError:
        with suppress(OSError):
            filesystem.remove_tree(folder, version)
        raise
    return version


def _make_version_folder(folder: int, now: datetime) -> str:
    moment = now.astimezone(UTC)
    number = moment.microsecond
    while True:
        name = f"..{moment:%Y_%m_%d_%H_%M_%S}.{number:06}"
        try:
            os.mkdir(name, _FOLDER_MODE, dir_fd=folder)
        except FileExistsError:
            number += 1
        else:
            return name


def _write_file(folder: int, path: str, file: FileContent, group: int | None) -> None:
    handle = os.open(path.rpartition("/")[2], _NEW_FILE, 0o600, dir_fd=folder)
    try:
        filesystem.write_all(handle, file.data)
        _own(handle, file.owner, group)
        # After the change of owner, which may take bits away; and whatever the process' umask is.
        os.fchmod(handle, file.mode if group is None else file.mode | _GROUP_FILE_BITS)
    finally:
        os.close(handle)


def _own_folder(handle: int, group: int | None) -> None:
    _own(handle, None, group)
    os.fchmod(handle, _FOLDER_MODE if group is None else _FOLDER_MODE | _GROUP_FOLDER_BITS)


def _own(handle: int, user: int | None, group: int | None) -> None:
    """Give a file away, where we may: an ordinary user may not, but then runs the containers as itself."""
    if user is not None or group is not None:
        with suppress(PermissionError):
            os.fchown(handle, -1 if user is None else user, -1 if group is None else group)


def _point_to(folder: int, version: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(_NEXT_LINK, dir_fd=folder)
    os.symlink(version, _NEXT_LINK, dir_fd=folder)
    os.rename(_NEXT_LINK, DATA_LINK, src_dir_fd=folder, dst_dir_fd=folder)


def _make_links(folder: int, names: Collection[str]) -> None:
    for name in sorted(names):
        target = f"{DATA_LINK}/{name}"
        # What is there and no link is a place where something else is mounted.
        if (found := _link(folder, name)) not in {"", target}:
            os.unlink(name, dir_fd=folder)
        if found != target:
            with suppress(FileExistsError):
                os.symlink(target, name, dir_fd=folder)


def _clear_up(folder: int, names: Collection[str], version: str | None) -> None:
    """Remove links to what is gone and versions that nobody sees, of this write and of interrupted ones."""
    for name in filesystem.names_in(folder):
        if _VERSION.fullmatch(name) and name != version:
            filesystem.remove_tree(folder, name)
        elif name not in names and _link(folder, name).startswith(f"{DATA_LINK}/"):
            os.unlink(name, dir_fd=folder)


def _link(folder: int, name: str) -> str:
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        return ""
