"""The steps of each sync: their order, their errors, and that an error ends the sync."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pod_sync_rig import World
from pod_workers_rig import api_pod, in_runtime
from pykubelet.api.generated.core import (
    ContainerState,
    ContainerStateRunning,
    ContainerStatus,
    PodStatus,
)
from pykubelet.api.pods import PodUid
from pykubelet.api.times import format_time
from pykubelet.kubelet.kuberuntime.pod_actions import SyncAction, SyncResult, failed_result
from pykubelet.kubelet.pod_workers.sync import SyncFailed, deadline_in_seconds, running_ids, with_addresses_of
from pykubelet.runtimes.protocol import RuntimeFailure, RuntimePod
from pykubelet.testing.virtual_time import EPOCH

UID = PodUid("uid")
RUNNING = ContainerStatus(name="main", state=ContainerState(running=ContainerStateRunning()))


@pytest.fixture
def world() -> World:
    return World()


def step_failure(action: SyncAction = SyncAction.START_CONTAINER, **rest: Any) -> SyncResult:
    return failed_result(action, "main", RuntimeFailure("it broke", **rest))


async def test_pod_is_set_up_in_upstreams_order(world: World) -> None:
    """The status comes first, containers last; only probes start earlier than upstream."""
    await world.syncs.sync_pod(api_pod(), in_runtime(UID))
    setup = ["probe", "status", "register", "mirror", "directories", "mount", "secrets", "containers"]
    assert world.steps == setup
    assert world.reasons == [()]
    assert world.trail.waiting(UID) == ()


async def test_ended_pod_is_only_reported(world: World) -> None:
    """No volumes, directories or containers are set up."""
    world.status = PodStatus(phase="Succeeded")
    synced = await world.syncs.sync_pod(api_pod(), in_runtime(UID))
    assert (synced.is_terminal, world.steps) == (True, ["probe", "status"])


@pytest.mark.parametrize(
    ("step", "error", "event", "last"),
    [
        ("network", "no CNI", "NetworkNotReady network is not ready: no CNI", "status"),
        ("directories", "disk full", "Failed error making pod data directories: disk full", "directories"),
        ("mount", "timed out", "FailedMount Unable to attach or mount volumes: timed out", "mount"),
    ],
)
async def test_failed_step_is_an_event_and_ends_the_sync(step: str, error: str, event: str, last: str) -> None:
    """Reason and text are upstream's; later steps do not run."""
    world = World()
    world.errors[step] = OSError(error)
    with pytest.raises(SyncFailed) as raised:
        await world.syncs.sync_pod(api_pod(), in_runtime(UID))
    assert world.events.told == [f"Warning {event}"]
    assert world.steps[-1] == last
    assert raised.value.is_transient == (step == "network")
    assert world.trail.waiting(UID) == ()


async def test_host_network_needs_no_network(world: World) -> None:
    """Its network is that of the node."""
    world.errors["network"] = OSError("no CNI")
    known = api_pod()
    await world.syncs.sync_pod(replace(known, spec=replace(known.spec, host_network=True)), in_runtime(UID))
    assert world.steps[-1] == "containers"


async def test_missing_pull_secrets_only_warn(world: World) -> None:
    """The image may be public."""
    world.missing = ["a", "b"]
    await world.syncs.sync_pod(api_pod(), in_runtime(UID))
    assert world.events.told == [
        (
            "Warning FailedToRetrieveImagePullSecret Unable to retrieve some image pull secrets (a, b); "
            "attempting to pull the image may not succeed."
        )
    ]
    assert world.steps[-1] == "containers"


async def test_container_failures_are_raised_even_if_the_runtime_fails_afterwards(world: World) -> None:
    """The error of the later inspection is not raised instead."""
    world.results["containers"] = (step_failure(),)
    world.errors["inspect"] = RuntimeFailure("nobody answers")
    with pytest.raises(SyncFailed, match="it broke"):
        await world.syncs.sync_pod(api_pod(), in_runtime(UID))
    assert world.steps[-2:] == ["containers", "inspect"]


async def test_container_failures_are_kept_as_reasons_and_raised(world: World) -> None:
    """The worker retries at the time that the runtime gave."""
    failure = step_failure(retry_at=world.clock.now() + timedelta(seconds=40))
    world.results["containers"] = (failure,)
    with pytest.raises(SyncFailed, match="it broke") as raised:
        await world.syncs.sync_pod(api_pod(), in_runtime(UID))
    assert world.reasons == [(failure,)]
    assert raised.value.retry_in_seconds == 40


async def test_container_failures_are_shown_at_once(world: World) -> None:
    """The pod is inspected and its status set again, as the next sync may be minutes away."""
    world.results["containers"] = (step_failure(),)
    world.left = in_runtime(UID, is_running=False)
    with pytest.raises(SyncFailed):
        await world.syncs.sync_pod(api_pod(), in_runtime(UID))
    assert world.steps[-3:] == ["containers", "inspect", "status"]
    assert len(world.statuses) == 2


@pytest.mark.parametrize("phase", ["Running", "Succeeded"])
async def test_older_containers_are_removed_once_they_were_reported(world: World, phase: str) -> None:
    """Both for running and for ended pods: only containers that the status was made from are pruned."""
    world.status = PodStatus(phase=phase)
    seen = in_runtime(UID)
    await world.syncs.sync_pod(api_pod(), seen)
    assert world.pruned == [seen]
    await world.syncs.sync_terminating_pod(api_pod(), seen, 1, None)
    assert world.pruned == [seen, seen]


async def test_pod_with_a_deadline_is_synced_when_it_expires(world: World) -> None:
    """The next sync is due in 15 s, not in up to a minute."""
    world.status = PodStatus(phase="Running", start_time=format_time(EPOCH))
    known = api_pod()
    known = replace(known, spec=replace(known.spec, active_deadline_seconds=20))
    world.clock.advance(5)
    assert (await world.syncs.sync_pod(known, in_runtime(UID))).again_in_seconds == 15


async def test_pod_is_stopped_and_reported_while_its_exit_can_be_seen(world: World) -> None:
    """The eviction status is set first; the last status keeps the pod's addresses."""
    world.left = in_runtime(UID, is_running=False)

    def evicted(status: PodStatus) -> PodStatus:
        return replace(status, phase="Failed", reason="Evicted")

    await world.syncs.sync_terminating_pod(api_pod(), in_runtime(UID), 7, evicted)
    begun = ["leave volumes", "probe", "status", "probe readiness only"]
    assert world.steps == [*begun, "kill in 7", "probe no more", "inspect", "status"]
    assert [(status.reason, status.message) for status in world.statuses] == [
        ("Evicted", "terminal=False 10.0.0.1"),
        ("", "terminal=True 10.0.0.1"),
    ]


async def test_pod_that_does_not_stop_is_an_event_and_tried_again(world: World) -> None:
    """Readiness probes continue meanwhile."""
    world.results["kill"] = (step_failure(SyncAction.KILL_CONTAINER),)
    with pytest.raises(SyncFailed):
        await world.syncs.sync_terminating_pod(api_pod(), in_runtime(UID), 7, None)
    assert world.events.told == [
        (
            'Warning FailedKillPod error killing pod: failed to "KillContainer" for "main" with KillContainerError: '
            '"it broke"'
        )
    ]
    assert "probe no more" not in world.steps


async def test_container_found_running_after_the_kill_is_a_failure(world: World) -> None:
    """The runtime had reported the kill as successful."""
    world.left = in_runtime(UID)
    with pytest.raises(SyncFailed, match=r"detected running containers.*\[container-uid\]"):
        await world.syncs.sync_terminating_pod(api_pod(), in_runtime(UID), 7, None)


async def test_pod_of_the_runtime_alone_is_killed_and_not_reported(world: World) -> None:
    """No API object exists that could hold its status."""
    await world.syncs.sync_terminating_runtime_pod(in_runtime(UID))
    assert world.steps == ["kill in 1"]
    world.results["kill"] = (step_failure(SyncAction.KILL_SANDBOX),)
    with pytest.raises(SyncFailed):
        await world.syncs.sync_terminating_runtime_pod(in_runtime(UID))
    assert world.events.told[0].startswith("Warning FailedKillPod")


async def test_stopped_pod_is_cleaned_up_in_upstreams_order(world: World) -> None:
    """The final status, after which the API may remove the pod, comes last."""
    await world.syncs.sync_terminated_pod(api_pod(), in_runtime(UID, is_running=False))
    assert world.steps == ["status", "unmount", "unregister", "final status"]


def test_addresses_survive_the_sandbox() -> None:
    """They survive even if the runtime forgets the whole sandbox."""
    before = in_runtime(UID)
    gone = RuntimePod(uid=UID, namespace="default", name="web")
    kept = with_addresses_of(gone, before).sandboxes
    assert [(sandbox.ips, sandbox.is_ready) for sandbox in kept] == [(("10.0.0.1",), False)]
    assert running_ids(before) == ("container-uid",)


async def test_pod_of_which_nothing_is_left_is_reported_with_its_addresses(world: World) -> None:
    """It was removed before the last inspection."""
    await world.syncs.sync_terminating_pod(api_pod(), in_runtime(UID), 7, None)
    assert world.statuses[-1].message == "terminal=True 10.0.0.1"


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_deadline_is_never_in_the_past(limit: int, passed: int) -> None:
    """It is the time left, at least zero."""
    known = api_pod()
    known = replace(known, spec=replace(known.spec, active_deadline_seconds=limit))
    status = PodStatus(start_time=format_time(EPOCH))
    left = deadline_in_seconds(known, status, EPOCH + timedelta(seconds=passed))
    assert left == max(limit - passed, 0)
    assert deadline_in_seconds(known, PodStatus(), EPOCH) is None
