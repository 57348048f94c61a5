"""The distribution of endpoints over slices, and the content of slices and Endpoints."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pykubelet.api.generated.core import (
    Container,
    ContainerPort,
    Node,
    Pod,
    PodCondition,
    PodIP,
    PodSpec,
    PodStatus,
    Service,
    ServicePort,
    ServiceSpec,
)
from pykubelet.api.generated.discovery import EndpointHints, EndpointPort, EndpointSlice, ForNode, ForZone
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.controllers.endpoint.endpoints_controller import (
    endpoints_for,
    endpoints_patch,
    subsets_for,
    truncate_endpoints,
)
from pykubelet.controllers.endpointslice.endpointslice_controller import EndpointSliceTracker
from pykubelet.controllers.endpointslice.reconciler import (
    DesiredEndpoint,
    SlicePlan,
    endpoint_for,
    new_slice,
    plan_slices,
    ports_for,
    slice_labels,
    slice_patch,
)
from pykubelet.controllers.endpointslice.service_pods import (
    TriggerTimeTracker,
    addresses_of,
    endpoint_facts,
    families_of,
    has_endpoint,
)

HTTP = (EndpointPort(name="http", port=80, protocol="TCP"),)
OTHER = (EndpointPort(name="http", port=81, protocol="TCP"),)


def service(**spec: Any) -> Service:
    given = {"selector": {"app": "web"}, "ip_families": ("IPv4",), "cluster_ip": "10.1.0.1", **spec}
    metadata = ObjectMeta(name="web", namespace="ns", uid="svc", creation_timestamp="2026-01-01T00:00:00Z")
    return Service(metadata=metadata, spec=ServiceSpec(**given))


def pod(name: str, *ips: str, ready: bool = True, **spec: Any) -> Pod:
    ports = (ContainerPort(name="web", container_port=8080, protocol="TCP"),)
    given = {"containers": (Container(name="c", ports=ports),), "node_name": "n", **spec}
    condition = PodCondition(type="Ready", status=str(ready), last_transition_time="2026-01-01T00:00:01Z")
    status = PodStatus(
        phase="Running",
        pod_ip=ips[0] if ips else "",
        pod_ips=tuple(PodIP(ip=ip) for ip in ips),
        conditions=(condition,),
    )
    metadata = ObjectMeta(name=name, namespace="ns", uid=f"uid-{name}")
    return Pod(metadata=metadata, spec=PodSpec(**given), status=status)


def wanted(*names: str, ready: bool = True, ports: tuple[EndpointPort, ...] = HTTP) -> list[DesiredEndpoint]:
    pods = [pod(name, f"10.0.0.{name}", ready=ready) for name in names]
    return [DesiredEndpoint(ports, endpoint_for(one, None, service(), "IPv4")) for one in pods]


def carried_out(slices: Sequence[EndpointSlice], plan: SlicePlan, names: Any) -> list[EndpointSlice]:
    """The slices after executing a plan."""
    changed = {old.metadata.name: new for old, new in plan.update}
    gone = {old.metadata.name for old in plan.delete}
    kept = [changed.get(one.metadata.name, one) for one in slices if one.metadata.name not in gone]
    return kept + [replace(one, metadata=replace(one.metadata, name=f"s{next(names)}")) for one in plan.create]


CROWDS = st.lists(
    st.tuples(st.sets(st.sampled_from([str(n) for n in range(9)])), st.booleans(), st.sampled_from([HTTP, OTHER])),
    min_size=1,
    max_size=6,
)


@settings(max_examples=150)
@given(CROWDS, st.integers(1, 4))
def test_every_endpoint_is_in_one_slice_and_nothing_is_written_twice(
    crowds: list[tuple[set[str], bool, tuple[EndpointPort, ...]]], limit: int
) -> None:
    """After any changes of pods no slice exceeds the limit, the next plan is empty, and at least one slice exists."""
    slices: list[EndpointSlice] = []
    names = iter(range(10**6))
    for crowd, ready, ports in crowds:
        rows = wanted(*sorted(crowd), ready=ready, ports=ports)
        slices = carried_out(slices, plan_slices(service(), slices, {"IPv4": rows}, max_endpoints=limit), names)
        found = sorted(endpoint.addresses for one in slices for endpoint in one.endpoints)
        assert found == sorted(row.endpoint.addresses for row in rows)
        assert slices
        assert all(len(one.endpoints) <= limit for one in slices)
        assert all(one.ports == ports for one in slices if one.endpoints)
        assert plan_slices(service(), slices, {"IPv4": rows}, max_endpoints=limit) == SlicePlan()


def test_endpoint_goes_to_the_fullest_slice_that_has_room_for_it() -> None:
    """Of two that are equally full it is the first."""
    empty = new_slice(service(), "IPv4", HTTP)
    small, first, second, full = (
        replace(
            empty,
            metadata=replace(empty.metadata, name=f"s{names}"),
            endpoints=tuple(row.endpoint for row in wanted(*names)),
        )
        for names in ("1", "23", "45", "678")
    )
    plan = plan_slices(service(), [small, first, second, full], {"IPv4": wanted(*"123456789")}, max_endpoints=3)
    assert [(old.metadata.name, len(new.endpoints)) for old, new in plan.update if old.endpoints != new.endpoints] == [
        ("s23", 3)
    ]
    assert (plan.create, plan.delete) == ([], [])


def filled(name: str, rows: Sequence[DesiredEndpoint], *, uid: str = "svc") -> EndpointSlice:
    made = new_slice(replace(service(), metadata=replace(service().metadata, uid=uid)), "IPv4", rows[0].ports)
    metadata = replace(made.metadata, name=name)
    return replace(made, metadata=metadata, endpoints=tuple(row.endpoint for row in rows))


def test_slice_that_changes_anyway_is_filled_first() -> None:
    """Other slices with room are left unwritten."""
    first, second = filled("a", wanted("1", "2")), filled("b", wanted("3", "4"))
    plan = plan_slices(service(), [first, second], {"IPv4": wanted("1", "2", "3", "5")}, max_endpoints=3)
    assert [(old.metadata.name, len(new.endpoints)) for old, new in plan.update] == [("b", 2)]


def test_rest_goes_into_the_slice_it_fills_best_or_a_new_one() -> None:
    """The slice with just enough room gets the remaining endpoints if they all fit."""
    first, second = filled("a", wanted("1")), filled("b", wanted("2", "3"))
    plan = plan_slices(service(), [first, second], {"IPv4": wanted("1", "2", "3", "4")}, max_endpoints=3)
    assert [old.metadata.name for old, _ in plan.update] == ["b"]
    rows = wanted("1", "2", "3", "4", "5", "6")
    plan = plan_slices(service(), [first, second], {"IPv4": rows}, max_endpoints=3)
    assert (len(plan.update), [len(one.endpoints) for one in plan.create]) == (0, [3])


def test_slices_of_another_service_or_family_are_deleted_and_never_reused() -> None:
    """A service of the same name may have been deleted just before."""
    old, six = filled("a", wanted("1"), uid="before"), replace(filled("b", wanted("2")), address_type="IPv6")
    plan = plan_slices(service(), [old, six], {"IPv4": wanted("1")})
    assert {one.metadata.name for one in plan.delete} == {"a", "b"}
    assert len(plan.create) == 1


def test_service_that_is_being_deleted_gets_no_new_slice() -> None:
    """Its slices are left to the garbage collector."""
    leaving = replace(service(), metadata=replace(service().metadata, deletion_timestamp="2026-01-01T00:00:00Z"))
    assert plan_slices(leaving, [], {"IPv4": wanted("1")}) == SlicePlan()


def test_changed_labels_of_the_service_reach_its_slices() -> None:
    """The service cannot set reserved labels; labels that it no longer has are removed."""
    labels = {"tier": "front", "kubernetes.io/service-name": "evil"}
    labelled = replace(service(), metadata=replace(service().metadata, labels=labels))
    old = filled("a", wanted("1"))
    ((before, after),) = plan_slices(labelled, [old], {"IPv4": wanted("1")}).update
    assert after.metadata.labels == slice_labels(labelled)
    assert after.metadata.labels["kubernetes.io/service-name"] == "web"
    patch = slice_patch(after, before, None)
    assert patch["metadata"]["labels"]["tier"] is None
    assert patch["metadata"]["annotations"] == {"endpoints.kubernetes.io/last-change-trigger-time": None}


@pytest.mark.parametrize(
    ("distribution", "hints"),
    [
        (None, None),
        ("PreferClose", EndpointHints(for_zones=(ForZone(name="z"),))),
        ("PreferSameZone", EndpointHints(for_zones=(ForZone(name="z"),))),
        ("PreferSameNode", EndpointHints(for_zones=(ForZone(name="z"),), for_nodes=(ForNode(name="n"),))),
    ],
)
def test_hints_follow_the_traffic_distribution(distribution: str | None, hints: EndpointHints | None) -> None:
    """Only ready endpoints have hints."""
    node = Node(metadata=ObjectMeta(name="n", labels={"topology.kubernetes.io/zone": "z"}))
    asked = service(traffic_distribution=distribution)
    assert endpoint_for(pod("a", "10.0.0.1"), node, asked, "IPv4").hints == hints
    assert endpoint_for(pod("a", "10.0.0.1", ready=False), node, asked, "IPv4").hints is None


def test_named_port_is_found_in_containers_and_sidecars_of_its_protocol() -> None:
    """A port name that the pod lacks is skipped; a numeric target port is used as it is."""
    ports = (
        ServicePort(name="a", port=1, target_port="web", protocol="TCP"),
        ServicePort(name="b", port=2, target_port="web", protocol="UDP"),
        ServicePort(name="c", port=3, target_port="side", protocol="TCP"),
        ServicePort(name="d", port=4, target_port=9, protocol="TCP"),
    )
    side = ContainerPort(name="side", container_port=7, protocol="TCP")
    sidecar = Container(name="s", restart_policy="Always", ports=(side,))
    initial = Container(name="i", ports=(ContainerPort(name="web", container_port=1, protocol="UDP"),))
    found = ports_for(pod("a", "10.0.0.1", init_containers=(initial, sidecar)), service(ports=ports))
    assert [(port.name, port.port) for port in found] == [("a", 8080), ("c", 7), ("d", 9)]


def test_addresses_are_those_of_the_family_in_their_plain_form() -> None:
    """The families are the service's, or those of its cluster IP, or both for a headless service."""
    both = pod("a", "010.0.0.1", "fd00::0001")
    assert (addresses_of(both, "IPv4"), addresses_of(both, "IPv6")) == (("10.0.0.1",), ("fd00::1",))
    assert families_of(service(ip_families=(), cluster_ip="fd00::1")) == ("IPv6",)
    assert families_of(service(ip_families=(), cluster_ip="None")) == ("IPv4", "IPv6")


def test_pod_is_listed_while_it_has_an_address_and_is_not_over() -> None:
    """A terminating pod is listed only if the service includes such pods.

    Loopback and link-local addresses do not count.
    """
    running = pod("a", "10.0.0.1")
    over = replace(running, status=replace(running.status, phase="Failed"))
    ending = replace(running, metadata=replace(running.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))
    found = [has_endpoint(one, while_terminating=False) for one in (running, over, ending, pod("b"))]
    assert found == [True, False, False, False]
    assert has_endpoint(ending, while_terminating=True)
    local = pod("a", "127.0.0.1", "fe80::1")
    assert not has_endpoint(local, while_terminating=True)
    assert addresses_of(local, "IPv4") + addresses_of(local, "IPv6") == ()
    assert len({endpoint_facts(one) for one in (running, over, ending)}) == 3


def test_tracker_knows_what_was_written_and_not_yet_seen() -> None:
    """Older generations, unseen slices and unseen deletions are stale; changes by other clients are reported."""
    tracker = EndpointSliceTracker()
    old = EndpointSlice(metadata=ObjectMeta(name="a", uid="u", generation=1))
    new = replace(old, metadata=replace(old.metadata, generation=2))
    assert tracker.is_changed("k", old)
    tracker.written("k", new)
    assert [tracker.is_stale("k", slices) for slices in ([], [old], [new])] == [True, True, False]
    assert not tracker.is_changed("k", new)
    tracker.deletion_sent("k", new)
    assert [tracker.is_stale("k", slices) for slices in ([], [new])] == [False, True]
    assert tracker.saw_deletion("k", new)
    tracker.written("k", new)
    assert not tracker.saw_deletion("k", new)
    tracker.forget("k")
    assert not tracker.is_stale("k", [])


def test_trigger_time_is_that_of_the_first_change_since_the_last_sync() -> None:
    """The first sync uses the service's creation time; without a change there is no trigger time."""
    times = TriggerTimeTracker()
    first, later = pod("a", "10.0.0.1"), pod("b", "10.0.0.2")
    assert times.of(service(), [first]) == "2026-01-01T00:00:00Z"
    assert times.of(service(), [first]) is None
    assert times.of(service(), [first, later]) == "2026-01-01T00:00:01Z"
    metadata = replace(service().metadata, creation_timestamp="2026-01-01T00:00:05Z")
    assert times.of(replace(service(), metadata=metadata), [first, later]) == "2026-01-01T00:00:05Z"
    times.forget("ns/web")
    assert times.of(service(), [first]) == "2026-01-01T00:00:00Z"


def test_subsets_join_pods_with_the_same_ports() -> None:
    """A port that only some pods have makes its own subset; pods that are not ready are listed separately."""
    ports = (
        ServicePort(name="web", port=80, target_port="web", protocol="TCP"),
        ServicePort(name="extra", port=81, target_port="extra", protocol="TCP"),
    )
    numbers = {"web": 8080, "extra": 9}
    extra = tuple(ContainerPort(name=name, container_port=port, protocol="TCP") for name, port in numbers.items())
    pods = [
        pod("a", "10.0.0.1"),
        pod("b", "10.0.0.2", containers=(Container(name="c", ports=extra),)),
        pod("c", "10.0.0.3", ready=False),
    ]
    found = [
        (
            [one.ip for one in row.addresses],
            [one.ip for one in row.not_ready_addresses],
            [port.name for port in row.ports],
        )
        for row in subsets_for(service(ports=ports), pods)
    ]
    assert found == [(["10.0.0.2"], [], ["extra"]), (["10.0.0.1", "10.0.0.2"], ["10.0.0.3"], ["web"])]


@pytest.mark.parametrize(
    ("ready", "others", "kept"), [(1200, 300, (1000, 0)), (600, 600, (600, 400)), (1000, 0, (1000, 0))]
)
def test_endpoints_are_truncated_at_a_thousand_and_marked(ready: int, others: int, kept: tuple[int, int]) -> None:
    """Ready addresses are kept first."""
    ports = (ServicePort(name="web", port=80, target_port="web", protocol="TCP"),)
    pods = [pod(f"{n}", f"10.0.{n // 250}.{n % 250}", ready=n < ready) for n in range(ready + others)]
    found = endpoints_for(service(ports=ports), pods, None)
    (subset,) = found.subsets
    assert (len(subset.addresses), len(subset.not_ready_addresses)) == kept
    mark = found.metadata.annotations.get("endpoints.kubernetes.io/over-capacity")
    assert mark == ("truncated" if ready + others > 1000 else None)
    assert truncate_endpoints(found.subsets) == found.subsets
    assert endpoints_patch(found, found) is None


def test_endpoints_are_changed_only_where_they_differ() -> None:
    """A missing trigger time annotation is no difference."""
    ports = (ServicePort(name="web", port=80, target_port="web", protocol="TCP"),)
    old = endpoints_for(service(ports=ports), [pod("a", "10.0.0.1")], "2026-01-01T00:00:00Z")
    assert endpoints_patch(old, endpoints_for(service(ports=ports), [pod("a", "10.0.0.1")], None)) is None
    patch = endpoints_patch(old, endpoints_for(service(ports=ports), [], None))
    assert patch is not None
    assert patch["subsets"] is None
    headless = endpoints_for(service(ports=(), cluster_ip="None"), [pod("a", "10.0.0.1")], None)
    assert headless.metadata.labels["service.kubernetes.io/headless"] == ""
    assert [len(row.ports) for row in headless.subsets] == [0]
