"""Writes the files of a volume: readers see the old version or the new one, never a mixture.

    <volume>/..2026_01_02_03_04_05.000006/...    the files of this version
             ..data -> ..2026_01_02_03_04_05.000006
             key -> ..data/key                   one link for every name at the top

A version becomes visible by renaming one link. Whatever moment the process is killed at, the next write finds its way
and clears up what is left.

Upstream: pkg/volume/util/atomic_writer.go. On purpose otherwise: a leftover of a crash never stops a later write, links
and versions left by one are removed, and an `..data` that leads elsewhere is not followed.
"""

import os
import re
import stat
from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import UTC, datetime

from pykubelet.agent.volumes import trees
from pykubelet.agent.volumes.payload_paths import DATA_LINK, cleaned, parents, top_names
from pykubelet.agent.volumes.payloads import FileContent

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
    with trees.opened(volume) as folder:
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
        with trees.opened(volume) as folder:
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
        with trees.opened(version, within=folder) as root, trees.Walk(root) as walk:
            for path in trees.paths_below(root):
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
    with trees.opened(path.rpartition("/")[2], trees.FILE, within=folder) as handle:
        # One byte more tells a longer file from an equal one.
        return trees.read_at_most(handle, length + 1)


def _write_version(folder: int, files: Mapping[str, FileContent], now: datetime, group: int | None) -> str:
    version = _make_version_folder(folder, now)

    def make_folder(name: str, within: int) -> None:
        os.mkdir(name, _FOLDER_MODE, dir_fd=within)
        with trees.opened(name, within=within) as made:
            _own_folder(made, group)

    try:
        with trees.opened(version, within=folder) as root, trees.Walk(root, make_folder) as walk:
            _own_folder(root, group)
            for path in sorted(files, key=_in_order):
                _write_file(walk.folder_of(path), path, files[path], group)
    except OSError:
        with suppress(OSError):
            trees.remove_tree(folder, version)
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
        trees.write_all(handle, file.data)
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
    for name in trees.names_in(folder):
        if _VERSION.fullmatch(name) and name != version:
            trees.remove_tree(folder, name)
        elif name not in names and _link(folder, name).startswith(f"{DATA_LINK}/"):
            os.unlink(name, dir_fd=folder)


def _link(folder: int, name: str) -> str:
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        return ""
