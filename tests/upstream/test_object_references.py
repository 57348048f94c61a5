"""Cases 4.9-09 to 4.9-12 and 4.9-24: which pods refer to which objects."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import pytest

from pykubelet.api import serializer
from pykubelet.api.errors import NotFound
from pykubelet.api.generated.core import Pod
from pykubelet.kubelet.objectcache.secret_and_configmap_manager import (
    ConfigMapManager,
    Registration,
    SecretManager,
    config_map_names,
    secret_names,
)
from pykubelet.kubelet.objectcache.store import (
    CacheOptions,
    ChangeDetectionStrategy,
    NotRegistered,
    ObjectKey,
    ObjectStore,
)
from pykubelet.testing.build import pod
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import ManualClock


def pod_with(name: str, *names: str, namespace: str = "ns1", uid: str = "") -> Pod:
    """A pod that refers to secrets and config maps: the first as a pull secret, the others in volumes and env."""
    first, *others = names or ("",)
    env = [{"name": other, "valueFrom": {"secretKeyRef": {"name": other, "key": "k"}}} for other in others[::2]]
    maps = [{"name": other, "valueFrom": {"configMapKeyRef": {"name": other, "key": "k"}}} for other in names]
    volumes = [{"name": other, "secret": {"secretName": other}} for other in others[1::2]]
    document = {
        "metadata": {"name": name, "namespace": namespace, "uid": uid or f"uid-{name}"},
        "spec": {
            "imagePullSecrets": [{"name": first}],
            "containers": [{"name": "c", "image": "i", "env": env + maps}],
            "volumes": volumes,
        },
    }
    return serializer.from_document(document, Pod)


class CountingReferences:
    """Counts references as a store would."""

    def __init__(self) -> None:
        self.counts: Counter[ObjectKey] = Counter()

    def add_reference(self, key: ObjectKey, referrer: str) -> None:
        self.counts[key] += 1

    def delete_reference(self, key: ObjectKey, referrer: str) -> None:
        self.counts[key] -= 1


A, B, C, D = "s1 s10 s2 s3", "s2 s4 s5 s50", "s1 s3 s30 s5", "s3 s6 s60"
Story = Sequence[tuple[str, Pod]]


def register(name: str, names: str, uid: str = "") -> tuple[str, Pod]:
    return "register", pod_with(name, *names.split(), uid=uid)


def unregister(name: str, names: str, uid: str = "") -> tuple[str, Pod]:
    return "unregister", pod_with(name, *names.split(), uid=uid)


SAME_POD = [register("p1", "s"), register("p1", "s"), register("p2", "s"), unregister("p1", "s"), unregister("p1", "s")]
TEN = [
    *(register("name1", A), register("name2", A), register("name2", B), register("name3", B), register("name4", B)),
    *(unregister("name3", B), register("name5", C), register("name6", C), register("name7", D), unregister("name7", D)),
    *(register("other-name", A), register("other-name", B), unregister("other-name", B)),
    *(register("noop-pod", "s7 s70"), register("noop-pod", "s7 s70")),
]
TEN_COUNTS = "s1 3 s10 1 s2 3 s3 3 s30 2 s4 2 s5 4 s50 2 s6 0 s60 0 s7 1 s70 1"
TWINS = [register("p", "secret1", "uid1"), register("p", "secret2", "uid2")]


@pytest.mark.parametrize("names", [secret_names, config_map_names])
@pytest.mark.parametrize(
    ("story", "expected"),
    [
        *(
            pytest.param(SAME_POD[:steps], f"s {count}", id=f"4.9-09 after {steps} steps")
            for steps, count in ((1, 1), (2, 1), (3, 2), (4, 1), (5, 1))
        ),
        pytest.param([*SAME_POD, unregister("p2", "s")], "s 0", id="4.9-09 all gone"),
        pytest.param(TEN, TEN_COUNTS, id="4.9-10 many pods"),
        pytest.param(TWINS, "secret1 1 secret2 1", id="4.9-11 same name, two UIDs"),
        pytest.param([*TWINS, unregister("p", "", "uid1")], "secret1 0 secret2 1", id="4.9-11 the stored pod counts"),
        pytest.param(
            [*TWINS, unregister("p", "", "uid1"), unregister("p", "", "uid2")],
            "secret1 0 secret2 0",
            id="4.9-11 both gone",
        ),
    ],
)
def test_references_are_counted(story: Story, expected: str, names: Callable[[Pod], frozenset[str]]) -> None:
    counter = CountingReferences()
    registration = Registration(names=names, counter=cast("ObjectStore[Any]", counter))
    for verb, each in story:
        (registration.register_pod if verb == "register" else registration.unregister_pod)(each)
    words = expected.split()
    assert +counter.counts == +Counter(
        {ObjectKey("ns1", k): int(n) for k, n in zip(words[::2], words[1::2], strict=True)}
    )


@pytest.mark.parametrize(
    "manager_type",
    [pytest.param(SecretManager, id="4.9-12 secrets"), pytest.param(ConfigMapManager, id="4.9-12 config maps")],
)
async def test_only_what_pods_refer_to_now_is_registered(
    manager_type: type[SecretManager] | type[ConfigMapManager],
) -> None:
    clock = ManualClock()
    manager = manager_type(
        client=MemoryApi(clock), clock=clock, options=CacheOptions(strategy=ChangeDetectionStrategy.TTL)
    )
    for namespace in ("ns1", "ns2", "ns3"):
        manager.register_pod(pod_with("name", "s1", "s2", "s20", namespace=namespace))
        manager.register_pod(pod_with("name", "s1", "s3", "s4", "s40", namespace=namespace))
    manager.unregister_pod(pod_with("name", namespace="ns3"))
    registered = set()
    for key in (ObjectKey(f"ns{n}", name) for n in (1, 2, 3) for name in ("s1", "s2", "s20", "s3", "s4", "s40")):
        try:
            await manager.get(*key)
        except NotFound:
            registered.add(key)
        except NotRegistered:
            pass
    assert registered == {ObjectKey(ns, name) for ns in ("ns1", "ns2") for name in ("s1", "s3", "s4", "s40")}


def envs(prefix: str) -> serializer.Document:
    return {
        "name": prefix,
        "envFrom": [{"secretRef": {"name": f"{prefix}-from"}}, {"configMapRef": {"name": f"{prefix}-from"}}],
        "env": [
            {"name": "a", "valueFrom": {"secretKeyRef": {"name": f"{prefix}-env", "key": "k"}}},
            {"name": "b", "valueFrom": {"configMapKeyRef": {"name": f"{prefix}-env", "key": "k"}}},
            {"name": "c", "valueFrom": {"secretKeyRef": {"name": "", "key": "k"}}},
            {"name": "d", "value": "plain"},
        ],
    }


DRIVERS = ("cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos")
EVERY_FIELD: serializer.Document = {
    "imagePullSecrets": [{"name": "pull"}, {"name": ""}, {}],
    "initContainers": [envs("init")],
    "containers": [envs("main")],
    "ephemeralContainers": [envs("debug")],
    "volumes": [
        {"name": "1", "secret": {"secretName": "volume"}},
        {"name": "2", "configMap": {"name": "volume"}},
        {"name": "3", "projected": {"sources": [{"secret": {"name": "p1"}}, {"configMap": {"name": "p1"}}, {}]}},
        {"name": "4", "azureFile": {"secretName": "azureFile"}},
        {"name": "5", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "csi"}}},
        *({"name": driver, driver: {"secretRef": {"name": driver}}} for driver in DRIVERS),
        *({"name": driver, driver: {}} for driver in DRIVERS),
        {"name": "6", "persistentVolumeClaim": {"claimName": "claim"}},
    ],
}
IN_CONTAINERS = {f"{where}-{how}" for where in ("init", "main", "debug") for how in ("from", "env")}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param(
            secret_names, {"pull", "volume", "p1", "azureFile", "csi", *DRIVERS, *IN_CONTAINERS}, id="4.9-24 secrets"
        ),
        pytest.param(config_map_names, {"volume", "p1", *IN_CONTAINERS}, id="4.9-24 config maps"),
    ],
)
def test_every_reference_is_found(names: Callable[[Pod], Iterable[str]], expected: set[str]) -> None:
    assert set(names(serializer.from_document({"spec": EVERY_FIELD}, Pod))) == expected
    assert set(names(pod())) == set()
