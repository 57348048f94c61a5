"""Cases 4.9-01 to 4.9-08, 4.9-13 to 4.9-15 and 4.9-23: objects fetched when they are read."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from pykubelet.api import schema, serializer
from pykubelet.api.errors import ApiError, Expired, InternalError, NotFound
from pykubelet.api.generated.core import LocalObjectReference, Node, Pod, Secret
from pykubelet.api.scheme import SECRETS
from pykubelet.kubelet.objectcache.secret_and_configmap_manager import SecretManager
from pykubelet.kubelet.objectcache.store import (
    CacheOptions,
    ChangeDetectionStrategy,
    NotRegistered,
    ObjectKey,
    ObjectSource,
    TtlStore,
    node_ttl,
)
from pykubelet.testing.build import node, pod, secret
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import ManualClock

TTL = "node.alpha.kubernetes.io/ttl"
NS1_NAME1, NS2_NAME2, NS3_NAME3 = ObjectKey("ns1", "name1"), ObjectKey("ns2", "name2"), ObjectKey("ns3", "name3")


class FlakyApi(MemoryApi):
    """Fails every get with `error` while that is set."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.clock = clock
        self.error: ApiError | None = None

    async def get(self, kind: Any, name: str, *, namespace: str = "", resource_version: str = "") -> Any:
        found = (
            None
            if self.error
            else await super().get(kind, name, namespace=namespace, resource_version=resource_version)
        )
        await asyncio.sleep(0)
        if self.error:
            raise self.error
        return found

    def hold(self, *keys: ObjectKey) -> None:
        for key in keys:
            document = serializer.to_document(secret(key.name, namespace=key.namespace))
            self.put(schema.SECRETS, {**document, "metadata": {**document["metadata"], "uid": str(key)}})

    @property
    def gets(self) -> list[tuple[str, str]]:
        return [(call.namespace, call.name) for call in self.calls if call.verb == "get"]


def store_on(api: FlakyApi, ttl_seconds: Callable[[], float | None] = lambda: None) -> TtlStore[Secret]:
    return TtlStore(source=ObjectSource(api, SECRETS, api.clock), changed=lambda _: None, ttl_seconds=ttl_seconds)


async def read(store: TtlStore[Secret], key: ObjectKey) -> Secret:
    return await store.get(key, timeout_seconds=1)


@pytest.fixture
def api() -> FlakyApi:
    return FlakyApi(ManualClock())


@pytest.mark.parametrize("ttl", [pytest.param(0, id="4.9-01 only registered objects are fetched")])
async def test_store_fetches_what_is_referenced(api: FlakyApi, ttl: float) -> None:
    api.hold(NS1_NAME1, NS2_NAME2, NS3_NAME3)
    store = store_on(api, lambda: ttl)
    for key, referrer in ((NS1_NAME1, "pod1"), (NS2_NAME2, "pod2"), (NS1_NAME1, "pod3"), (NS1_NAME1, "pod4")):
        store.add_reference(key, referrer)
    store.delete_reference(NS1_NAME1, "pod1")
    store.delete_reference(NS2_NAME2, "pod2")
    store.add_reference(NS3_NAME3, "pod3")
    assert api.calls == []
    for key in (NS1_NAME1, NS3_NAME3):
        assert (await read(store, key)).metadata.name == key.name
    for key in (NS2_NAME2, ObjectKey("ns4", "name4")):
        with pytest.raises(NotRegistered) as caught:
            await read(store, key)
        assert str(caught.value) == f'object "{key.namespace}"/"{key.name}" not registered'
    assert api.gets == [NS1_NAME1, NS3_NAME3]


@pytest.mark.parametrize("ttl", [pytest.param(0, id="4.9-02 object is deleted")])
async def test_store_notices_that_an_object_is_gone(api: FlakyApi, ttl: float) -> None:
    api.hold(NS1_NAME1)
    store = store_on(api, lambda: ttl)
    store.add_reference(NS1_NAME1, "pod1")
    await read(store, NS1_NAME1)
    api.remove(schema.SECRETS, namespace="ns1", name="name1")
    with pytest.raises(NotFound):
        await read(store, NS1_NAME1)


@pytest.mark.parametrize(
    ("ttl", "requests"), [pytest.param(0, 100, id="4.9-03 TTL 0"), pytest.param(60, 10, id="4.9-04 TTL one minute")]
)
async def test_store_limits_requests_for_many_readers(api: FlakyApi, ttl: float, requests: int) -> None:
    keys = [ObjectKey("ns", f"name{number}") for number in range(10)]
    api.hold(*keys)
    store = store_on(api, lambda: ttl)
    for key in keys:
        store.add_reference(key, "pod")
    await asyncio.gather(*(read(store, keys[number % 10]) for number in range(100)))
    assert len(api.calls) == requests


@pytest.mark.parametrize(
    ("ttl", "steps"),
    [
        pytest.param(0, [(0, 1), (0, 1)], id="4.9-05 node says 0"),
        pytest.param(300, [(0, 0), (240, 0), (60, 1)], id="4.9-05 node says 5 minutes"),
        pytest.param(None, [(55, 0), (5, 1)], id="4.9-05 default"),
    ],
)
async def test_store_follows_the_nodes_ttl(api: FlakyApi, ttl: float | None, steps: list[tuple[float, int]]) -> None:
    api.hold(NS1_NAME1)
    store = store_on(api, lambda: ttl)
    store.add_reference(NS1_NAME1, "pod")
    await read(store, NS1_NAME1)
    for seconds, requests in steps:
        api.clock.advance(seconds)
        before = len(api.calls)
        await read(store, NS1_NAME1)
        assert len(api.calls) - before == requests


def unreadable() -> Node:
    raise NotFound("no node")


@pytest.mark.parametrize(
    ("lookup", "expected"),
    [
        pytest.param(unreadable, None, id="4.9-06 node error"),
        pytest.param(lambda: None, None, id="4.9-06 no node"),
        pytest.param(node, None, id="4.9-06 no annotation"),
        pytest.param(lambda: node(annotations={TTL: "bad"}), None, id="4.9-06 bad"),
        pytest.param(lambda: node(annotations={TTL: " 1"}), None, id="4.9-06 space"),
        pytest.param(lambda: node(annotations={TTL: "1.5"}), None, id="4.9-06 fraction"),
        pytest.param(lambda: node(annotations={TTL: "0"}), 0, id="4.9-06 zero"),
        pytest.param(lambda: node(annotations={TTL: "60"}), 60, id="4.9-06 one minute"),
    ],
)
def test_ttl_comes_from_the_node(lookup: Callable[[], Node | None], expected: float | None) -> None:
    assert node_ttl(lookup)() == expected


def pulling(name: str, *secrets: str) -> Pod:
    return pod(name, namespace="ns1", image_pull_secrets=tuple(LocalObjectReference(name=each) for each in secrets))


@pytest.mark.parametrize(
    "story",
    [
        pytest.param(
            [
                (pulling("name1", "s1", "s10", "s2"), "s1 s10 s2", 3),
                (pulling("name1", "s1", "s2", "s20", "s3"), "s1 s2 s20 s3", 2),
                (pulling("name2", "s1", "s10", "s2"), "s1 s10 s2 s20 s3", 3),
            ],
            id="4.9-07 only new references are fetched anew",
        )
    ],
)
async def test_registration_invalidates(api: FlakyApi, story: list[tuple[Pod, str, int]]) -> None:
    api.hold(*(ObjectKey("ns1", name) for name in ("s1", "s10", "s2", "s20", "s3")))
    manager = SecretManager(client=api, clock=api.clock, options=CacheOptions(strategy=ChangeDetectionStrategy.TTL))
    for registered, names, requests in story:
        before = len(api.calls)
        manager.register_pod(registered)
        for name in names.split():
            await manager.get("ns1", name)
        assert len(api.calls) - before == requests


@pytest.mark.parametrize("error", [pytest.param(Expired("too old"), id="4.9-08 first get expired")])
async def test_first_failure_is_returned(api: FlakyApi, error: ApiError) -> None:
    api.hold(NS1_NAME1)
    store = store_on(api)
    store.add_reference(NS1_NAME1, "pod")
    api.error = error
    with pytest.raises(Expired):
        await read(store, NS1_NAME1)


@pytest.mark.parametrize("error", [pytest.param(InternalError("on fire"), id="4.9-13 outage after the TTL")])
async def test_cached_object_outlives_an_outage(api: FlakyApi, error: ApiError) -> None:
    api.hold(NS1_NAME1)
    store = store_on(api, lambda: 0)
    store.add_reference(NS1_NAME1, "pod")
    first = await read(store, NS1_NAME1)
    api.error = error
    assert await read(store, NS1_NAME1) is first
    api.error = None
    api.hold(NS1_NAME1)
    assert await read(store, NS1_NAME1) != first


@pytest.mark.parametrize("older", [pytest.param("7", id="4.9-14 older answer")])
async def test_older_answer_is_ignored(api: FlakyApi, older: str) -> None:
    versions = iter(("10", older, "11"))

    class Versions(FlakyApi):
        async def get(self, kind: Any, name: str, **_: Any) -> Any:
            document = serializer.to_document(secret(name))
            document["metadata"]["resourceVersion"] = next(versions)
            return serializer.from_document(document, kind.type)

    store = store_on(Versions(api.clock), lambda: 0)
    store.add_reference(NS1_NAME1, "pod")
    seen = [(await read(store, NS1_NAME1)).metadata.resource_version for _ in range(3)]
    assert seen == ["10", "10", "11"]


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        pytest.param(False, ["", "0", "0"], id="4.9-15 refresh may come from the cache"),
        pytest.param(True, ["", "0", ""], id="4.9-15 not after NotFound"),
    ],
)
async def test_requests_have_this_resource_version(api: FlakyApi, gone: bool, expected: list[str]) -> None:
    api.hold(NS1_NAME1)
    store = store_on(api, lambda: 0)
    store.add_reference(NS1_NAME1, "pod")
    await read(store, NS1_NAME1)
    if gone:
        api.remove(schema.SECRETS, namespace="ns1", name="name1")
        with pytest.raises(NotFound):
            await read(store, NS1_NAME1)
        api.hold(NS1_NAME1)
    else:
        await read(store, NS1_NAME1)
    await read(store, NS1_NAME1)
    assert [call.resource_version for call in api.calls] == expected


@pytest.mark.parametrize("manager_type", [pytest.param(SecretManager, id="4.9-23 every get is live")])
async def test_get_strategy_reads_live(api: FlakyApi, manager_type: type[SecretManager]) -> None:
    api.hold(NS1_NAME1)
    manager = manager_type(client=api, clock=api.clock, options=CacheOptions(strategy="Get"))
    manager.unregister_pod(pod())
    for _ in range(2):
        assert (await manager.get("ns1", "name1")).metadata.name == "name1"
    assert [(call.verb, call.resource_version) for call in api.calls] == [("get", ""), ("get", "")]


def test_unknown_strategy_is_refused(api: FlakyApi) -> None:
    """4.2: an unknown strategy stops the kubelet at startup."""
    with pytest.raises(ValueError, match=r"^unknown configmap and secret manager mode: Guess$"):
        SecretManager(client=api, clock=api.clock, options=CacheOptions(strategy="Guess"))
