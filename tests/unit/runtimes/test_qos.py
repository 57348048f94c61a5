"""The OOM score adjustment of containers."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.generated.core import Container, Pod, ResourceRequirements
from pykubelet.runtimes.qos import oom_score_adjustment
from pykubelet.testing import build

ALL = 8_000_000_000
EIGHTH = str(ALL // 8)


def container(name: str = "main", *, memory: str = "", limits: dict[str, str] | None = None, **rest: Any) -> Container:
    requests = {"memory": memory} if memory else {}
    resources = ResourceRequirements(requests=requests, limits=limits or {})
    return Container(name=name, image="example/image:1", resources=resources, **rest)


def pod(*containers: Container, **spec: Any) -> Pod:
    return build.pod(containers=containers, **spec)


def scores(made: Pod) -> dict[str, int]:
    listed = (*made.spec.init_containers, *made.spec.containers)
    return {one.name: oom_score_adjustment(made, one, ALL) for one in listed}


BOTH = {"cpu": "5m", "memory": "1G"}
GUARANTEED = Container(name="main", resources=ResourceRequirements(requests=BOTH, limits=BOTH))
WHOLE_POD = ResourceRequirements(requests={"memory": str(ALL // 4)})


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (pod(container()), {"main": 1000}),
        (pod(container(), priority=2_000_000_000, priority_class_name="system-cluster-critical"), {"main": 1000}),
        (pod(container(), priority=2_000_001_000, priority_class_name="system-node-critical"), {"main": -997}),
        (pod(GUARANTEED), {"main": -997}),
        (pod(container(limits={"cpu": "1"})), {"main": 999}),
        (pod(container(memory=str(ALL // 2))), {"main": 500}),
        (pod(container(memory=str(ALL - 1))), {"main": 3}),
        (pod(container(memory=EIGHTH), container("other", limits={"cpu": "1"})), {"main": 875, "other": 999}),
        (pod(container(), container("other"), resources=WHOLE_POD), {"main": 875, "other": 875}),
        (pod(container(memory=EIGHTH), container("other"), resources=WHOLE_POD), {"main": 813, "other": 938}),
    ],
    ids=[
        "best effort",
        "cluster critical",
        "node critical",
        "guaranteed",
        "no memory asked for",
        "half",
        "all",
        "two",
        "whole pod",
        "rest of the pod",
    ],
)
def test_score_follows_quality_of_service_and_request(made: Pod, expected: dict[str, int]) -> None:
    """The numbers are upstream's."""
    assert scores(made) == expected


@pytest.mark.parametrize(("asked", "score"), [(str(ALL // 20), 875), (EIGHTH, 875), (str(ALL // 2), 500)])
def test_sidecar_goes_no_earlier_than_those_it_is_there_for(asked: str, score: int) -> None:
    """A small sidecar gets the lowest score of the regular containers; an ordinary init container does not."""
    init = (container("side", memory=asked, restart_policy="Always"), container("first", memory=str(ALL // 20)))
    made = pod(container(memory=EIGHTH), init_containers=init)
    assert scores(made) == {"side": score, "first": 950, "main": 875}


@given(st.integers(1, 2 * ALL), st.integers(1, 2 * ALL))
def test_larger_request_never_has_a_higher_score(less: int, more: int) -> None:
    """Every burstable container is between guaranteed and best effort."""
    less, more = sorted((less, more))
    first, second = (scores(pod(container(memory=str(amount))))["main"] for amount in (less, more))
    assert 3 <= second <= first <= 999
