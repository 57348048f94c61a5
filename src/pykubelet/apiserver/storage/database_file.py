"""The database as a file: created whole, checked before SQLite opens it, and set aside for a new one.

SQLite treats an empty file as a new database and deletes the log beside it; it also applies a log that belongs to
another database. Both would lose or mix up objects without an error, so these cases are found here.
"""

import fcntl
import os
from itertools import count
from pathlib import Path

from pykubelet.aio.log import get_logger
from pykubelet.apiserver.storage.interfaces import StoreInUse, StoreRefused, StoreUnusable

log = get_logger(__name__)

APPLICATION_ID = 0x706B6C74
"""SQLite's application_id of our files ("pklt")."""
_MAGIC = b"SQLite format 3\0"
# The header of a SQLite file: its size, and what of it is used here.
_HEADER_BYTES = 100
_PAGE_SIZE, _MODE_AT, _PAGES, _APPLICATION_ID = slice(16, 18), 18, slice(28, 32), slice(68, 72)
# The page size that does not fit into two bytes.
_LARGEST_PAGE = {1: 65536}
_WITHOUT_LOG, _WITH_LOG = b"\1\1", b"\2\2"
# The bytes of a database that SQLite locks; they need not exist.
_LOCK_START, _LOCK_BYTES = 0x40000000, 512
# The write-ahead log, and the rollback journal that SQLite writes while it changes the mode of a file.
_COMPANIONS = ("-wal", "-journal")


def create_file(path: Path, database: bytes) -> None:
    """Writes a new database, marked as one with a log, unless the file exists; it is never there in part."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.exists():
        return
    for companion in _companions(path):
        if companion.exists() and companion.stat().st_size:
            raise StoreRefused(f"{path} is missing, but its log {companion.name} is there")
    unfinished = path.with_name(f"{path.name}.new-{os.getpid()}")
    # Left by a killed process with the same PID.
    unfinished.unlink(missing_ok=True)
    with os.fdopen(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        file.write(database[:_MODE_AT] + _WITH_LOG + database[_MODE_AT + len(_WITH_LOG) :])
        file.flush()
        os.fsync(file.fileno())
    try:
        # Unlike a rename, this fails if another process was faster.
        os.link(unfinished, path)
    except FileExistsError:
        return
    finally:
        unfinished.unlink()
    _sync_folder(path.parent)


def check_file(path: Path) -> None:
    """StoreRefused for a file that is certainly no whole database; sets aside a log that belongs to another database."""
    with path.open("rb") as file:
        head = file.read(_HEADER_BYTES)
    if not head:
        raise StoreRefused(f"{path} is empty (0 bytes): its objects are lost")
    if not head.startswith(_MAGIC):
        raise StoreRefused(f"{path} is not a database")
    wal = path.with_name(f"{path.name}-wal")
    if not wal.exists() or not wal.stat().st_size:
        # With a log, the rest of the file may still be in it.
        page_size, pages = int.from_bytes(head[_PAGE_SIZE]), int.from_bytes(head[_PAGES])
        expected = max(_LARGEST_PAGE.get(page_size, page_size) * pages, _HEADER_BYTES)
        if (size := path.stat().st_size) < expected:
            raise StoreRefused(f"{path} is damaged (it is truncated: {size} of {expected} bytes)")
    # Backups are written as files without a log. A store marks its file as one with a log before it writes a log.
    elif head[_APPLICATION_ID] == APPLICATION_ID.to_bytes(4) and head[_MODE_AT:].startswith(_WITHOUT_LOG):
        kept = _free_name(wal)
        wal.rename(kept)
        log.warning("log of a replaced database set aside", database=path, kept=kept.name)


def set_aside(path: Path) -> Path | None:
    """Renames a database and its log; returns the new name, None if there is none. StoreInUse if a process has it open."""
    if not any(each.exists() for each in (path, *_companions(path))):
        return None
    kept = _free_name(path)
    try:
        if path.exists():
            with path.open("r+b") as file:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, _LOCK_BYTES, _LOCK_START)
                path.rename(kept)
        # Last: if this is interrupted, a log without its database is noticed, a database without its log is not.
        for old, new in zip(_companions(path), _companions(kept), strict=True):
            if old.exists():
                old.rename(new)
        _sync_folder(path.parent)
    except BlockingIOError as error:
        raise in_use(path) from error
    except OSError as error:
        raise StoreUnusable(f"{path} cannot be renamed to {kept.name}: {error.strerror}") from error
    return kept


def in_use(path: Path) -> StoreInUse:
    """The error for a database that another process has open."""
    return StoreInUse(f"{path} is in use by another process: stop that one, or choose another file")


def _companions(path: Path) -> tuple[Path, ...]:
    return tuple(path.with_name(path.name + end) for end in _COMPANIONS)


def _free_name(path: Path) -> Path:
    names = (path.with_name(f"{path.name}.old-{number}") for number in count(1))
    return next(name for name in names if not any(taken.exists() for taken in (name, *_companions(name))))


def _sync_folder(folder: Path) -> None:
    """Puts the names in a folder on disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
