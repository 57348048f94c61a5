"""The atomic writer on a real disk: modes, links planted by others, and kills at any moment."""

import os
import stat
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pykubelet.kubelet.volumemanager.atomic_writer import has_version, write_payload
from pykubelet.kubelet.volumemanager.errors import VolumeError
from pykubelet.kubelet.volumemanager.projected import FileContent

NOW = datetime(2026, 1, 2, 3, 4, 5, 600, tzinfo=UTC)
OLD = {"a": FileContent(b"old a"), "dir/b": FileContent(b"old b"), "gone": FileContent(b"old")}
NEW = {"a": FileContent(b"new a"), "dir/b": FileContent(b"new b"), "dir/sub/c": FileContent(b"new c")}


class Killed(BaseException):
    """Simulates the end of the process at a system call."""


def content(volume: Path) -> dict[str, bytes]:
    """What a reader sees that resolves `..data` once."""
    version = volume / (volume / "..data").readlink()
    return {str(path.relative_to(version)): path.read_bytes() for path in version.rglob("*") if path.is_file()}


def plain(payload: dict[str, FileContent]) -> dict[str, bytes]:
    return {path: file.data for path, file in payload.items()}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture
def volume(folder: Path) -> Path:
    path = folder / "volume"
    path.mkdir()
    return path


@pytest.fixture
def strict_umask() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


def test_files_have_their_modes_whatever_the_umask(volume: Path, strict_umask: None) -> None:
    """Folders have mode 0755."""
    payload = {"a": FileContent(b"1", 0o444), "dir/b": FileContent(b"2", 0o600), "dir/c": FileContent(b"", 0o777)}
    write_payload(str(volume), payload, now=NOW)
    version = volume / "..2026_01_02_03_04_05.000600"
    assert [mode(version / path) for path in ("a", "dir/b", "dir/c")] == [0o444, 0o600, 0o777]
    assert mode(version) == mode(version / "dir") == 0o755


def test_owner_and_group_are_set_where_allowed(volume: Path) -> None:
    """An ordinary user cannot change the owner, which is no failure; the modes are set in any case."""
    payload = {"dir/token": FileContent(b"1", 0o600, 1234)}
    assert write_payload(str(volume), payload, now=NOW, group=4321)
    found = (volume / "dir/token").stat()
    owner = (1234, 4321) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    assert (found.st_uid, found.st_gid) == owner
    assert stat.S_IMODE(found.st_mode) == 0o640
    assert mode(volume / "..data/dir") & 0o777 == 0o755


def test_change_of_mode_alone_writes_nothing(volume: Path) -> None:
    """As upstream, only content is compared."""
    write_payload(str(volume), {"a": FileContent(b"1", 0o644)}, now=NOW)
    assert not write_payload(str(volume), {"a": FileContent(b"1", 0o600)}, now=NOW)
    assert mode(volume / "..data/a") == 0o644


def test_shortened_content_is_written(volume: Path) -> None:
    """The comparison does not stop at a common prefix."""
    write_payload(str(volume), {"a": FileContent(b"12")}, now=NOW)
    assert write_payload(str(volume), {"a": FileContent(b"1")}, now=NOW)
    assert content(volume) == {"a": b"1"}


def test_file_becomes_a_folder_and_back(volume: Path) -> None:
    """The link at the top stays; only its target changes."""
    write_payload(str(volume), {"a": FileContent(b"1")}, now=NOW)
    write_payload(str(volume), {"a/b": FileContent(b"2")}, now=NOW)
    assert (volume / "a/b").read_bytes() == b"2"
    write_payload(str(volume), {"a": FileContent(b"3")}, now=NOW)
    assert (volume / "a").read_bytes() == b"3"


def test_empty_payload_leaves_an_empty_volume(volume: Path) -> None:
    """It has a version, so it counts as written."""
    assert not has_version(str(volume))
    assert not has_version(str(volume / "nowhere"))
    write_payload(str(volume), OLD, now=NOW)
    write_payload(str(volume), {}, now=NOW)
    assert has_version(str(volume))
    assert [path.name for path in volume.iterdir() if not path.name.startswith("..")] == []


def test_many_files_in_deep_folders_are_written_at_once(volume: Path) -> None:
    """More than a hundred path elements are refused."""
    deep = "/".join("d" for _ in range(97))
    payload = {f"{deep}/{n}/{m}": FileContent(b"x") for n in range(20) for m in range(20)}
    payload["d.d"] = FileContent(b"sorts between d and d/d")
    assert write_payload(str(volume), payload, now=NOW)
    assert not write_payload(str(volume), payload, now=NOW)
    with pytest.raises(VolumeError, match=r"^invalid path: must have at most 100 elements$"):
        write_payload(str(volume), {f"{deep}/a/b/c/d": FileContent(b"x")}, now=NOW)


def test_tricks_with_links_lead_nowhere(volume: Path, folder: Path) -> None:
    """With links planted in place of our own, nothing outside is read, written or removed."""
    outside = folder / "outside"
    outside.mkdir()
    (outside / "a").write_text("precious")
    for target in ("../outside", str(outside), "..", "."):
        (volume / "..data").unlink(missing_ok=True)
        (volume / "..data").symlink_to(target)
        (volume / "a").unlink(missing_ok=True)
        (volume / "a").symlink_to(outside / "a")
        assert write_payload(str(volume), NEW, now=NOW)
        assert content(volume) == plain(NEW)
        assert str((volume / "a").readlink()) == "..data/a"
    version = volume / (volume / "..data").readlink()
    (version / "dir/b").unlink()
    (version / "dir/b").symlink_to(outside / "a")
    assert write_payload(str(volume), NEW, now=NOW)
    assert content(volume) == plain(NEW)
    assert (outside / "a").read_text() == "precious"
    assert [path.name for path in outside.iterdir()] == ["a"]


def test_volume_that_is_a_link_is_refused(volume: Path, folder: Path) -> None:
    """The node never creates a volume as a link."""
    (folder / "link").symlink_to(volume)
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        write_payload(str(folder / "link"), NEW, now=NOW)
    assert list(volume.iterdir()) == []


def test_mount_point_in_the_place_of_a_link_is_left(volume: Path) -> None:
    """Another volume is mounted there."""
    (volume / "dir").mkdir()
    write_payload(str(volume), NEW, now=NOW)
    assert (volume / "dir").is_dir()
    assert not (volume / "dir").is_symlink()
    write_payload(str(volume), {"a": FileContent(b"1")}, now=NOW)
    assert (volume / "dir").is_dir()


def test_failed_write_leaves_the_old_version(volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the new version remains."""
    write_payload(str(volume), OLD, now=NOW)
    before = sorted(volume.iterdir())

    def full(*_: Any, **__: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        write_payload(str(volume), NEW, now=NOW)
    monkeypatch.undo()
    assert sorted(volume.iterdir()) == before
    assert content(volume) == plain(OLD)


STEPS = ("mkdir", "open", "write", "fchmod", "symlink", "rename", "unlink", "rmdir")


def killing(monkeypatch: pytest.MonkeyPatch, at: int) -> Callable[[], int]:
    """Raise Killed at the given file system call; the returned function gives the number of calls so far."""
    count = 0

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            count += 1
            if count == at:
                raise Killed
            return original(*args, **kwargs)

        return step

    for name in STEPS:
        monkeypatch.setattr(os, name, wrap(getattr(os, name)))
    return lambda: count


def test_killed_at_any_moment_shows_one_version_and_recovers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers see the old or the new version; the next write completes without leftovers."""
    steps = 0
    for at in range(1, 1000):
        volume = folder / f"volume-{at}"
        volume.mkdir()
        write_payload(str(volume), OLD, now=NOW)
        with monkeypatch.context() as patch:
            done = killing(patch, at)
            try:
                write_payload(str(volume), NEW, now=NOW)
            except Killed:
                pass
            else:
                steps = done()
        assert content(volume) in (plain(OLD), plain(NEW))
        write_payload(str(volume), NEW, now=NOW)
        assert content(volume) == plain(NEW)
        version = (volume / "..data").readlink()
        assert sorted(path.name for path in volume.iterdir()) == sorted([str(version), "..data", "a", "dir"])
        if steps:
            break
    assert steps > 20
