"""Which cgroups a process finds for its containers: prepared folders instead of the kernel's, which one machine has in one form."""

import os
from pathlib import Path

import pytest

from pykubelet.runtimes.process.cgroups import (
    CONTROLLERS,
    CPU,
    MEMORY,
    NO_CGROUPS,
    PIDS,
    AvailableCgroups,
    find_cgroups,
    unenforced_limits,
)

ALL = dict.fromkeys(CONTROLLERS, "/g")


def make_cgroup(path: Path, *, processes: str = "") -> Path:
    """A folder like a cgroup of version 2."""
    path.mkdir(parents=True)
    (path / "cgroup.procs").write_text(processes)
    return path


def test_root_uses_a_cgroup_at_the_top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the controllers that the kernel enables there are used."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids")
    (tmp_path / "cgroup.procs").write_text("1")
    own = tmp_path / "own"
    own.write_text("0::/system.slice/x.service\n")
    folder = tmp_path / "pykubelet"
    folder.mkdir()
    (folder / "cgroup.subtree_control").write_text("")
    found = find_cgroups(tmp_path, own)
    # A plain file keeps only the last write; the kernel would keep all.
    assert (found.version, dict(found.folders)) == (2, {})
    assert (folder / "cgroup.subtree_control").read_text() == "+pids"


def test_cgroups_of_version_1_are_below_our_own(tmp_path: Path) -> None:
    """They stay within our own limits; without any hierarchy there are none."""
    own = tmp_path / "own"
    own.write_text("3:memory:/ours\n2:cpu,cpuacct:/\n0::/\n")
    assert find_cgroups(tmp_path / "nothing", own) == NO_CGROUPS
    (tmp_path / "memory/ours").mkdir(parents=True)
    (tmp_path / "cpu").mkdir()
    found = find_cgroups(tmp_path, own)
    assert dict(found.folders) == {MEMORY: f"{tmp_path}/memory/ours/pykubelet", CPU: f"{tmp_path}/cpu/pykubelet"}
    assert find_cgroups(tmp_path, tmp_path / "missing") == NO_CGROUPS


def test_cgroup_of_somebody_else_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a login session, whose scope and slice belong to root: nothing is created."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "access", lambda *_: False)
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids")
    make_cgroup(tmp_path / "user.slice" / "session-1.scope")
    own = tmp_path / "own"
    own.write_text("0::/user.slice/session-1.scope\n")
    found = find_cgroups(tmp_path, own)
    assert found == AvailableCgroups(version=2)
    assert [path.name for path in (tmp_path / "user.slice").iterdir()] == ["session-1.scope"]
    assert "systemd-run --user --scope -p Delegate=yes" in unenforced_limits(found, max_pids=1).advice


@pytest.mark.parametrize(
    ("folders", "version", "uid", "resources", "max_pids", "advice"),
    [
        (ALL, 2, 1000, set(), 0, ""),
        ({MEMORY: "/g", PIDS: "/g"}, 2, 1000, {CPU}, 0, "give its user the cgroup controllers cpu"),
        ({}, 2, 1000, {CPU, MEMORY}, 9, "systemd-run --user --scope"),
        ({}, 0, 1000, {CPU, MEMORY}, 9, "run the node as root"),
        ({CPU: "/g"}, 1, 0, {MEMORY}, 9, "make the cgroup controllers memory, pids writable"),
    ],
    ids=["all", "without cpu", "not delegated", "version 1", "root"],
)
def test_limits_without_a_controller_are_not_enforced(
    folders: dict[str, str],
    version: int,
    uid: int,
    resources: set[str],
    max_pids: int,
    advice: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The advice fits the user and the cgroup version."""
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    found = unenforced_limits(AvailableCgroups(version=version, folders=folders), max_pids=9)
    assert (set(found.resources), found.max_pids) == (resources, max_pids)
    assert advice in found.advice
    assert bool(found.advice) == bool(advice)
