"""The process runtime run by an ordinary user: processes, and volumes on machines with user namespaces."""

import asyncio
import json
import os
import shutil
import sys
from asyncio.subprocess import PIPE
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from pykubelet.kubelet.logs.log_lines import LogFilter, LogQuery, split_lines
from pykubelet.runtimes.process.shim.rootfs import BY_BUBBLEWRAP, BY_USER
from requirements import missing, needs_root

pytestmark = needs_root

AGENT = Path(__file__).parents[2] / "support/process_agent.py"
UID = 12345


@pytest.fixture
def own_folder() -> Iterator[Path]:
    """A folder that the ordinary user owns and can reach, outside of root's folders."""
    with TemporaryDirectory() as folder:
        os.chown(folder, UID, UID)
        yield Path(folder)


async def run_as_user(
    folder: Path, *containers: dict[str, Any], **more: Any
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Run containers with an agent of the ordinary user; returns its reports and the exit codes by container ID."""
    order = {"uid": UID, "root": f"{folder}/state", "logs": str(folder), "containers": containers, "until_ended": True}
    order |= more
    process = await asyncio.create_subprocess_exec(sys.executable, str(AGENT), json.dumps(order), stdout=PIPE)
    assert process.stdout is not None
    words = [json.loads(line) for line in (await process.stdout.read()).splitlines()]
    assert await process.wait() == 0
    codes = {id: code for word in words for id, code in word.get("ended", {}).items()}
    return [word for word in words if "ended" not in word], codes


def log_of(told: dict[str, Any]) -> list[str]:
    return LogFilter(LogQuery()).take(split_lines(Path(told["log_path"]).read_bytes())).decode().splitlines()


async def test_ordinary_user_runs_containers_as_itself(own_folder: Path) -> None:
    """The container has no capabilities, and its exit code is reported."""
    command = ["sh", "-c", "id -u; grep CapEff /proc/self/status; exit 7"]
    (told,), codes = await run_as_user(own_folder, {"command": command})
    assert log_of(told) == [str(UID), "CapEff:\t0000000000000000"]
    assert codes == {told["id"]: 7}


@pytest.mark.parametrize("way", [BY_USER, BY_BUBBLEWRAP])
async def test_ordinary_user_has_volumes_at_their_paths(own_folder: Path, way: str) -> None:
    """In a user namespace the user keeps its UID; a mount may be read-only."""
    if way == BY_BUBBLEWRAP and not shutil.which("bwrap"):
        missing("bubblewrap is not installed")
    volume = own_folder / "volume"
    volume.mkdir()
    os.chown(volume, UID, UID)
    (volume / "greeting").write_text("hello\n")
    paths = {"/no/such": False, "/etc/no-such": True, "/var/run/secrets/kubernetes.io/serviceaccount": False}
    mounts = [{"host_path": str(volume), "container_path": path, "read_only": lock} for path, lock in paths.items()]
    script = "cat /no/such/greeting; touch /etc/no-such/x 2>/dev/null || echo locked; touch /no/such/mine; id -u; stat -c %u /no/such"
    (told,), codes = await run_as_user(own_folder, {"command": ["sh", "-c", script], "mounts": mounts}, way=way)
    if "failure" in told:
        assert told["reason"] == "CreateContainerConfigError"
        missing("no user namespaces on this machine")
    assert log_of(told) == ["hello", "locked", str(UID), str(UID)]
    assert (volume / "mine").stat().st_uid == UID
    assert list(codes.values()) == [0]


@pytest.mark.parametrize("way", [BY_USER, BY_BUBBLEWRAP])
async def test_ordinary_user_runs_commands_in_its_containers(own_folder: Path, way: str) -> None:
    """The commands see the mounts of the container."""
    if way == BY_BUBBLEWRAP and not shutil.which("bwrap"):
        missing("bubblewrap is not installed")
    mount = {"host_path": str(own_folder), "container_path": "/no/such"}
    container = {"command": ["sh", "-c", "uname -n >/no/such/name; sleep 1000"], "mounts": [mount]}
    (told, *rest), _ = await run_as_user(own_folder, container, way=way, run=["sh", "-c", "id -u; ls -d /no/such"])
    if "failure" in told:
        missing("no user namespaces on this machine")
    assert rest == [{"exit_code": 0, "output": f"{UID}\n/no/such\n"}]


async def test_ordinary_user_cannot_become_another(own_folder: Path) -> None:
    """A pod with another runAsUser is refused; one with the same user runs."""
    refused = {"command": ["id"], "run_as_user": 4711}
    words, codes = await run_as_user(own_folder, refused, {"command": ["true"], "run_as_user": UID})
    assert words[0]["reason"] == "CreateContainerConfigError"
    assert words[0]["failure"] == (
        f'container "main": runAsUser is 4711, but the kubelet is not root and runs containers as user {UID} only'
    )
    assert list(codes.values()) == [0]
