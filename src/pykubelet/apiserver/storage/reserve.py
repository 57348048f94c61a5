"""The store's reserve for a full disk: deletions and status updates work until there is space again.

The reserve is an unused row and unused space of the write-ahead log (WAL). Deleting the row needs no space on the disk
and gives its pages to other rows. A separate file would give its space to whatever fills the disk. While the reserve is
in use the database does not grow, each transaction is checkpointed, and objects are not created.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pykubelet.aio.log import get_logger

log = get_logger(__name__)

RESERVE_BYTES = 4 * 2**20
"""The size of the row: enough for about a thousand deletions and status updates. The WAL takes twice as much."""
_SHARE = 16
"""On a small disk, or in a small file, the row takes at most this part of it."""
_LEAST_BYTES = 256 * 1024
"""Less cannot hold even a few pods; a disk that small has no reserve."""
_GROWTH_BYTES = 2048
"""How much an update may grow an object while the reserve is in use: the status of a pod that ends, or a taint."""
_SCARCE_GROWTH_BYTES = 256
"""The same once three quarters of the reserve are used, for objects that are not being deleted."""
_DELETING = b'"deletionTimestamp":'
_LOG_HEADER_BYTES = 32
FULL = "storage is full"
REFUSED = f"{FULL}: no object can be created or grow much until there is space on the disk; deleting works"
_HEARTBEATS = "leases.coordination.k8s.io"
"""Leases may be created: a node without one counts as dead."""


class StoreReserve:
    """The reserve of one open database. Only the thread of the database calls it, except `refuses`."""

    def __init__(self, connection: sqlite3.Connection, path: Path, *, limit_bytes: int, file_limit_bytes: int) -> None:
        """The reserve has at most `limit_bytes`, 0 for none; the file may have `file_limit_bytes`, 0 for no limit."""
        self._connection, self._path, self._log_path = connection, path, path.with_name(f"{path.name}-wal")
        found = os.statvfs(path)
        disk_bytes = found.f_blocks * found.f_frsize
        size = min(limit_bytes, min(disk_bytes, file_limit_bytes or disk_bytes) // _SHARE)
        self._bytes = size if size >= _LEAST_BYTES else 0
        self._page_bytes = self._number("PRAGMA page_size")
        self.log_bytes = 2 * self._bytes
        """How much of the WAL stays allocated. The half that a checkpoint leaves is for the first ones on a full disk."""
        self._most_pages = self._number("PRAGMA max_page_count")
        self.is_used, self._spare_bytes = False, 0
        if self._bytes:
            connection.execute(f"PRAGMA wal_autocheckpoint = {self._bytes // 2 // self._page_bytes}")
            connection.execute(f"PRAGMA journal_size_limit = {self.log_bytes}")

    def refuses(self, collection: str, before: bytes, after: bytes) -> bool:
        """Whether a write must wait for space; `before` is empty for a new object. Any thread may ask."""
        if not self.is_used:
            return False
        is_scarce = self._spare_bytes < self._bytes // 4 and _DELETING not in after
        grows_too_much = len(after) - len(before) > (_SCARCE_GROWTH_BYTES if is_scarce else _GROWTH_BYTES)
        return grows_too_much or (not before and collection != _HEARTBEATS)

    def prepare(self) -> None:
        """Before a transaction: starts to use the reserve if other files have almost filled the disk."""
        if self._bytes and not self.is_used and self._free_bytes() < self._bytes:
            self.use()

    def use(self) -> bool:
        """Uses the reserve from now on; False if it is in use already, or there is none."""
        if self.is_used or not self._bytes:
            return False
        self.is_used = True
        self._release()
        log.error("the disk of the store is full: objects are not created", path=self._path, reserve=self._spare_bytes)
        return True

    def _release(self) -> None:
        with suppress(sqlite3.Error):
            if self._has_row():
                self._connection.execute("DELETE FROM reserve")
            # Pages beyond the end of the file exist only in the WAL, and a checkpoint would need space for them.
            self.vacuum(self._number("PRAGMA page_count") - self._path.stat().st_size // self._page_bytes)
            self._connection.execute(f"PRAGMA max_page_count = {self._number('PRAGMA page_count')}")
        self.checkpoint()

    def checkpoint(self) -> None:
        """After a transaction: frees the WAL for the next one while the reserve is in use. Never raises."""
        if not self.is_used:
            return
        with suppress(sqlite3.Error):
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        with suppress(sqlite3.Error):
            self._spare_bytes = self._number("PRAGMA freelist_count") * self._page_bytes

    def vacuum(self, pages: int) -> None:
        """Moves the last pages of the file into unused ones."""
        if pages > 0:
            # Not `execute`, which would take a single step, and thus free a single page.
            self._connection.executescript(f"PRAGMA incremental_vacuum({pages})")

    def fill(self) -> None:
        """Reserves space if the disk has enough of it; ends the use of the reserve."""
        missing = max(self.log_bytes - self._log_size(), 0)
        if not self._bytes or (not self.is_used and not missing and self._has_row()):
            return
        # What is left must be more than what starts the use, or both would alternate.
        if self._free_bytes() < missing + 2 * self._bytes:
            return
        try:
            self._connection.execute(f"PRAGMA max_page_count = {self._most_pages}")
            self._allocate()
        except sqlite3.Error as error:
            log.debug("reserve of the store not filled", cause=str(error))
            if self.is_used:
                self._release()
            return
        if self.is_used:
            self.is_used = False
            log.info("the disk of the store has space again: objects are created", path=self._path)

    def _allocate(self) -> None:
        self._connection.execute("CREATE TABLE IF NOT EXISTS reserve (filler BLOB)")
        if not self._has_row():
            self._connection.execute("INSERT INTO reserve VALUES (zeroblob(?))", (self._bytes,))
        # Only now the pages have a place on the disk.
        self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        # Some file systems cannot allocate; there the WAL keeps the size that it has reached.
        with suppress(OSError):
            handle = os.open(self._log_path, os.O_RDWR | os.O_CLOEXEC)
            try:
                os.posix_fallocate(handle, 0, self.log_bytes)
            finally:
                os.close(handle)

    @contextmanager
    def kept_log(self) -> Iterator[None]:
        """While the database is closed: keeps the space of the WAL, which SQLite removes, if the reserve is in use."""
        kept = self._log_path.with_name(f"{self._log_path.name}.kept")
        if self.is_used:
            with suppress(OSError):
                kept.unlink(missing_ok=True)
                kept.hardlink_to(self._log_path)
        yield
        with suppress(OSError):
            if not self.is_used or self._log_path.exists():
                kept.unlink(missing_ok=True)
                return
            # Everything is in the database now. A WAL without header is empty.
            handle = os.open(kept, os.O_RDWR | os.O_CLOEXEC)
            os.pwrite(handle, bytes(_LOG_HEADER_BYTES), 0)
            os.close(handle)
            kept.rename(self._log_path)

    def _log_size(self) -> int:
        try:
            return self._log_path.stat().st_size
        except FileNotFoundError:
            return 0

    def _has_row(self) -> bool:
        tables = self._number("SELECT count(*) FROM sqlite_master WHERE name = 'reserve'")
        return bool(tables and self._number("SELECT count(*) FROM reserve"))

    def _free_bytes(self) -> int:
        found = os.statvfs(self._path)
        return found.f_bavail * found.f_frsize

    def _number(self, statement: str) -> int:
        number: int = self._connection.execute(statement).fetchone()[0]
        return number
