"""The store's file: its mode, commits, the files that are refused, and how it stays small."""

import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pykubelet.apiserver.storage.interfaces import StoreUnusable
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
    with pytest.raises(StoreUnusable, match=r"state\.db is in use by another process: stop that one"):
        StoreFile(path)
    assert revisions_of(file) == []


def test_damaged_file_is_refused_with_what_to_do(path: Path) -> None:
    """Opening fails before any data is served."""
    with closing(StoreFile(path)) as file:
        file.commit(Commit(rows=rows(*range(2, 200), size=3000)))
    with path.open("r+b") as data:
        data.seek(40_960)
        data.write(b"\xff" * 40_960)
    with pytest.raises(StoreUnusable, match=r"state\.db is damaged \(.+\): move it and its -wal file away"):
        StoreFile(path)


@pytest.mark.parametrize("text", [b"this is a text file, not a database\n" * 100, b"\0" * 5000], ids=["text", "zeros"])
def test_file_that_is_no_database_is_refused(path: Path, text: bytes) -> None:
    """The file is left unchanged."""
    path.parent.mkdir()
    path.write_bytes(text)
    with pytest.raises(StoreUnusable, match="is damaged"):
        StoreFile(path)
    assert path.read_bytes() == text


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        pytest.param("PRAGMA application_id = 7", "is a database of another program", id="mark"),
        pytest.param("PRAGMA user_version = 9", r"was written by a newer version \(schema 9\)", id="version"),
    ],
)
def test_file_of_another_program_or_version_is_refused(path: Path, statement: str, problem: str) -> None:
    """Data of other programs is not overwritten."""
    StoreFile(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
    with pytest.raises(StoreUnusable, match=problem):
        StoreFile(path)


def test_database_with_foreign_tables_is_refused(path: Path) -> None:
    """This holds even if it has no application id."""
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    with pytest.raises(StoreUnusable, match="is a database of another program"):
        StoreFile(path)


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
