"""Cases 6.24-55, -60, -61 and -63: whether and when a container restarts, its attempt number, its grace period.

The answers of Kubernetes 1.34.11 are in tests/upstream/vectors/should-restart.json.
"""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pykubelet.aio.backoff import KeyedBackoff
from pykubelet.api.generated.core import Container, Pod, Probe, ResourceRequirements
from pykubelet.api.pods import PodUid
from pykubelet.api.serializer import Document
from pykubelet.kubelet.kuberuntime.manager import CrashBackoff, back_off_event
from pykubelet.kubelet.kuberuntime.pod_actions import (
    KillReason,
    container_hash,
    kill_grace_seconds,
    next_attempt,
    restart_count_from_logs,
    should_restart,
)
from pykubelet.runtimes.protocol import ContainerState, RuntimeContainer, RuntimeFailure, RuntimePod
from pykubelet.testing.build import container, pod
from pykubelet.testing.virtual_time import EPOCH

VECTORS = json.loads((Path(__file__).parent / "vectors/should-restart.json").read_text())["cases"]
DELETED_AT = "2026-01-01T00:00:00Z"


def load(op: str) -> list[Any]:
    return [pytest.param(case, id=str(case["index"])) for case in VECTORS if case["op"] == op]


def observed(*containers: RuntimeContainer) -> RuntimePod:
    return RuntimePod(uid=PodUid("uid"), namespace="default", name="web", containers=containers)


def at(seconds: float) -> datetime:
    return EPOCH + timedelta(seconds=seconds)


def exited(name: str, seconds: float, attempt: int = 0) -> RuntimeContainer:
    return RuntimeContainer(
        id=f"{name}-{attempt}",
        name=name,
        state=ContainerState.EXITED,
        attempt=attempt,
        created_at=EPOCH,
        finished_at=at(seconds),
        exit_code=1,
    )


@pytest.mark.parametrize("case", load("shouldRestart"))
def test_should_restart_is_upstreams(case: Document) -> None:
    wanted = pod(restart_policy=case["restart_policy"])
    if case["deleted"]:
        wanted = replace(wanted, metadata=replace(wanted.metadata, deletion_timestamp=DELETED_AT))
    known = [
        RuntimeContainer(
            id=str(number),
            name=one["name"],
            state=ContainerState(one["state"]),
            created_at=EPOCH,
            exit_code=one["exit_code"],
        )
        for number, one in enumerate(case["runtime_containers_newest_first"])
    ]
    assert should_restart(case["container"], wanted, observed(*known)) is case["restart"]


@pytest.mark.parametrize("case", load("hash_value"))
def test_hash_is_upstreams(case: Document) -> None:
    assert container_hash(container(case["name"], image=case["image"])) == case["hash"]


@pytest.mark.parametrize("case", load("hash"))
def test_hash_covers_what_it_does_upstream(case: Document) -> None:
    """Only name and image change the hash; all other fields leave it unchanged."""
    altered = {"image": {"image": "other"}, "name": {"name": "other"}}
    fields = altered.get(case["field"], {"args": ("x",), "stdin": True, "working_dir": "/x"})
    changes = container_hash(replace(container(), **fields)) != container_hash(container())
    assert changes is case["changes_hash"]


def started(
    backoff: CrashBackoff, wanted: Pod, spec: Container, known: RuntimePod, now: datetime
) -> RuntimeFailure | None:
    """Start a container if its backoff allows that; otherwise return why not."""
    failure = backoff.check(wanted, spec, known, now)
    if failure is None:
        backoff.record_start(wanted, spec, known, now)
    return failure


@pytest.mark.parametrize("case", load("backoff_script"))
def test_crash_backoff_is_upstreams(case: Document) -> None:
    backoff = CrashBackoff(first_seconds=case["initial_seconds"], limit_seconds=case["max_seconds"])
    names = case["pod"]
    wanted = pod(names["name"], namespace=names["namespace"], uid=names["uid"])
    spec = container(case["container"])
    for number, step in enumerate(case["steps"]):
        if step.get("image_changed"):
            spec = replace(spec, image=f"{spec.image}{number}")
        known = [] if step["last_exit_at"] is None else [exited(spec.name, step["last_exit_at"])]
        failure = started(backoff, wanted, spec, observed(*known), at(step["at"]))
        assert (failure is not None) is step["blocked"], number
        assert (failure.message if failure else "") == step["message"]
        if step.get("then_gc"):
            backoff.prune(at(step["at"]))


def _with_graces(**graces: int | None) -> Container:
    """A container whose probes have grace periods of their own."""
    probes: dict[str, Any] = {
        f"{kind}_probe": Probe(termination_grace_period_seconds=seconds) for kind, seconds in graces.items()
    }
    return container(**probes)


@pytest.mark.parametrize(
    ("of_pod", "spec", "reason", "grace"),
    [
        pytest.param(None, container(), KillReason.OTHER, 2, id="6.24-55 nothing set"),
        pytest.param(60, container(), KillReason.OTHER, 60, id="6.24-55 pod 60"),
        pytest.param(60, _with_graces(liveness=10), KillReason.LIVENESS_PROBE, 10, id="6.24-55 liveness 10"),
        pytest.param(60, _with_graces(liveness=90), KillReason.LIVENESS_PROBE, 90, id="6.24-55 liveness above the pod"),
        pytest.param(60, _with_graces(startup=15), KillReason.STARTUP_PROBE, 15, id="6.24-55 startup 15"),
        pytest.param(60, _with_graces(startup=90), KillReason.STARTUP_PROBE, 90, id="6.24-55 startup above the pod"),
        pytest.param(60, _with_graces(startup=None), KillReason.STARTUP_PROBE, 60, id="6.24-55 probe without a value"),
        pytest.param(60, _with_graces(liveness=10, startup=15), KillReason.UNKNOWN, 60, id="6.24-55 unknown reason"),
        pytest.param(60, _with_graces(liveness=10, startup=15), KillReason.OTHER, 60, id="6.24-55 other reason"),
        pytest.param(
            60, _with_graces(startup=15), KillReason.LIVENESS_PROBE, 60, id="6.24-55 value of the other probe"
        ),
    ],
)
def test_kill_grace_is_the_most_specific(of_pod: int | None, spec: Container, reason: KillReason, grace: int) -> None:
    assert kill_grace_seconds(pod(termination_grace_period_seconds=of_pod), spec, reason) == grace


@pytest.mark.case("6.24-55 a deletion's own grace goes before all others")
def test_kill_grace_is_the_deletions_when_deleted() -> None:
    wanted = pod(termination_grace_period_seconds=60)
    deleted = replace(wanted, metadata=replace(wanted.metadata, deletion_grace_period_seconds=5))
    assert kill_grace_seconds(deleted, _with_graces(liveness=10), KillReason.LIVENESS_PROBE) == 5


@pytest.mark.case("6.24-60 base 1 s, max 5 s: delays double, stop at max, and are forgotten after 2 x max")
def test_backoff_doubles_to_its_limit_and_forgets() -> None:
    backoff: KeyedBackoff[str] = KeyedBackoff(first_seconds=1, limit_seconds=5)
    delays = []
    for second in range(5):
        backoff.advance("key", event_at=at(second), now=at(second))
        delays.append(backoff.delay_seconds("key"))
    assert delays == [1, 2, 4, 5, 5]
    backoff.advance("key", event_at=at(4 + 6), now=at(4 + 6))
    assert backoff.delay_seconds("key") == 5
    backoff.prune(at(10 + 10))
    assert "key" in backoff
    backoff.advance("key", event_at=at(10 + 11), now=at(10 + 11))
    assert backoff.delay_seconds("key") == 1
    backoff.prune(at(21 + 11))
    assert len(backoff) == 0


@pytest.mark.case("6.24-60 with a quiet spell of one's own, that decides")
def test_backoff_forgets_after_the_spell_it_was_given() -> None:
    backoff: KeyedBackoff[str] = KeyedBackoff(first_seconds=1, limit_seconds=5, forgotten_after_seconds=3)
    for second in (0, 1, 2):
        backoff.advance("key", event_at=at(second), now=at(second))
    assert backoff.delay_seconds("key") == 4
    assert backoff.waits_until("key", event_at=at(5), now=at(5)) == at(9)
    assert backoff.waits_until("key", event_at=at(6), now=at(6)) is None


@pytest.mark.case("6.24-61 starts at once, then 10, 20, 40, 80, 160, 300, 300 s after the exit")
def test_crash_backoff_waits_longer_each_time() -> None:
    backoff, wanted, spec = CrashBackoff(), pod(), container()
    now, waits = 0.0, []
    for _ in range(9):
        known = observed(exited(spec.name, now))
        failure = started(backoff, wanted, spec, known, at(now))
        until = failure.retry_at if failure is not None else at(now)
        assert until is not None
        waits.append((until - at(now)).total_seconds())
        now = (until - EPOCH).total_seconds()
        if failure is not None:
            assert failure.reason == "CrashLoopBackOff"
            assert started(backoff, wanted, spec, known, until) is None
    assert waits == [0, 10, 20, 40, 80, 160, 300, 300, 300]
    after_long_run = observed(exited(spec.name, now + 601))
    assert started(backoff, wanted, spec, after_long_run, at(now + 601)) is None


@pytest.mark.case("6.24-61 changing image or resources starts from scratch")
@pytest.mark.parametrize(
    "change", [{"image": "other"}, {"resources": ResourceRequirements(limits={"cpu": "1"})}], ids=["image", "resources"]
)
def test_crash_backoff_begins_anew_for_another_container(change: dict[str, Any]) -> None:
    backoff, wanted, spec = CrashBackoff(), pod(), container()
    known = observed(exited(spec.name, 0))
    assert started(backoff, wanted, spec, known, at(0)) is None
    assert started(backoff, wanted, spec, known, at(1)) is not None
    assert started(backoff, wanted, replace(spec, **change), known, at(1)) is None


@pytest.mark.case("6.24-61 no exited instance of that name: no back-off")
def test_crash_backoff_counts_only_exits_of_the_same_name() -> None:
    backoff, wanted, spec = CrashBackoff(), pod(), container()
    created = RuntimeContainer(id="new", name=spec.name, state=ContainerState.CREATED, created_at=EPOCH)
    backoff.record_start(wanted, spec, observed(exited(spec.name, 0)), at(0))
    assert backoff.check(wanted, spec, observed(created, exited("other", 0)), at(1)) is None
    assert backoff.check(wanted, spec, observed(created, exited(spec.name, 0)), at(1)) is not None


@pytest.mark.case("6.24-61 the event of a start that is put off")
def test_back_off_event_names_container_and_pod() -> None:
    text = "Back-off restarting failed container main in pod web_default(uid-default-web)"
    assert back_off_event(pod(), container()) == text


@pytest.mark.parametrize(
    ("names", "count"),
    [
        ([], 0),
        (["0.log"], 1),
        (["0.log", "1.log", "2.log"], 3),
        (["5.log.rotated", "6.log.rotated"], 7),
        (["145.log.log.rotated"], 146),
        (["6.log", "6.log.rotated"], 7),
        (["a.log", "23a.log"], 0),
        (["12log.rotated"], 0),
        (["rotated.23.log", "mylog42.log", "-42.log"], 0),
        ([f"{2**63}.log", f"{10**30}.log", "2.log"], 3),
    ],
    ids=lambda value: f"6.24-63 {value}" if isinstance(value, list) else "",
)
def test_restart_count_is_read_from_the_names_of_logs(names: list[str], count: int) -> None:
    assert restart_count_from_logs(names) == count
    assert next_attempt("main", observed(), names) == count


@pytest.mark.case("6.24-63 with a previous status, its count plus one")
def test_restart_count_follows_the_previous_container() -> None:
    assert next_attempt("main", observed(exited("main", 0, attempt=4)), ["9.log"]) == 5
