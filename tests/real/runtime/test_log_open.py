"""Log files that a pod with access to the log folder has replaced by links, pipes or folders."""

import gzip
import os
from pathlib import Path

import pytest

from pykubelet.kubelet.logs.container_log_manager import create_beside, open_log
from pykubelet.kubelet.logs.log_reader import LogFiles

LINE = b"2026-01-01T00:00:00Z stdout F hello\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "logs/ns_web_1/main/0.log"
    path.parent.mkdir(parents=True)
    path.write_bytes(LINE)
    return path


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "machine/main/0.log"
    path.parent.mkdir(parents=True)
    path.write_text("a secret of the machine\n")
    return path


def test_log_is_read(log: Path) -> None:
    """The folder above the pods' log folders may be a symbolic link."""
    with open_log(log) as file:
        assert file.read() == LINE
    (log.parents[3] / "link").symlink_to(log.parents[2])
    with open_log(log.parents[3] / "link/ns_web_1/main/0.log") as file:
        assert file.read() == LINE


@pytest.mark.parametrize("level", [0, 1, 2])
def test_link_in_the_place_of_a_log_or_its_folders_is_not_followed(log: Path, secret: Path, level: int) -> None:
    """Otherwise a user who may read a pod's log could read any file of the machine."""
    place, target = (log, *log.parents)[level], (secret, *secret.parents)[level]
    place.rename(place.with_name("away"))
    place.symlink_to(target)
    with pytest.raises(FileNotFoundError):
        LogFiles(log)


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_what_is_no_file_is_no_log(log: Path, kind: str) -> None:
    """A log that is not a regular file is not opened, and opening a pipe does not wait for a writer."""
    log.unlink()
    if kind == "pipe":
        os.mkfifo(log)
    else:
        log.mkdir()
    with pytest.raises(FileNotFoundError):
        open_log(log)


def test_link_among_older_files_is_left_out(log: Path, secret: Path) -> None:
    """This holds for compressed and uncompressed rotated logs."""
    for name in ("0.log.20260101-000000", "0.log.20260101-000001.gz"):
        (log.parent / name).symlink_to(secret)
    files = LogFiles(log)
    assert files.next_lines() == [LINE]
    files.close()


def test_file_beside_a_log_is_new(log: Path, secret: Path) -> None:
    """An existing symbolic link is replaced, not written through."""
    beside = log.with_name("0.log.tmp")
    beside.symlink_to(secret)
    with create_beside(beside, 0o640) as file, gzip.GzipFile(fileobj=file, mode="wb") as packed:
        packed.write(LINE)
    assert secret.read_text() == "a secret of the machine\n"
    assert not beside.is_symlink()
    assert beside.stat().st_mode & 0o777 == 0o640
