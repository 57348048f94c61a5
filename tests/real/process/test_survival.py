"""Kills of the agent, a supervisor or the spawner lose nothing, and reused PIDs are recognized."""

import asyncio
import json
import os
import select
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from process_lab import Lab, children_of, exists, make_runtime, processes_with, stop_everything, until
from pykubelet.runtimes.folder_lock import FolderInUse
from pykubelet.runtimes.process.runtime import ProcessRuntime
from pykubelet.runtimes.process.shim.processes import boot_id, identify, open_process
from pykubelet.runtimes.process.state import StateFolders
from pykubelet.runtimes.protocol import ContainerState, RuntimeContainer, RuntimeFailure, SandboxRequest
from requirements import missing

AGENT = Path(__file__).parents[2] / "support/process_agent.py"


@asynccontextmanager
async def agent(root: Path, *containers: dict[str, Any], **order: Any) -> AsyncIterator[Process]:
    """Run an agent as a process of its own."""
    told = json.dumps({"root": str(root), "logs": str(root.parent), "containers": containers, **order})
    process = await asyncio.create_subprocess_exec(sys.executable, str(AGENT), told, stdout=PIPE)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def words_of(process: Process) -> list[dict[str, Any]]:
    """The agent's reports up to `ready`."""
    assert process.stdout is not None
    found: list[dict[str, Any]] = []
    while line := await process.stdout.readline():
        found.append(json.loads(line))
        if "ready" in found[-1]:
            break
    return found


@pytest.fixture
def reopened(root: Path) -> Callable[[], Any]:
    """Opens the runtime in the folder of an agent that has ended."""

    @asynccontextmanager
    async def open_again() -> AsyncIterator[ProcessRuntime]:
        async with make_runtime(root) as runtime:
            try:
                yield runtime
            finally:
                await stop_everything(runtime)

    return open_again


def log_of(told: dict[str, Any]) -> bytes:
    return Path(told["log_path"]).read_bytes()


def name_of(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text()


async def containers(runtime: ProcessRuntime) -> dict[str, RuntimeContainer]:
    return {one.id: one for pod in await runtime.pods() for one in pod.containers}


async def test_killed_agent_is_not_missed(root: Path, reopened: Callable[[], Any]) -> None:
    """The next agent finds running containers and the exit codes of those that exited meanwhile."""
    orders = [
        {"command": ["sh", "-c", f"sleep {delay}; echo done; exit {delay_code}"]}
        for delay, delay_code in ((0.6, 11), (1000, 0))
    ]
    async with agent(root, *orders) as process:
        ending, running, _ = await words_of(process)
        process.kill()
        await process.wait()
    await until((root / "containers" / ending["id"] / "exit.json").exists)
    async with reopened() as runtime:
        found = await containers(runtime)
        assert (found[ending["id"]].state, found[ending["id"]].exit_code) == (ContainerState.EXITED, 11)
        assert found[running["id"]].state == ContainerState.RUNNING
        assert log_of(ending).endswith(b" stdout F done\n")
        assert (await runtime.run(running["id"], ("echo", "hi"), timeout_seconds=5, limit_bytes=10)).output == b"hi\n"
        await runtime.stop(running["id"], 5)
        assert (await containers(runtime))[running["id"]].exit_code == 143


async def test_new_agent_sees_exits_of_containers_that_it_found(root: Path, reopened: Callable[[], Any]) -> None:
    async with agent(
        root,
        {"command": ["sh", "-c", "while [ ! -e stop ]; do sleep 0.05; done; exit 12"], "working_dir": str(root.parent)},
    ) as process:
        (told, _) = await words_of(process)
        process.kill()
    async with reopened() as runtime, asyncio.timeout(5):
        changes = runtime.changes()
        (root.parent / "stop").touch()
        assert await anext(changes) == told["uid"]
        assert (await containers(runtime))[told["id"]].exit_code == 12


@pytest.mark.parametrize("after_seconds", [0.25, 0.3, 0.35, 0.4, 0.5])
async def test_agent_killed_while_it_starts_containers_leaves_none_undecided(
    root: Path, reopened: Callable[[], Any], after_seconds: float
) -> None:
    """Each container is either running and known, or was never started and is forgotten."""
    async with agent(root, endless=True) as process:
        await asyncio.sleep(after_seconds)
        process.kill()
    async with reopened() as runtime:
        found = await containers(runtime)
        assert {one.state for one in found.values()} <= {ContainerState.RUNNING}
        await asyncio.sleep(0.2)
        assert len(processes_with("sleep\x004799")) == len(found)
        for one in found.values():
            with pytest.raises(RuntimeFailure, match="was started before"):
                await runtime.start(one.id)
    assert processes_with("sleep\x004799") == []


@pytest.mark.parametrize("is_forbidden", [False, True], ids=["just made", "next agent killed as well"])
async def test_created_container_of_a_killed_agent_is_forgotten(
    root: Path, reopened: Callable[[], Any], is_forbidden: bool
) -> None:
    """Its replacement is the first to start and must not count as a restart."""
    async with agent(root, {"command": ["true"], "is_started": False}) as process:
        (told, _) = await words_of(process)
        process.kill()
    if is_forbidden:
        assert StateFolders(root).forbid_start(told["id"])
    async with reopened() as runtime:
        assert await containers(runtime) == {}
        with pytest.raises(RuntimeFailure, match="not found"):
            await runtime.start(told["id"])
    assert list((root / "containers").iterdir()) == []


async def test_container_whose_state_is_broken_has_ended(
    root: Path, reopened: Callable[[], Any], tmp_path: Path
) -> None:
    """It may have been started, so it must not count as never started."""
    async with reopened() as runtime:
        ward = await Lab(runtime, tmp_path).start("true")
        await ward.until_ended()
    (root / "containers" / ward.id / "exit.json").unlink()
    (root / "containers" / ward.id / "state.json").write_text("")
    async with reopened() as runtime:
        (found,) = (await containers(runtime)).values()
        assert (found.state, found.exit_code, found.reason) == (ContainerState.EXITED, 255, "Unknown")


@pytest.mark.parametrize("what", ["start time", "boot"])
async def test_another_process_of_the_same_number_is_not_taken_for_ours(
    root: Path, reopened: Callable[[], Any], tmp_path: Path, what: str
) -> None:
    """A container whose PID was reused has exited, and the process that has the PID now is left alone."""
    bystander = await asyncio.create_subprocess_exec("sleep", "4798", start_new_session=True)
    real = identify(bystander.pid)
    other = real._replace(start_ticks=real.start_ticks - 1) if what == "start time" else real._replace(boot_id="other")
    async with reopened() as runtime:
        ward = await Lab(runtime, tmp_path).start("sleep", "1000")
        await runtime.stop(ward.id, 0)
        folder = root / "containers" / ward.id
        (folder / "exit.json").unlink()
        state = json.loads((folder / "state.json").read_text())
        (folder / "state.json").write_text(json.dumps({**state, "supervisor": other, "main": other}))
    try:
        async with reopened() as runtime:
            (found,) = (await containers(runtime)).values()
            assert (found.state, found.exit_code, found.reason) == (ContainerState.EXITED, 255, "Unknown")
            await runtime.stop(found.id, 1)
        assert bystander.returncode is None
        os.kill(bystander.pid, 0)
    finally:
        bystander.kill()
        await bystander.wait()


async def test_container_starting_while_the_agent_stops_keeps_running(
    root: Path, reopened: Callable[[], Any], tmp_path: Path
) -> None:
    """Its supervisor's report causes no error, and the next agent finds the exit code."""
    harm: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: harm.append(context))
    async with make_runtime(root) as runtime:
        wards = [await Lab(runtime, tmp_path).create("true") for _ in range(20)]
        starts = [asyncio.create_task(runtime.start(ward.id)) for ward in wards]
        # All starts are requested, most are not yet reported.
        await asyncio.sleep(0.01)
    for start in starts:
        start.cancel()
    await asyncio.gather(*starts, return_exceptions=True)
    async with reopened() as again:
        async with asyncio.timeout(30):
            while any(one.finished_at is None for pod in await again.pods() for one in pod.containers):
                await asyncio.sleep(0.02)
    assert harm == []


def test_zombie_process_counts_as_gone() -> None:
    """In some containers the first process reaps no children, so a zombie must not be waited for."""
    child = os.posix_spawn("/bin/sleep", ["sleep", "0.2"], {})
    identity = identify(child)
    handle = open_process(identity)
    assert handle is not None
    assert select.select([handle], [], [], 10)[0] == [handle]
    assert open_process(identity) is None
    os.close(handle)
    os.waitpid(child, 0)


async def test_sandbox_does_not_outlive_a_boot(root: Path, reopened: Callable[[], Any], tmp_path: Path) -> None:
    """A sandbox of an earlier boot is not ready."""
    async with reopened() as runtime:
        ward = await Lab(runtime, tmp_path).create("true")
    path = root / "sandboxes" / ward.sandbox_id / "sandbox.json"
    path.write_text(
        path.read_text().replace(boot_id(), "an earlier one").replace('"is_stopped":true', '"is_stopped":false')
    )
    async with reopened() as runtime:
        (pod,) = await runtime.pods()
        assert [sandbox.is_ready for sandbox in pod.sandboxes] == [False]
        with pytest.raises(RuntimeFailure, match="not ready"):
            await runtime.create_container(ward.request)


async def test_killed_supervisor_takes_its_container_with_it(lab: Lab, runtime: ProcessRuntime) -> None:
    """All processes are killed, and the container has exited with reason Unknown."""
    ward = await lab.start("sh", "-c", "sleep 4797 & sleep 4797")
    await until(lambda: len(processes_with("sleep\x004797\0")) == 2)
    main = json.loads((runtime._folders.container(ward.id) / "state.json").read_text())["supervisor"][0]
    os.kill(main, signal.SIGKILL)
    ended = await ward.until_ended()
    assert (ended.exit_code, ended.reason) == (255, "Unknown")
    await until(lambda: processes_with("sleep\x004797\0") == [])


async def test_process_in_a_session_of_its_own_ends_with_the_killed_supervisor(
    lab: Lab, runtime: ProcessRuntime
) -> None:
    """It is found in the container's cgroup, which is removed."""
    if not runtime._host.cgroups.folders:
        missing("no cgroups")
    seconds = f"4796.{os.getpid()}"
    ward = await lab.start("sh", "-c", f"setsid sleep {seconds} & sleep {seconds}")
    await until(lambda: len(processes_with(f"sleep\0{seconds}\0")) == 2)
    main = json.loads((runtime._folders.container(ward.id) / "state.json").read_text())["supervisor"][0]
    os.kill(main, signal.SIGKILL)
    await ward.until_ended()
    assert processes_with(f"sleep\0{seconds}\0") == []
    assert not any(exists(f"{folder}/{ward.id}") for folder in runtime._host.cgroups.folders.values())


async def test_sandbox_can_be_stopped_while_a_container_starts(lab: Lab, runtime: ProcessRuntime) -> None:
    """The shim cannot be asked yet, so it is asked again soon."""
    seconds = f"4795.{os.getpid()}"
    ward = await lab.create("sleep", seconds)
    starting = asyncio.create_task(runtime.start(ward.id))
    await asyncio.sleep(0)
    await runtime.stop(ward.sandbox_id, 0)
    with suppress(RuntimeFailure):
        await starting
    assert processes_with(f"sleep\0{seconds}\0") == []


async def test_cancelled_creation_leaves_no_unknown_sandbox(lab: Lab, runtime: ProcessRuntime, root: Path) -> None:
    """What is on disk can be stopped and removed."""
    pod = lab.request("true").pod
    request = SandboxRequest(pod=pod, attempt=0, hostname="x", log_directory=str(lab.folder))
    creating = asyncio.create_task(runtime.create_sandbox(request))
    await asyncio.sleep(0)
    creating.cancel()
    with suppress(asyncio.CancelledError):
        await creating
    # Long enough for a write that the call did not wait for.
    await asyncio.sleep(0.2)
    known = [sandbox.id for pod in await runtime.pods() for sandbox in pod.sandboxes]
    assert [folder.name for folder in (root / "sandboxes").iterdir()] == known
    await runtime.remove(known[0])
    assert list((root / "sandboxes").iterdir()) == []


async def test_interrupted_removal_is_completed(lab: Lab, runtime: ProcessRuntime, root: Path) -> None:
    """The record goes first; without it, the rest of the folder is still removed."""
    ward = await lab.create("true")
    (root / "containers" / ward.id / "config.json").unlink()
    (root / "sandboxes" / ward.sandbox_id / "sandbox.json").unlink()
    await runtime.remove(ward.sandbox_id)
    assert [*(root / "containers").iterdir(), *(root / "sandboxes").iterdir()] == []


async def test_killed_spawner_is_replaced(lab: Lab) -> None:
    """Containers that it started keep running."""
    first = await lab.start("sleep", "1000")
    spawners = [pid for pid in children_of(os.getpid()) if "spawn" in name_of(pid)]
    os.kill(spawners[0], signal.SIGKILL)
    second = await lab.start("sleep", "1000")
    assert (await first.told()).state == (await second.told()).state == ContainerState.RUNNING


async def test_two_agents_do_not_share_a_folder(runtime: ProcessRuntime, root: Path) -> None:
    """The second one fails with FolderInUse and changes nothing."""
    with pytest.raises(FolderInUse):
        async with make_runtime(root):
            pass
    assert await runtime.pods() == []


async def test_state_is_for_nobody_else_to_read(lab: Lab, root: Path) -> None:
    """State files have mode 0600, since the environment of a container may hold secrets."""
    ward = await lab.start("true", environment=[("PASSWORD", "secret")])
    await ward.until_ended()
    folder = root / "containers" / ward.id
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.glob("*.json")} == {0o600}
    assert {path.name for path in folder.glob("*.json")} == {"config.json", "state.json", "exit.json"}


async def test_half_written_state_is_cleared_away(root: Path, reopened: Callable[[], Any], tmp_path: Path) -> None:
    """A power failure may leave partial files; a folder without readable state is removed."""
    for folder, name in (("containers", "config.json"), ("sandboxes", "sandbox.json")):
        for id, content in (("empty", None), ("half", "{"), ("other", "{}")):
            (root / folder / id).mkdir(parents=True)
            if content is not None:
                (root / folder / id / name).write_text(content)
    async with reopened() as runtime:
        assert await runtime.pods() == []
    with suppress(FileNotFoundError):
        assert list((root / "containers").iterdir()) == []
