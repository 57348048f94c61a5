"""Pod housekeeping: what is restarted, finished and killed."""

from hypothesis import given
from hypothesis import strategies as st

from pod_workers_rig import api_pod, deleted, in_runtime
from pykubelet.api.pods import PodUid
from pykubelet.kubelet.housekeeping import CleanupInputs, CleanupPlan, plan_cleanup
from pykubelet.kubelet.types import PodWorkerState

UIDS = st.sampled_from("abcdef")


def plan(**reading: object) -> CleanupPlan:
    nothing = {"pods": (), "workers": {}, "runtime": (), "phase_of": lambda _: "", "is_held": lambda _: False}
    return plan_cleanup(CleanupInputs(**(nothing | reading)))  # type: ignore[arg-type]  # a table of parts


def test_wanted_pod_without_a_worker_starts_anew() -> None:
    """Unless admission holds it back, or it has already ended."""
    pods = [api_pod(uid) for uid in "abc"]
    made = plan(pods=pods, phase_of=lambda uid: "Failed" if uid == "b" else "", is_held=lambda uid: uid == "c")
    assert (made.restart, made.is_settled) == ((pods[0],), False)


def test_deleted_pod_that_never_ran_is_finished() -> None:
    """A pod with a runtime pod is killed instead."""
    gone = [deleted(api_pod(uid, phase="Failed"), 0) for uid in "ab"]
    made = plan(pods=[*gone, api_pod("c", phase="Failed")], runtime=[in_runtime("b")])
    assert made.finish == (gone[0],)
    assert [pod.uid for pod in made.kill] == ["b"]


@given(
    wanted=st.sets(UIDS),
    workers=st.dictionaries(UIDS, st.sampled_from(PodWorkerState)),
    running=st.sets(UIDS),
)
def test_cleanup_touches_nothing_that_has_a_worker(
    wanted: set[str], workers: dict[str, PodWorkerState], running: set[str]
) -> None:
    """Every runtime pod has a worker, is restarted or is killed; desired pods are never killed."""
    made = plan(
        pods=[api_pod(uid) for uid in sorted(wanted)],
        workers={PodUid(uid): state for uid, state in workers.items()},
        runtime=[in_runtime(uid) for uid in sorted(running)],
    )
    killed = {pod.uid for pod in made.kill}
    restarted = {pod.metadata.uid for pod in made.restart}
    assert not killed & (set(workers) | wanted)
    assert restarted == wanted - set(workers)
    assert running <= killed | restarted | set(workers)
    assert made.desired == wanted
    assert made.probed == {uid for uid, state in workers.items() if state < PodWorkerState.TERMINATED}
    assert made.is_settled == (not killed and not restarted and set(workers) <= wanted)
