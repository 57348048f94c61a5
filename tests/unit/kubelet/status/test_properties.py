"""Properties of the status manager's decisions, for any status."""

import itertools
from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pykubelet.api.generated.core import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Pod,
    PodCondition,
    PodExtendedResourceClaimStatus,
    PodResourceClaimStatus,
    PodStatus,
    ResourceRequirements,
)
from pykubelet.api.patch.strategic_apply import apply_strategic
from pykubelet.api.pods import OWNED_CONDITIONS, PodUid, is_static_pod, is_terminal
from pykubelet.api.serializer import to_document
from pykubelet.api.times import format_time
from pykubelet.kubelet.pod.pod_manager import PodManager
from pykubelet.kubelet.status.normalize import (
    cut_message,
    equal_by_node,
    illegal_transition,
    latch_phase,
    normalize_status,
)
from pykubelet.kubelet.status.status_manager import StatusManager, final_status
from pykubelet.kubelet.status.sync import is_unchanged, merge_status, status_patch
from pykubelet.testing.build import container, pod, static_pod
from pykubelet.testing.virtual_time import EPOCH, ManualClock

NOW = "2026-01-01T00:00:00Z"
NAMES = ("a", "b", "c")

few = settings(max_examples=40, deadline=None)
many = settings(max_examples=200, deadline=None)
texts = st.text(alphabet="ab\u00e9\u20ac\U0001f600\ufffd", max_size=4)
times = st.none() | st.integers(0, 3).map(lambda second: format_time(EPOCH + timedelta(seconds=second)))
precise_times = times | st.sampled_from(["2026-01-01T01:00:00.5+01:00", "2026-01-01T00:00:00.123456789Z"])
quantities = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["1", "1000m", "2", "0", "1Gi"]))
terminated = st.builds(
    ContainerStateTerminated,
    exit_code=st.integers(0, 1),
    message=texts.map(lambda text: text * 2000),
    started_at=precise_times,
    finished_at=precise_times,
)
states = st.one_of(
    st.just(ContainerState()),
    st.builds(ContainerState, running=st.builds(ContainerStateRunning, started_at=precise_times)),
    st.builds(ContainerState, waiting=st.builds(ContainerStateWaiting, reason=texts)),
    st.builds(ContainerState, terminated=terminated),
)
container_statuses = st.lists(
    st.builds(
        ContainerStatus,
        name=st.sampled_from(NAMES),
        state=states,
        last_state=states,
        ready=st.booleans(),
        started=st.none() | st.booleans(),
        allocated_resources=quantities,
        resources=st.none() | st.builds(ResourceRequirements, limits=quantities, requests=quantities),
    ),
    max_size=2,
    unique_by=lambda status: status.name,
).map(tuple)
conditions = st.lists(
    st.builds(
        PodCondition,
        type=st.sampled_from(["Ready", "ContainersReady", "PodScheduled", "DisruptionTarget", "example.com/gate"]),
        status=st.sampled_from(["True", "False"]),
        reason=st.sampled_from(["", "Because"]),
        last_transition_time=precise_times,
    ),
    max_size=4,
    unique_by=lambda condition: condition.type,
).map(tuple)
outlines = st.builds(
    PodStatus,
    phase=st.sampled_from(["", "Pending", "Running", "Succeeded", "Failed"]),
    reason=st.sampled_from(["", "Evicted"]),
    message=st.sampled_from(["", "low on memory"]),
    start_time=precise_times,
    observed_generation=st.integers(0, 2),
    conditions=conditions,
)
statuses = st.builds(
    replace,
    outlines,
    container_statuses=container_statuses,
    init_container_statuses=container_statuses,
    ephemeral_container_statuses=container_statuses,
)
policies = st.sampled_from(["Always", "OnFailure", "Never"])
pods = st.builds(
    lambda make, inits, policy, status: make(
        init_containers=tuple(container(name) for name in inits),
        containers=[container(name) for name in NAMES],
        restart_policy=policy,
        status=status,
    ),
    st.sampled_from([pod, static_pod]),
    st.permutations(NAMES),
    policies,
    statuses,
)


@few
@given(pods, statuses)
def test_normalizing_changes_nothing_when_done_twice(known: Pod, status: PodStatus) -> None:
    """The normal form is a fixed point in every detail."""
    once = normalize_status(known, status)
    assert normalize_status(known, once) == once


@many
@given(st.text(max_size=40), st.integers(0, 60))
def test_cut_message_keeps_whole_characters_when_it_cuts(message: str, budget: int) -> None:
    """Partial characters at the cut become U+FFFD; cutting again changes nothing, and short messages stay."""
    cut = cut_message(message, budget)
    assert cut_message(cut, budget) == cut
    assert message.startswith(cut.rstrip("\ufffd"))
    if len(message.encode()) <= budget:
        assert cut == message


@few
@given(statuses, statuses)
def test_equality_is_reflexive_and_symmetric(left: PodStatus, right: PodStatus) -> None:
    """Every status equals itself, and equality works both ways."""
    assert equal_by_node(left, left)
    assert equal_by_node(left, right) == equal_by_node(right, left)


@few
@given(pods, statuses)
def test_normal_form_is_equal_to_itself_when_conditions_are_reordered_and_redated(
    known: Pod, status: PodStatus
) -> None:
    """Order and times of conditions are ignored."""
    normal = normalize_status(known, status)
    redated = tuple(replace(one, last_transition_time=NOW) for one in reversed(normal.conditions))
    assert equal_by_node(normal, replace(normal, conditions=redated))


@few
@given(statuses, st.sampled_from(["1", "1000m", "1e0"]), st.sampled_from(["1", "1000m", "1.0", "2"]))
def test_equality_goes_by_value_when_quantities_are_written_otherwise(status: PodStatus, one: str, other: str) -> None:
    """1 and 1000m are the same amount."""

    def using(amount: str) -> PodStatus:
        return replace(status, container_statuses=(ContainerStatus(name="q", allocated_resources={"cpu": amount}),))

    assert equal_by_node(using(one), using(other)) is (other != "2")


def test_equality_compares_the_text_when_it_is_no_quantity() -> None:
    """An invalid quantity is equal only to itself."""

    def using(amount: str) -> PodStatus:
        return PodStatus(container_statuses=(ContainerStatus(allocated_resources={"cpu": amount}),))

    assert equal_by_node(using("odd"), using("odd"))
    assert not equal_by_node(using("odd"), using("1"))


@many
@given(outlines, outlines, st.booleans())
def test_merge_keeps_every_foreign_condition_of_the_api(old: PodStatus, new: PodStatus, could_run: bool) -> None:
    """Conditions of other owners keep their value and order, and missing ones are not added."""
    merged = merge_status(pod(), old, new, could_run=could_run, now=NOW)
    foreign = [one for one in old.conditions if one.type not in OWNED_CONDITIONS and one.type != "DisruptionTarget"]
    kept = [one for one in merged.conditions if one.type not in OWNED_CONDITIONS and one.type != "DisruptionTarget"]
    assert kept == foreign
    assert {one.type for one in old.conditions} & {"DisruptionTarget"} <= {one.type for one in merged.conditions}


@many
@given(outlines, outlines, st.booleans())
def test_merge_leaves_claims_to_their_owner(old: PodStatus, new: PodStatus, could_run: bool) -> None:
    """Resource claims belong to the scheduler and the claim controller."""
    claims = (PodResourceClaimStatus(name="gpu"),)
    extended = PodExtendedResourceClaimStatus(resource_claim_name="gpu")
    theirs = replace(old, resource_claim_statuses=claims, extended_resource_claim_status=extended)
    for before in (old, theirs):
        after = old if before is theirs else theirs
        ours = replace(
            new,
            resource_claim_statuses=after.resource_claim_statuses,
            extended_resource_claim_status=after.extended_resource_claim_status,
        )
        merged = merge_status(pod(), before, ours, could_run=could_run, now=NOW)
        assert merged.resource_claim_statuses == before.resource_claim_statuses
        assert merged.extended_resource_claim_status == before.extended_resource_claim_status


@many
@given(outlines, outlines, st.booleans())
def test_merge_never_reports_an_end_when_containers_could_run(old: PodStatus, new: PodStatus, could_run: bool) -> None:
    """No transition to a terminal phase while containers may run, and a terminal pod is never ready."""
    merged = merge_status(pod(), old, new, could_run=could_run, now=NOW)
    assert not could_run or is_terminal(old.phase) or not is_terminal(merged.phase)
    if is_terminal(merged.phase):
        readiness = {one.type: one.status for one in merged.conditions}
        assert "True" not in (readiness.get("Ready"), readiness.get("ContainersReady"))


@few
@given(statuses, statuses)
def test_patch_makes_the_new_status_of_the_old_when_applied(old: PodStatus, new: PodStatus) -> None:
    """The patch contains the whole difference, and is empty if there is none."""
    merged = merge_status(pod(), old, new, could_run=False, now=NOW)
    patch = status_patch("uid", old, merged)
    before = {"metadata": {"uid": "uid"}, "status": to_document(old)}
    after = apply_strategic(before, patch, "core.v1.Pod")
    assert _comparable(after["status"]) == _comparable(to_document(merged))
    assert is_unchanged(patch) is (_comparable(to_document(old)) == _comparable(to_document(merged)))


def _comparable(document: Any) -> Any:
    """Removes nulls, which a patch cannot set, and empty values."""
    if isinstance(document, dict):
        kept = {key: _comparable(value) for key, value in document.items()}
        return {key: value for key, value in kept.items() if value not in (None, [], {})}
    return [_comparable(value) for value in document] if isinstance(document, list) else document


@many
@given(outlines, outlines)
def test_latch_keeps_every_terminal_phase(old: PodStatus, new: PodStatus) -> None:
    """A terminal phase is kept; any other phase is replaced."""
    latched = latch_phase(old, new)
    assert latched.phase == (old.phase if is_terminal(old.phase) else new.phase)
    assert latch_phase(old, latched) == latched


@few
@given(pods, statuses)
def test_final_status_is_legal_and_a_fixed_point(known: Pod, status: PodStatus) -> None:
    """The final status is a legal transition, is terminal unless the pod is static, and is a fixed point."""
    last = final_status(known, status)
    assert final_status(known, last) == last
    assert is_static_pod(known) or is_terminal(last.phase)
    why = illegal_transition(status, last, known.spec)
    assert why is None or why.startswith("found mismatch")


class Safety:
    """No containers run and all resources are reclaimed."""

    def could_have_running_containers(self, _: PodUid, /) -> bool:
        return False

    def pod_resources_are_reclaimed(self, _pod: Pod, _status: PodStatus, /) -> bool:
        return True


steps = st.lists(
    st.one_of(
        st.tuples(st.just("set"), statuses),
        st.tuples(st.just("terminate"), st.none()),
        st.tuples(st.just("ready"), st.booleans()),
        st.tuples(st.just("started"), st.booleans()),
    ),
    max_size=8,
)


def _do(manager: StatusManager, known: Pod, step: str, value: Any) -> None:
    uid = PodUid(known.metadata.uid)
    match step:
        case "set":
            manager.set_pod_status(known, value)
        case "terminate":
            manager.terminate_pod(known)
        case "ready":
            manager.set_container_readiness(uid, "", ready=value)
        case "started":
            manager.set_container_startup(uid, "", started=value)


@few
@given(pods, steps)
def test_versions_grow_and_terminal_fields_stay_whatever_is_set(known: Pod, script: list[tuple[str, Any]]) -> None:
    """Version, generation and finished never go back; a terminal phase and the start time never change."""
    manager_pods = PodManager()
    manager_pods.add_pod(known)
    manager = StatusManager(client=None, pods=manager_pods, safety=Safety(), clock=ManualClock())
    history = []
    for step, value in script:
        _do(manager, known, step, value)
        if entry := manager._cache.get(PodUid(known.metadata.uid)):
            history.append(entry)
    for old, new in itertools.pairwise(history):
        assert (new == old) if new.version == old.version else (new.version == old.version + 1)
        assert new.status.observed_generation >= old.status.observed_generation
        assert new.status.start_time == old.status.start_time is not None
        assert new.finished or not old.finished or is_static_pod(known)
        assert not is_terminal(old.status.phase) or new.status.phase == old.status.phase
        assert normalize_status(known, new.status) == new.status
