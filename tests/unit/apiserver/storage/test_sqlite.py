"""The store's file: its mode, commits, the files that are refused, and how it stays small."""

import os
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pykubelet.apiserver.storage.database_file import set_aside
from pykubelet.apiserver.storage.interfaces import StoreInUse, StoreRefused, StoreUnusable
from pykubelet.apiserver.storage.sqlite import Commit, CommitFailed, StoreFile, StoreRow
from stored_objects import key_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "state.db"


@pytest.fixture
def file(path: Path) -> Iterator[StoreFile]:
    with closing(StoreFile(path)) as file:
        yield file


def rows(*revisions: int, size: int = 10) -> list[StoreRow]:
    return [StoreRow(revision, 0, *key_of(f"n{revision}"), b"x" * size) for revision in revisions]


def revisions_of(file: StoreFile) -> list[int]:
    return [row.revision for row in file.rows()]


def test_file_and_folder_are_for_their_owner_only(path: Path, file: StoreFile) -> None:
    """The file contains secrets; its write-ahead log has the same mode."""
    file.commit(Commit(rows=rows(2)))
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert {entry.name: stat.S_IMODE(entry.stat().st_mode) for entry in path.parent.iterdir()} == {
        "state.db": 0o600,
        "state.db-wal": 0o600,
    }


def test_file_that_others_may_read_is_made_private(path: Path) -> None:
    """For example, a copy that was put there by hand."""
    StoreFile(path).close()
    path.chmod(0o644)
    StoreFile(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("count", [1, 64, 65, 300])
def test_commit_adds_rows_and_drops_others(file: StoreFile, count: int) -> None:
    """One transaction takes any number of rows; a row that it both adds and drops is not stored."""
    file.commit(Commit(rows=rows(*range(2, 2 + count))))
    file.commit(Commit(rows=rows(1000, 1001), dropped=frozenset({2, 1000}), compacted=7, revision=1001))
    assert revisions_of(file) == [*range(3, 2 + count), 1001]
    assert (file.meta().compacted, file.meta().revision) == (7, 1001)


def test_failed_commit_leaves_nothing_and_the_next_one_works(file: StoreFile) -> None:
    """This holds even if a part of the commit succeeded."""
    file.commit(Commit(rows=rows(2)))
    for broken in (Commit(rows=rows(3, 2)), Commit(rows=rows(3, 2), dropped=frozenset({9}), revision=9)):
        with pytest.raises(CommitFailed, match="storage cannot be written"):
            file.commit(broken)
        assert revisions_of(file) == [2]
    file.commit(Commit(rows=rows(3)))
    assert revisions_of(file) == [2, 3]
    assert file.meta().revision == 1


def test_full_file_refuses_and_takes_writes_again_when_rows_are_dropped(path: Path) -> None:
    """Space that a transaction frees is available to its own rows."""
    with closing(StoreFile(path, max_bytes=200_000)) as file:
        file.commit(Commit(rows=rows(2, 3, size=70_000)))
        with pytest.raises(CommitFailed, match="storage is full"):
            file.commit(Commit(rows=rows(4, size=70_000)))
        assert revisions_of(file) == [2, 3]
        file.commit(Commit(rows=rows(4, size=70_000), dropped=frozenset({2})))
        assert revisions_of(file) == [3, 4]


def test_unused_space_goes_back_to_the_disk(path: Path, file: StoreFile) -> None:
    """This happens in slices; a little space is kept for later writes."""
    file.commit(Commit(rows=rows(*range(2, 102), size=200_000)))
    while file.tidy():
        pass
    file.commit(Commit(dropped=frozenset(range(3, 102)), compacted=101, revision=101))
    slices = 1
    while file.tidy():
        slices += 1
    assert slices > 5
    assert path.stat().st_size < 6_000_000
    assert path.with_name("state.db-wal").stat().st_size == 0
    assert revisions_of(file) == [2]


def test_file_that_is_open_is_refused(path: Path, file: StoreFile) -> None:
    """Only one process may use it."""
    with pytest.raises(StoreInUse, match=r"state\.db is in use by another process: stop that one"):
        StoreFile(path)
    assert revisions_of(file) == []


def refusal(path: Path) -> str:
    """Why a file is refused, without its path; opening it must not change it."""
    before = path.read_bytes()
    with pytest.raises(StoreRefused) as caught:
        StoreFile(path)
    assert path.read_bytes() == before
    return str(caught.value).removeprefix(f"{path} ")


def wal_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def crash(path: Path, *revisions: int) -> None:
    """Leave the database as a killed process does: the rows are only in the log."""
    with closing(StoreFile(path)) as file:
        file.commit(Commit(rows=rows(*revisions)))
        copies = {each: each.with_name(f"{each.name}.copy") for each in (path, wal_of(path))}
        for each, copy in copies.items():
            shutil.copy(each, copy)
    for each, copy in copies.items():
        copy.rename(each)
    assert wal_of(path).stat().st_size > 0


def test_damaged_file_is_refused(path: Path) -> None:
    """Opening fails before any data is served."""
    with closing(StoreFile(path)) as file:
        file.commit(Commit(rows=rows(*range(2, 200), size=3000)))
    with path.open("r+b") as data:
        data.seek(40_960)
        data.write(b"\xff" * 40_960)
    assert refusal(path).startswith("is damaged (")


@pytest.mark.parametrize("size", [1, 15, 16, 50, 100, 511, 512, 4095, 4096, 4097, 8192, 100_000, -1])
def test_truncated_file_is_refused(path: Path, size: int) -> None:
    """It is shorter than its header says, by a byte or by almost everything; a copy that was interrupted is."""
    with closing(StoreFile(path)) as file:
        file.commit(Commit(rows=rows(*range(2, 200), size=3000)))
    os.truncate(path, size if size > 0 else path.stat().st_size + size)
    assert refusal(path).startswith(("is damaged (", "is not a database"))


@pytest.mark.parametrize("with_log", [False, True])
def test_empty_file_is_refused_and_its_log_is_kept(path: Path, with_log: bool) -> None:
    """SQLite itself would delete the log, which may have the newest objects."""
    crash(path, 2, 3)
    log = wal_of(path).read_bytes()
    path.write_bytes(b"")
    if not with_log:
        wal_of(path).unlink()
    assert refusal(path) == "is empty (0 bytes): its objects are lost"
    assert not with_log or wal_of(path).read_bytes() == log


def test_log_without_its_database_is_refused(path: Path) -> None:
    """A new database beside it would lose it."""
    crash(path, 2)
    path.unlink()
    with pytest.raises(StoreRefused, match=r"state\.db is missing, but its log state\.db-wal is there"):
        StoreFile(path)
    assert [entry.name for entry in path.parent.iterdir()] == ["state.db-wal"]


@pytest.mark.parametrize("text", [b"this is a text file, not a database\n" * 100, b"\0" * 5000], ids=["text", "zeros"])
def test_file_that_is_no_database_is_refused(path: Path, text: bytes) -> None:
    """The file is left unchanged."""
    path.parent.mkdir()
    path.write_bytes(text)
    assert refusal(path) == "is not a database"


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        pytest.param("PRAGMA application_id = 7", "is a database of another program", id="mark"),
        pytest.param(
            "PRAGMA user_version = 9", "was written by a newer version (schema 9): install that version", id="version"
        ),
        pytest.param("DROP TABLE revisions", "is damaged (its tables are not complete)", id="table"),
        pytest.param("DELETE FROM meta", "is damaged (its tables are not complete)", id="meta"),
    ],
)
def test_file_of_another_program_or_version_is_refused(path: Path, statement: str, problem: str) -> None:
    """Data of other programs is not overwritten."""
    StoreFile(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement)
    assert refusal(path) == problem


@pytest.mark.parametrize("statements", [["CREATE TABLE theirs (x)"], ["CREATE TABLE gone (x)", "DROP TABLE gone"]])
def test_database_of_another_program_is_refused(path: Path, statements: list[str]) -> None:
    """This holds even if it has no application id, or no tables."""
    path.parent.mkdir()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)
    assert refusal(path) == "is a database of another program"


def test_log_of_a_replaced_database_is_not_applied(path: Path, tmp_path: Path) -> None:
    """A backup was restored over a database whose process was killed; the log is kept under another name."""
    copy = tmp_path / "copy.db"
    with closing(StoreFile(path)) as file:
        file.commit(Commit(rows=rows(2)))
        file.backup(copy)
    crash(path, 3)
    log = wal_of(path).read_bytes()
    shutil.copy(copy, path)
    with closing(StoreFile(path)) as file:
        assert revisions_of(file) == [2]
        file.commit(Commit(rows=rows(7)))
    assert path.with_name("state.db-wal.old-1").read_bytes() == log
    crash(path, 8)
    with closing(StoreFile(path)) as file:
        assert revisions_of(file) == [2, 7, 8]


def test_database_is_set_aside_with_its_log_and_opens_there(path: Path) -> None:
    """Nothing is lost, however often it happens; without a database nothing happens."""
    assert set_aside(path) is None
    for revision, name in ((2, "state.db.old-1"), (3, "state.db.old-2")):
        crash(path, revision)
        assert set_aside(path) == path.with_name(name)
        assert not path.exists()
        assert not wal_of(path).exists()
    for revision, name in ((2, "state.db.old-1"), (3, "state.db.old-2")):
        with closing(StoreFile(path.with_name(name))) as file:
            assert revisions_of(file) == [revision]


def test_database_that_cannot_be_renamed_is_an_error(path: Path) -> None:
    """For example, because the name is that of a folder."""
    path.mkdir(parents=True)
    with pytest.raises(StoreUnusable, match=r"state\.db cannot be renamed to state\.db\.old-1: Is a directory"):
        set_aside(path)


def test_place_that_cannot_hold_a_file_is_refused(tmp_path: Path) -> None:
    """The error has the system's message."""
    (tmp_path / "taken").write_text("")
    with pytest.raises(StoreUnusable, match=r"cannot be opened: (Not a directory|File exists)"):
        StoreFile(tmp_path / "taken" / "state.db")
    with pytest.raises(StoreUnusable, match="cannot be opened: Is a directory"):
        StoreFile(tmp_path)


def test_backup_is_a_store_of_its_own(path: Path, file: StoreFile, tmp_path: Path) -> None:
    """It has the mode of the original, and never replaces an existing file."""
    file.commit(Commit(rows=rows(2, 3)))
    copy = tmp_path / "copy.db"
    file.backup(copy)
    file.commit(Commit(rows=rows(4)))
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    with closing(StoreFile(copy)) as other:
        assert revisions_of(other) == [2, 3]
    with pytest.raises(StoreUnusable, match=r"the backup .* cannot be made: .*File exists"):
        file.backup(copy)
