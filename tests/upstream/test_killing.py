"""Cases 6.24-56, -57 and -62: how containers and pods are killed."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pykubelet.api.generated.core import (
    ExecAction,
    HTTPGetAction,
    Lifecycle,
    LifecycleHandler,
    Pod,
    SleepAction,
)
from pykubelet.api.pods import PodUid
from pykubelet.kubelet.kuberuntime.pod_actions import SyncAction, error_text
from pykubelet.runtimes.protocol import CommandResult, RuntimeFailure, RuntimePod
from pykubelet.runtimes.sim.runtime import Behaviour, SimRuntime
from pykubelet.testing.build import container, pod
from pykubelet.testing.virtual_time import VirtualClock
from runtime_rig import Rig

PRE_STOP = Lifecycle(pre_stop=LifecycleHandler(exec=ExecAction(command=("bye",))))


class StopTimes(SimRuntime):
    """Records when each container was stopped and with which grace period, and which pods were probed over HTTP."""

    def __init__(self, **scripts: Behaviour) -> None:
        super().__init__(clock=VirtualClock(), scripts=scripts)
        self.told: dict[str, tuple[float, float]] = {}
        self.refusal = ""
        self.asked: list[str] = []

    def health_at(self, ip: str) -> bool | None:
        self.asked.append(ip)
        return super().health_at(ip)

    async def stop(self, id: str, grace_seconds: float) -> None:
        if self.refusal:
            raise RuntimeFailure(self.refusal)
        name = next((one.name for pod in await self.pods() for one in pod.containers if one.id == id), "sandbox")
        self.told[name] = asyncio.get_running_loop().time(), grace_seconds
        await super().stop(id, grace_seconds)

    def seconds_since(self, start: float) -> dict[str, int]:
        """The seconds after `start` at which each container was stopped, in whole seconds."""
        return {name: int(at - start) for name, (at, _) in self.told.items() if name != "sandbox"}


async def started(rig: Rig, web: Pod) -> RuntimePod:
    """Sync a pod until all its containers run, and return what the runtime observes of it."""
    wanted = len(web.spec.containers) + len(web.spec.init_containers)
    while list((await rig.states(web)).values()).count("running") < wanted:
        await rig.sync(web)
        await asyncio.sleep(1)
    return await rig.observed(web)


def with_sidecars(**spec: Any) -> Pod:
    sidecars = tuple(container(name, restart_policy="Always") for name in ("sc1", "sc2", "sc3"))
    return pod(init_containers=sidecars, restart_policy="Always", **spec)


@pytest.mark.case("6.24-57 sidecars end after the main container, the last of them first")
@pytest.mark.parametrize(
    ("grace", "takes_seconds", "told"),
    [
        (30, 1.25, {"main": 0, "sc3": 1, "sc2": 2, "sc1": 3}),
        (2, 1.0, {"main": 0, "sc3": 1, "sc2": 2, "sc1": 2}),
    ],
    ids=["enough grace", "capped by the grace"],
)
async def test_sidecars_stop_in_reverse_order_after_the_main_container(
    tmp_path: Path, grace: int, takes_seconds: float, told: dict[str, int]
) -> None:
    slow = Behaviour(stop_seconds=takes_seconds)
    sim = StopTimes(main=slow, sc1=slow, sc2=slow, sc3=slow)
    web = with_sidecars(termination_grace_period_seconds=grace)
    async with Rig(tmp_path, sim=sim).running() as rig:
        observed = await started(rig, web)
        before = asyncio.get_running_loop().time()
        results = await rig.killer.kill_pod(web, observed)
        assert error_text(results) == ""
        assert sim.seconds_since(before) == told
        # The time that a sidecar waited is subtracted in whole seconds, but at least two remain.
        assert {name: left for name, (_, left) in sim.told.items()} == {
            **{name: max(grace - waited, 2) for name, waited in told.items()},
            "sandbox": 0,
        }


@pytest.mark.case("6.24-57 a main container that does not run delays nobody")
async def test_sidecars_do_not_wait_for_exited_containers(tmp_path: Path) -> None:
    slow = Behaviour(stop_seconds=1.25)
    sim = StopTimes(sc1=slow, sc2=slow, sc3=slow)
    web = with_sidecars(termination_grace_period_seconds=30)
    async with Rig(tmp_path, sim=sim).running() as rig:
        await started(rig, web)
        sim.crash(PodUid(web.metadata.uid), "main")
        before = asyncio.get_running_loop().time()
        await rig.killer.kill_pod(web, await rig.observed(web))
        assert sim.seconds_since(before) == {"sc3": 0, "sc2": 1, "sc1": 2}


@pytest.mark.case("6.24-57 without sidecars all are killed at once")
async def test_regular_containers_end_together(tmp_path: Path) -> None:
    slow = Behaviour(stop_seconds=3)
    sim = StopTimes(a=slow, b=slow)
    web = pod(containers=(container("a"), container("b")), termination_grace_period_seconds=30)
    async with Rig(tmp_path, sim=sim).running() as rig:
        observed = await started(rig, web)
        before = asyncio.get_running_loop().time()
        await rig.killer.kill_pod(web, observed)
        assert sim.seconds_since(before) == {"a": 0, "b": 0}
        assert asyncio.get_running_loop().time() - before == 3
        assert not (await rig.observed(web)).sandboxes[0].is_ready


HOOKS = {
    "exec": LifecycleHandler(exec=ExecAction(command=("bye",))),
    "http": LifecycleHandler(http_get=HTTPGetAction(path="bye", port=80)),
    "sleep": LifecycleHandler(sleep=SleepAction(seconds=3)),
}


@pytest.mark.case("6.24-56 preStop runs when grace > 0 and its time is subtracted")
@pytest.mark.parametrize(("grace", "left"), [(10, 7), (4, 2), (0, 2)], ids=["enough", "short", "none"])
@pytest.mark.parametrize("is_sidecar", [False, True], ids=["regular", "restartable init"])
async def test_pre_stop_runs_within_the_grace(tmp_path: Path, grace: int, left: int, is_sidecar: bool) -> None:
    sim = StopTimes()
    main = container(lifecycle=PRE_STOP, restart_policy="Always" if is_sidecar else None)
    web = pod(containers=() if is_sidecar else (main,), init_containers=(main,) if is_sidecar else ())
    web = replace(web, spec=replace(web.spec, termination_grace_period_seconds=grace))
    async with Rig(tmp_path, sim=sim).running() as rig:
        observed = await started(rig, web)
        rig.commands.seconds = 3.5
        await rig.killer.kill_pod(web, observed)
        assert rig.commands.runs == ([("bye",)] if grace else [])
        assert sim.told["main"][1] == left
        assert rig.events.seen[-1] == ("Normal", "Killing", "Stopping container main")


@pytest.mark.case("6.24-56 preStop runs for exec, http and sleep handlers")
@pytest.mark.parametrize("hook", HOOKS.values(), ids=HOOKS)
async def test_pre_stop_runs_every_kind_of_hook(tmp_path: Path, hook: LifecycleHandler) -> None:
    sim = StopTimes()
    web = pod(containers=(container(lifecycle=Lifecycle(pre_stop=hook)),), termination_grace_period_seconds=30)
    async with Rig(tmp_path, sim=sim).running() as rig:
        observed = await started(rig, web)
        await rig.killer.kill_pod(web, observed)
        assert "FailedPreStopHook" not in rig.events.reasons()
        assert rig.commands.runs == ([("bye",)] if hook.exec else [])
        assert sim.asked == (list(observed.sandboxes[0].ips) if hook.http_get else [])
        assert sim.told["main"][1] == (27 if hook.sleep else 30)


@pytest.mark.case("6.24-56 a preStop that hangs or fails does not keep a container alive")
@pytest.mark.parametrize(
    ("seconds", "exit_code", "reasons"),
    [(1000, 0, ["Killing"]), (0, 1, ["Killing", "FailedPreStopHook"])],
    ids=["hangs", "fails"],
)
async def test_pre_stop_does_not_keep_a_container_alive(
    tmp_path: Path, seconds: float, exit_code: int, reasons: list[str]
) -> None:
    sim = StopTimes()
    web = pod(containers=(container(lifecycle=PRE_STOP),), termination_grace_period_seconds=5)
    async with Rig(tmp_path, sim=sim).running() as rig:
        observed = await started(rig, web)
        rig.commands.seconds, rig.commands.outcome = seconds, CommandResult(exit_code, b"")
        rig.events.seen.clear()
        await rig.killer.kill_pod(web, observed)
        assert rig.events.reasons() == reasons
        assert await rig.states(web) == {"main": "exited"}


@pytest.mark.case("6.24-55 an override replaces the grace of the pod")
async def test_kill_pod_uses_the_grace_it_is_given(tmp_path: Path) -> None:
    sim = StopTimes()
    web = pod(termination_grace_period_seconds=60)
    async with Rig(tmp_path, sim=sim).running() as rig:
        await rig.killer.kill_pod(web, await started(rig, web), grace_seconds=7)
        assert sim.told["main"][1] == 7


@pytest.mark.case("6.24-12 a pod only the runtime knows is killed without its spec")
async def test_kill_pod_needs_no_spec(tmp_path: Path) -> None:
    sim = StopTimes()
    web = pod(containers=(container(lifecycle=PRE_STOP),))
    async with Rig(tmp_path, sim=sim).running() as rig:
        observed = await started(rig, web)
        results = await rig.killer.kill_pod(None, observed, grace_seconds=1)
        assert [(step.action, step.target) for step in results] == [
            (SyncAction.KILL_CONTAINER, "main"),
            (SyncAction.KILL_SANDBOX, web.metadata.uid),
        ]
        assert sim.told["main"][1] == 2
        assert rig.commands.runs == []


@pytest.mark.case("6.24-62 stop of a container or sandbox the runtime does not know: success")
async def test_kill_of_a_missing_sandbox_succeeds(tmp_path: Path) -> None:
    web = pod()
    async with Rig(tmp_path).running() as rig:
        observed = await started(rig, web)
        await rig.sim.stop(observed.sandboxes[0].id, 0)
        await rig.sim.remove(observed.sandboxes[0].id)
        assert error_text(await rig.killer.kill_pod(web, observed)) == ""


@pytest.mark.case("6.24-62 a stop that fails is told for the container and the sandbox")
async def test_kill_that_fails_is_a_result(tmp_path: Path) -> None:
    sim = StopTimes()
    web = pod()
    async with Rig(tmp_path, sim=sim).running() as rig:
        observed = await started(rig, web)
        sim.refusal = "stuck"
        results = await rig.killer.kill_pod(web, observed)
        told = [
            'failed to "KillContainer" for "main" with KillContainerError: "stuck"',
            f'failed to "KillPodSandbox" for "{web.metadata.uid}" with KillPodSandboxError: "stuck"',
        ]
        assert error_text(results) == f"[{', '.join(told)}]"


@pytest.mark.case("6.24-56 a kill that is cancelled during preStop leaves the container alone")
async def test_kill_cancelled_during_pre_stop_leaves_the_container_running(tmp_path: Path) -> None:
    sim = StopTimes()
    web = pod(containers=(container(lifecycle=PRE_STOP),), termination_grace_period_seconds=30)
    async with Rig(tmp_path, sim=sim).running() as rig:
        observed = await started(rig, web)
        rig.commands.seconds = 20
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await rig.killer.kill_pod(web, observed)
        assert sim.told == {}
        assert await rig.states(web) == {"main": "running"}
        assert "FailedPreStopHook" not in rig.events.reasons()
