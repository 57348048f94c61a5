"""Which probes run when, on virtual time."""

import asyncio

import pytest
from msgspec.structs import replace

from prober_rig import World, probe, probed_container
from pykubelet.api.generated.core import ContainerState, ContainerStateTerminated, PodStatus
from pykubelet.api.pods import PodUid
from pykubelet.kubelet.types import ProbeOutcome, ProbeType
from pykubelet.testing.build import container, pod

LIVENESS, READINESS, STARTUP = ProbeType
SUCCESS, FAILURE, UNKNOWN = ProbeOutcome.SUCCESS, ProbeOutcome.FAILURE, ProbeOutcome.UNKNOWN
ALL = pod(
    containers=[probed_container("a", liveness=probe(), readiness=probe(), startup=probe()), container("plain")],
    init_containers=(replace(probed_container("sidecar", readiness=probe()), restart_policy="Always"),),
)


async def test_probes_run_on_the_grid_of_their_period(world: World) -> None:
    """The first run is after a random part of the period, since the kubelet has just started; then once per period."""
    of = pod(containers=[probed_container(liveness=probe(period_seconds=10))])
    world.run_containers(of)
    world.takes_seconds = lambda _: 3
    async with world.running():
        world.manager.add_pod(of)
        await asyncio.sleep(36)
    assert world.times("c", LIVENESS) == [5, 15, 25, 35]
    assert world.closed


async def test_probe_starts_at_once_when_the_agent_is_older_than_the_period(world: World) -> None:
    """Only a restart of the kubelet spreads probes."""
    of = pod(containers=[probed_container(liveness=probe(period_seconds=10))])
    world.run_containers(of)
    async with world.running():
        await asyncio.sleep(10)
        world.manager.add_pod(of)
        await asyncio.sleep(1)
    assert world.times("c", LIVENESS) == [10]


async def test_missed_ticks_are_left_out_but_one(world: World) -> None:
    """A probe slower than its period runs again at once, then on schedule."""
    of = pod(containers=[probed_container(liveness=probe(period_seconds=10))])
    world.run_containers(of)
    slow = iter([25.0])
    world.takes_seconds = lambda _: next(slow, 0.0)
    async with world.running():
        await asyncio.sleep(10)
        world.manager.add_pod(of)
        await asyncio.sleep(41)
    assert world.times("c", LIVENESS) == [10, 35, 40, 50]


async def test_hung_probe_delays_no_other(world: World) -> None:
    """Each probe has its own task, even within one container."""
    of = pod(
        containers=[probed_container("a", liveness=probe(), readiness=probe()), probed_container("b", liveness=probe())]
    )
    world.run_containers(of)
    world.takes_seconds = lambda what: 10_000 if (what.container.name, what.kind) == ("a", LIVENESS) else 0
    async with world.running():
        world.manager.add_pod(of)
        await asyncio.sleep(60)
        assert len(world.times("a", LIVENESS)) == 1
        assert len(world.times("a", READINESS)) == len(world.times("b", LIVENESS)) == 6


async def test_pods_are_probed_by_kind_and_stopped_by_kind(world: World) -> None:
    """Terminating a pod stops liveness and startup probes of regular containers; removing it stops all."""
    world.run_containers(ALL)
    async with world.running():
        world.manager.add_pod(ALL)
        world.manager.add_pod(ALL)
        assert len(world.manager) == 4
        await asyncio.sleep(20)
        world.manager.stop_liveness_and_startup(ALL)
        assert len(world.manager) == 2
        assert world.manager.passed(LIVENESS) == {}
        assert set(world.manager.passed(READINESS)) == {f"{ALL.metadata.uid}-a-1", f"{ALL.metadata.uid}-sidecar-1"}
        world.manager.remove_pod(ALL)
        assert len(world.manager) == 0
        assert world.manager.passed(READINESS) == {}
        count = len(world.probed)
        await asyncio.sleep(60)
    assert len(world.probed) == count


async def test_pod_without_probes_costs_nothing(world: World) -> None:
    """Its containers are ready as soon as they run."""
    of = pod(containers=[container("plain")])
    world.run_containers(of, started=False)
    world.manager.add_pod(of)
    assert len(world.manager) == 0
    (shown,) = world.manager.with_results(of, world.statuses[of.metadata.uid]).container_statuses
    assert (shown.started, shown.ready) == (True, True)


async def test_other_pods_are_forgotten(world: World) -> None:
    first, second = (pod(name, containers=[probed_container(liveness=probe())]) for name in ("first", "second"))
    async with world.running():
        world.manager.add_pod(first)
        world.manager.add_pod(second)
        world.manager.clean_up({PodUid(second.metadata.uid)})
        assert len(world.manager) == 1
        world.manager.clean_up(())
        assert len(world.manager) == 0


async def test_pod_added_before_the_manager_runs_is_probed_then(world: World) -> None:
    """The order of start-up does not matter."""
    of = pod(containers=[probed_container(liveness=probe())])
    world.run_containers(of)
    world.manager.add_pod(of)
    async with world.running():
        await asyncio.sleep(6)
    assert world.verdicts(LIVENESS) == [SUCCESS]


async def test_worker_ends_by_itself_when_its_pod_has_ended(world: World) -> None:
    """Its result is removed."""
    of = pod(containers=[probed_container(liveness=probe())])
    world.run_containers(of)
    async with world.running():
        world.manager.add_pod(of)
        await asyncio.sleep(6)
        assert len(world.manager) == 1
        world.statuses[of.metadata.uid] = PodStatus(phase="Succeeded")
        await asyncio.sleep(10)
        assert len(world.manager) == 0
        assert world.manager.passed(LIVENESS) == {}


async def test_failed_liveness_is_reported_once_until_a_new_container(world: World) -> None:
    """After three failures the probe pauses; a new container starts again with success."""
    of = pod(containers=[probed_container(liveness=probe(period_seconds=1))])
    world.run_containers(of)
    world.found = lambda _: FAILURE
    async with world.running():
        world.manager.add_pod(of)
        await asyncio.sleep(10)
        assert world.verdicts(LIVENESS) == [SUCCESS, FAILURE]
        assert len(world.probed) == 3
        assert world.changes[-1].container_id == f"test://{of.metadata.uid}-c-1"
        world.run_containers(of, attempt=2)
        await asyncio.sleep(1.5)
        assert world.verdicts(LIVENESS) == [SUCCESS, FAILURE, SUCCESS]
        assert world.manager.passed(LIVENESS) == {f"{of.metadata.uid}-c-2": True}


async def test_readiness_is_probed_at_once_when_the_status_needs_it(world: World) -> None:
    """The period counts from this probe."""
    of = pod(containers=[probed_container(readiness=probe(period_seconds=10))])
    world.run_containers(of)
    async with world.running():
        await asyncio.sleep(1)
        world.manager.add_pod(of)
        status = world.manager.with_results(of, world.statuses[of.metadata.uid])
        assert not status.container_statuses[0].ready
        await asyncio.sleep(0)
        await asyncio.sleep(11)
        assert world.times("c", READINESS) == [1, 11]
        assert world.manager.with_results(of, status).container_statuses[0].ready
        await asyncio.sleep(1)
    assert world.times("c", READINESS) == [1, 11]


async def test_ready_container_stays_ready_when_the_agent_restarts(world: World) -> None:
    """The API's status of the same container counts until its probe fails often enough."""
    of = pod(containers=[probed_container(readiness=probe(period_seconds=2), startup=probe())])
    world.run_containers(of)
    runtime = world.statuses[of.metadata.uid]
    shown = replace(runtime, container_statuses=tuple(replace(one, ready=True) for one in runtime.container_statuses))
    world.found = lambda _: FAILURE
    async with world.running():
        world.manager.add_pod(of, shown)
        first = world.manager.with_results(of, runtime).container_statuses[0]
        assert (first.started, first.ready) == (True, True)
        await asyncio.sleep(3.5)
        assert world.changes == []
        await asyncio.sleep(3)
        assert world.verdicts(READINESS) == [FAILURE]
        assert world.times("c", STARTUP) == []


async def test_new_container_is_not_ready_whatever_the_api_showed_of_the_old(world: World) -> None:
    """A container that was restarted while the kubelet was down is a new one."""
    of = pod(containers=[probed_container(readiness=probe())])
    world.run_containers(of)
    shown = world.statuses[of.metadata.uid]
    shown = replace(shown, container_statuses=tuple(replace(one, ready=True) for one in shown.container_statuses))
    world.run_containers(of, attempt=2)
    world.found = lambda _: None
    async with world.running():
        world.manager.add_pod(of, shown)
        status = world.manager.with_results(of, world.statuses[of.metadata.uid])
        assert not status.container_statuses[0].ready
        await asyncio.sleep(6)
        assert world.verdicts(READINESS) == [FAILURE]
        assert world.manager.passed(READINESS) == {f"{of.metadata.uid}-c-2": False}


async def test_crash_of_a_probe_costs_one_round(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """A bug in a prober is logged, and the worker continues."""
    of = pod(containers=[probed_container(liveness=probe(period_seconds=1))])
    world.run_containers(of)
    crashes = iter([True])

    def found(_: object) -> ProbeOutcome:
        if next(crashes, False):
            raise RuntimeError("bug")
        return SUCCESS

    world.found = found
    async with world.running():
        world.manager.add_pod(of)
        await asyncio.sleep(5)
    assert len(world.probed) > 3
    assert "task crashed" in caplog.text


async def test_ended_container_is_not_ready_although_its_probe_succeeded(world: World) -> None:
    """The runtime's state takes precedence over the last result."""
    of = pod(containers=[probed_container(readiness=probe(period_seconds=2))])
    world.run_containers(of)
    async with world.running():
        world.manager.add_pod(of)
        await asyncio.sleep(3)
        status = world.statuses[of.metadata.uid]
        ended = ContainerState(terminated=ContainerStateTerminated(exit_code=1))
        gone = replace(status, container_statuses=tuple(replace(one, state=ended) for one in status.container_statuses))
        assert world.manager.with_results(of, status).container_statuses[0].ready
        shown = world.manager.with_results(of, gone).container_statuses[0]
        assert (shown.started, shown.ready) == (False, False)
