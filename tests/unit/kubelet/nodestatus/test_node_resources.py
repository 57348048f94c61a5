"""Resources of a node that are not allocatable to pods."""

from hypothesis import given
from hypothesis import strategies as st

from node_status_rig import MACHINE
from pykubelet.api.quantity import parse_quantity, parse_quantity_or_percentage
from pykubelet.kubelet.eviction.thresholds import DEFAULT_THRESHOLDS, kept_free
from pykubelet.kubelet.nodestatus.setters import (
    NodeStatusInputs,
    NodeStatusSettings,
    allocatable,
    initial_node,
    reservation,
)
from pykubelet.testing.virtual_time import EPOCH


def test_allocatable_excludes_reservations_and_eviction_thresholds() -> None:
    """With upstream's thresholds: 100Mi of memory and 10 % of the disk, on top of the reservations."""
    told = NodeStatusSettings(
        name="n", hostname="n", reserved={"cpu": "500m", "memory": "1Gi"}, kept_free=kept_free(DEFAULT_THRESHOLDS)
    )
    node, _ = initial_node(told, NodeStatusInputs(now=EPOCH, machine=MACHINE))
    assert node.status.allocatable == {
        "cpu": "1500m",
        "memory": "9116Mi",
        "pods": "110",
        "ephemeral-storage": "96636764000",
    }


def test_missing_and_zero_resources_are_not_reserved() -> None:
    """Percentages are those of the node's capacity."""
    found = reservation(
        {"memory": "1000", "cpu": "4"},
        {"memory": "10", "cpu": "0", "example.com/gpu": "1"},
        {"memory": parse_quantity_or_percentage("10%"), "ephemeral-storage": parse_quantity_or_percentage("1Gi")},
    )
    assert found == {"memory": "110"}


@given(capacity=st.integers(1, 10**12), reserved=st.integers(0, 10**12), percent=st.integers(0, 100))
def test_allocatable_and_reserved_add_up_to_the_capacity(capacity: int, reserved: int, percent: int) -> None:
    """If more is reserved than exists, nothing is allocatable."""
    whole, free = {"memory": str(capacity)}, {"memory": parse_quantity_or_percentage(f"{percent}%")}
    taken = reservation(whole, {"memory": str(reserved)}, free)
    usable = parse_quantity(allocatable(whole, taken, {})["memory"]).value()
    kept = parse_quantity(taken.get("memory", "0")).value()
    assert usable == max(capacity - kept, 0)
    assert kept >= reserved
