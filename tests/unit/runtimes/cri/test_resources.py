"""Container resources in CRI terms, and the cgroups of pods."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.generated.core import Pod, PodStatus, ResourceRequirements
from pykubelet.runtimes.cri.host import CGROUPFS, SYSTEMD, CriHost, page_size_name, pod_cgroup
from pykubelet.runtimes.cri.resources import (
    container_resources,
    sandbox_overhead,
    sandbox_resources,
)
from pykubelet.runtimes.qos import cpu_quota, cpu_shares
from pykubelet.testing import build

MACHINE = CriHost(memory_bytes=2**30)
WITH_V2 = CriHost(memory_bytes=2**30, has_cgroup_v2=True, has_swap_control=True)


def pod_with(requests: dict[str, str], limits: dict[str, str], **spec: Any) -> Pod:
    resources = ResourceRequirements(requests=requests, limits=limits)
    return build.pod(containers=(build.container(resources=resources),), **spec)


@pytest.mark.parametrize(
    ("requests", "limits", "shares", "quota", "memory"),
    [
        ({}, {}, 2, 0, 0),
        ({"cpu": "250m"}, {}, 256, 0, 0),
        ({}, {"cpu": "500m", "memory": "1Mi"}, 512, 50_000, 2**20),
        ({"cpu": "0"}, {"cpu": "2"}, 2, 200_000, 0),
        ({"cpu": "1m"}, {"cpu": "1m"}, 2, 1000, 0),
        ({"cpu": "1000"}, {}, 262_144, 0, 0),
    ],
    ids=["nothing", "request", "limit stands for request", "request of zero", "least", "most"],
)
def test_container_has_shares_quota_and_memory(
    requests: dict[str, str], limits: dict[str, str], shares: int, quota: int, memory: int
) -> None:
    """A request becomes CPU shares, a CPU limit a quota per period of 100 ms."""
    pod = pod_with(requests, limits)
    found = container_resources(pod, pod.spec.containers[0], MACHINE)
    assert (found.cpu_shares, found.cpu_quota, found.cpu_period) == (shares, quota, 100_000)
    assert found.memory_limit_in_bytes == memory
    assert found.oom_score_adj != 0


@settings(max_examples=100)
@given(st.integers(0, 10**7))
def test_shares_and_quota_stay_within_what_the_kernel_takes(milli_cpu: int) -> None:
    """Shares never shrink when the amount grows."""
    assert 2 <= cpu_shares(milli_cpu) <= 262_144
    assert cpu_shares(milli_cpu) <= cpu_shares(milli_cpu + 1)
    assert cpu_quota(milli_cpu) == 0 if milli_cpu == 0 else cpu_quota(milli_cpu) >= 1000


def test_limits_of_the_whole_pod_hold_where_a_container_has_none() -> None:
    """A container's own limit takes precedence; zero means no limit."""
    whole = ResourceRequirements(limits={"cpu": "2", "memory": "2Mi", "hugepages-2Mi": "4Mi"})
    machine = CriHost(huge_page_sizes=("2MB",))
    without = pod_with({}, {"cpu": "0"}, resources=whole)
    found = container_resources(without, without.spec.containers[0], machine)
    assert (found.cpu_quota, found.memory_limit_in_bytes) == (200_000, 2 * 2**20)
    assert [(one.page_size, one.limit) for one in found.hugepage_limits] == [("2MB", 4 * 2**20)]
    own = pod_with({}, {"cpu": "1", "memory": "1Mi", "hugepages-2Mi": "2Mi"}, resources=whole)
    found = container_resources(own, own.spec.containers[0], machine)
    assert (found.cpu_quota, found.memory_limit_in_bytes) == (100_000, 2**20)
    assert found.hugepage_limits[0].limit == 2 * 2**20


def test_huge_pages_without_a_limit_are_forbidden() -> None:
    """There is one limit for each page size of the node, and none for other sizes."""
    pod = pod_with({}, {"hugepages-2Mi": "8Mi", "hugepages-64Ki": "64Ki"})
    machine = CriHost(huge_page_sizes=("1GB", "2MB"))
    found = container_resources(pod, pod.spec.containers[0], machine)
    assert [(one.page_size, one.limit) for one in found.hugepage_limits] == [("1GB", 0), ("2MB", 8 * 2**20)]


@pytest.mark.parametrize(("size", "name"), [(64 * 1024, "64KB"), (2**21, "2MB"), (2**30, "1GB"), (512, "512B")])
def test_size_of_pages_has_the_kernels_name(size: int, name: str) -> None:
    """The name uses the largest fitting unit."""
    assert page_size_name(size) == name


@pytest.mark.parametrize(
    ("machine", "unified", "swap"),
    [
        (MACHINE, {}, 0),
        (CriHost(has_swap_control=True), {}, 2**20),
        (CriHost(has_cgroup_v2=True), {"memory.oom.group": "1"}, 0),
        (WITH_V2, {"memory.oom.group": "1", "memory.swap.max": "0"}, 0),
    ],
    ids=["v1", "v1 with swap", "v2", "v2 with swap"],
)
def test_container_has_no_swap_and_ends_as_a_whole(machine: CriHost, unified: dict[str, str], swap: int) -> None:
    """As far as the cgroup version supports it."""
    pod = pod_with({}, {"memory": "1Mi"})
    found = container_resources(pod, pod.spec.containers[0], machine)
    assert (dict(found.unified), found.memory_swap_limit_in_bytes) == (unified, swap)


def test_sandbox_has_the_sum_and_its_overhead_apart() -> None:
    """An init container counts if it needs more than all other containers together."""
    big = build.container("big", resources=ResourceRequirements(requests={"cpu": "3"}))
    pod = pod_with({"cpu": "1"}, {"cpu": "2", "memory": "1Mi"}, init_containers=(big,), overhead={"cpu": "100m"})
    found, overhead = sandbox_resources(pod, MACHINE), sandbox_overhead(pod, MACHINE)
    assert (found.cpu_shares, found.cpu_quota, found.memory_limit_in_bytes) == (3072, 200_000, 2**20)
    assert (overhead.cpu_shares, overhead.cpu_quota, overhead.memory_limit_in_bytes) == (102, 10_000, 0)
    assert sandbox_overhead(pod_with({}, {}), MACHINE).cpu_shares == 0


@pytest.mark.parametrize(
    ("quality", "driver", "root", "expected"),
    [
        ("Guaranteed", CGROUPFS, "/", "/kubepods/poda-1"),
        ("Burstable", CGROUPFS, "/", "/kubepods/burstable/poda-1"),
        ("BestEffort", CGROUPFS, "/lab", "/lab/kubepods/besteffort/poda-1"),
        ("Guaranteed", SYSTEMD, "/", "/kubepods.slice/kubepods-poda_1.slice"),
        (
            "Burstable",
            SYSTEMD,
            "/",
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poda_1.slice",
        ),
    ],
)
def test_pod_has_a_cgroup_by_its_class(quality: str, driver: str, root: str, expected: str) -> None:
    """The path is the one of the Go kubelet."""
    pod = build.pod(uid="a-1", status=PodStatus(qos_class=quality))
    assert pod_cgroup(pod, driver=driver, root=root) == expected


def test_qos_class_without_a_status_is_computed_from_the_spec() -> None:
    """Static pods have no QoS class in their status yet."""
    pod = pod_with({"cpu": "1"}, {})
    assert pod_cgroup(pod, driver=CGROUPFS) == f"/kubepods/burstable/pod{pod.metadata.uid}"
