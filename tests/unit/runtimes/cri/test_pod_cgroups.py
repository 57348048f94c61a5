"""The resource limits of whole pods, and their cgroups."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.generated.core import Pod, ResourceRequirements
from pykubelet.api.pods import PodUid
from pykubelet.runtimes.cri.host import SYSTEMD, CriHost, pod_cgroup, possible_pod_cgroups
from pykubelet.runtimes.cri.resources import PodCgroups, pod_cgroup_values
from pykubelet.testing import build

FULL = ResourceRequirements(requests={"cpu": "250m"}, limits={"cpu": "500m", "memory": "2Mi"})


def pod_of(*resources: ResourceRequirements, **spec: Any) -> Pod:
    containers = tuple(build.container(f"c{number}", resources=one) for number, one in enumerate(resources))
    return build.pod(containers=containers, **spec)


def written(pod: Pod, *, has_cgroup_v2: bool = False) -> dict[str, str]:
    return {file: value for _, file, value in pod_cgroup_values(pod, has_cgroup_v2=has_cgroup_v2)}


@pytest.mark.parametrize(
    ("pod", "shares", "quota", "memory"),
    [
        (pod_of(ResourceRequirements()), "2", None, None),
        (pod_of(FULL, FULL), "512", "100000", str(4 * 2**20)),
        (pod_of(FULL, ResourceRequirements(limits={"cpu": "1"})), "256", "150000", None),
        (pod_of(FULL, ResourceRequirements()), "256", None, None),
        (pod_of(FULL, overhead={"cpu": "500m", "memory": "1Mi"}), "768", "100000", str(3 * 2**20)),
        (
            pod_of(FULL, ResourceRequirements(), resources=ResourceRequirements(limits={"memory": "9Mi"})),
            "256",
            None,
            str(9 * 2**20),
        ),
    ],
    ids=["best effort", "all limited", "CPU limited", "one without limits", "overhead", "whole pod"],
)
def test_pod_has_the_sum_of_its_containers(pod: Pod, shares: str, quota: str | None, memory: str | None) -> None:
    """A pod has a limit only if all its containers do; pod-level resources take precedence."""
    found = written(pod)
    assert found["cpu.shares"] == shares
    assert (found.get("cpu.cfs_quota_us"), found.get("memory.limit_in_bytes")) == (quota, memory)
    newer = written(pod, has_cgroup_v2=True)
    assert newer.get("cpu.max") == (f"{quota} 100000" if quota is not None else None)
    assert newer.get("memory.max") == memory


@pytest.mark.parametrize(("has_cgroup_v2", "controller"), [(True, ""), (False, "pids")])
def test_pod_may_have_so_many_processes(has_cgroup_v2: bool, controller: str) -> None:
    """The limit covers all containers of the pod; zero or less means no limit."""
    limited = pod_cgroup_values(pod_of(FULL), has_cgroup_v2=has_cgroup_v2, max_pids=100)
    assert limited[-1] == (controller, "pids.max", "100")
    for unlimited in (0, -1):
        found = pod_cgroup_values(pod_of(FULL), has_cgroup_v2=has_cgroup_v2, max_pids=unlimited)
        assert found == limited[:-1]


@settings(max_examples=50)
@given(st.integers(0, 10**6))
def test_weight_of_the_newer_cgroups_is_within_its_range(milli_cpu: int) -> None:
    """The range of cpu.weight is 1 to 10000."""
    found = written(pod_of(ResourceRequirements(requests={"cpu": f"{milli_cpu}m"})), has_cgroup_v2=True)
    assert 1 <= int(found["cpu.weight"]) <= 10_000


def test_cgroup_of_a_pod_is_one_of_those_it_may_be() -> None:
    """A pod's cgroup can be found by its UID alone."""
    for pod in (pod_of(FULL), pod_of(ResourceRequirements())):
        for driver in (SYSTEMD, "cgroupfs"):
            assert pod_cgroup(pod, driver=driver) in possible_pod_cgroups(pod.metadata.uid, driver=driver)


def test_cgroups_are_made_in_each_hierarchy_and_taken_away(tmp_path: Path) -> None:
    """The test deletes the files itself; in a real hierarchy they do not prevent the removal."""
    for controller in ("cpu", "memory", "pids"):
        (tmp_path / controller).mkdir()
    cgroups, pod = PodCgroups(CriHost(), tmp_path), pod_of(FULL)
    cgroups.make(pod)
    path = f"kubepods/burstable/pod{pod.metadata.uid}"
    assert (tmp_path / "memory" / path / "memory.limit_in_bytes").read_text() == str(2 * 2**20)
    assert (tmp_path / "cpu" / path / "cpu.shares").read_text() == "256"
    (tmp_path / "pids" / path).mkdir(parents=True)
    for file in [*tmp_path.glob(f"*/{path}/*")]:
        file.unlink()
    cgroups.remove(pod.metadata.uid)
    assert list(tmp_path.glob(f"*/{path}")) == []


def test_newer_cgroups_hand_on_their_controllers(tmp_path: Path) -> None:
    """Each folder delegates to the folders below it."""
    cgroups, pod = PodCgroups(CriHost(has_cgroup_v2=True), tmp_path), pod_of(FULL)
    cgroups.make(pod)
    place = tmp_path / f"kubepods/burstable/pod{pod.metadata.uid}"
    assert (place / "cpu.max").read_text() == "50000 100000"
    for folder in (tmp_path, tmp_path / "kubepods", tmp_path / "kubepods/burstable"):
        assert (folder / "cgroup.subtree_control").read_text() == "+pids"
    assert not (place / "cgroup.subtree_control").exists()
    for file in [*place.iterdir()]:
        file.unlink()
    cgroups.remove(pod.metadata.uid)
    assert not place.exists()


def test_pods_that_have_a_cgroup_are_found_and_destroyed(tmp_path: Path) -> None:
    """Whatever their QoS class; other cgroups beside them are not touched."""
    (tmp_path / "own").write_text("0::/system.slice/kubelet\n")
    for path in ("podone/container", "burstable/podtwo", "besteffort/podthree/a/b", "besteffort/other"):
        (tmp_path / "memory/kubepods" / path).mkdir(parents=True)
    cgroups = PodCgroups(CriHost(), tmp_path, tmp_path / "own")
    assert cgroups.pods() == {"one", "two", "three"}
    assert [cgroups.destroy(uid) for uid in cgroups.pods()] == [0, 0, 0]
    assert cgroups.pods() == set()
    assert (tmp_path / "memory/kubepods/besteffort/other").exists()


def test_tree_of_the_kubelet_that_runs_this_one_has_no_pods_of_ours(tmp_path: Path) -> None:
    """A kubelet in a pod shares the cgroup tree with the one outside, unless it has a namespace of its own."""
    (tmp_path / "kubepods/podouter").mkdir(parents=True)
    for own, found in (("0::/kubepods/podouter/c\n", set()), ("0::/kubepods-of-another\n", {"outer"})):
        (tmp_path / "own").write_text(own)
        assert PodCgroups(CriHost(has_cgroup_v2=True), tmp_path, tmp_path / "own").pods() == found


def test_cgroup_in_use_is_not_destroyed(tmp_path: Path) -> None:
    """Its process is in another PID namespace, where we cannot signal it: the kernel shows it as 0."""
    folder = tmp_path / "kubepods/podbusy"
    folder.mkdir(parents=True)
    (folder / "cgroup.procs").write_text("0\n")
    with pytest.raises(OSError, match="busy"):
        PodCgroups(CriHost(has_cgroup_v2=True), tmp_path).destroy(PodUid("busy"))


@pytest.mark.parametrize("driver", [SYSTEMD, "cgroupfs"])
def test_cgroup_that_cannot_be_created_is_no_failure(tmp_path: Path, driver: str) -> None:
    """The hierarchy is not writable, or systemd manages it."""
    (tmp_path / "file").write_text("")
    cgroups = PodCgroups(CriHost(cgroup_driver=driver, has_cgroup_v2=True), tmp_path / "file")
    cgroups.make(pod_of(FULL))
    cgroups.remove("uid")
    assert cgroups.pods() == set()
    assert (tmp_path / "file").read_text() == ""
