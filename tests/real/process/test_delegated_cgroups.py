"""Cgroups of version 2 that the kernel lets an ordinary user have, as systemd delegates them.

The machine's hierarchy of version 2 may have no controller but hugetlb, if the others are in hierarchies of version 1; the
rules for all controllers are the same.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from requirements import missing, needs_root

pytestmark = needs_root

UID = 12345
USER = Path(__file__).parents[2] / "support" / "ordinary_user.py"
# Joins the cgroup and finds cgroups as the agent does; then a child joins one of them, as a container.
AGENT = """
import json, os, sys
from pathlib import Path
from pykubelet.runtimes.process import cgroups
mount, controller = Path(sys.argv[1]), sys.argv[2]
cgroups.CONTROLLERS = (controller,)
found = cgroups.find_cgroups(mount)
inside = ""
if found.folders:
    container = Path(found.folders[controller]) / "container"
    container.mkdir()
    if os.fork() == 0:
        (container / "cgroup.procs").write_text("0")
        os._exit(0)
    inside = os.waitstatus_to_exitcode(os.wait()[1])
    settings = sorted(path.name.partition(".")[0] for path in container.iterdir())
    container.rmdir()
    print(json.dumps({"folder": found.folders[controller], "exit": inside, "has": controller in settings}))
else:
    print(json.dumps({"version": found.version}))
"""


@pytest.fixture(scope="module")
def hierarchy() -> Path:
    """The mounted hierarchy of version 2."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    found = next((Path(fields[1]) for fields in mounts if fields[2] == "cgroup2" and "rw" in fields[3]), None)
    if found is None:
        missing("no hierarchy of cgroup v2 is mounted")
    return found


@pytest.fixture(scope="module")
def controller(hierarchy: Path) -> Iterator[str]:
    """A controller that cgroups of the hierarchy may have, enabled at the top."""
    known = (hierarchy / "cgroup.controllers").read_text().split()
    if not known:
        missing("the hierarchy of cgroup v2 has no controllers")
    name = "pids" if "pids" in known else known[0]
    switch = hierarchy / "cgroup.subtree_control"
    was_enabled = name in switch.read_text().split()
    switch.write_text(f"+{name}")
    yield name
    if not was_enabled:
        switch.write_text(f"-{name}")


@pytest.fixture
def slice_of_user(hierarchy: Path, controller: str) -> Iterator[Path]:
    """A cgroup that belongs to the machine, with the controller for what is in it."""
    folder = hierarchy / f"pykubelet-test-{os.getpid()}"
    folder.mkdir()
    (folder / "cgroup.subtree_control").write_text(f"+{controller}")
    yield folder
    for path, _, _ in os.walk(folder, topdown=False):
        Path(path).rmdir()


def delegate(cgroup: Path) -> Path:
    """Give a cgroup to the ordinary user, as systemd does with `Delegate=yes`."""
    cgroup.mkdir()
    for path in (cgroup, *(cgroup / name for name in ("cgroup.procs", "cgroup.subtree_control", "cgroup.threads"))):
        os.chown(path, UID, UID)
    return cgroup


def agent_in(cgroup: Path, hierarchy: Path, controller: str, *, as_root: bool = False) -> dict[str, Any]:
    """What an agent finds that runs in a cgroup."""
    become = [] if as_root else [sys.executable, str(USER), str(UID)]
    join = ["sh", "-c", f'echo 0 > "{cgroup}/cgroup.procs"; exec "$@"', "sh"]
    command = [*join, *become, sys.executable, "-c", AGENT, str(hierarchy), controller]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_user_that_owns_the_cgroup_above_has_cgroups_beside_its_own(
    slice_of_user: Path, hierarchy: Path, controller: str
) -> None:
    """As for a scope in a user session of systemd, and for a service with DelegateSubgroup."""
    app_slice = delegate(slice_of_user / "app.slice")
    scope = delegate(app_slice / "run-1.scope")
    found = agent_in(scope, hierarchy, controller)
    assert found == {"folder": str(app_slice / "pykubelet"), "exit": 0, "has": True}


def test_user_that_owns_its_own_cgroup_moves_into_a_leaf_of_it(
    slice_of_user: Path, hierarchy: Path, controller: str
) -> None:
    """A cgroup with processes gives its children no controllers. The next agent finds the same cgroups again."""
    service = delegate(slice_of_user / "pykubelet.service")
    expected = {"folder": str(service / "pykubelet"), "exit": 0, "has": True}
    assert agent_in(service, hierarchy, controller) == expected
    assert agent_in(service / "pykubelet-agent", hierarchy, controller) == expected


def test_user_without_a_cgroup_of_its_own_has_none(slice_of_user: Path, hierarchy: Path, controller: str) -> None:
    """As in a login session; nothing is created, and no process is moved."""
    session = slice_of_user / "session-1.scope"
    session.mkdir()
    assert agent_in(session, hierarchy, controller) == {"version": 2}
    assert not [path for path in (*session.iterdir(), *slice_of_user.iterdir()) if path.is_dir() and path != session]
