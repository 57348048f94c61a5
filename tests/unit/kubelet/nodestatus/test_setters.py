"""The fields of the node status and how they are set."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from node_status_rig import MACHINE, SETTINGS
from pykubelet.api.generated.core import Node, NodeAddress, NodeCondition, NodeStatus, Taint
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.patch.strategic_apply import apply_strategic
from pykubelet.api.quantity import parse_quantity
from pykubelet.api.serializer import from_document, to_document
from pykubelet.kubelet.nodestatus.machine import MachineInfo
from pykubelet.kubelet.nodestatus.register import (
    newer_node,
    node_changed,
    node_patch,
    reconciled_labels,
    reconciled_node,
)
from pykubelet.kubelet.nodestatus.setters import (
    ATTACH_DETACH,
    PROVIDED_IP,
    NodeStatusInputs,
    NodeStatusSettings,
    allocatable,
    capacity,
    initial_node,
    node_images,
    updated_node,
)
from pykubelet.runtimes.protocol import Image
from pykubelet.testing.virtual_time import EPOCH

NOW = NodeStatusInputs(now=EPOCH, machine=MACHINE)
NAMES = st.sampled_from(["cpu", "memory", "pods", "ephemeral-storage", "hugepages-2Mi", "example.com/gpu"])
AMOUNTS = st.sampled_from(["0", "1", "100m", "2Gi", "512Mi", "1k", "4"])
QUANTITIES = st.dictionaries(NAMES, AMOUNTS)


def configured(**fields: Any) -> NodeStatusSettings:
    return NodeStatusSettings(**{"name": "node-1", "hostname": "host-1", **fields})


def machine(**fields: Any) -> MachineInfo:
    return dataclasses.replace(MACHINE, **fields)


def addresses(node: Node) -> list[tuple[str, str]]:
    return [(one.type, one.address) for one in node.status.addresses]


def test_initial_node_has_all_that_upstream_registers() -> None:
    """Checks labels, taints, annotation, status and the events about pressures."""
    taint = Taint(key="a", effect="NoSchedule")
    node, events = initial_node(configured(taints=(taint,), labels={"x": "y"}, provider_id="p://1"), NOW)
    assert node.metadata.labels == {
        "kubernetes.io/hostname": "host-1",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",
        "x": "y",
    }
    assert node.metadata.annotations == {ATTACH_DETACH: "true"}
    assert (node.spec.taints, node.spec.provider_id) == ((taint,), "p://1")
    status = node.status
    assert status.capacity == {"cpu": "2", "memory": "10Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    assert status.allocatable == status.capacity
    assert addresses(node) == [("InternalIP", "10.0.0.1"), ("Hostname", "host-1")]
    assert status.daemon_endpoints.kubelet_endpoint.port == 10250
    info = status.node_info
    assert (info.machine_id, info.system_uuid, info.boot_id, info.kernel_version) == (
        "machine",
        "system",
        "boot",
        "6.1",
    )
    assert (info.os_image, info.operating_system, info.architecture) == ("Debian", "linux", "amd64")
    assert info.kubelet_version.startswith("v1.34.")
    assert [(event.type, event.reason) for event in events] == [
        ("Normal", "NodeHasSufficientMemory"),
        ("Normal", "NodeHasNoDiskPressure"),
        ("Normal", "NodeHasSufficientPID"),
    ]
    assert events[0].message == "Node node-1 status is now: NodeHasSufficientMemory"


@pytest.mark.parametrize(
    ("settings", "known", "expected"),
    [
        pytest.param(configured(), (), [("InternalIP", "10.0.0.1"), ("Hostname", "host-1")], id="the machine's"),
        pytest.param(
            configured(ips=("10.0.0.7", "fd00::7")),
            (),
            [("InternalIP", "10.0.0.7"), ("InternalIP", "fd00::7"), ("Hostname", "host-1")],
            id="configured",
        ),
        pytest.param(
            configured(hostname="10.0.0.9"), (), [("InternalIP", "10.0.0.9"), ("Hostname", "10.0.0.9")], id="hostname"
        ),
        pytest.param(configured(external_cloud=True), (), [("Hostname", "host-1")], id="cloud"),
        pytest.param(
            configured(external_cloud=True, ips=("10.0.0.7",)), (("A", "b"),), [("A", "b")], id="cloud has said"
        ),
    ],
)
def test_addresses_are_the_configured_the_clouds_or_the_machines(
    settings: NodeStatusSettings, known: tuple[tuple[str, str], ...], expected: list[tuple[str, str]]
) -> None:
    """Sources are tried in upstream's order of preference."""
    old = NodeStatus(addresses=tuple(NodeAddress(type=kind, address=address) for kind, address in known))
    node, _ = updated_node(Node(status=old), settings, NOW)
    assert addresses(node) == expected


def test_addresses_stay_when_the_machine_knows_none() -> None:
    """A short network outage does not remove the node's address."""
    old = NodeStatus(addresses=(NodeAddress(type="InternalIP", address="10.0.0.5"),))
    node, _ = updated_node(Node(status=old), SETTINGS, NodeStatusInputs(now=EPOCH, machine=machine(ip="")))
    assert addresses(node) == [("InternalIP", "10.0.0.5")]


def test_external_cloud_gets_the_addresses_and_a_taint() -> None:
    """The taint marks the node as uninitialized; the annotation is removed when there is no cloud any more."""
    node, _ = initial_node(configured(external_cloud=True, ips=("10.0.0.7", "fd00::7")), NOW)
    assert node.metadata.annotations[PROVIDED_IP] == "10.0.0.7,fd00::7"
    assert [taint.key for taint in node.spec.taints] == ["node.cloudprovider.kubernetes.io/uninitialized"]
    node, _ = updated_node(node, SETTINGS, NOW)
    assert PROVIDED_IP not in node.metadata.annotations


def test_reboot_emits_an_event() -> None:
    """The boot id differs from the one in the API."""
    node, _ = initial_node(SETTINGS, NOW)
    _, events = updated_node(node, SETTINGS, NodeStatusInputs(now=EPOCH, machine=machine(boot_id="second")))
    assert [(event.type, event.reason, event.message) for event in events] == [
        ("Warning", "Rebooted", "Node node-1 has been rebooted, boot id: second")
    ]


def test_what_others_own_stays() -> None:
    """Conditions, resources, labels and annotations unknown to the kubelet stay unchanged."""
    foreign = NodeCondition(type="KernelDeadlock", status="False", reason="x")
    status = NodeStatus(conditions=(foreign,), capacity={"example.com/gpu": "2"}, volumes_in_use=("v",))
    metadata = ObjectMeta(name="node-1", labels={"a": "b"}, annotations={"c": "d"})
    node, _ = updated_node(Node(metadata=metadata, status=status), SETTINGS, NOW)
    assert node.status.conditions[0] is foreign
    assert node.status.capacity["example.com/gpu"] == node.status.allocatable["example.com/gpu"] == "2"
    assert (node.metadata.labels["a"], node.metadata.annotations["c"]) == ("b", "d")
    assert node.status.volumes_in_use == ("v",)
    patch = node_patch(Node(metadata=metadata, status=status), node)
    assert foreign.type not in {one["type"] for one in patch["status"]["conditions"]}
    assert "spec" not in patch


def test_node_without_its_labels_has_changed() -> None:
    """Another client removed labels that the node must have."""
    node, _ = initial_node(SETTINGS, NOW)
    stripped = replace(node, metadata=replace(node.metadata, labels={}))
    again, _ = updated_node(stripped, SETTINGS, NOW)
    assert again.metadata.labels == {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    assert node_changed(stripped, again)


def test_unknown_storage_capacity_makes_the_node_not_ready() -> None:
    """The Ready condition names the missing resource."""
    node, _ = initial_node(SETTINGS, NodeStatusInputs(now=EPOCH, machine=machine(storage_bytes=0)))
    assert "ephemeral-storage" not in node.status.capacity
    ready = next(one for one in node.status.conditions if one.type == "Ready")
    assert ready.message == "missing node capacity for resources: ephemeral-storage"


def test_largest_images_are_shown_under_a_few_names() -> None:
    """At most 50 images with five names each."""
    images = [Image(id=f"{n:03}", names=tuple(f"i{n}:{m}" for m in range(7)), size_bytes=n % 60) for n in range(120)]
    shown = node_images(images)
    assert len(shown) == 50
    assert [one.size_bytes for one in shown] == sorted((one.size_bytes for one in images), reverse=True)[:50]
    assert {len(one.names) for one in shown} == {5}


@pytest.mark.parametrize(
    ("fields", "pods"), [({}, "110"), ({"pods_per_core": 5}, "10"), ({"pods_per_core": 500, "max_pods": 20}, "20")]
)
def test_pods_are_limited_by_number_and_by_cores(fields: dict[str, int], pods: str) -> None:
    """The lower of the two limits applies."""
    node, _ = initial_node(configured(**fields), NOW)
    assert node.status.capacity["pods"] == pods


def test_swap_is_shown_if_there_is_any() -> None:
    with_swap, _ = initial_node(SETTINGS, NodeStatusInputs(now=EPOCH, machine=machine(swap_bytes=2**30)))
    without, _ = initial_node(SETTINGS, NOW)
    assert with_swap.status.node_info.swap is not None
    assert with_swap.status.node_info.swap.capacity == 2**30
    assert without.status.node_info.swap is None


@settings(max_examples=80)
@given(QUANTITIES, QUANTITIES, QUANTITIES)
def test_allocatable_is_never_negative_nor_more_than_there_is(
    known: dict[str, str], reserved: dict[str, str], before: dict[str, str]
) -> None:
    """Without a reservation the whole capacity of a resource is allocatable."""
    whole = capacity(machine(huge_pages={2**21: 2**22}), known, max_pods=10)
    usable = allocatable(whole, reserved, before)
    for name, value in whole.items():
        amount = parse_quantity(usable[name])
        assert amount.sign() >= 0
        assert amount <= parse_quantity(value)
        if name != "memory" and parse_quantity(reserved.get(name, "0")).sign() == 0:
            assert amount == parse_quantity(value)
    assert "example.com/gpu" not in usable or "example.com/gpu" in whole


def test_reservation_and_huge_pages_are_taken_from_memory() -> None:
    """Numbers are upstream's; too large a reservation leaves nothing."""
    whole = {"cpu": "2", "memory": "10Gi", "hugepages-2Mi": "4Gi"}
    usable = allocatable(whole, {"cpu": "3", "memory": "1Gi"}, {})
    assert usable == {"cpu": "0", "memory": "5Gi", "hugepages-2Mi": "4Gi"}


LABELS = st.dictionaries(
    st.sampled_from(["kubernetes.io/os", "kubernetes.io/arch", "x"]), st.sampled_from(["", "a", "b"])
)


@given(LABELS, LABELS)
def test_default_labels_win_and_others_stay(wanted: Mapping[str, str], existing: Mapping[str, str]) -> None:
    """An empty default label is removed from the node."""
    labels = reconciled_labels(wanted, existing)
    assert labels.get("x") == existing.get("x")
    for name in ("kubernetes.io/os", "kubernetes.io/arch"):
        expected = (wanted[name] or None) if name in wanted else existing.get(name)
        assert labels.get(name) == expected


@settings(max_examples=60)
@given(QUANTITIES, QUANTITIES, QUANTITIES, LABELS, st.booleans())
def test_registration_reconciles_an_existing_node_once(
    wanted: dict[str, str], had: dict[str, str], could: dict[str, str], labels: dict[str, str], reset: bool
) -> None:
    """A second pass changes nothing, and the patch produces exactly the reconciled node."""
    initial = Node(metadata=ObjectMeta(name="n", labels=labels), status=NodeStatus(capacity=wanted, allocatable=wanted))
    existing = Node(metadata=ObjectMeta(name="n"), status=NodeStatus(capacity=had, allocatable=could))
    once = reconciled_node(initial, existing, reset_extended=reset)
    assert reconciled_node(initial, once, reset_extended=reset) is once
    patched = apply_strategic(to_document(existing), node_patch(existing, once), "core.v1.Node")
    assert from_document(patched, Node) == once


ADDRESSES = st.lists(
    st.builds(NodeAddress, type=st.sampled_from(["InternalIP", "Hostname"]), address=st.sampled_from(["a", "b"])),
    max_size=3,
).map(tuple)
STATUSES = st.builds(
    NodeStatus,
    addresses=ADDRESSES,
    capacity=QUANTITIES,
    conditions=st.lists(
        st.builds(NodeCondition, type=st.sampled_from(["Ready", "A", "B"]), status=st.sampled_from(["True", "False"])),
        max_size=3,
        unique_by=lambda condition: condition.type,
    ).map(tuple),
)


@settings(max_examples=80)
@given(STATUSES, STATUSES)
def test_patch_leads_from_one_status_to_the_other(old: NodeStatus, new: NodeStatus) -> None:
    """This includes two addresses of one type, which a plain strategic merge would lose."""
    before = Node(metadata=ObjectMeta(name="n"), status=old)
    after = replace(before, status=new)
    patched = from_document(apply_strategic(to_document(before), node_patch(before, after), "core.v1.Node"), Node)
    # Addresses of one type may be grouped, as upstream's servers do; their order has no meaning.
    patched, after = (replace(one, status=replace(one.status, addresses=by_type(one))) for one in (patched, after))
    assert patched.status.addresses == after.status.addresses
    assert not node_changed(patched, after)


def by_type(node: Node) -> tuple[NodeAddress, ...]:
    return tuple(sorted(node.status.addresses, key=lambda one: (one.type, one.address)))


@pytest.mark.parametrize(
    ("seen", "answered", "which"),
    [
        (None, None, None),
        (("u", "5"), None, "seen"),
        (None, ("u", "5"), "answered"),
        (("u", "5"), ("u", "6"), "answered"),
        (("u", "6"), ("u", "6"), "seen"),
        (("u", "x"), ("u", "6"), "seen"),
        (("new", "5"), ("u", "6"), "seen"),
    ],
)
def test_newer_node_is_chosen_by_resource_version(
    seen: tuple[str, str] | None, answered: tuple[str, str] | None, which: str | None
) -> None:
    """The watched node is used unless the response is certainly newer."""

    def node(of: tuple[str, str] | None) -> Node | None:
        return None if of is None else Node(metadata=ObjectMeta(uid=of[0], resource_version=of[1]))

    left, right = node(seen), node(answered)
    assert newer_node(left, right) is {"seen": left, "answered": right, None: None}[which]
