"""The life of a process: start, user, rights, limits, and exit without leftovers."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from process_lab import Lab, children_of, make_runtime, parent_of, processes_with, stop_everything, until
from pykubelet.api.generated.core import (
    Capabilities,
    Lifecycle,
    PodSecurityContext,
    ResourceRequirements,
    SecurityContext,
)
from pykubelet.runtimes.process.cgroups import find_cgroups
from pykubelet.runtimes.process.runtime import ProcessRuntime
from pykubelet.runtimes.protocol import ContainerState, RuntimeFailure, SandboxRequest
from requirements import needs, needs_root


async def test_process_has_the_environment_it_was_given_and_nothing_of_ours(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Besides its own variables it has only those of every container."""
    monkeypatch.setenv("AGENT_SECRET", "hidden")
    output = await lab.output_of("env", environment=[("GREETING", "hello there"), ("PATH", "/usr/bin:/bin")])
    variables = dict(line.split("=", 1) for line in output.splitlines())
    assert variables.pop("HOSTNAME").startswith("pod-")
    assert variables.pop("HOME").startswith("/")
    assert variables == {"GREETING": "hello there", "PATH": "/usr/bin:/bin"}


async def test_process_is_leader_of_a_session_of_its_own_and_has_no_files_but_three(lab: Lab) -> None:
    """A signal to its process group reaches all of its processes and no others."""
    # No pipe: the shell would have an end of it open for a moment.
    output = await lab.output_of("sh", "-c", "cut -d' ' -f1,5,6 /proc/$$/stat; ls /proc/$$/fd; umask; ulimit -c")
    numbers, *rest = output.splitlines()
    assert len(set(numbers.split())) == 1
    assert rest == ["0", "1", "2", "0022", "0"]


async def test_process_works_in_its_directory(lab: Lab, tmp_path: Path) -> None:
    """The default is the root folder."""
    assert await lab.output_of("pwd") == "/\n"
    assert await lab.output_of("pwd", working_dir=str(tmp_path)) == f"{tmp_path}\n"


@pytest.mark.parametrize(
    ("command", "fields", "told"),
    [
        (("/no/such",), {}, 'exec: "/no/such": stat /no/such: no such file or directory'),
        (("no-such-command",), {}, 'exec: "no-such-command": executable file not found in $PATH'),
        (("/etc/passwd",), {}, 'exec: "/etc/passwd": permission denied'),
        (("true",), {"working_dir": "/etc/passwd"}, 'chdir to cwd ("/etc/passwd"): not a directory'),
        (("echo", "a\0b"), {}, "embedded null byte"),
    ],
    ids=["no file", "not in PATH", "not executable", "not a directory", "NUL"],
)
async def test_what_cannot_be_started_says_why(
    lab: Lab, command: tuple[str, ...], fields: dict[str, str], told: str
) -> None:
    """The container exits with the code and the reason that containerd gives."""
    ward = await lab.create(*command, **fields)
    message = f"unable to start container process: {told}"
    with pytest.raises(RuntimeFailure) as failure:
        await lab.runtime.start(ward.id)
    assert failure.value.message == message
    ended = await ward.told()
    assert (ended.state, ended.exit_code, ended.reason) == (ContainerState.EXITED, 128, "StartError")
    assert ended.message == message
    assert ended.started_at is not None


async def test_container_is_started_once(lab: Lab) -> None:
    """A second start is a failure and starts no second process."""
    ward = await lab.start("sleep", "1000")
    with pytest.raises(RuntimeFailure, match="was started before"):
        await lab.runtime.start(ward.id)
    assert (await ward.told()).state == ContainerState.RUNNING


async def test_container_is_not_removed_while_it_starts(lab: Lab) -> None:
    """A start that was cancelled may still succeed: the container stays known and is reported as running."""
    ward = await lab.create("sleep", "1000")
    starting = asyncio.create_task(lab.runtime.start(ward.id))
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(RuntimeFailure, match="still starts"):
        await lab.runtime.remove(ward.id)
    async with asyncio.timeout(10):
        changes = lab.runtime.changes()
        while (await ward.told()).state != ContainerState.RUNNING:
            await anext(changes)


@pytest.mark.parametrize(
    ("command", "code", "reason"),
    [("exit 0", 0, "Completed"), ("exit 42", 42, "Error"), ("kill -9 $$", 137, "Error"), ("kill -15 $$", 143, "Error")],
)
async def test_exit_code_of_a_signal_is_128_plus_its_number(lab: Lab, command: str, code: int, reason: str) -> None:
    ended = await (await lab.start("sh", "-c", command)).until_ended()
    assert (ended.exit_code, ended.reason, ended.message) == (code, reason, "")


async def test_nothing_outlives_the_first_process(lab: Lab) -> None:
    """Children, orphans and processes in sessions of their own are all killed."""
    script = "setsid -f sleep 4711; (sleep 4712 &); sleep 4713 & trap '' HUP; sleep 0.2; exit 5"
    ward = await lab.start("sh", "-c", script)
    ended = await ward.until_ended()
    assert ended.exit_code == 5
    assert [pid for number in (4711, 4712, 4713) for pid in processes_with(f"sleep\0{number}")] == []


async def test_stop_reaches_the_whole_group(lab: Lab) -> None:
    """A shell that does not pass on signals does not delay the stop."""
    child = "trap 'echo child; exit 0' TERM; while :; do :; done"
    script = f'sh -c "{child}" & trap "wait; exit 7" TERM; wait'
    ward = await lab.start("sh", "-c", script)
    await asyncio.sleep(0.3)
    await lab.runtime.stop(ward.id, 5)
    assert ward.log == "child\n"
    assert (await ward.told()).exit_code == 7


async def test_stop_sends_the_signal_that_the_container_asks_for(lab: Lab) -> None:
    """`lifecycle.stopSignal` replaces TERM."""
    script = "trap 'echo got; exit 3' USR1; while :; do :; done"
    ward = await lab.start("sh", "-c", script, lifecycle=Lifecycle(stop_signal="SIGUSR1"))
    await asyncio.sleep(0.3)
    await lab.runtime.stop(ward.id, 5)
    assert (ward.log, (await ward.told()).exit_code) == ("got\n", 3)


async def test_stop_kills_frozen_processes(lab: Lab) -> None:
    """Neither a frozen process nor a frozen supervisor delays the stop for long."""
    ward = await lab.start("sh", "-c", "sleep 4714; true")
    (pid,) = await until(lambda: processes_with("sleep\x004714\0"))
    shell = parent_of(pid)
    supervisor = parent_of(shell)
    os.kill(pid, signal.SIGSTOP)
    os.kill(supervisor, signal.SIGSTOP)
    async with asyncio.timeout(15):
        await lab.runtime.stop(ward.id, 0)
    assert (await ward.told()).exit_code == 137


async def test_no_zombies_are_left(lab: Lab, runtime: ProcessRuntime) -> None:
    """Orphans of a running container and exited supervisors are reaped."""
    ward = await lab.start("sh", "-c", "for i in 1 2 3 4 5; do (true &); done; exec sleep 4715")
    await asyncio.sleep(0.3)
    (pid,) = processes_with("sleep\x004715\0")
    supervisor = parent_of(pid)
    assert list(children_of(supervisor)) == [pid]
    spawner = parent_of(supervisor)
    await runtime.stop(ward.id, 0)
    await until(lambda: children_of(spawner) == {})


async def test_container_without_a_command_is_refused(lab: Lab) -> None:
    """The process runtime has no images that could define one."""
    with pytest.raises(RuntimeFailure, match="has no command") as failure:
        await lab.create()
    assert failure.value.reason == "CreateContainerConfigError"


@needs_root
async def test_root_runs_a_container_as_the_user_it_asks_for(lab: Lab) -> None:
    """User, group and supplementary groups are set, and the container may reopen its stdout."""
    context = PodSecurityContext(run_as_user=1234, run_as_group=2345, supplemental_groups=(7,), fs_group=8)
    output = await lab.output_of(
        "sh", "-c", "id -u; id -g; id -G; echo again >/dev/stdout", pod={"security_context": context}
    )
    assert output.splitlines() == ["1234", "2345", "2345 7 8", "again"]


@needs_root
async def test_root_of_a_container_has_the_rights_containers_have(lab: Lab) -> None:
    """It has the default capabilities of containers, not all of the machine's root; `drop` removes them."""
    command = ("grep", "-E", "CapEff|NoNewPrivs", "/proc/self/status")
    usual = await lab.output_of(*command)
    none = await lab.output_of(
        *command,
        security_context=SecurityContext(capabilities=Capabilities(drop=("ALL",)), allow_privilege_escalation=False),
    )
    assert usual.split() == ["CapEff:", "00000000a80425fb", "NoNewPrivs:", "0"]
    assert none.split() == ["CapEff:", "0000000000000000", "NoNewPrivs:", "1"]


@needs("memory" in find_cgroups().folders, "no control groups for us here")
async def test_container_over_its_memory_limit_is_oom_killed(lab: Lab) -> None:
    """The kernel enforces the limit, and the cgroups are removed with the container."""
    script = "x=$(head -c 200000000 /dev/zero | tr '\\0' x)"
    ward = await lab.start("sh", "-c", script, resources=ResourceRequirements(limits={"memory": "32Mi", "cpu": "1"}))
    ended = await ward.until_ended()
    assert (ended.exit_code, ended.reason) == (137, "OOMKilled")
    await until(lambda: not any(Path(folder, ward.id).exists() for folder in find_cgroups().folders.values()))


async def test_pod_with_a_runtime_class_is_refused(lab: Lab) -> None:
    """A runtime class requests another isolation than processes have."""
    request = lab.request("true")
    sandbox = SandboxRequest(pod=request.pod, attempt=0, hostname="", log_directory="", handler="kata")
    with pytest.raises(RuntimeFailure, match='no runtime for "kata" is configured'):
        await lab.runtime.create_sandbox(sandbox)


@needs("pids" in find_cgroups().folders, "no control groups for us here")
async def test_container_has_only_so_many_processes(tmp_path: Path) -> None:
    """The PID limit stops a fork bomb before it harms other containers."""
    async with make_runtime(tmp_path / "state", max_pids=20) as runtime:
        ward = await Lab(runtime, tmp_path).start("sh", "-c", "for i in $(seq 100); do sleep 100 & done; echo all")
        ended = await ward.until_ended()
        assert ended.exit_code != 0
        await until(lambda: not any(Path(folder, ward.id).exists() for folder in find_cgroups().folders.values()))
        await stop_everything(runtime)
