"""What objects use of a ResourceQuota, by kind, and the scopes that pods and claims are in."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pykubelet.api.times import format_time
from pykubelet.kinds.quota.amounts import shown
from pykubelet.kinds.quota.evaluators import evaluator_of, resource_of
from pykubelet.kinds.quota.pods import missing_resources

NOW = datetime(2026, 1, 1, tzinfo=UTC)
Body = dict[str, Any]


def used(resource: str, document: Body) -> str:
    evaluator = evaluator_of(resource)
    assert evaluator is not None
    return shown(evaluator.usage({"metadata": {}, **document}, NOW))


def container(requests: Body | None = None, limits: Body | None = None, name: str = "c", **rest: Any) -> Body:
    return {"name": name, "resources": {"requests": requests or {}, "limits": limits or {}}, **rest}


def pod(*containers: Body, status: Body | None = None, metadata: Body | None = None, **spec: Any) -> Body:
    held = list(containers or [container()])
    return {"metadata": metadata or {}, "spec": {"containers": held, **spec}, "status": status or {}}


def deleted(ago: timedelta) -> Body:
    return {"deletionTimestamp": format_time(NOW - ago), "deletionGracePeriodSeconds": 30}


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        pytest.param(pod(), "count/pods=1,pods=1", id="without resources"),
        pytest.param(pod(status={"phase": "Succeeded"}), "count/pods=1", id="ended"),
        pytest.param(pod(metadata=deleted(timedelta(seconds=30))), "count/pods=1,pods=1", id="being deleted"),
        pytest.param(pod(metadata=deleted(timedelta(seconds=31))), "count/pods=1", id="should be gone"),
        pytest.param(
            pod(container({"cpu": "100m", "memory": "1Gi", "ephemeral-storage": "1G"}, {"cpu": "1"})),
            "count/pods=1,cpu=100m,ephemeral-storage=1G,limits.cpu=1,memory=1Gi,pods=1,requests.cpu=100m,"
            "requests.ephemeral-storage=1G,requests.memory=1Gi",
            id="standard",
        ),
        pytest.param(
            pod(container({"example.com/gpu": "2", "hugepages-2Mi": "4Mi"}, {"example.com/gpu": "2"})),
            "count/pods=1,hugepages-2Mi=4Mi,pods=1,requests.example.com/gpu=2,requests.hugepages-2Mi=4Mi",
            id="extended and huge pages",
        ),
        pytest.param(
            pod(
                container({"cpu": "1"}),
                initContainers=[container({"cpu": "1"}, restartPolicy="Always"), container({"cpu": "3"})],
            ),
            "count/pods=1,cpu=4,pods=1,requests.cpu=4",
            id="init containers",
        ),
        pytest.param(
            pod(container({"cpu": "1"}), resources={"requests": {"cpu": "3"}}, overhead={"cpu": "250m"}),
            "count/pods=1,cpu=3250m,pods=1,requests.cpu=3250m",
            id="pod level and overhead",
        ),
    ],
)
def test_pod_uses_its_resources_until_it_ends(one: Body, expected: str) -> None:
    assert used("pods", one) == expected


@pytest.mark.parametrize(
    ("conditions", "requested", "limited"),
    [([], "3", "4"), ([{"type": "PodResizePending", "reason": "Infeasible"}], "2", "2")],
    ids=["feasible", "infeasible"],
)
def test_resized_pod_uses_the_largest_amounts(conditions: list[Body], requested: str, limited: str) -> None:
    """Desired amounts that the node can never provide do not count."""
    statuses = [
        {
            "name": "c",
            "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}},
            "allocatedResources": {"cpu": "2"},
        }
    ]
    one = pod(container({"cpu": "3"}, {"cpu": "4"}), status={"containerStatuses": statuses, "conditions": conditions})
    found = used("pods", one)
    assert f",cpu={requested},limits.cpu={limited}," in found


def claim(storage: str = "", **more: Any) -> Body:
    requests = {"storage": storage} if storage else {}
    return {
        "metadata": more.pop("metadata", {}),
        "spec": {"resources": {"requests": requests}, **more.pop("spec", {})},
        **more,
    }


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (claim(), "count/persistentvolumeclaims=1,persistentvolumeclaims=1"),
        (claim("1500m"), "count/persistentvolumeclaims=1,persistentvolumeclaims=1,requests.storage=2"),
        (
            claim("1Gi", status={"allocatedResources": {"storage": "2Gi"}}),
            "count/persistentvolumeclaims=1,persistentvolumeclaims=1,requests.storage=2Gi",
        ),
        (
            claim("1Gi", spec={"storageClassName": "gold"}),
            (
                "count/persistentvolumeclaims=1,gold.storageclass.storage.k8s.io/persistentvolumeclaims=1,"
                "gold.storageclass.storage.k8s.io/requests.storage=1Gi,persistentvolumeclaims=1,requests.storage=1Gi"
            ),
        ),
    ],
    ids=["no storage", "fraction", "expanded", "storage class"],
)
def test_claim_uses_its_storage_in_all_and_in_its_class(one: Body, expected: str) -> None:
    assert used("persistentvolumeclaims", one) == expected


@pytest.mark.parametrize(
    ("spec", "ports", "balancers"),
    [
        ({"type": "ClusterIP", "ports": [{}]}, 0, 0),
        ({"type": "NodePort", "ports": [{}, {}]}, 2, 0),
        ({"type": "LoadBalancer", "ports": [{}, {}]}, 2, 1),
        ({"type": "LoadBalancer", "ports": [{"nodePort": 30000}, {}], "allocateLoadBalancerNodePorts": False}, 1, 1),
    ],
)
def test_service_uses_the_node_ports_that_it_will_get(spec: Body, ports: int, balancers: int) -> None:
    expected = f"count/services=1,services=1,services.loadbalancers={balancers},services.nodeports={ports}"
    assert used("services", {"spec": spec}) == expected


def test_resource_claim_uses_the_most_devices_that_it_may_get() -> None:
    """Of alternatives the largest number of each class counts; all devices count as the most that a claim can get."""
    exact = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}
    requests = [
        {"exactly": exact},
        {"exactly": {"deviceClassName": "nic", "allocationMode": "All"}},
        {"firstAvailable": [{**exact, "count": 5}, {**exact, "count": 3}]},
    ]
    devices = "deviceclass.resource.k8s.io/devices"
    expected = f"count/resourceclaims.resource.k8s.io=1,gpu.{devices}=7,nic.{devices}=32"
    assert used("resourceclaims.resource.k8s.io", {"spec": {"devices": {"requests": requests}}}) == expected


@pytest.mark.parametrize(
    ("name", "resource"),
    [
        ("limits.cpu", "pods"),
        ("requests.example.com/gpu", "pods"),
        ("hugepages-2Mi", "pods"),
        ("count/pods", "pods"),
        ("services.nodeports", "services"),
        ("gold.storageclass.storage.k8s.io/requests.storage", "persistentvolumeclaims"),
        ("persistentvolumeclaims", "persistentvolumeclaims"),
        ("requests.storage", "persistentvolumeclaims"),
        ("configmaps", "configmaps"),
        ("count/widgets.example.com", "widgets.example.com"),
        ("gpu.deviceclass.resource.k8s.io/devices", "resourceclaims.resource.k8s.io"),
        ("count/events", ""),
        ("example.com/gpu", ""),
        ("other", ""),
    ],
)
def test_name_in_a_quota_counts_objects_of_one_kind(name: str, resource: str) -> None:
    """The evaluator of that kind covers the name, and its objects use it."""
    assert resource_of(name) == resource
    evaluator = evaluator_of(resource) if resource else None
    assert (evaluator is not None) == bool(resource)
    assert evaluator is None or evaluator.covered([name, "nothing"]) == {name}


CLASSED = claim(status={"currentVolumeAttributesClassName": "fast"})


@pytest.mark.parametrize(
    ("resource", "subresource", "new", "old", "expected"),
    [
        ("pods", "", pod(), None, True),
        ("pods", "binding", pod(), None, False),
        ("pods", "", pod(), pod(), False),
        ("pods", "resize", pod(), pod(), True),
        ("pods", "status", pod(activeDeadlineSeconds=1), pod(), False),
        ("persistentvolumeclaims", "", claim(), claim(), True),
        ("persistentvolumeclaims", "status", claim(), claim(), False),
        ("persistentvolumeclaims", "status", CLASSED, claim(), True),
        ("services", "status", {}, {}, False),
        ("secrets", "", {}, {}, False),
    ],
)
def test_some_writes_change_what_is_used(
    resource: str, subresource: str, new: Body, old: Body | None, expected: bool
) -> None:
    evaluator = evaluator_of(resource)
    assert evaluator is not None
    assert evaluator.handles(subresource, new, old) == expected


def test_events_are_not_counted() -> None:
    """They come from the system and go by themselves."""
    assert evaluator_of("events") is None
    assert used("secrets", {}) == "count/secrets=1,secrets=1"
    assert used("widgets.example.com", {}) == "count/widgets.example.com=1"


TERM = {"topologyKey": "a", "namespaces": ["b"]}
ACROSS = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": TERM}]}}
HIGH = pod(priorityClassName="high")
MODIFYING = claim(status={"modifyVolumeStatus": {"targetVolumeAttributesClassName": "fast"}})


def scope(name: str, operator: str = "Exists", *values: str) -> Body:
    return {"scopeName": name, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("resource", "one", "wanted", "expected"),
    [
        ("pods", pod(activeDeadlineSeconds=0), scope("Terminating"), True),
        ("pods", pod(), scope("Terminating"), False),
        ("pods", pod(), scope("NotTerminating"), True),
        ("pods", pod(), scope("BestEffort"), True),
        ("pods", pod(container({"cpu": "1"})), scope("NotBestEffort"), True),
        ("pods", HIGH, scope("PriorityClass"), True),
        ("pods", pod(), scope("PriorityClass"), False),
        ("pods", HIGH, scope("PriorityClass", "In", "high", "low"), True),
        ("pods", HIGH, scope("PriorityClass", "NotIn", "high"), False),
        ("pods", pod(), scope("PriorityClass", "NotIn", "high"), True),
        ("pods", pod(), scope("PriorityClass", "DoesNotExist"), True),
        ("pods", pod(affinity=ACROSS), scope("CrossNamespacePodAffinity"), True),
        ("pods", pod(affinity={"podAffinity": {}}), scope("CrossNamespacePodAffinity"), False),
        ("pods", pod(), scope("VolumeAttributesClass"), False),
        ("persistentvolumeclaims", MODIFYING, scope("VolumeAttributesClass"), True),
        ("persistentvolumeclaims", MODIFYING, scope("VolumeAttributesClass", "In", "fast"), True),
        ("persistentvolumeclaims", claim(), scope("VolumeAttributesClass"), False),
        ("persistentvolumeclaims", claim(), scope("VolumeAttributesClass", "DoesNotExist"), True),
        ("persistentvolumeclaims", claim(), scope("BestEffort"), False),
        ("secrets", {"metadata": {}}, scope("NotBestEffort"), False),
    ],
)
def test_scope_covers_some_objects(resource: str, one: Body, wanted: Body, expected: bool) -> None:
    """A quota has the scope in its selector, or in its plain list if that is enough."""
    evaluator = evaluator_of(resource)
    assert evaluator is not None
    assert evaluator.is_in_scopes({"spec": {"scopeSelector": {"matchExpressions": [wanted]}}}, one) == expected
    if wanted["operator"] == "Exists":
        assert evaluator.is_in_scopes({"spec": {"scopes": [wanted["scopeName"]]}}, one) == expected


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (pod(container({"cpu": "1"}, {"cpu": "1", "memory": "1"})), ""),
        (pod(), "must specify limits.memory for: c; requests.cpu for: c"),
        (
            pod(
                container(name="b"),
                container({"cpu": "1"}, name="a"),
                initContainers=[container({}, {"memory": "1"}, name="i")],
            ),
            "must specify limits.memory for: a,b; requests.cpu for: b,i",
        ),
        (pod(resources={"limits": {"cpu": "1"}}), ""),
    ],
    ids=["all stated", "none stated", "several containers", "pod level"],
)
def test_containers_must_state_limited_cpu_and_memory(one: Body, expected: str) -> None:
    required = frozenset({"pods", "requests.cpu", "limits.memory", "ephemeral-storage"})
    assert missing_resources(required, one) == expected
