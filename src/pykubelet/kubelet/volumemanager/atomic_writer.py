"""Writes the files of a volume atomically: readers see the old version or the new one.

    <volume>/..2026_01_02_03_04_05.000006/...    the files of this version
             ..data -> ..2026_01_02_03_04_05.000006
             key -> ..data/key                   one link for every top-level name

Renaming one link makes a version visible. The process may be killed at any moment: the next write succeeds and removes
what is left over. Other than upstream, leftovers of a crash never fail a later write, an `..data` that leads elsewhere is
not followed, a path is checked again after cleaning (`./..data` is refused), a path that is both a file and a directory
is refused before anything is written, and directories may be nested 100 deep rather than 2,000.

Upstream: pkg/volume/util/atomic_writer.go
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
# This many directories are open at once while their files are written.
MAX_DEPTH = 100
DATA_LINK = "..data"
"""The link that all visible links go through; it is replaced as a whole."""

T = TypeVar("T")

_NEXT_LINK = "..data_tmp"
_VERSION = re.compile(r"\.\.\d{4}_\d\d_\d\d_\d\d_\d\d_\d\d\.\d+")
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER_MODE = 0o755
# The permissions a group needs on files and directories; directories pass the group on (setgid).
_GROUP_FILE_BITS = 0o440
_GROUP_FOLDER_BITS = 0o550 | stat.S_ISGID


def cleaned(payload: Mapping[str, T]) -> dict[str, T]:
    """The same files with cleaned paths; raises VolumeError if a path is not allowed."""
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
    """The parent directories of a clean path, outermost first."""
    return (path[:at] for at, letter in enumerate(path) if letter == "/")


def top_names(paths: Iterable[str]) -> frozenset[str]:
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
    if path.startswith(".."):
        raise VolumeError(f"invalid path: must not start with '..': {path}")


def _byte_length(text: str) -> int:
    if "\0" in text:
        raise VolumeError("invalid path: must not contain a NUL byte")
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise VolumeError("invalid path: must be valid UTF-8") from None


def write_payload(volume: str, payload: Mapping[str, FileContent], *, now: datetime, group: int | None = None) -> bool:
    """Write the files of a volume into its existing directory; return whether a new version was written.

    Only content is compared: a changed mode alone is ignored. Files belong to `group` where permitted. Raises
    VolumeError if a path is not allowed.
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
    """Whether a volume has been written before."""
    try:
        with filesystem.opened(volume) as folder:
            return _current_version(folder) is not None
    except OSError:
        return False


def _current_version(folder: int) -> str | None:
    try:
        target = os.readlink(DATA_LINK, dir_fd=folder)
    except OSError:
        return None
    return target if _VERSION.fullmatch(target) else None


def _holds(folder: int, version: str, files: Mapping[str, FileContent]) -> bool:
    """Whether a version has exactly these files with exactly this content."""
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
        # Any difference is resolved by a new version.
        return False


def _in_order(path: str) -> list[str]:
    """A sort key that keeps the files of a directory together."""
    return path.split("/")


def _content(folder: int, path: str, length: int) -> bytes:
    with filesystem.opened(path.rpartition("/")[2], filesystem.FILE, within=folder) as handle:
        # One byte more distinguishes a longer file from an equal one.
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
        filesystem.change_owner(handle, file.owner, group)
        # After chown, which may clear bits, and independent of the umask.
        os.fchmod(handle, file.mode if group is None else file.mode | _GROUP_FILE_BITS)
    finally:
        os.close(handle)


def _own_folder(handle: int, group: int | None) -> None:
    filesystem.change_owner(handle, None, group)
    os.fchmod(handle, _FOLDER_MODE if group is None else _FOLDER_MODE | _GROUP_FOLDER_BITS)


def _point_to(folder: int, version: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(_NEXT_LINK, dir_fd=folder)
    os.symlink(version, _NEXT_LINK, dir_fd=folder)
    os.rename(_NEXT_LINK, DATA_LINK, src_dir_fd=folder, dst_dir_fd=folder)


def _make_links(folder: int, names: Collection[str]) -> None:
    for name in sorted(names):
        target = f"{DATA_LINK}/{name}"
        # A name that exists and is not a link is a mount point.
        if (found := _link(folder, name)) not in {"", target}:
            os.unlink(name, dir_fd=folder)
        if found != target:
            with suppress(FileExistsError):
                os.symlink(target, name, dir_fd=folder)


def _clear_up(folder: int, names: Collection[str], version: str | None) -> None:
    """Remove links to missing files and invisible versions, of this write and of interrupted ones."""
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
