"""The store's file: one SQLite database in WAL mode. Only this module and `reserve.py` use SQLite.

One table has a row per revision, as in kine, so newest state and history are the same rows. One thread makes all
calls and may wait for the disk. A transaction is on disk when `commit` returns.
"""

import os
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from pykubelet.apiserver.storage.database_file import APPLICATION_ID, check_file, create_file, in_use
from pykubelet.apiserver.storage.interfaces import StoreRefused, StoreUnusable
from pykubelet.apiserver.storage.reserve import FULL, StoreReserve


class StoreRow(NamedTuple):
    """One revision of one object; `value` is None if it removed the object."""

    revision: int
    written_at: int
    collection: str
    namespace: str
    name: str
    value: bytes | None


class StoreMeta(NamedTuple):
    compacted: int
    """Changes up to this revision may be gone."""
    revision: int
    """A revision that was reached, even if its row is gone."""
    without_history: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One transaction: rows to add, revisions to drop, and the new metadata."""

    rows: Sequence[StoreRow] = ()
    dropped: frozenset[int] = frozenset()
    compacted: int = 0
    revision: int = 0


class CommitFailed(Exception):
    """The transaction was rolled back; the message says why."""


SCHEMA_VERSION = 1
_SCHEMA = (
    "PRAGMA auto_vacuum = INCREMENTAL",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
    """
    CREATE TABLE revisions (
        revision INTEGER PRIMARY KEY,
        written_at INTEGER NOT NULL, -- seconds since 1970
        collection TEXT NOT NULL,
        namespace TEXT NOT NULL,
        name TEXT NOT NULL,
        value BLOB -- null: the object was removed
    )""",
    """
    CREATE TABLE meta (
        compacted INTEGER NOT NULL, -- what changed up to this revision may be gone
        revision INTEGER NOT NULL, -- a revision that was reached, even if its row is gone
        without_history TEXT NOT NULL -- collections of which only the newest rows are kept, separated by spaces
    )""",
    # Revisions start at 1, as etcd's do: 0 has a meaning of its own in the API.
    "INSERT INTO meta VALUES (0, 1, '')",
)
_INSERT = "INSERT INTO revisions VALUES "
_INSERT_AT_ONCE = 64
"""Rows per statement. Each statement releases the GIL once, and getting it back from a busy loop takes long."""
_VACUUM_PAGES = 256
"""Pages vacuumed at a time: about a millisecond."""
_SPARE_PAGES = 1024
"""Free pages that the file may keep (4 MiB), besides a quarter of its size."""
_WAL_BYTES = 4 * 2**20


class StoreFile:
    """An open database that no other process can open."""

    def __init__(self, path: Path, *, max_bytes: int = 0, reserve_bytes: int = 0) -> None:
        self._path = path
        try:
            _make_private(path)
            check_file(path)
        except OSError as error:
            raise StoreUnusable(f"{path} cannot be opened: {error.strerror}") from error
        try:
            self._connection = sqlite3.connect(path, isolation_level=None, timeout=0)
            try:
                self._prepare(max_bytes)
                self.reserve = StoreReserve(
                    self._connection, path, limit_bytes=reserve_bytes, file_limit_bytes=max_bytes
                )
            except BaseException:
                self._connection.close()
                raise
        except sqlite3.Error as error:
            raise _unusable(path, error) from error

    def _prepare(self, max_bytes: int) -> None:
        # Exclusive: one process, and no shared memory file, which a full disk could break.
        self._execute("PRAGMA locking_mode = EXCLUSIVE")
        # Before anything is written: the file may belong to another program.
        self._check()
        self._execute("PRAGMA synchronous = FULL")
        self._execute("PRAGMA journal_mode = WAL")
        self._execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
        # Takes the lock at once, not with the first write.
        self._execute("BEGIN EXCLUSIVE")
        self._execute("COMMIT")
        if max_bytes:
            self._execute(f"PRAGMA max_page_count = {max(1, max_bytes // self._number('PRAGMA page_size'))}")

    def _check(self) -> None:
        if self._number("PRAGMA application_id") != APPLICATION_ID:
            raise StoreRefused(f"{self._path} is a database of another program")
        if (version := self._number("PRAGMA user_version")) > SCHEMA_VERSION:
            raise StoreRefused(f"{self._path} was written by a newer version (schema {version}): install that version")
        if (problem := self._connection.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise _damaged(self._path, problem.splitlines()[-1])
        tables = {name for (name,) in self._connection.execute("SELECT name FROM sqlite_master")}
        if not tables >= {"revisions", "meta"} or self._number("SELECT count(*) FROM meta") != 1:
            raise _damaged(self._path, "its tables are not complete")

    def meta(self) -> StoreMeta:
        compacted, revision, names = self._connection.execute("SELECT * FROM meta").fetchone()
        return StoreMeta(compacted, revision, frozenset(names.split()))

    def rows(self) -> Iterator[StoreRow]:
        """All rows, oldest first."""
        try:
            yield from map(StoreRow._make, self._connection.execute("SELECT * FROM revisions ORDER BY revision"))
        except sqlite3.Error as error:
            raise _unusable(self._path, error) from error

    def set_without_history(self, collections: frozenset[str], *, compacted: int) -> None:
        """Records the collections without history, and up to which revision history has gaps because of them."""
        try:
            self._execute(
                "UPDATE meta SET without_history = ?, compacted = max(compacted, ?)",
                " ".join(sorted(collections)),
                compacted,
            )
        except sqlite3.Error as error:
            raise _unusable(self._path, error) from error

    def commit(self, commit: Commit) -> None:
        """Runs a transaction; CommitFailed if it is rolled back."""
        # A row that the same transaction adds and drops is never written.
        rows = [row for row in commit.rows if row.revision not in commit.dropped]
        try:
            self.reserve.prepare()
            try:
                self._transact(commit, rows)
            except sqlite3.Error as error:
                self._roll_back()
                if _code(error) != sqlite3.SQLITE_FULL or not self.reserve.use():
                    raise
                self._transact(commit, rows)
        except sqlite3.Error as error:
            self._roll_back()
            raise CommitFailed(_reason(error)) from error
        self.reserve.checkpoint()

    def _transact(self, commit: Commit, rows: Sequence[StoreRow]) -> None:
        # A single statement is a transaction by itself.
        if commit.dropped or commit.revision or len(rows) > _INSERT_AT_ONCE:
            self._execute("BEGIN IMMEDIATE")
            # Dropped first, so that the new rows can use their pages.
            self._drop(commit)
            self._insert(rows)
            self._execute("COMMIT")
        else:
            self._insert(rows)

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            with suppress(sqlite3.Error):
                self._execute("ROLLBACK")

    def _insert(self, rows: Sequence[StoreRow]) -> None:
        for start in range(0, len(rows), _INSERT_AT_ONCE):
            some = rows[start : start + _INSERT_AT_ONCE]
            self._connection.execute(_insert_statement(len(some)), [value for row in some for value in row])

    def _drop(self, commit: Commit) -> None:
        if commit.dropped:
            numbers = ",".join(map(str, sorted(commit.dropped)))
            self._execute("DELETE FROM revisions WHERE revision IN (SELECT value FROM json_each(?))", f"[{numbers}]")
        if commit.revision:
            self._execute(
                "UPDATE meta SET compacted = max(compacted, ?), revision = max(revision, ?)",
                commit.compacted,
                commit.revision,
            )

    def tidy(self) -> bool:
        """Returns some unused disk space, or keeps it in reserve; returns whether there is more."""
        try:
            self.reserve.fill()
            if self.reserve.is_used:
                return False
            spare, pages = self._number("PRAGMA freelist_count"), self._number("PRAGMA page_count")
            surplus = spare - max(_SPARE_PAGES, pages // 4)
            if surplus <= 0:
                return False
            self.reserve.vacuum(min(surplus, _VACUUM_PAGES))
            if surplus > _VACUUM_PAGES:
                return True
            # The file shrinks when the log is checkpointed into it.
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            self.reserve.fill()
            return False
        except sqlite3.Error as error:
            raise CommitFailed(_reason(error)) from error

    def backup(self, path: Path) -> None:
        """Copies the store to a new file; writes wait meanwhile."""
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            with closing(sqlite3.connect(path)) as copy:
                self._connection.backup(copy)
                # A log that is found beside the restored file is then known to belong to the file it replaced.
                copy.execute("PRAGMA journal_mode = DELETE").fetchall()
        except (OSError, sqlite3.Error) as error:
            raise StoreUnusable(f"the backup {path} cannot be made: {error}") from error

    def close(self) -> None:
        """Closes the file after a checkpoint."""
        with self.reserve.kept_log():
            self._connection.close()

    def _execute(self, statement: str, *values: str | int) -> None:
        self._connection.execute(statement, values)

    def _number(self, statement: str) -> int:
        number: int = self._connection.execute(statement).fetchone()[0]
        return number


@cache
def _insert_statement(rows: int) -> str:
    return _INSERT + ",".join(["(?,?,?,?,?,?)"] * rows)


@cache
def _empty_database() -> bytes:
    """The content of a new file."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for statement in _SCHEMA:
            connection.execute(statement)
        return connection.serialize()


def _make_private(path: Path) -> None:
    """Creates missing file and folder; only the owner can read the file, which contains secrets."""
    create_file(path, _empty_database())
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        path.chmod(0o600)


def _reason(error: sqlite3.Error) -> str:
    if _code(error) == sqlite3.SQLITE_FULL:
        return FULL
    return f"storage cannot be written ({error})"


def _unusable(path: Path, error: sqlite3.Error) -> StoreUnusable:
    match _code(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return in_use(path)
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return _damaged(path, str(error))
        case _:
            return StoreUnusable(f"{path} cannot be opened: {error}")


def _damaged(path: Path, problem: str) -> StoreRefused:
    return StoreRefused(f"{path} is damaged ({problem})")


def _code(error: sqlite3.Error) -> int:
    # The low byte is the primary error code; errors of the sqlite3 module itself have no code.
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
