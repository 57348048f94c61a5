"""Scores of nodes, as in the tests of upstream's plugins (pkg/scheduler/framework/plugins)."""

from collections.abc import Mapping, Sequence

import pytest

from pykubelet.scheduler.podtopologyspread import HOST_NAME, spread_scores
from pykubelet.scheduler.scores import balanced_allocation, image_locality, least_allocated
from scheduler_views import facts, labelled, node, pod, view

MIB = 1024 * 1024
ASKED = ({"cpu": "1000", "memory": "2000"}, {"cpu": "2000", "memory": "3000"})
NO_MEMORY = {"cpu": "3000", "memory": "0"}
SOME_MEMORY = {"cpu": "3000", "memory": "5000"}
Requests = Sequence[Mapping[str, str]]


@pytest.mark.parametrize(
    ("asked", "sizes", "taken", "expected"),
    [
        ((), [("4000", "10000"), ("4000", "10000")], [(), ()], [100, 100]),
        (ASKED, [("4000", "10000"), ("6000", "10000")], [(), ()], [37, 50]),
        ((), [("10000", "20000")] * 2, [(NO_MEMORY, NO_MEMORY), (NO_MEMORY, SOME_MEMORY)], [70, 57]),
        (ASKED, [("10000", "20000")] * 2, [(NO_MEMORY,), (SOME_MEMORY,)], [57, 45]),
        (ASKED, [("10000", "20000"), ("10000", "50000")], [(NO_MEMORY,), (SOME_MEMORY,)], [57, 60]),
    ],
    ids=["nothing", "differently sized", "pods scheduled", "resources requested", "requested, differently sized"],
)
def test_least_allocated(
    asked: Requests, sizes: Sequence[tuple[str, str]], taken: Sequence[Requests], expected: Sequence[int]
) -> None:
    """The score is the share of CPU and memory that would remain free."""
    nodes = [node(f"n{i}", allocatable={"cpu": cpu, "memory": memory}) for i, (cpu, memory) in enumerate(sizes)]
    pods = {f"n{i}": [pod(f"on{i}", requests=each)] for i, each in enumerate(taken)}
    seen, wanted = view(nodes, pods), facts(requests=asked)
    assert [least_allocated(wanted, state) for state in seen.nodes.values()] == expected


@pytest.mark.parametrize(
    ("asked", "sizes", "taken", "expected"),
    [
        ((), [("4000", "10000")], [()], [0]),
        (ASKED, [("4000", "10000"), ("6000", "10000")], [(), ()], [87, 100]),
        (ASKED, [("10000", "20000")] * 2, [(NO_MEMORY,), (SOME_MEMORY,)], [82, 95]),
        (ASKED, [("10000", "20000"), ("10000", "50000")], [(NO_MEMORY,), (SOME_MEMORY,)], [82, 80]),
    ],
    ids=["nothing requested", "differently sized", "resources requested", "requested, differently sized"],
)
def test_balanced_allocation(
    asked: Requests, sizes: Sequence[tuple[str, str]], taken: Sequence[Requests], expected: Sequence[int]
) -> None:
    """Closer shares of used resources give a higher score; a pod without requests scores 0."""
    nodes = [node(f"n{i}", allocatable={"cpu": cpu, "memory": memory}) for i, (cpu, memory) in enumerate(sizes)]
    pods = {f"n{i}": [pod(f"on{i}", requests=each)] for i, each in enumerate(taken)}
    seen, wanted = view(nodes, pods), facts(requests=asked)
    assert [balanced_allocation(wanted, state) for state in seen.nodes.values()] == expected


@pytest.mark.parametrize(
    ("images", "nodes", "expected"),
    [
        (["40", "250"], [[40, 300, 2000], [250, 10]], [0, 5]),
        (["40", "300"], [[40, 300, 2000], [250, 10]], [7, 0]),
        (["10", "4000"], [[4000, 30], [250, 10]], [100, 0]),
        (["10", "4000"], [[4000, 30], [250, 10], []], [66, 0, 0]),
    ],
    ids=["larger image", "two images on one node", "limit", "three nodes"],
)
def test_image_locality(images: Sequence[str], nodes: Sequence[Sequence[int]], expected: Sequence[int]) -> None:
    """Large images that a node already has raise its score, less so if few nodes have them."""
    made = [
        node(f"n{index}", images={f"example/{size}:latest": size * MIB for size in sizes})
        for index, sizes in enumerate(nodes)
    ]
    seen = view(made)
    wanted = pod(containers=[{"name": f"c{name}", "image": f"example/{name}"} for name in images])
    assert [image_locality(wanted, state, seen) for state in seen.nodes.values()] == expected


@pytest.mark.parametrize(
    ("keys", "skew", "counts", "candidates", "expected"),
    [
        ([HOST_NAME], 1, [0, 0], "ab", [100, 100]),
        ([HOST_NAME], 1, [2, 1], "a", [100]),
        ([HOST_NAME], 1, [2, 1, 0, 3], "abxy", [20, 60, 100, 0]),
        ([HOST_NAME], 2, [2, 1, 0, 3], "abxy", [33, 66, 100, 16]),
        ([HOST_NAME], 3, [4, 3, 2, 1], "abxy", [44, 66, 77, 100]),
        ([HOST_NAME], 1, [4, 2, 1, 3], "abx", [33, 83, 100]),
        (["zone"], 1, [4, 2, 1, 3], "abx", [75, 75, 100]),
        (["zone", HOST_NAME], 1, [2, 1, 2, 4], "ax", [100, 63]),
    ],
    ids=["no pods", "one candidate", "4 nodes", "skew 2", "skew 3", "3 of 4", "zone, 3 of 4", "zone and node, 2 of 4"],
)
def test_soft_spread(
    keys: Sequence[str], skew: int, counts: Sequence[int], candidates: str, expected: Sequence[int]
) -> None:
    """Nodes a and b are in one zone, x and y in another; nodes that are not candidates count for their zone."""
    names = "abxy"[: len(counts)]
    nodes = [node(name, labels={HOST_NAME: name, "zone": "1" if name in "ab" else "2"}) for name in names]
    seen = view(nodes, {name: labelled(count, name, foo="") for name, count in zip(names, counts, strict=True)})
    constraints = [
        {
            "maxSkew": skew,
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchExpressions": [{"key": "foo", "operator": "Exists"}]},
        }
        for key in keys
    ]
    wanted = pod(labels={"foo": ""}, topologySpreadConstraints=constraints)
    assert spread_scores(wanted, [seen.nodes[name] for name in candidates], seen) == expected
