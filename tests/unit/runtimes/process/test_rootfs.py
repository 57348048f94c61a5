"""Planning the root file system of a container, on a fake disk."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.runtimes.process.shim.namespace import bubblewrap_arguments
from pykubelet.runtimes.process.shim.rootfs import (
    FILE,
    FOLDER,
    LINK,
    NOTHING,
    HostFiles,
    ImpossibleView,
    ViewMount,
    ViewStep,
    plan_view,
)

MACHINE = {
    "/": "",
    "/dev": "",
    "/dev/null": "file",
    "/dev/sda": "file",
    "/etc": "",
    "/etc/hosts": "file",
    "/proc": "",
    "/run": "",
    "/run/lock": "",
    "/usr": "",
    "/usr/lib": "",
    "/lib": "-> usr/lib",
    "/var": "",
    "/var/run": "-> /run",
    "/loop": "-> /loop",
    "/volume": "",
    "/volume/sub": "",
    "/volume/out": "-> /etc",
    "/file": "file",
}


class MadeUpDisk(HostFiles):
    """Folders, files and links by path."""

    def __init__(self, entries: Mapping[str, str] = MACHINE) -> None:
        self._entries = entries

    def kind(self, path: str) -> str:
        entry = self._entries.get(path)
        if entry is None:
            return NOTHING
        return FOLDER if not entry else LINK if entry.startswith("-> ") else FILE

    def names(self, path: str) -> Sequence[str]:
        prefix = path.rstrip("/") + "/"
        below = (known.removeprefix(prefix) for known in self._entries if known.startswith(prefix))
        return sorted(name for name in below if name and "/" not in name)

    def link(self, path: str) -> str:
        return self._entries[path].removeprefix("-> ")


def added(*mounts: ViewMount, read_only: bool = False) -> list[ViewStep]:
    """The steps beyond those of every view."""
    base = plan_view([], MadeUpDisk())
    steps = plan_view(mounts, MadeUpDisk(), read_only=read_only)
    assert steps[: len(base)] == base
    return steps[len(base) :]


def volume_at(path: str, source: str = "/volume") -> ViewStep:
    return ViewStep("bind", path, source, is_private=True)


@pytest.mark.parametrize(
    ("path", "is_mounted"),
    [("/etc", False), ("/file", False), ("/new", False), ("/new/volume/deep", False), ("/new/other", True)],
    ids=["is there", "a file", "made for a volume", "in a volume", "is nowhere"],
)
def test_spare_folder_is_mounted_where_nothing_would_be(path: str, is_mounted: bool) -> None:
    """Existing paths are not hidden."""
    mounts = [ViewMount("/volume", "/new/volume")]
    steps = plan_view(mounts, MadeUpDisk(), spare=ViewMount("/volume", path))
    assert (volume_at(path) in steps) is is_mounted
    if not is_mounted and not path.startswith("/new/volume/"):
        assert steps == plan_view(mounts, MadeUpDisk())


def test_missing_spare_folder_in_a_volume_is_made_there_at_the_end() -> None:
    """The plan follows the links of the path; the steps follow none."""
    mounts = [ViewMount("/volume", "/new/volume")]
    disk = MadeUpDisk({**MACHINE, "/volume/link": "-> sub"})
    steps = plan_view(mounts, disk, spare=ViewMount("/volume", "/new/volume/link/deep/down"))
    paths = ["/new/volume/sub/deep", "/new/volume/sub/deep/down"]
    assert steps == [*plan_view(mounts, disk), *(ViewStep(FOLDER, path) for path in paths)]


def test_missing_spare_folder_in_a_read_only_volume_is_refused() -> None:
    mounts = [ViewMount("/volume", "/new/volume", read_only=True)]
    with pytest.raises(ImpossibleView, match="/new/volume/x does not exist in the read-only volume at /new/volume"):
        plan_view(mounts, MadeUpDisk(), spare=ViewMount("/volume", "/new/volume/x"))


def test_view_without_mounts_is_the_machine() -> None:
    """Top-level folders and files are bind mounted and links recreated, in a root in memory."""
    steps = plan_view([], MadeUpDisk())
    assert steps[0] == ViewStep("memory", "/", "/")
    assert [step.path for step in steps if step.action == "bind"] == [
        "/dev", "/etc", "/file", "/proc", "/run", "/usr", "/var", "/volume",
    ]  # fmt: skip
    assert ViewStep(LINK, "/lib", "usr/lib") in steps


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("/usr/lib", [volume_at("/usr/lib")]),
        ("/usr//lib/./", [volume_at("/usr/lib")]),
        ("/lib", [volume_at("/usr/lib")]),
        ("/data", [ViewStep(FOLDER, "/data"), volume_at("/data")]),
        ("/a/b", [ViewStep(FOLDER, "/a"), ViewStep(FOLDER, "/a/b"), volume_at("/a/b")]),
    ],
    ids=["exists", "written oddly", "is a link", "missing in the root", "missing, two deep"],
)
def test_mount_point_is_found_or_made_in_memory(path: str, steps: list[ViewStep]) -> None:
    """Existing paths are used; missing ones are created in the root, which is in memory."""
    assert added(ViewMount("/volume", path)) == steps


def test_folder_that_lacks_a_mount_point_is_made_anew() -> None:
    """Its entries are bound into the new folder; links on the way are resolved inside the container."""
    assert added(ViewMount("/volume", "/var/run/secrets/x")) == [
        ViewStep("memory", "/run", "/run"),
        ViewStep(FOLDER, "/run/lock"),
        ViewStep("bind", "/run/lock", "/run/lock"),
        ViewStep(FOLDER, "/run/secrets"),
        ViewStep(FOLDER, "/run/secrets/x"),
        volume_at("/run/secrets/x"),
    ]


def test_recreated_dev_has_only_the_usual_devices() -> None:
    """Disks are left out."""
    steps = added(ViewMount("/file", "/dev/termination-log"))
    assert [step.path for step in steps if step.action == "bind"] == ["/dev/null", "/dev/termination-log"]
    assert ViewStep(FILE, "/dev/termination-log") in steps


def test_mounts_go_on_top_of_folders_made_anew() -> None:
    """No mount is covered by a later folder, in any order of requests."""
    steps = added(ViewMount("/file", "/etc/hosts"), ViewMount("/volume", "/etc/config"))
    assert steps.index(ViewStep("memory", "/etc", "/etc")) < steps.index(volume_at("/etc/hosts", "/file"))


def test_outer_mount_goes_first() -> None:
    """A mount point inside a volume is one of the volume's folders."""
    steps = added(ViewMount("/etc", "/data/sub"), ViewMount("/volume", "/data"))
    assert steps == [ViewStep(FOLDER, "/data"), volume_at("/data"), volume_at("/data/sub", "/etc")]


@pytest.mark.parametrize("host_path", ["/volume", "/data"], ids=["of another name", "of the same name"])
def test_mount_point_that_a_volume_lacks_is_made_in_it(host_path: str) -> None:
    """It is created after the volume is mounted; later mounts use the folders of earlier ones."""
    disk = MadeUpDisk({**MACHINE, "/data": ""})
    mounts = [
        ViewMount("/file", "/data/new/file"),
        ViewMount(host_path, "/data"),
        ViewMount("/etc", "/data/new/folder"),
    ]
    assert plan_view(mounts, disk)[len(plan_view([], disk)) :] == [
        volume_at("/data", host_path),
        ViewStep(FOLDER, "/data/new"),
        ViewStep(FILE, "/data/new/file"),
        volume_at("/data/new/file", "/file"),
        ViewStep(FOLDER, "/data/new/folder"),
        volume_at("/data/new/folder", "/etc"),
    ]


def test_link_in_a_volume_leads_nowhere_but_in_the_view() -> None:
    """A link made by a container can only move its own mounts."""
    steps = added(ViewMount("/volume", "/data"), ViewMount("/usr", "/data/out/new"))
    assert steps[0] == ViewStep("memory", "/etc", "/etc")
    assert steps[-1] == volume_at("/etc/new", "/usr")


def test_read_only_view_is_locked_but_for_mounts_and_devices() -> None:
    """It is made read-only after mount points are created, and before volumes are mounted."""
    steps = added(ViewMount("/volume", "/data"), read_only=True)
    locked = [step.path for step in steps if step.action == "lock"]
    assert locked == ["/etc", "/run", "/usr", "/var", "/volume", "/"]
    assert [steps[0].action, steps[-1].action] == [FOLDER, "bind"]


@pytest.mark.parametrize(
    ("mounts", "told"),
    [
        ([ViewMount("/nothing", "/data")], "/nothing does not exist"),
        ([ViewMount("/file", "/usr")], "/usr is a folder"),
        ([ViewMount("/volume", "/file")], "/file is a file"),
        ([ViewMount("/volume", "/file/x")], "leads through the file /file"),
        ([ViewMount("/volume", "/loop/x")], "too many links"),
        ([ViewMount("/volume", "/usr/..")], "is the root"),
        ([ViewMount("/volume", "/nothing/../x")], "has .. after a name that does not exist"),
        (
            [ViewMount("/volume", "/data", read_only=True), ViewMount("/etc", "/data/new")],
            "does not exist in the read-only volume",
        ),
    ],
    ids=[
        "no source",
        "file on folder",
        "folder on file",
        "through a file",
        "loop",
        "root",
        "back",
        "missing in a read-only volume",
    ],
)
def test_impossible_view_is_refused(mounts: list[ViewMount], told: str) -> None:
    """The error contains the path."""
    with pytest.raises(ImpossibleView, match=told):
        plan_view(mounts, MadeUpDisk())


def test_folder_that_holds_too_much_is_not_made_anew() -> None:
    """Each entry would be a mount."""
    entries = {"/": "", "/big": "", "/v": "", **{f"/big/{number}": "file" for number in range(6000)}}
    with pytest.raises(ImpossibleView, match="/big has too many entries"):
        plan_view([ViewMount("/v", "/big/new")], MadeUpDisk(entries))


NAMES = st.sampled_from(["a", "b", "etc", "usr", "lib", "var", "run", "data", "hosts", ".", "..", "loop"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(lambda names: "/" + "/".join(names))


@settings(max_examples=200)
@given(st.lists(st.builds(ViewMount, st.sampled_from(["/volume", "/file", "/etc"]), PATHS), max_size=4), st.booleans())
def test_any_plan_can_be_carried_out(mounts: list[ViewMount], read_only: bool) -> None:
    """Only paths in memory or in volumes are created, none twice, and every mount is part of the plan."""
    try:
        steps = plan_view(mounts, MadeUpDisk(), read_only=read_only)
    except ImpossibleView:
        return
    in_memory, made = {"/"}, {"/"}
    volumes: list[str] = []
    for step in steps:
        parent = step.path.rpartition("/")[0] or "/"
        if step.action == "memory":
            in_memory.add(step.path)
        elif step.action == "bind":
            in_memory.discard(step.path)
            volumes += [f"{step.path}/"] if step.is_private else []
        elif step.action in {FOLDER, FILE, LINK}:
            in_volume = f"{parent}/".startswith(tuple(volumes))
            assert in_volume or parent in in_memory, "made on the machine's own disk"
            assert step.path not in made, "made twice"
            made.add(step.path)
            in_memory |= {step.path} if step.action == FOLDER and not in_volume else set()
    private = [step for step in steps if step.action == "bind" and step.is_private]
    assert sorted(step.source for step in private) == sorted(mount.host_path for mount in mounts)


def test_steps_become_bubblewrap_arguments() -> None:
    """Bubblewrap's root is in memory already, and it creates the targets of file binds itself."""
    steps = plan_view([ViewMount("/file", "/etc/new"), ViewMount("/volume", "/data", read_only=True)], MadeUpDisk())
    words = " ".join(bubblewrap_arguments(steps))
    assert "--tmpfs / " not in words
    assert "--symlink usr/lib /lib" in words
    assert "--tmpfs /etc --dev-bind /etc/hosts /etc/hosts" in words
    assert words.endswith("--dir /data --ro-bind /volume /data --dev-bind /file /etc/new")


def test_entry_that_vanishes_is_left_out() -> None:
    """The host's files may change during planning."""

    class Vanishing(MadeUpDisk):
        def names(self, path: str) -> Sequence[str]:
            return [*super().names(path), "vanished"]

    assert plan_view([], Vanishing()) == plan_view([], MadeUpDisk())
