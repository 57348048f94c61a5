"""Requests and limits as text, with cases of helpers_test.go and kubelet_resources_test.go."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.generated.core import ResourceFieldSelector
from pykubelet.kubelet.volumemanager.downward_api import UnknownResourceField, file_value, variable_value
from volume_pods import container, pod_with

NODE = {"cpu": "6", "memory": "4Gi", "ephemeral-storage": "100Gi"}
LIMITED = {"name": "limited", "resources": {"limits": {"cpu": "150m", "memory": "256Mi", "hugepages-2Mi": "4Mi"}}}
LOOSE = {"name": "loose", "resources": {"requests": {"cpu": "0.1", "memory": "1.5Gi", "ephemeral-storage": "1G"}}}
POD = pod_with(containers=[LIMITED, LOOSE], initContainers=[{"name": "early"}])

VALUES = [
    ("limited", "limits.cpu", "", "1"),
    ("limited", "limits.cpu", "1m", "150"),
    ("limited", "limits.memory", "", str(256 * 2**20)),
    ("limited", "limits.memory", "1Mi", "256"),
    ("limited", "limits.memory", "1Gi", "1"),
    ("limited", "limits.ephemeral-storage", "1Gi", "100"),
    ("limited", "limits.hugepages-2Mi", "1Mi", "4"),
    ("limited", "requests.cpu", "", "0"),
    ("loose", "limits.cpu", "", "6"),
    ("loose", "limits.memory", "1Mi", "4096"),
    ("loose", "limits.hugepages-2Mi", "", "0"),
    ("loose", "requests.cpu", "1m", "100"),
    ("loose", "requests.memory", "1Gi", "2"),
    ("loose", "requests.ephemeral-storage", "1M", "1000"),
    ("loose", "requests.hugepages-1Gi", "", "0"),
]


def selector(name: str, resource: str, divisor: str) -> ResourceFieldSelector:
    return ResourceFieldSelector(container_name=name, resource=resource, divisor=divisor)


@pytest.mark.parametrize(("name", "resource", "divisor", "value"), VALUES)
def test_resource_has_its_value(name: str, resource: str, divisor: str, value: str) -> None:
    """In units of the divisor, rounded up; a missing limit is the node's. Files and variables agree."""
    assert file_value(selector(name, resource, divisor), POD, NODE) == value
    assert variable_value(selector(name, resource, divisor), POD, container(), NODE) == value


def test_variable_without_container_name_is_about_its_own() -> None:
    """Most variables are written without one."""
    own = container(resources={"limits": {"cpu": "2"}})
    assert variable_value(selector("", "limits.cpu", ""), POD, own, NODE) == "2"
    assert variable_value(selector("", "limits.memory", "1Gi"), POD, own, NODE) == "4"


def test_init_container_named_by_a_variable_has_no_default_limits() -> None:
    """As upstream: variables have default limits for regular containers only, files for all."""
    assert variable_value(selector("early", "limits.cpu", ""), POD, container(), NODE) == "0"
    assert file_value(selector("early", "limits.cpu", ""), POD, NODE) == "6"


def test_limits_of_the_whole_pod_bound_those_of_its_containers() -> None:
    """For CPU and memory, and at most what the node has."""
    pod = pod_with(resources={"limits": {"cpu": "3", "memory": "1Gi"}})
    assert variable_value(selector("", "limits.cpu", ""), pod, container(), NODE) == "3"
    assert variable_value(selector("", "limits.memory", "1Gi"), pod, container(), {}) == "0"


@pytest.mark.parametrize("resource", ["limits.gpu", "cpu", "spec.cpu", "requests."])
def test_resource_is_refused_when_it_is_unknown(resource: str) -> None:
    """The error is upstream's, including its extra space."""
    with pytest.raises(UnknownResourceField, match=f"^unsupported container resource : {resource}$"):
        file_value(selector("loose", resource, ""), POD, NODE)


def test_container_is_refused_when_there_is_none_of_that_name() -> None:
    """The error names the missing container."""
    with pytest.raises(UnknownResourceField, match=r"^container nobody not found$"):
        file_value(selector("nobody", "limits.cpu", ""), POD, NODE)


@settings(max_examples=100)
@given(st.integers(0, 2**40), st.sampled_from([("1", 1), ("1k", 1000), ("1Ki", 1024), ("1Mi", 2**20), ("", 1)]))
def test_quotient_is_rounded_up(amount: int, divisor: tuple[str, int]) -> None:
    """A program never gets a value of zero for an amount above zero."""
    limits: dict[str, Any] = {"name": "main", "resources": {"limits": {"memory": str(amount)}}}
    text = file_value(selector("main", "limits.memory", divisor[0]), pod_with(containers=[limits]), {})
    assert int(text) == math.ceil(amount / divisor[1])
