"""Cases 6.24-20 to -24: container statuses, also compared with those that Kubernetes 1.34.11 computed."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pykubelet.api.generated.core import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
    ContainerUser,
    Pod,
)
from pykubelet.api.pods import PodUid
from pykubelet.api.serializer import Document, from_document, to_document
from pykubelet.api.times import parse_time
from pykubelet.kubelet.status.container_statuses import (
    ContainerObservations,
    StartFailure,
    init_statuses,
    regular_statuses,
)
from pykubelet.runtimes.protocol import ContainerState as RuntimeState
from pykubelet.runtimes.protocol import RuntimeContainer, RuntimePod
from pykubelet.testing.build import container, pod
from pykubelet.testing.virtual_time import EPOCH

VECTORS = json.loads((Path(__file__).parent / "vectors/container-statuses.json").read_text())["cases"]
PREFIX = "test://"


@pytest.mark.parametrize("case", [pytest.param(case, id=str(case["index"])) for case in VECTORS])
def test_statuses_are_upstreams(case: Document) -> None:
    wanted = from_document(case["pod"], Pod)
    if bool(wanted.spec.init_containers) is not case["has_init_containers"]:
        # The Go function takes this as an input of its own; in the kubelet it follows from the spec.
        _expect_reason_of_spec(case)
    seen = ContainerObservations(
        runtime=RuntimePod(
            uid=PodUid(wanted.metadata.uid),
            namespace="ns",
            name="p",
            containers=tuple(map(_runtime_container, case["runtime_containers"])),
        ),
        runtime_name="test",
        start_failures={name: StartFailure(**one) for name, one in case["start_failures"].items()},
    )
    old = from_document(case["previous"], tuple[ContainerStatus, ...])
    statuses = (init_statuses if case["which"] == "init" else regular_statuses)(wanted, seen, old)
    assert to_document(statuses) == case["statuses"]


def _expect_reason_of_spec(case: Document) -> None:
    told = "PodInitializing" if case["has_init_containers"] else "ContainerCreating"
    ours = "ContainerCreating" if case["has_init_containers"] else "PodInitializing"
    for status in case["statuses"]:
        if status["state"].get("waiting", {}).get("reason") == told:
            status["state"]["waiting"]["reason"] = ours


def _runtime_container(one: Document) -> RuntimeContainer:
    times: dict[str, Any] = {
        key: parse_time(one[key]) for key in ("created_at", "started_at", "finished_at") if key in one
    }
    return RuntimeContainer(
        id=one["id"].removeprefix(PREFIX),
        name=one["name"],
        state=RuntimeState(one["state"]),
        attempt=one["restart_count"],
        image=one["image"],
        image_id=one["image_ref"],
        exit_code=one.get("exit_code", 0),
        reason=one.get("reason", ""),
        message=one.get("message", ""),
        user=from_document(one["user"], ContainerUser) if "user" in one else None,
        **times,
    )


RUNNING = ContainerState(running=ContainerStateRunning(started_at="2026-01-01T00:00:00Z"))
UNKNOWN_END = ("ContainerStatusUnknown", 137)
ONE = pod(restart_policy="Always")
FAILURE = StartFailure("CrashLoopBackOff", "why")


def _old(**fields: Any) -> ContainerStatus:
    return ContainerStatus(name="main", **fields)


def _runtime(*exits: int | None, state: RuntimeState = RuntimeState.EXITED) -> RuntimePod:
    """Containers of one name, newest first: the exit code of each, None for a running one."""
    containers = tuple(
        RuntimeContainer(
            id=str(age),
            name="main",
            state=RuntimeState.RUNNING if code is None else state,
            exit_code=code or 0,
            created_at=EPOCH - timedelta(minutes=age),
        )
        for age, code in enumerate(exits)
    )
    return RuntimePod(uid=PodUid("uid"), namespace="default", name="web", containers=containers)


def _status(
    wanted: Pod, runtime: RuntimePod, *old: ContainerStatus, failure: StartFailure | None = None
) -> ContainerStatus:
    failures = {"main": failure} if failure is not None else {}
    (status,) = regular_statuses(
        wanted, ContainerObservations(runtime=runtime, runtime_name="x", start_failures=failures), old
    )
    return status


def _end(state: ContainerState) -> tuple[str, int] | None:
    return (state.terminated.reason, state.terminated.exit_code) if state.terminated else None


def _waiting(status: ContainerStatus) -> str | None:
    return status.state.waiting.reason if status.state.waiting else None


def _ends(status: ContainerStatus) -> tuple[int | None, int | None]:
    """The exit codes of state and last state."""
    state, last = status.state.terminated, status.last_state.terminated
    return (state.exit_code if state else None, last.exit_code if last else None)


@pytest.mark.case("6.24-20 no runtime status, old running: unknown last state, counted unless deleting")
def test_container_that_vanished_has_ended() -> None:
    deleting = replace(ONE, metadata=replace(ONE.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))
    for wanted, count in ((deleting, 0), (ONE, 1)):
        status = _status(wanted, _runtime(), _old(state=RUNNING))
        assert (_waiting(status), _end(status.last_state), status.restart_count) == (
            "ContainerCreating",
            UNKNOWN_END,
            count,
        )


@pytest.mark.case("6.24-21 no history: ContainerCreating, PodInitializing with init; old last state kept")
def test_container_without_history_waits() -> None:
    assert _waiting(_status(ONE, _runtime())) == "ContainerCreating"
    with_init = pod(init_containers=(container("init"),))
    assert _waiting(_status(with_init, _runtime())) == "PodInitializing"
    last = ContainerState(terminated=ContainerStateTerminated(exit_code=3))
    status = _status(ONE, _runtime(), _old(last_state=last, restart_count=2))
    assert (_waiting(status), status.last_state, status.restart_count) == ("ContainerCreating", last, 2)


@pytest.mark.case("6.24-22 running and an older exit 1: running, last state exit 1")
def test_older_container_is_the_last_state() -> None:
    status = _status(ONE, _runtime(None, 1))
    assert status.state.running is not None
    assert _ends(status) == (None, 1)


@pytest.mark.case("6.24-23 exits 1 and 3: with a reason waiting, without terminated")
def test_container_that_failed_to_start_waits_with_the_reason() -> None:
    assert _ends(_status(ONE, _runtime(1, 3))) == (1, 3)
    held_up = _status(ONE, _runtime(1, 3), failure=FAILURE)
    assert (_waiting(held_up), _ends(held_up)) == ("CrashLoopBackOff", (None, 1))
    done = _status(pod(restart_policy="OnFailure"), _runtime(0, 5), failure=FAILURE)
    assert (_waiting(done), _ends(done)) == (None, (0, 5))


@pytest.mark.case("6.24-24 unknown, old running: terminated 137 ContainerStatusUnknown, not waiting")
def test_container_of_unknown_state_that_ran_has_ended() -> None:
    status = _status(ONE, _runtime(0, state=RuntimeState.UNKNOWN), _old(state=RUNNING, restart_count=1))
    assert (_end(status.state), status.restart_count) == (UNKNOWN_END, 2)
    never_ran = _status(ONE, _runtime(0, state=RuntimeState.UNKNOWN))
    assert _waiting(never_ran) == ""
