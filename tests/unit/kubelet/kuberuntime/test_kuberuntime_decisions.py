"""Properties of the small decisions of the runtime manager."""

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.aio.backoff import KeyedBackoff
from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import PodUid
from pykubelet.kubelet.images.image_manager import ImagePullStep, image_pull_step, must_inspect
from pykubelet.kubelet.kuberuntime.container_gc import GcPolicy, containers_to_remove, dead_beyond, sandboxes_to_remove
from pykubelet.kubelet.kuberuntime.pod_actions import (
    KillReason,
    container_hash,
    kill_grace_seconds,
    pod_sandbox_changed,
    restart_count_from_logs,
    should_restart,
)
from pykubelet.kubelet.pleg.pleg import PodLifecycleEventType, compute_events
from pykubelet.runtimes.protocol import ContainerState, RuntimeContainer, RuntimePod, Sandbox
from pykubelet.testing.build import container, pod
from pykubelet.testing.virtual_time import EPOCH

few = settings(max_examples=100, deadline=None)
NOW = EPOCH + timedelta(days=1)
policies = st.sampled_from(["Always", "OnFailure", "Never"])


@st.composite
def views(draw: st.DrawFn, uid: str = "uid") -> RuntimePod:
    """Up to four containers of two names in up to two sandboxes."""
    sandboxes = tuple(
        Sandbox(id=f"{uid}-s{number}", is_ready=draw(st.booleans()), created_at=EPOCH - timedelta(hours=number))
        for number in range(draw(st.integers(0, 2)))
    )
    containers = tuple(
        RuntimeContainer(
            id=f"{uid}-{name}{number}",
            name=name,
            state=draw(st.sampled_from(ContainerState)),
            exit_code=draw(st.sampled_from([0, 1])),
            sandbox_id=draw(st.sampled_from([f"{uid}-s0", f"{uid}-s1"])),
            created_at=EPOCH - timedelta(minutes=number),
        )
        for name in ("a", "b")
        for number in range(draw(st.integers(0, 2)))
    )
    return RuntimePod(uid=PodUid(uid), namespace="default", name=uid, sandboxes=sandboxes, containers=containers)


@given(views())
@few
def test_nothing_has_changed_between_equal_views(seen: RuntimePod) -> None:
    assert compute_events(seen, seen) == ()


@given(views(), views())
@few
def test_events_cover_every_added_and_removed_id(old: RuntimePod, new: RuntimePod) -> None:
    def ids(pod: RuntimePod) -> set[str]:
        return {one.id for one in pod.containers} | {one.id for one in pod.sandboxes}

    changes = compute_events(old, new)
    assert {one.container_id for one in changes if one.kind == PodLifecycleEventType.REMOVED} == ids(old) - ids(new)
    assert ids(new) - ids(old) <= {one.container_id for one in changes}
    assert len(set(changes)) == len(changes)


@given(views(), policies)
@few
def test_running_container_is_never_to_be_started(seen: RuntimePod, policy: str) -> None:
    newest = seen.newest("a")
    restart = should_restart("a", pod(restart_policy=policy), seen)
    if newest is None:
        assert restart
    elif newest.state == ContainerState.RUNNING:
        assert not restart


@given(st.lists(st.integers(0, 50)), st.sampled_from(["", ".gz", ".20260101-000000"]))
@few
def test_restart_count_is_above_every_log(numbers: list[int], suffix: str) -> None:
    count = restart_count_from_logs(f"{number}.log{suffix}" for number in numbers)
    assert count == max((number + 1 for number in numbers), default=0)


@given(st.text(max_size=12))
@few
def test_restart_count_reads_any_name(name: str) -> None:
    assert restart_count_from_logs([name]) >= 0


@given(st.none() | st.integers(0, 100), st.sampled_from(KillReason))
@few
def test_grace_without_probes_is_the_pods(grace: int | None, reason: KillReason) -> None:
    expected = grace if grace is not None else 2
    assert kill_grace_seconds(pod(termination_grace_period_seconds=grace), container(), reason) == expected


@given(views(), st.booleans())
@few
def test_new_sandbox_is_a_further_attempt(seen: RuntimePod, host_network: bool) -> None:
    need = pod_sandbox_changed(pod(host_network=host_network), seen)
    newest = seen.sandboxes[0] if seen.sandboxes else None
    assert need.attempt == (0 if newest is None else newest.attempt + need.is_new)
    if newest is not None and not need.is_new:
        assert newest.is_ready
        assert newest.host_network is host_network


@given(st.text(), st.text(), st.text(), st.text())
@few
def test_hash_is_equal_for_equal_names_and_images(name: str, image: str, other_name: str, other_image: str) -> None:
    hashes = container_hash(container(name, image=image)), container_hash(container(other_name, image=other_image))
    assert (name, image) != (other_name, other_image) or hashes[0] == hashes[1]
    assert 0 <= int(hashes[0], 16) < 2**32


@given(st.text(max_size=12), st.booleans())
@few
def test_image_is_never_pulled_under_never_and_never_refused_otherwise(policy: str, is_present: bool) -> None:
    for known in (policy, "Always", "IfNotPresent", "Never"):
        step = image_pull_step(known, is_present=is_present)
        assert (step is ImagePullStep.REFUSE) is (known == "Never" and not is_present)
        assert step is not ImagePullStep.USE or (is_present and must_inspect(known))


@given(st.lists(st.floats(0, 50), min_size=1, max_size=20))
@few
def test_delays_stay_between_first_and_limit(gaps: list[float]) -> None:
    backoff: KeyedBackoff[str] = KeyedBackoff(first_seconds=1, limit_seconds=8)
    now, last = EPOCH, 0.0
    for gap in gaps:
        now += timedelta(seconds=gap)
        backoff.advance("key", event_at=now, now=now)
        delay = backoff.delay_seconds("key")
        assert delay in {1, min(2 * last, 8)}
        until = backoff.waits_until("key", event_at=now, now=now)
        assert until == backoff.waits_since_advance("key", now) == now + timedelta(seconds=delay)
        last = delay
    backoff.prune(now + timedelta(seconds=17))
    assert len(backoff) == 0


@given(st.tuples(views("gone"), views("live"), views("other")), st.integers(-1, 3), st.integers(-1, 6))
@few
def test_garbage_is_only_what_does_not_run(pods: tuple[RuntimePod, ...], per: int, total: int) -> None:
    policy = GcPolicy(max_per_container=per, max_containers=total)
    removals = containers_to_remove(
        pods, policy, NOW, is_gone=lambda uid: uid == "gone", is_exit_reported=lambda _, __: True
    )
    removed = [one.container_id for one in removals]
    assert len(set(removed)) == len(removed)
    for seen in pods:
        dead = {one.id for one in seen.containers if one.state != ContainerState.RUNNING}
        kept = dead - set(removed)
        assert {one.id for one in seen.containers} & set(removed) <= dead
        assert seen.uid != "gone" or not kept
        assert per < 0 or len(kept) <= 2 * per
    kept_in_all = sum(one.state != ContainerState.RUNNING for seen in pods for one in seen.containers) - len(removed)
    assert total < 0 or kept_in_all <= total


@given(views("gone"), views("live"))
@few
def test_sandbox_in_use_is_no_garbage(gone: RuntimePod, live: RuntimePod) -> None:
    removed = sandboxes_to_remove([gone, live], is_gone=lambda uid: uid == "gone")
    used = {one.sandbox_id for seen in (gone, live) for one in seen.containers}
    ready = {one.id for seen in (gone, live) for one in seen.sandboxes if one.is_ready}
    assert not set(removed) & (used | ready)
    assert not live.sandboxes or live.sandboxes[0].id not in removed


@given(views(), st.integers(0, 2))
@few
def test_dead_beyond_keeps_the_newest(seen: RuntimePod, keep: int) -> None:
    dead = [one for one in seen.containers if one.state == ContainerState.EXITED]
    assert len(dead_beyond(seen, keep)) == max(len(dead) - keep, 0)
    assert dead_beyond(seen, keep, container_id="stranger") == ()
    for one in dead:
        same = [other for other in dead if other.name == one.name]
        removed = dead_beyond(seen, keep, container_id=one.id)
        assert removed == tuple(other.id for other in same[keep:])


def test_pod_of_another_network_needs_a_new_sandbox() -> None:
    """A pod in the host network needs no address of its own."""
    sandbox = Sandbox(id="s", created_at=EPOCH, host_network=True)
    seen = RuntimePod(uid=PodUid("uid"), namespace="default", name="web", sandboxes=(sandbox,))
    wanted: Pod = pod(host_network=True)
    assert not pod_sandbox_changed(wanted, seen).is_new
    assert pod_sandbox_changed(pod(), seen).is_new
