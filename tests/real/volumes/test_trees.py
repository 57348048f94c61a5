"""Removing and reading trees that other processes change, on a real disk."""

import errno
import os
from pathlib import Path

import pytest

from pykubelet.kubelet.volumemanager import filesystem
from pykubelet.kubelet.volumemanager.filesystem import SystemMounter


def remove(folder: Path, name: str, *, with_files: bool = True) -> None:
    with filesystem.opened(str(folder)) as handle:
        filesystem.remove_tree(handle, name, with_files=with_files)


def test_removal_takes_all_below_but_follows_no_link(folder: Path) -> None:
    """The targets of links stay, both folders and files."""
    outside = folder / "outside"
    (outside / "inner").mkdir(parents=True)
    (outside / "file").write_text("precious")
    tree = folder / "tree"
    (tree / "a/b").mkdir(parents=True)
    (tree / "a/file").write_text("x")
    (tree / "a/to-folder").symlink_to(outside)
    (tree / "to-file").symlink_to(outside / "file")
    os.mkfifo(tree / "pipe")
    remove(folder, "tree")
    assert not tree.exists()
    assert (outside / "file").read_text() == "precious"
    assert (outside / "inner").is_dir()


def test_removal_of_a_link_file_or_missing_name(folder: Path) -> None:
    """The target of the link stays."""
    (folder / "real").mkdir()
    (folder / "link").symlink_to("real")
    (folder / "file").touch()
    for name in ("link", "file", "nothing"):
        remove(folder, name)
    assert [path.name for path in folder.iterdir()] == ["real"]


def test_removal_is_never_too_deep(folder: Path) -> None:
    """Containers may nest folders deeper than the stack and the path length allow."""
    handle = os.open(folder, filesystem.FOLDER)
    for _ in range(1500):
        os.mkdir("deep", dir_fd=handle)
        inner = os.open("deep", filesystem.FOLDER, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.close(handle)
    remove(folder, "deep")
    assert list(folder.iterdir()) == []


def test_removal_opens_folders_without_permissions(folder: Path) -> None:
    """Caches of build tools have such folders; root is not affected by them."""
    locked = folder / "tree/locked"
    (locked / "inner").mkdir(parents=True)
    (locked / "inner/file").touch()
    (locked / "inner").chmod(0)
    locked.chmod(0o500)
    remove(folder, "tree")
    assert not (folder / "tree").exists()


def test_removal_stops_when_a_folder_is_moved_from_under_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parent is no longer the folder that it came from, so nothing there is touched."""
    (folder / "tree/a/b").mkdir(parents=True)
    (folder / "elsewhere/a").mkdir(parents=True)
    original = os.rmdir

    def move_away(path: str, *, dir_fd: int) -> None:
        original(path, dir_fd=dir_fd)
        if path == "b":
            (folder / "tree/a").rename(folder / "elsewhere/moved")

    monkeypatch.setattr(os, "rmdir", move_away)
    with pytest.raises(OSError, match="moved while it was removed"):
        remove(folder, "tree")
    assert (folder / "elsewhere/a").is_dir()


def test_removal_without_files_stops_at_the_first(folder: Path) -> None:
    """It removes only empty folders."""
    (folder / "empty/a/b").mkdir(parents=True)
    remove(folder, "empty", with_files=False)
    assert not (folder / "empty").exists()
    (folder / "full/a").mkdir(parents=True)
    (folder / "full/a/file").write_text("x")
    with pytest.raises(OSError, match="a file is left there"):
        remove(folder, "full", with_files=False)
    assert (folder / "full/a/file").read_text() == "x"


def test_removal_stops_where_something_is_mounted(folder: Path, may_mount: bool) -> None:
    """A bind mount of the same file system is detected too, and its files stay."""
    (folder / "precious").mkdir()
    (folder / "precious/file").write_text("x")
    target = folder / "tree/a"
    target.mkdir(parents=True)
    mounter = SystemMounter()
    if not may_mount:
        with pytest.raises(PermissionError):
            mounter.bind(str(folder / "precious"), str(target))
        assert not filesystem.is_mount_point(str(target))
        return
    mounter.bind(str(folder / "precious"), str(target))
    try:
        assert filesystem.is_mount_point(str(target))
        with pytest.raises(filesystem.CrossesMount):
            remove(folder, "tree")
    finally:
        mounter.unmount(str(target))
    assert (folder / "precious/file").read_text() == "x"
    assert not filesystem.is_mount_point(str(target))


def test_paths_below_are_all_there_are(folder: Path) -> None:
    """Links are listed but not followed."""
    (folder / "a/b").mkdir(parents=True)
    (folder / "a/b/file").touch()
    (folder / "link").symlink_to("a")
    with filesystem.opened(str(folder)) as handle:
        assert sorted(filesystem.paths_below(handle)) == ["a", "a/b", "a/b/file", "link"]


def test_opening_below_follows_no_link(folder: Path) -> None:
    """A link is refused both as a folder on the way and as the file."""
    (folder / "a").mkdir()
    (folder / "a/file").write_text("x")
    (folder / "way").symlink_to("a")
    (folder / "a/end").symlink_to("file")
    with filesystem.opened(str(folder)) as handle:
        with filesystem.opened_below(handle, "a/file", filesystem.FILE) as file:
            assert filesystem.read_at_most(file, 10) == b"x"
        for path in ("way/file", "a/end"):
            with pytest.raises(OSError, match=r".") as caught, filesystem.opened_below(handle, path, filesystem.FILE):
                pass
            assert caught.value.errno in {errno.ELOOP, errno.ENOTDIR}


@pytest.mark.timeout(5)
def test_reading_refuses_a_pipe_without_waiting_for_it(folder: Path) -> None:
    """The pipe may never get a writer."""
    os.mkfifo(folder / "pipe")
    with (
        filesystem.opened(str(folder / "pipe"), filesystem.FILE) as handle,
        pytest.raises(OSError, match="not a regular file"),
    ):
        filesystem.read_at_most(handle, 10)
