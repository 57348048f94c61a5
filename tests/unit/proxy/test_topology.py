"""Which endpoints of a Service port get traffic."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.proxy.topology import Backends, DensePool, ProxyEndpoint, Target

READY, HERE = ProxyEndpoint(), ProxyEndpoint(is_local=True)
NOT_READY = ProxyEndpoint(is_ready=False, is_serving=False)
DRAINING = ProxyEndpoint(is_ready=False, is_terminating=True)
DRAINING_HERE = DRAINING._replace(is_local=True)
DEAD = ProxyEndpoint(is_ready=False, is_serving=False, is_terminating=True)
THIS_NODE, OTHER_NODE = READY._replace(is_for_node=True), READY._replace(is_for_node=False)
THIS_ZONE, OTHER_ZONE = READY._replace(is_for_zone=True), READY._replace(is_for_zone=False)


def target(number: int) -> Target:
    return f"10.1.0.{number}", 8080


def backends(endpoints: Iterable[ProxyEndpoint], *, uses_cluster: bool = True, uses_local: bool = True) -> Backends:
    made = Backends(uses_cluster=uses_cluster, uses_local=uses_local)
    for number, one in enumerate(endpoints):
        made.update(target(number), one)
    made.settle()
    return made


CASES: dict[str, tuple[list[ProxyEndpoint], set[int], set[int]]] = {
    "none": ([], set(), set()),
    "ready ones": ([READY, HERE, NOT_READY], {0, 1}, {1}),
    "none is ready": ([NOT_READY, DEAD], set(), set()),
    "draining ones are the last resort": ([DRAINING, DRAINING_HERE, DEAD], {0, 1}, {1}),
    "not beside a ready one": ([DRAINING, READY], {1}, set()),
    "each policy by itself": ([DRAINING_HERE, READY], {1}, {0}),
    "same zone": ([THIS_ZONE, OTHER_ZONE, THIS_ZONE], {0, 2}, set()),
    "no endpoint for this zone": ([OTHER_ZONE, OTHER_ZONE], {0, 1}, set()),
    "not every endpoint has a zone": ([THIS_ZONE, READY], {0, 1}, set()),
    "same node": ([THIS_NODE, OTHER_NODE], {0}, set()),
    "node before zone": ([THIS_NODE._replace(is_for_zone=True), OTHER_NODE._replace(is_for_zone=True)], {0}, set()),
    "zone if none is for this node": (
        [OTHER_NODE._replace(is_for_zone=True), OTHER_NODE._replace(is_for_zone=False)],
        {0},
        set(),
    ),
    "hints of others do not count": ([THIS_ZONE, NOT_READY], {0}, set()),
    "Local ignores hints": ([HERE._replace(is_for_zone=False), THIS_ZONE], {1}, {0}),
}


@pytest.mark.parametrize(("endpoints", "cluster", "local"), CASES.values(), ids=CASES)
def test_endpoints_are_chosen_by_policy(endpoints: list[ProxyEndpoint], cluster: set[int], local: set[int]) -> None:
    made = backends(endpoints)
    assert set(made.cluster) == {target(number) for number in cluster}
    assert set(made.local) == {target(number) for number in local}


def test_only_policies_in_use_have_endpoints() -> None:
    made = backends([HERE], uses_cluster=True, uses_local=False)
    assert (len(made.cluster), len(made.local)) == (1, 0)
    made.use(cluster=False, local=True)
    made.settle()
    assert (len(made.cluster), len(made.local)) == (0, 1)


FLAGS = st.booleans()
HINT = st.sampled_from([None, True, False])
ENDPOINTS = st.builds(ProxyEndpoint, FLAGS, FLAGS, FLAGS, FLAGS, HINT, HINT)
CHANGES = st.lists(st.tuples(st.integers(0, 4), st.none() | ENDPOINTS, FLAGS), max_size=20)


@given(CHANGES)
def test_changes_one_by_one_lead_to_the_same_choice(changes: list[tuple[int, ProxyEndpoint | None, bool]]) -> None:
    """Whether pools are settled after each change or after several, they hold what a fresh choice would."""
    made = Backends(uses_cluster=True, uses_local=True)
    for number, one, settles in changes:
        made.update(target(number), one)
        if settles:
            made.settle()
    made.settle()
    fresh = Backends(uses_cluster=True, uses_local=True)
    for key, one in made.endpoints.items():
        fresh.update(key, one)
    fresh.settle()
    assert (set(made.cluster), set(made.local), made.has_any) == (set(fresh.cluster), set(fresh.local), fresh.has_any)


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans())))
def test_pool_reports_what_changed_at_each_index(changes: list[tuple[int, bool]]) -> None:
    """Who applies the reported changes has the pool; and one removal changes at most two indexes."""
    pool, copy = DensePool(), dict[int, Target]()
    for number, is_in in changes:
        pool.put(target(number), is_in)
        found = pool.take_changes()
        assert len(found) <= 2
        for index, one in found.items():
            if one is None:
                copy.pop(index, None)
            else:
                copy[index] = one
        assert copy == dict(enumerate(pool))
