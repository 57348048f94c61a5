"""Rows of pods: kubectl's status word, the tone, and the tallies."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api import serializer
from pykubelet.api.generated.core import Container, EphemeralContainer, Pod, PodStatus
from pykubelet.client.node_view import NOT_HERE, PodProgress
from pykubelet.testing.build import container, pod, static_pod
from pykubelet.web.feed import PodTally
from pykubelet.web.pod_pages import container_rows
from pykubelet.web.rows import PodRow, RowTone, pod_row

READY = [{"type": "Ready", "status": "True"}]
RUNS: dict[str, Any] = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}


def status(phase: str, *states: dict[str, Any], **fields: Any) -> PodStatus:
    containers = [
        {"name": f"c{number}", "state": state, "ready": "running" in state} for number, state in enumerate(states)
    ]
    return serializer.from_document({"phase": phase, "containerStatuses": containers, **fields}, PodStatus)


def waits(reason: str) -> dict[str, Any]:
    return {"waiting": {"reason": reason}}


def ended(code: int, reason: str = "") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason}}


def init(state: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"initContainerStatuses": [{"name": "i", "state": state, **fields}]}


WORDS = {
    "nothing is known yet": (status(""), "Pending", RowTone.WAITING),
    "it starts": (status("Pending", waits("ContainerCreating")), "ContainerCreating", RowTone.WAITING),
    "it runs": (status("Running", RUNS, conditions=READY), "Running", RowTone.GOOD),
    "it runs and is not ready": (status("Running", RUNS), "Running", RowTone.WAITING),
    "it crashes": (status("Running", waits("CrashLoopBackOff")), "CrashLoopBackOff", RowTone.BAD),
    "its image is missing": (status("Pending", waits("ErrImagePull")), "ErrImagePull", RowTone.BAD),
    "it is done": (status("Succeeded", ended(0, "Completed")), "Completed", RowTone.DONE),
    "it failed": (status("Failed", ended(1, "Error")), "Error", RowTone.BAD),
    "it failed without a reason": (status("Failed", ended(7)), "ExitCode:7", RowTone.BAD),
    "it was evicted": (status("Failed", reason="Evicted"), "Evicted", RowTone.BAD),
    "one of two is done": (status("Running", RUNS, ended(0, "Completed"), conditions=READY), "Running", RowTone.GOOD),
    "the first of two is done": (status("Running", ended(0, "Completed"), RUNS), "NotReady", RowTone.WAITING),
    "it prepares": (status("Pending", waits("PodInitializing"), **init(RUNS)), "Init:0/1", RowTone.WAITING),
    "it cannot prepare": (status("Pending", **init(waits("CrashLoopBackOff"))), "Init:CrashLoopBackOff", RowTone.BAD),
    "preparing failed": (status("Pending", **init(ended(2, "Error"))), "Init:Error", RowTone.BAD),
    "preparing failed without a reason": (status("Pending", **init(ended(2))), "Init:ExitCode:2", RowTone.BAD),
    "it has prepared": (status("Running", RUNS, conditions=READY, **init(ended(0))), "Running", RowTone.GOOD),
    "a sidecar runs": (status("Running", RUNS, conditions=READY, **init(RUNS, started=True)), "Running", RowTone.GOOD),
    "a sidecar starts anew": (status("Running", RUNS, conditions=READY, **init(waits(""))), "Running", RowTone.GOOD),
}


@pytest.mark.parametrize(("seen", "word", "tone"), WORDS.values(), ids=WORDS)
def test_row_has_the_status_of_kubectl_and_a_tone(seen: PodStatus, word: str, tone: RowTone) -> None:
    """The tone shows whether the pod needs attention."""
    made = pod(init_containers=(container("i"),), containers=[container("c0"), container("c1")])
    row = pod_row(made, seen)
    assert (row.word, row.tone) == (word, tone)


def test_pod_that_is_deleted_is_terminating_until_it_has_ended() -> None:
    """The phase of a terminating pod may still be Running."""
    meta = serializer.from_document(
        {"metadata": {"name": "web", "namespace": "default", "deletionTimestamp": "2026-01-01T00:00:00Z"}}, Pod
    )
    assert pod_row(meta, status("Running", RUNS, conditions=READY)).word == "Terminating"
    assert pod_row(meta, status("Running", RUNS, conditions=READY)).tone is RowTone.WAITING
    assert pod_row(meta, status("Succeeded", ended(0, "Completed"))).word == "Completed"


def test_row_shows_the_progress_of_the_pod() -> None:
    """A static pod without a mirror pod is not in the API; containers without a status count as waiting."""
    progress = PodProgress(source="file", worker="sync", is_unsent=True, waits="the image")
    row = pod_row(static_pod(containers=[container("c0"), container("c1")]), status("Running", RUNS), progress)
    assert (row.key, row.source, row.worker, row.waits) == ("default/web-node-1", "file", "sync", "the image")
    assert (row.is_static, row.in_api, row.is_unsent) == (True, False, True)
    assert (row.ready, row.containers, row.running, row.waiting) == (1, 2, 1, 1)
    assert pod_row(pod(), PodStatus()).in_api


def test_row_shows_why_a_container_does_not_start() -> None:
    """An error message of a container takes precedence over the notice of another try."""
    missing = {"waiting": {"reason": "CreateContainerConfigError", "message": 'configmap "words" not found'}}
    starting = {"waiting": {"reason": "ContainerCreating", "message": "soon"}}
    progress = PodProgress(source="api", waits="another try")
    assert pod_row(pod(), status("Pending", RUNS, missing), progress).waits == 'configmap "words" not found'
    assert pod_row(pod(), status("Pending", starting), progress).waits == "another try"


SIDECAR = serializer.from_document({"name": "i", "image": "a", "restartPolicy": "Always"}, Container)


def test_containers_are_listed_in_the_order_in_which_they_start() -> None:
    """With kind, state and tone."""
    told = status(
        "Running",
        RUNS | {},
        waits("CrashLoopBackOff"),
        **init(ended(0, "Completed")),
    )
    made = pod(init_containers=(container("i"),), containers=[container("c0"), container("c1"), container("c2")])
    rows = container_rows(made, told)
    assert [(one.name, one.kind, one.word, one.tone) for one in rows] == [
        ("i", "init", "ended with 0", RowTone.DONE),
        ("c0", "", "running", RowTone.GOOD),
        ("c1", "", "CrashLoopBackOff", RowTone.BAD),
        ("c2", "", "not yet started", RowTone.WAITING),
    ]
    more = pod(init_containers=(SIDECAR,), ephemeral_containers=(EphemeralContainer(name="look", image="a"),))
    assert [one.kind for one in container_rows(more, PodStatus())] == ["sidecar", "", "debug"]


def test_container_row_shows_how_the_previous_run_ended() -> None:
    """With exit code and reason; the log of that run is available."""
    before = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "containerID": "sim://1"}}
    last = {"name": "main", "state": {}, "lastState": before, "restartCount": 2}
    seen = serializer.from_document({"containerStatuses": [last]}, PodStatus)
    row = container_rows(pod(), seen)[0]
    assert (row.last_end, row.has_previous, row.restarts, row.word) == (
        "ended with 137 (OOMKilled)",
        True,
        2,
        "waiting",
    )


ROWS = st.builds(
    PodRow,
    key=st.sampled_from(["a", "b", "c", "d"]),
    namespace=st.just("n"),
    name=st.just("x"),
    word=st.just("w"),
    tone=st.sampled_from(RowTone),
    running=st.integers(0, 3),
    waiting=st.integers(0, 3),
    exited=st.integers(0, 3),
    source=st.sampled_from(["", "file", "api"]),
    worker=st.sampled_from(["", "sync", "terminating"]),
    has_mirror=st.booleans(),
    is_unsent=st.booleans(),
    in_api=st.booleans(),
)


@given(st.lists(st.tuples(ROWS, st.booleans())))
def test_tally_equals_a_recount_of_the_rows(steps: list[tuple[PodRow, bool]]) -> None:
    """After any additions, changes and removals."""
    tally, rows = PodTally(), dict[str, PodRow]()
    for row, goes in steps:
        tally.replace(rows.pop(row.key, None), None if goes else row)
        if not goes:
            rows[row.key] = row
    anew = PodTally()
    for row in rows.values():
        anew.replace(None, row)
    counts = tally.counts()
    assert counts == anew.counts()
    here = [row for row in rows.values() if row.source]
    assert counts.desired == len(here) == counts.sent + counts.pending
    assert counts.running == sum(row.running for row in here)


def test_pod_of_another_node_counts_only_in_the_api() -> None:
    tally = PodTally()
    tally.replace(None, pod_row(pod(), status("Running", RUNS, conditions=READY), NOT_HERE))
    counts = tally.counts()
    assert (counts.in_api, counts.desired, counts.tones["good"]) == (1, 0, 1)
