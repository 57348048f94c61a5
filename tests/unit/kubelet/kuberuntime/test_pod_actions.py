"""Properties of computePodActions: no duplicates, right order, and the pod ends up running."""

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.generated.core import Pod, Probe
from pykubelet.api.pods import PodUid, is_restartable_init_container
from pykubelet.kubelet.kuberuntime.pod_actions import PodActions, ProbeResults, compute_pod_actions, container_hash
from pykubelet.runtimes.protocol import ContainerState, RuntimeContainer, RuntimePod, Sandbox
from pykubelet.testing.build import container, pod
from pykubelet.testing.virtual_time import EPOCH

UID = PodUid("uid-default-web")
REGULAR, INITS = ("c0", "c1"), ("i0", "i1", "i2")
SIDECAR: dict[str, Any] = {"restart_policy": "Always"}
SIDECAR_WITH_PROBE: dict[str, Any] = {"restart_policy": "Always", "startup_probe": Probe()}
POLICIES = st.sampled_from(["Always", "OnFailure", "Never"])
few = settings(max_examples=150, deadline=None)


@st.composite
def pods(draw: st.DrawFn, policies: st.SearchStrategy[str] = POLICIES) -> Pod:
    """A pod with one or two containers after up to three init containers, some of them sidecars."""
    kinds = draw(st.lists(st.sampled_from([{}, SIDECAR, SIDECAR_WITH_PROBE]), max_size=len(INITS)))
    inits = [container(name, **fields) for name, fields in zip(INITS, kinds, strict=False)]
    regular = [container(name) for name in REGULAR[: draw(st.integers(1, 2))]]
    return pod(containers=regular, init_containers=tuple(inits), restart_policy=draw(policies))


@st.composite
def views(draw: st.DrawFn) -> RuntimePod:
    """Any runtime state of such a pod."""
    containers = tuple(
        RuntimeContainer(
            id=f"{name}-{number}",
            name=name,
            state=draw(st.sampled_from(ContainerState)) if number == 0 else ContainerState.EXITED,
            hash=container_hash(container(name)) if draw(st.integers(0, 3)) else "other",
            exit_code=draw(st.sampled_from([0, 1])),
            created_at=EPOCH,
        )
        for name in (*INITS, *REGULAR)
        for number in range(draw(st.integers(0, 2)))
    )
    sandboxes = tuple(
        Sandbox(
            id=f"sandbox-{number}",
            attempt=number,
            is_ready=draw(st.booleans()),
            created_at=EPOCH,
            ips=("10.0.0.1",) if draw(st.integers(0, 4)) else (),
        )
        for number in reversed(range(draw(st.integers(0, 2))))
    )
    return RuntimePod(uid=UID, namespace="default", name="web", sandboxes=sandboxes, containers=containers)


@st.composite
def verdicts(draw: st.DrawFn) -> ProbeResults:
    """Any probe results for the newest containers."""
    ids = [f"{name}-0" for name in (*INITS, *REGULAR)]
    some = st.dictionaries(st.sampled_from(ids), st.booleans())
    return ProbeResults(liveness=draw(some), startup=draw(some))


@given(pods(), views(), verdicts())
@few
def test_plan_never_lets_two_of_a_name_run(wanted: Pod, seen: RuntimePod, probes: ProbeResults) -> None:
    actions = compute_pod_actions(wanted, seen, probes)
    killed = {kill.container.name for kill in actions.kills}
    for one in (*actions.start_init, *actions.start):
        newest = seen.newest(one.name)
        may_run = newest is not None and newest.state in {ContainerState.RUNNING, ContainerState.UNKNOWN}
        assert not may_run or actions.kill_pod or one.name in killed


@given(pods(), views(), verdicts())
@few
def test_plan_that_only_kills_starts_nothing(wanted: Pod, seen: RuntimePod, probes: ProbeResults) -> None:
    actions = compute_pod_actions(wanted, seen, probes)
    if actions.kill_pod and not actions.create_sandbox:
        assert actions.start == actions.start_init == ()
    if actions.create_sandbox:
        assert actions.kill_pod
        assert (actions.start == ()) is bool(wanted.spec.init_containers) or not actions.start_init


def test_sidecar_is_not_restarted_when_the_pod_is_over() -> None:
    """The only regular container is killed for its liveness probe and not restarted; the sidecar has crashed before."""
    wanted = pod(containers=[container("c0")], init_containers=(container("i0", **SIDECAR),), restart_policy="Never")
    running, crashed = (
        RuntimeContainer(
            id=f"{name}-0", name=name, state=state, hash=container_hash(container(name)), exit_code=1, created_at=EPOCH
        )
        for name, state in (("c0", ContainerState.RUNNING), ("i0", ContainerState.EXITED))
    )
    sandbox = Sandbox(id="sandbox-0", attempt=0, is_ready=True, created_at=EPOCH, ips=("10.0.0.1",))
    seen = RuntimePod(uid=UID, namespace="default", name="web", sandboxes=(sandbox,), containers=(running, crashed))
    over = compute_pod_actions(wanted, seen, ProbeResults(liveness={"c0-0": False}))
    assert (over.kill_pod, [one.container_id for one in over.kills]) == (True, ["c0-0"])
    assert over.start_init == over.start == ()
    alive = compute_pod_actions(wanted, seen, ProbeResults(liveness={"c0-0": True}))
    assert (alive.kill_pod, [one.name for one in alive.start_init]) == (False, ["i0"])


@given(pods(), views(), verdicts())
@few
def test_plan_starts_each_container_once_and_in_the_order_of_the_spec(
    wanted: Pod, seen: RuntimePod, probes: ProbeResults
) -> None:
    actions = compute_pod_actions(wanted, seen, probes)
    for started, spec in ((actions.start_init, wanted.spec.init_containers), (actions.start, wanted.spec.containers)):
        places = [spec.index(one) for one in started]
        assert places == sorted(set(places))


class Machine:
    """Applies a plan at once; plain init containers succeed, all others keep running."""

    def __init__(self, seen: RuntimePod) -> None:
        self.seen, self.count = seen, 0

    def do(self, wanted: Pod, actions: PodActions) -> None:
        killed = {kill.container_id for kill in actions.kills}
        containers = tuple(
            replace(one, state=ContainerState.EXITED, exit_code=137)
            if one.id in killed or (actions.kill_pod and one.state == ContainerState.RUNNING)
            else one
            for one in self.seen.containers
        )
        sandboxes = self.seen.sandboxes
        if actions.kill_pod:
            sandboxes = tuple(replace(one, is_ready=False) for one in sandboxes)
        if actions.create_sandbox:
            inits = {one.name for one in wanted.spec.init_containers}
            containers = tuple(one for one in containers if one.name not in inits)
            fresh = Sandbox(id=self._id(), attempt=actions.attempt, created_at=EPOCH, ips=("10.0.0.2",))
            sandboxes = (fresh, *sandboxes)
        started = tuple(
            RuntimeContainer(
                id=self._id(),
                name=one.name,
                state=ContainerState.RUNNING,
                hash=container_hash(one),
                created_at=EPOCH,
            )
            for one in (*actions.start_init, *actions.start)
        )
        self.seen = replace(self.seen, sandboxes=sandboxes, containers=(*reversed(started), *containers))

    def let_inits_end(self, wanted: Pod) -> None:
        """Running plain init containers exit successfully."""
        plain = {one.name for one in wanted.spec.init_containers if not is_restartable_init_container(one)}
        containers = tuple(
            replace(one, state=ContainerState.EXITED, exit_code=0)
            if one.name in plain and one.state == ContainerState.RUNNING
            else one
            for one in self.seen.containers
        )
        self.seen = replace(self.seen, containers=containers)

    def passed(self) -> ProbeResults:
        """Probe results in which every container has started."""
        return ProbeResults(startup={one.id: True for one in self.seen.containers})

    def _id(self) -> str:
        self.count += 1
        return f"made-{self.count}"


@given(pods(st.just("Always")), views())
@few
def test_plan_leads_to_a_running_pod_from_anywhere(wanted: Pod, seen: RuntimePod) -> None:
    machine = Machine(seen)
    for _ in range(12):
        machine.let_inits_end(wanted)
        actions = compute_pod_actions(wanted, machine.seen, machine.passed())
        if not (actions.kill_pod or actions.kills or actions.start or actions.start_init):
            break
        machine.do(wanted, actions)
    else:
        raise AssertionError("no end")
    sidecars = [one for one in wanted.spec.init_containers if is_restartable_init_container(one)]
    for one in (*sidecars, *wanted.spec.containers):
        newest = machine.seen.newest(one.name)
        assert newest is not None
        assert newest.state == ContainerState.RUNNING


@given(pods(), views(), verdicts())
@few
def test_plan_restarts_nothing_that_has_ended_for_good(wanted: Pod, seen: RuntimePod, probes: ProbeResults) -> None:
    actions = compute_pod_actions(wanted, seen, probes)
    for one in actions.start:
        newest = seen.newest(one.name)
        if newest is None or newest.state != ContainerState.EXITED or actions.create_sandbox:
            continue
        assert wanted.spec.restart_policy != "Never"
        assert newest.exit_code != 0 or wanted.spec.restart_policy == "Always"
