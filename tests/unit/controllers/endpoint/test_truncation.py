"""Endpoints have at most a thousand addresses."""

import pytest

from pykubelet.api.generated.core import EndpointAddress, EndpointSubset
from pykubelet.controllers.endpoint.endpoints_controller import MAX_ADDRESSES, truncate_endpoints


def subset(ready: int, others: int) -> EndpointSubset:
    def addresses(count: int, block: int) -> tuple[EndpointAddress, ...]:
        return tuple(EndpointAddress(ip=f"10.{block}.{number // 256}.{number % 256}") for number in range(count))

    return EndpointSubset(addresses=addresses(ready, 0), not_ready_addresses=addresses(others, 1))


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        pytest.param([(600, 400)], [(600, 400)], id="just as many"),
        pytest.param([(600, 401)], [(600, 400)], id="one not ready too many"),
        pytest.param([(1000, 1)], [(1000, 0)], id="no room for those that are not ready"),
        pytest.param([(1001, 5)], [(1000, 0)], id="one ready too many"),
        pytest.param([(1000, 7), (500, 0)], [(667, 0), (333, 0)], id="ready ones in proportion"),
        pytest.param([(300, 600), (100, 300)], [(300, 400), (100, 200)], id="others in proportion"),
        pytest.param(
            [(700, 0), (700, 0), (700, 0)], [(334, 0), (334, 0), (332, 0)], id="rounded up while there is room"
        ),
    ],
)
def test_ready_addresses_come_first_and_each_subset_in_proportion(
    given: list[tuple[int, int]], kept: list[tuple[int, int]]
) -> None:
    subsets = tuple(subset(*counts) for counts in given)
    left = truncate_endpoints(subsets)
    assert [(len(one.addresses), len(one.not_ready_addresses)) for one in left] == kept
    assert sum(map(sum, kept)) == min(MAX_ADDRESSES, sum(map(sum, given)))
    for before, after in zip(subsets, left, strict=True):
        assert after.addresses == before.addresses[: len(after.addresses)]
        assert after.not_ready_addresses == before.not_ready_addresses[: len(after.not_ready_addresses)]
