"""Rules for bindings and evictions, tested without a server."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.errors import ApiError, Conflict, Forbidden, TooManyRequests
from pykubelet.apiserver.handlers.binding import assign_node, with_condition
from pykubelet.apiserver.handlers.eviction import budget_of, may_evict_unready, needs_no_budget, record_disruption

NOW = "2026-01-01T00:00:00Z"
STATUS = st.fixed_dictionaries(
    {},
    optional={
        "disruptionsAllowed": st.integers(-1, 3),
        "observedGeneration": st.integers(0, 2),
        "desiredHealthy": st.integers(0, 3),
        "currentHealthy": st.integers(0, 3),
        "disruptedPods": st.dictionaries(st.sampled_from("pq"), st.just(NOW)),
    },
)


def budget(status: dict[str, Any], **spec: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"a": "b"}}
    return {"metadata": {"name": "b", "generation": 1}, "spec": {"selector": selector, **spec}, "status": status}


def pod(phase: str = "Running", *, ready: bool = True) -> dict[str, Any]:
    scheduled = {"type": "PodScheduled", "status": "True"}
    conditions = [scheduled, {"type": "Ready", "status": "True" if ready else "False"}]
    metadata = {"name": "p", "uid": "u", "resourceVersion": "5", "labels": {"a": "b"}}
    return {"metadata": metadata, "spec": {}, "status": {"phase": phase, "conditions": conditions}}


@given(STATUS)
def test_budget_allows_no_more_than_it_has(status: dict[str, Any]) -> None:
    """An allowed disruption lowers the count and records the pod; a refusal leaves the budget unchanged."""
    before = budget(dict(status))
    allowed, is_seen = status.get("disruptionsAllowed", 0), status.get("observedGeneration", 0) >= 1
    if not is_seen or allowed == 0:
        with pytest.raises(TooManyRequests) as refused:
            record_disruption(before, "p", NOW)
        assert refused.value.causes[0]["reason"] == "DisruptionBudget"
    elif allowed < 0:
        with pytest.raises(Forbidden):
            record_disruption(before, "p", NOW)
    else:
        after = record_disruption(before, "p", NOW)["status"]
        assert after["disruptionsAllowed"] == status["disruptionsAllowed"] - 1 >= 0
        assert after["disruptedPods"]["p"] == NOW
        assert ("conditions" in after) == (after["disruptionsAllowed"] == 0)
    assert before == budget(status)


@pytest.mark.parametrize(
    ("status", "refusal", "message"),
    [
        ({"disruptionsAllowed": -1}, Forbidden, "pdb disruptions allowed is negative"),
        (
            {"disruptionsAllowed": 9, "disruptedPods": {f"p{number}": NOW for number in range(2001)}},
            Forbidden,
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        ),
        (
            {"desiredHealthy": 3, "currentHealthy": 3},
            TooManyRequests,
            "The disruption budget b needs 3 healthy pods and has 3 currently",
        ),
        (
            {"observedGeneration": 0, "disruptionsAllowed": 1},
            TooManyRequests,
            "The disruption budget b is still being processed by the server.",
        ),
    ],
    ids=["negative", "too many", "none left", "not seen"],
)
def test_refused_eviction_tells_why(status: dict[str, Any], refusal: type[ApiError], message: str) -> None:
    """A client that is told when to try again does so."""
    with pytest.raises(refusal) as caught:
        record_disruption(budget({"observedGeneration": 1, **status}), "p", NOW)
    assert message in str(caught.value.details | {"message": caught.value.message})


def test_budget_takes_as_many_evictions_as_its_map_holds() -> None:
    pods = {f"p{number}": NOW for number in range(2000)}
    after = record_disruption(
        budget({"observedGeneration": 1, "disruptionsAllowed": 9, "disruptedPods": pods}), "p", NOW
    )
    assert len(after["status"]["disruptedPods"]) == 2001


@pytest.mark.parametrize(
    ("phase", "nothing"), [("Running", False), ("Pending", True), ("Failed", True), ("Succeeded", True)]
)
def test_pod_that_does_not_run_disrupts_nothing(phase: str, nothing: bool) -> None:
    """Neither does a pod that is being deleted."""
    assert needs_no_budget(pod(phase)) is nothing
    deleted = pod()
    deleted["metadata"]["deletionTimestamp"] = NOW
    assert needs_no_budget(deleted)


@given(STATUS, st.booleans(), st.sampled_from(["", "AlwaysAllow", "IfHealthyBudget"]))
def test_unready_pod_is_protected_by_an_unhealthy_budget(status: dict[str, Any], ready: bool, policy: str) -> None:
    """With policy AlwaysAllow, unready pods are never protected."""
    found = budget(status, **({"unhealthyPodEvictionPolicy": policy} if policy else {}))
    desired = status.get("desiredHealthy", 0)
    spare = status.get("currentHealthy", 0) >= desired > 0
    assert may_evict_unready(pod(ready=ready), found) == (not ready and (policy == "AlwaysAllow" or spare))


def test_budget_is_found_by_its_selector() -> None:
    """No budget, one budget, or an error if several match."""
    other = {**budget({}), "spec": {"selector": {"matchLabels": {"a": "c"}}}}
    broken = {**budget({}), "spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "Nope"}]}}}
    assert budget_of(pod(), [other, broken, {"spec": {}}]) is None
    mine = budget({})
    assert budget_of(pod(), [other, mine]) is mine
    with pytest.raises(ApiError, match="more than one PodDisruptionBudget"):
        budget_of(pod(), [mine, budget({})])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metadata": {"deletionTimestamp": NOW}}, "pod p is being deleted, cannot be assigned to a host"),
        ({"spec": {"nodeName": "m"}}, 'pod p is already assigned to node "m"'),
        ({"spec": {"schedulingGates": [{"name": "g"}]}}, "pod p has non-empty .spec.schedulingGates"),
    ],
)
def test_pod_that_must_not_be_bound_is_refused(change: dict[str, Any], message: str) -> None:
    """The message is upstream's."""
    unfit = {key: {**value, **change.get(key, {})} for key, value in pod().items()}
    with pytest.raises(Conflict, match="Operation cannot be fulfilled on pods/binding") as refused:
        assign_node(unfit, {"metadata": {"name": "p"}, "target": {"name": "n"}}, NOW)
    assert refused.value.message.endswith(message)
    assert refused.value.details == {"name": "p", "kind": "pods/binding"}


@given(
    st.lists(
        st.fixed_dictionaries({"type": st.sampled_from("XYZ"), "status": st.sampled_from(["True", "False"])}),
        unique_by=lambda one: one["type"],
    ),
    st.sampled_from(["True", "False"]),
)
def test_condition_moves_its_time_only_with_its_status(conditions: list[dict[str, Any]], status: str) -> None:
    """The condition keeps its place in the list."""
    old = [{**one, "lastTransitionTime": "then"} for one in conditions]
    new = with_condition(old, {"type": "X", "status": status}, NOW)
    assert [one["type"] for one in new][: len(old)] == [one["type"] for one in old]
    (mine,) = [one for one in new if one["type"] == "X"]
    same = any(one["type"] == "X" and one["status"] == status for one in old)
    assert mine["lastTransitionTime"] == ("then" if same else NOW)
