"""The cells of a pod's table row: readiness, status, restarts and readiness gates."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.times import ages_at
from pykubelet.kinds.pod.columns import pod_cells, pod_conditions

_AGE = ages_at(datetime(2026, 11, 15, 12, tzinfo=UTC))
_RUNNING: dict[str, Any] = {"running": {}}


def _pod(*statuses: Any, inits: Any = (), spec: Any = None, **status: Any) -> dict[str, Any]:
    names = [each["name"] for each in inits]
    base = {
        "containers": [{"name": each["name"]} for each in statuses],
        "initContainers": [{"name": name} for name in names],
    }
    return {
        "metadata": {"name": "p", "creationTimestamp": "2026-11-15T11:00:00Z"},
        "spec": {**base, **(spec or {})},
        "status": {
            "phase": "Running",
            "containerStatuses": list(statuses),
            "initContainerStatuses": list(inits),
            **status,
        },
    }


def _c(name: str, state: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "state": state, "ready": "running" in state, "restartCount": 0, **more}


_READY = [{"type": "Ready", "status": "True"}]
_SIDECAR = {"initContainers": [{"name": "i", "restartPolicy": "Always"}]}
_DELETED = {"deletionTimestamp": "2026-11-15T12:00:00Z", "name": "p"}


@pytest.mark.parametrize(
    ("pod", "ready", "status"),
    [
        (_pod(_c("a", _RUNNING)), "1/1", "Running"),
        (_pod(phase="Pending"), "0/0", "Pending"),
        (_pod(phase="Failed", reason="Evicted"), "0/0", "Evicted"),
        (_pod(conditions=[{"type": "PodScheduled", "reason": "SchedulingGated"}]), "0/0", "SchedulingGated"),
        (_pod(_c("a", {"waiting": {"reason": "ImagePullBackOff"}}), _c("b", _RUNNING)), "1/2", "ImagePullBackOff"),
        (_pod(_c("a", {"terminated": {"exitCode": 1, "reason": "Error"}})), "0/1", "Error"),
        (_pod(_c("a", {"terminated": {"exitCode": 3}})), "0/1", "ExitCode:3"),
        (_pod(_c("a", {"terminated": {"signal": 9, "exitCode": 137}})), "0/1", "Signal:9"),
        (_pod(_c("a", {"terminated": {"reason": "Completed"}}), _c("b", _RUNNING)), "1/2", "NotReady"),
        (
            _pod(_c("a", {"terminated": {"reason": "Completed"}}), _c("b", _RUNNING), conditions=_READY),
            "1/2",
            "Running",
        ),
        (_pod(_c("a", {}), inits=[_c("i", _RUNNING)]), "0/1", "Init:0/1"),
        (_pod(_c("a", {}), inits=[_c("i", {"waiting": {"reason": "PodInitializing"}})]), "0/1", "Init:0/1"),
        (_pod(_c("a", {}), inits=[_c("i", {"waiting": {"reason": "Slow"}})]), "0/1", "Init:Slow"),
        (_pod(_c("a", {}), inits=[_c("i", {"terminated": {"exitCode": 2}})]), "0/1", "Init:ExitCode:2"),
        (_pod(_c("a", {}), inits=[_c("i", {"terminated": {"exitCode": 2, "signal": 9}})]), "0/1", "Init:Signal:9"),
        (_pod(_c("a", {}), inits=[_c("i", {"terminated": {"exitCode": 1, "reason": "Error"}})]), "0/1", "Init:Error"),
        (_pod(_c("a", _RUNNING), inits=[_c("i", {"terminated": {"exitCode": 0}})]), "1/1", "Running"),
        (_pod(_c("a", _RUNNING), inits=[_c("i", _RUNNING, started=True)], spec=_SIDECAR), "2/2", "Running"),
        (_pod(_c("a", {}), inits=[_c("i", _RUNNING, started=False)], spec=_SIDECAR), "0/2", "Init:0/1"),
        (_pod(_c("a", {}), inits=[_c("i", _RUNNING, started=True)]), "0/1", "Init:0/1"),
        (
            _pod(_c("a", _RUNNING), inits=[_c("i", _RUNNING, started=True, ready=False)], spec=_SIDECAR),
            "1/2",
            "Running",
        ),
        ({**_pod(_c("a", _RUNNING)), "metadata": _DELETED}, "1/1", "Terminating"),
        ({**_pod(phase="Succeeded"), "metadata": _DELETED}, "0/0", "Succeeded"),
        ({**_pod(reason="NodeLost"), "metadata": _DELETED}, "0/0", "Unknown"),
        ({}, "0/0", ""),
    ],
)
def test_row_shows_ready_containers_and_status(pod: dict[str, Any], ready: str, status: str) -> None:
    """The cells are those of `kubectl get pods`."""
    assert pod_cells(pod, _AGE)[1:3] == [ready, status]


@pytest.mark.parametrize(
    ("statuses", "inits", "spec", "shown"),
    [
        ([_c("a", _RUNNING, restartCount=2)], [], {}, "2"),
        (
            [_c("a", _RUNNING, restartCount=2, lastState={"terminated": {"finishedAt": "2026-11-15T11:58:00Z"}})],
            [],
            {},
            "2 (2m ago)",
        ),
        ([_c("a", _RUNNING, restartCount=1), _c("b", _RUNNING, restartCount=2)], [], {}, "3"),
        ([_c("a", {})], [_c("i", _RUNNING, restartCount=4)], {}, "4"),
        ([_c("a", _RUNNING)], [_c("i", {"terminated": {"exitCode": 0}}, restartCount=4)], {}, "0"),
        ([_c("a", _RUNNING)], [_c("i", _RUNNING, started=True, restartCount=4)], _SIDECAR, "4"),
    ],
)
def test_restarts_count_what_can_still_restart(statuses: Any, inits: Any, spec: Any, shown: str) -> None:
    """Restarts of init containers count while they run, and those of containers and sidecars later."""
    assert pod_cells(_pod(*statuses, inits=inits, spec=spec), _AGE)[3] == shown


def test_readiness_gates_count_the_conditions_that_are_true() -> None:
    """A gate without its condition counts as not met."""
    spec = {"readinessGates": [{"conditionType": "a"}, {"conditionType": "b"}, {"conditionType": "c"}]}
    conditions = [{"type": "a", "status": "True"}, {"type": "b", "status": "False"}]
    assert pod_cells(_pod(spec=spec, conditions=conditions), _AGE)[-1] == "1/3"


@pytest.mark.parametrize(("phase", "reason"), [("Succeeded", "Succeeded"), ("Failed", "Failed"), ("Running", None)])
def test_row_of_a_finished_pod_has_a_condition(phase: str, reason: str | None) -> None:
    """On request, kubectl hides rows with this condition."""
    conditions = pod_conditions(_pod(phase=phase))
    assert (conditions and conditions[0]["reason"]) == reason


_STATES = st.sampled_from(
    [{}, _RUNNING, {"waiting": {}}, {"waiting": {"reason": "W"}}, {"terminated": {}}, {"terminated": {"exitCode": 1}}]
)


@given(st.lists(_STATES, max_size=3), st.lists(_STATES, max_size=3), st.booleans())
def test_no_more_containers_are_ready_than_there_are(states: list[Any], inits: list[Any], deleted: bool) -> None:
    """The states of the containers do not matter."""
    statuses = [_c(f"c{index}", state) for index, state in enumerate(states)]
    pod = _pod(*statuses, inits=[_c(f"i{index}", state) for index, state in enumerate(inits)])
    if deleted:
        pod["metadata"] = _DELETED
    ready, total = map(int, pod_cells(pod, _AGE)[1].split("/"))
    assert 0 <= ready <= total == len(states)
