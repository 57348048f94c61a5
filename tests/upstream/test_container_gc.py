"""Cases 6.24-45 and -46: which dead containers (1 h old, beyond 2 per container or 6) and sandboxes are removed."""

from collections.abc import Callable, Iterable
from datetime import timedelta

import pytest

from pykubelet.api.pods import PodUid
from pykubelet.kubelet.kuberuntime.container_gc import GcPolicy, containers_to_remove, sandboxes_to_remove
from pykubelet.runtimes.protocol import ContainerState, RuntimeContainer, RuntimePod, Sandbox
from pykubelet.testing.virtual_time import EPOCH

POLICY = GcPolicy(min_age_seconds=3600, max_per_container=2, max_containers=6)
NOW = EPOCH + timedelta(days=1)


def _never(_: PodUid) -> bool:
    return False


def _deleted(uid: PodUid) -> bool:
    return uid == "deleted"


def _pods(*containers: str) -> list[RuntimePod]:
    """Pods with containers written `pod:name/minute`, the minute of creation; `+` means running, `?` unknown.

    `now` instead of the minute makes a new container; the default name is main.
    """
    by_pod: dict[str, list[RuntimeContainer]] = {}
    for text in containers:
        whose, _, age = text.partition("/")
        uid, _, name = whose.partition(":")
        state = {"+": ContainerState.RUNNING, "?": ContainerState.UNKNOWN}.get(age[-1], ContainerState.EXITED)
        created_at = NOW if age == "now" else EPOCH + timedelta(minutes=int(age.rstrip("+?")))
        made = RuntimeContainer(id=text, name=name or "main", state=state, created_at=created_at)
        by_pod.setdefault(uid, []).append(made)
    return [
        RuntimePod(uid=PodUid(uid), namespace="default", name=uid, containers=tuple(found))
        for uid, found in by_pod.items()
    ]


def _removed(
    containers: Iterable[str], policy: GcPolicy = POLICY, is_gone: Callable[[PodUid], bool] = _never
) -> set[str]:
    removals = containers_to_remove(
        _pods(*containers), policy, NOW, is_gone=is_gone, is_exit_reported=lambda _, __: True
    )
    return {one.container_id for one in removals}


def _policy(per: int, total: int) -> GcPolicy:
    return GcPolicy(min_age_seconds=60, max_per_container=per, max_containers=total)


CASES = [
    ("total 0", "a/0", _policy(1, 0), _never, "a/0"),
    ("per -1, total 4 of 5", "a/4 a/3 a/2 a/1 a/0", _policy(-1, 4), _never, "a/0"),
    ("both -1", "a/2 a/1 a/0", _policy(-1, -1), _never, ""),
    ("young kept", "a/now", _policy(0, 0), _never, ""),
    ("3 of one", "a/2 a/1 a/0", POLICY, _never, "a/0"),
    ("running kept", "a/2 a/1 a/0+", POLICY, _never, ""),
    ("limits not exceeded", "a/1 a/0", POLICY, _never, ""),
    ("caps are per pod and name", "a/2 a/1 a/0 b/2 b/1 b/0 c/2 c/1 c/0", POLICY, _never, "a/0 b/0 c/0"),
    ("caps are per name in a pod", "a:x/2 a:x/1 a:y/1 a:y/0 a:z/4 a:z/3 a:z/0", _policy(2, -1), _never, "a:z/0"),
    ("5 groups of 2", "a/1 a/0 b/1 b/0 c/1 c/0 d/1 d/0 e/1 e/0", POLICY, _never, "a/0 b/0 c/0 d/0 e/0"),
    ("oldest first", "a/2 a/1 b/2 b/1 c/1 d/0 e/1 f/0 g/2 h/1", POLICY, _never, "a/1 b/1 d/0 f/0"),
    ("deleted pods", "a/1 a/0 deleted/now deleted/1 deleted/0", POLICY, _deleted, "deleted/1 deleted/0"),
    ("deleted pod, sources not ready", "deleted/0", POLICY, _never, ""),
]


@pytest.mark.parametrize(
    ("containers", "policy", "is_gone", "removed"), [pytest.param(*rest, id=f"6.24-45 {name}") for name, *rest in CASES]
)
def test_dead_containers_beyond_the_policy_go(
    containers: str, policy: GcPolicy, is_gone: Callable[[PodUid], bool], removed: str
) -> None:
    assert _removed(containers.split(), policy, is_gone) == set(removed.split())


@pytest.mark.case("6.24-45 unknown state: stopped before it is removed")
def test_container_of_unknown_state_is_stopped_first() -> None:
    removals = containers_to_remove(
        _pods("a/1", "a/0?"), _policy(0, -1), NOW, is_gone=_never, is_exit_reported=lambda _, __: True
    )
    assert [(one.container_id, one.stop_first) for one in removals] == [("a/0?", True), ("a/1", False)]


def _sandboxes(uid: str, *sandboxes: str) -> RuntimePod:
    """A pod with these sandboxes, newest first: `+` marks a ready sandbox, `*` one with a container."""
    made = tuple(
        Sandbox(id=text, is_ready="+" in text, created_at=NOW - timedelta(minutes=age))
        for age, text in enumerate(sandboxes)
    )
    inside = tuple(
        RuntimeContainer(id=text, name="main", state=ContainerState.EXITED, sandbox_id=text, created_at=NOW)
        for text in sandboxes
        if "*" in text
    )
    return RuntimePod(uid=PodUid(uid), namespace="default", name=uid, sandboxes=made, containers=inside)


@pytest.mark.parametrize(
    ("pod", "removed"),
    [
        pytest.param(_sandboxes("deleted", "one"), ("one",), id="6.24-46 not-ready of a deleted pod removed"),
        pytest.param(_sandboxes("deleted", "one+"), (), id="6.24-46 ready kept"),
        pytest.param(_sandboxes("live", "one"), (), id="6.24-46 newest of a live pod kept"),
        pytest.param(_sandboxes("live", "new", "old"), ("old",), id="6.24-46 older without containers removed"),
        pytest.param(_sandboxes("live", "new", "old*"), (), id="6.24-46 older with containers kept"),
        pytest.param(_sandboxes("deleted", "new", "old"), ("old", "new"), id="6.24-46 all of a deleted pod removed"),
    ],
)
def test_dead_and_empty_sandboxes_go(pod: RuntimePod, removed: tuple[str, ...]) -> None:
    assert sandboxes_to_remove([pod], is_gone=_deleted) == removed
