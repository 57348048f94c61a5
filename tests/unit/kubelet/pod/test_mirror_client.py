"""Mirror pods: exactly one per static pod, and events when one cannot be created."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api import schema, serializer
from pykubelet.api.errors import AlreadyExists, ApiError, Forbidden, InternalError
from pykubelet.api.generated.core import Node, ObjectReference, Pod
from pykubelet.api.pods import CONFIG_HASH, CONFIG_MIRROR, is_mirror_pod, is_static_pod, pod_full_name
from pykubelet.api.scheme import PODS
from pykubelet.client.interface import Client
from pykubelet.kubelet.pod.mirror_client import FAILED_MIRROR_POD, MirrorClient, MirrorNameTaken, MirrorReconciler
from pykubelet.kubelet.pod.pod_manager import PodManager
from pykubelet.testing.build import mirror_pod, node, pod, static_pod
from pykubelet.testing.faults import CALL_FAULTS, Fault, FaultyClient
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import ManualClock, VirtualClock

NAMES = ("a", "b", "c")


class Nodes:
    """The nodes of the cluster: one, registered."""

    def node(self, name: str) -> Node:
        return node(name)


class Events:
    """Records the events that users see."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str, str]] = []

    def event(self, involved: ObjectReference, event_type: str, reason: str, message: str) -> None:
        self.seen.append((involved.name, event_type, reason, message))


class Refusing(MemoryApi):
    """An API server that answers every create with one error."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(VirtualClock())
        self._error = error

    async def create(self, *_: Any, **__: Any) -> Any:
        raise self._error


def keeper_for(client: Client, events: Events | None = None) -> MirrorReconciler:
    mirrors = MirrorClient(client=client, node_name="node-1", nodes=Nodes())
    return MirrorReconciler(mirrors=mirrors, pods=PodManager(), node_name="node-1", nodes=Nodes(), recorder=events)


async def pass_once(api: MemoryApi, keeper: MirrorReconciler, wanted: Sequence[Pod]) -> None:
    """One sync of the node: lists the pods, reconciles each static pod, deletes orphaned mirrors."""
    manager = PodManager()
    manager.set_pods((*wanted, *(await api.list(PODS)).items))
    for each in manager.pods():
        await keeper.reconcile_mirror_pod(each, manager.mirror_pod_by_pod(each))
    await keeper.delete_orphaned_mirrors(manager.orphaned_mirror_pod_names(), lambda _: False)


def assert_settled(api: MemoryApi, wanted: Sequence[Pod]) -> None:
    mirrors = [serializer.from_document(document, Pod) for document in api.documents(schema.PODS)]
    found = {pod_full_name(each): each.metadata.annotations[CONFIG_MIRROR] for each in mirrors if is_mirror_pod(each)}
    assert found == {
        pod_full_name(each): each.metadata.annotations[CONFIG_HASH] for each in wanted if is_static_pod(each)
    }
    assert not any(each.metadata.deletion_timestamp for each in mirrors)


actions = st.lists(
    st.tuples(
        st.sampled_from(("manifest", "manifest", "no manifest", "delete mirror", "foreign mirror", "sync")),
        st.sampled_from(NAMES),
        st.integers(1, 2),
    ),
    max_size=12,
)


async def act(api: MemoryApi, static: dict[str, Pod], action: tuple[str, str, int]) -> None:
    """Applies one change to a manifest or a mirror."""
    what, name, number = action
    exists = any(document["metadata"]["name"] == name for document in api.documents(schema.PODS))
    match what:
        case "manifest":
            static[name] = static_pod(name, content_hash=f"{name}-{number}")
        case "no manifest":
            static.pop(name, None)
        case "delete mirror" if exists:
            await api.delete(PODS, name, namespace="default")
        case "foreign mirror" if not exists:
            await api.create(PODS, mirror_pod(name, content_hash="foreign"), namespace="default")
        case "sync":
            await pass_once(api, keeper_for(api), tuple(static.values()))


@settings(max_examples=60, deadline=None)
@given(actions)
async def test_mirrors_settle_on_one_per_static_pod(story: list[tuple[str, str, int]]) -> None:
    """After any changes and two more syncs, each static pod has one mirror with the right hash."""
    api, static = MemoryApi(ManualClock()), dict[str, Pod]()
    for action in story:
        await act(api, static, action)
    for _ in range(2):
        await pass_once(api, keeper_for(api), tuple(static.values()))
    assert_settled(api, tuple(static.values()))


@pytest.mark.parametrize("fault", CALL_FAULTS)
async def test_mirrors_settle_after_any_single_fault(fault: Fault) -> None:
    """One failed, late or lost response costs at most another sync."""
    wanted = (static_pod("a", content_hash="new"), static_pod("b"))
    at = 0
    while True:
        api = MemoryApi(VirtualClock())
        for name in ("a", "c"):
            await api.create(PODS, mirror_pod(name, content_hash="old"), namespace="default")
        faulty = FaultyClient(api, fault, at=at)
        for _ in range(3):
            await pass_once(api, keeper_for(faulty), wanted)
        assert_settled(api, wanted)
        if not faulty.injected:
            break
        at += 1
    assert at == 4  # two deletes and two creates: every call has had its fault


async def test_create_succeeds_when_the_same_mirror_exists() -> None:
    """The response was lost: the mirror exists already, with our hash."""
    api = MemoryApi(VirtualClock())
    client = MirrorClient(client=api, node_name="node-1", nodes=Nodes())
    await client.create_mirror_pod(static_pod())
    await client.create_mirror_pod(static_pod())
    assert [call.verb for call in api.calls] == ["create", "create", "get"]


@pytest.mark.parametrize(
    ("existing", "error"), [(mirror_pod(content_hash="other"), AlreadyExists), (pod("web-node-1"), MirrorNameTaken)]
)
async def test_create_fails_when_another_pod_exists(existing: Pod, error: type[ApiError]) -> None:
    """Either a mirror with another hash or a pod that is no mirror."""
    api = MemoryApi(VirtualClock())
    await api.create(PODS, existing, namespace="default")
    with pytest.raises(error):
        await MirrorClient(client=api, node_name="node-1", nodes=Nodes()).create_mirror_pod(static_pod())


@pytest.mark.parametrize(
    ("server", "told"),
    [
        pytest.param(lambda: Refusing(Forbidden("no secrets in mirrors")), True, id="refused for good"),
        pytest.param(lambda: Refusing(InternalError("later")), False, id="may work later"),
        pytest.param(lambda: Refusing(AlreadyExists("late watch")), False, id="vanished meanwhile"),
    ],
)
async def test_refused_mirror_emits_an_event(server: Callable[[], MemoryApi], told: bool) -> None:
    """Only a permanent error emits an event on the static pod; errors that are retried do not."""
    events = Events()
    await keeper_for(server(), events).reconcile_mirror_pod(static_pod(), None)
    message = "The API server does not take the mirror of this static pod: no secrets in mirrors"
    assert events.seen == ([("web-node-1", "Warning", FAILED_MIRROR_POD, message)] if told else [])


async def test_name_conflict_emits_an_event() -> None:
    """The other pod keeps its name; the event on the static pod names it."""
    api, events = MemoryApi(VirtualClock()), Events()
    await api.create(PODS, pod("web-node-1"), namespace="default")
    await keeper_for(api, events).reconcile_mirror_pod(static_pod(), None)
    [(_, _, reason, message)] = events.seen
    assert reason == FAILED_MIRROR_POD
    assert 'pod "web-node-1" exists in the API and is no mirror pod' in message


async def test_orphan_with_an_unusable_name_is_skipped() -> None:
    """The name is logged, and the next orphan is deleted."""
    api = MemoryApi(VirtualClock())
    await api.create(PODS, mirror_pod("a"), namespace="default")
    await keeper_for(api).delete_orphaned_mirrors(("no-full-name", "a_default"), lambda _: False)
    assert api.documents(schema.PODS) == ()
