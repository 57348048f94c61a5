"""Ranges of nodes: distinct, within the cluster's range, all of them usable, and known from what is taken."""

from ipaddress import IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pykubelet.controllers.nodeipam.cidr_set import CidrSet

CLUSTER = IPv4Network("10.8.0.0/21")
PARTS = [str(part) for part in CLUSTER.subnets(new_prefix=24)]


class Allocation(RuleBasedStateMachine):
    """Any order of allocations, releases and ranges that existed before: the model is a list of what is taken."""

    def __init__(self) -> None:
        super().__init__()
        self.cidrs, self.taken = CidrSet(CLUSTER), list[str]()

    @rule()
    def allocate(self) -> None:
        found = self.cidrs.allocate_next()
        if set(self.taken) >= set(PARTS):
            assert found is None
            return
        assert found in PARTS
        assert found not in self.taken
        self.taken.append(found)

    @rule(part=st.sampled_from(PARTS))
    def occupy(self, part: str) -> None:
        assert self.cidrs.occupy(part)
        self.taken.append(part)

    @precondition(lambda self: self.taken)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        part = data.draw(st.sampled_from(self.taken))
        self.taken.remove(part)
        self.cidrs.release(part)

    @invariant()
    def other_ranges_change_nothing(self) -> None:
        for text in ("10.9.0.0/24", "fd00::/64", "pods", ""):
            assert not self.cidrs.occupy(text)
            self.cidrs.release(text)


TestAllocation = Allocation.TestCase


def test_released_range_is_used_again_last() -> None:
    cidrs = CidrSet(CLUSTER)
    assert [cidrs.allocate_next(), cidrs.allocate_next()] == PARTS[:2]
    cidrs.release(PARTS[0])
    assert [cidrs.allocate_next() for _ in range(8)] == [*PARTS[2:], PARTS[0], None]


@pytest.mark.parametrize(
    ("taken", "first"),
    [("10.8.0.0/22", PARTS[4]), ("10.8.0.128/25", PARTS[1]), ("10.0.0.0/8", None), ("10.7.255.0/24", PARTS[0])],
)
def test_range_of_another_size_takes_all_that_it_overlaps(taken: str, first: str | None) -> None:
    cidrs = CidrSet(CLUSTER)
    cidrs.occupy(taken)
    assert cidrs.allocate_next() == first


@given(st.integers(8, 24))
def test_every_cluster_range_has_its_parts(prefix: int) -> None:
    cluster = IPv4Network((int(IPv4Network("10.0.0.0/8").network_address), prefix))
    cidrs = CidrSet(cluster)
    found = [cidrs.allocate_next() for _ in range(min(1 << (24 - prefix), 300))]
    assert found == [str(part) for part, _ in zip(cluster.subnets(new_prefix=24), found, strict=False)]
    assert (cidrs.allocate_next() is None) == (prefix >= 16)
