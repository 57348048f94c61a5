"""Resource usage: the stats summary, CPU rates and metrics; unknown values are left out."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.generated.core import PodStatus
from pykubelet.api.pods import PodUid
from pykubelet.kubelet.server.handlers import desired_pods, running_pods
from pykubelet.kubelet.stats.machine_usage import FileSystemUsage, MachineReader, MachineUsage
from pykubelet.kubelet.stats.metrics import (
    MetricFamilies,
    StatsReading,
    cadvisor_families,
    metric_page,
    resource_families,
)
from pykubelet.kubelet.stats.provider import CpuRates
from pykubelet.kubelet.stats.summary import summary, total
from pykubelet.runtimes.protocol import ContainerResourceUsage, ContainerState, RuntimeContainer, RuntimePod, Sandbox
from pykubelet.testing.build import pod, static_pod
from pykubelet.testing.virtual_time import ManualClock

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MACHINE = MachineUsage(
    usage=ContainerResourceUsage(
        at=NOW, cpu_nanoseconds=5_000_000_000, memory_bytes=600, working_set_bytes=400, swap_bytes=0
    ),
    cores=2,
    memory_bytes=1000,
    booted_at=NOW,
    page_faults=1,
    major_page_faults=2,
    file_system=FileSystemUsage(capacity_bytes=100, available_bytes=40, used_bytes=55, inodes=10, inodes_free=3),
    max_processes=1000,
    processes=70,
)


def seen(*containers: tuple[str, ContainerState]) -> RuntimePod:
    made = tuple(
        RuntimeContainer(id=f"id-{name}", name=name, state=state, created_at=NOW) for name, state in containers
    )
    return RuntimePod(
        uid=PodUid("u"), namespace="ns", name="web", sandboxes=(Sandbox(id="s", created_at=NOW),), containers=made
    )


RUNNING = seen(("a", ContainerState.RUNNING), ("b", ContainerState.RUNNING), ("old", ContainerState.EXITED))
USAGES = {
    "id-a": ContainerResourceUsage(at=NOW, cpu_nanoseconds=1_500_000_000, working_set_bytes=30),
    "id-b": ContainerResourceUsage(at=NOW, cpu_nanoseconds=500_000_000, working_set_bytes=12),
}


def test_summary_contains_only_known_values() -> None:
    """Running containers with their usage; pod totals only if the usage of all containers is known."""
    page = summary("node-1", MACHINE, [RUNNING], USAGES, lambda _key, _usage: 7)
    assert page["node"]["nodeName"] == "node-1"
    assert page["node"]["memory"]["availableBytes"] == 600
    assert (page["node"]["fs"]["usedBytes"], page["node"]["fs"]["inodesUsed"]) == (55, 7)
    assert page["node"]["rlimit"] == {"time": "2026-01-02T03:04:05Z", "maxpid": 1000, "curproc": 70}
    (told,) = page["pods"]
    assert told["podRef"] == {"name": "web", "namespace": "ns", "uid": "u"}
    assert [one["name"] for one in told["containers"]] == ["a", "b"]
    assert told["cpu"] == {"time": "2026-01-02T03:04:05Z", "usageNanoCores": 14, "usageCoreNanoSeconds": 2_000_000_000}
    assert told["memory"] == {"time": "2026-01-02T03:04:05Z", "workingSetBytes": 42}
    unknown = summary("node-1", MACHINE, [RUNNING], {"id-a": USAGES["id-a"]}, lambda _key, _usage: None)["pods"][0]
    assert "cpu" not in unknown
    assert "cpu" not in unknown["containers"][1]
    assert summary("n", MACHINE, [seen(("a", ContainerState.EXITED))], {}, lambda _key, _usage: None)["pods"] == []


def test_metrics_have_the_names_that_scrapers_know() -> None:
    """The names and timestamps of metrics-server, and the labels of cAdvisor."""
    page = metric_page([MetricFamilies(resource_families(StatsReading(MACHINE, [RUNNING], USAGES)))]).body.decode()
    at = int(NOW.timestamp() * 1000)
    for line in (
        f"node_cpu_usage_seconds_total 5.0 {at}",
        f"node_memory_working_set_bytes 400.0 {at}",
        f'container_cpu_usage_seconds_total{{container="a",namespace="ns",pod="web"}} 1.5 {at}',
        f'container_memory_working_set_bytes{{container="b",namespace="ns",pod="web"}} 12.0 {at}',
        f'pod_cpu_usage_seconds_total{{namespace="ns",pod="web"}} 2.0 {at}',
        "resource_scrape_error 0.0",
    ):
        assert line in page
    assert 'container="old"' not in page
    partly = StatsReading(MACHINE, [RUNNING], {"id-a": USAGES["id-a"]})
    assert (
        "\npod_cpu_usage_seconds_total{" not in metric_page([MetricFamilies(resource_families(partly))]).body.decode()
    )
    machine = metric_page([MetricFamilies(cadvisor_families(StatsReading(MACHINE, [RUNNING], USAGES)))]).body.decode()
    assert "machine_memory_bytes 1000.0" in machine
    assert 'container_memory_working_set_bytes{container="a",id="id-a",image="",name="id-a"' in machine


@given(st.lists(st.tuples(st.integers(1, 100), st.integers(0, 10**12)), min_size=2, max_size=6))
def test_rate_is_what_was_used_since_the_reading_before(steps: list[tuple[int, int]]) -> None:
    """The first reading has no rate."""
    rates, at, used, previous = CpuRates(), NOW, 0, None
    for seconds, more in steps:
        at, used = at + timedelta(seconds=seconds), used + more
        found = rates.nano_cores("c", ContainerResourceUsage(at=at, cpu_nanoseconds=used))
        assert found == (None if previous is None else int(more / seconds))
        previous = used


def test_rate_of_a_container_that_began_anew_is_nothing() -> None:
    """Its counter goes back; readings within one second repeat the previous rate."""
    rates = CpuRates()
    readings = [(0, 100), (10, 50), (10, 60), (20, 10_000_000_050)]
    found = [
        rates.nano_cores("c", ContainerResourceUsage(at=NOW + timedelta(seconds=s), cpu_nanoseconds=n))
        for s, n in readings
    ]
    assert found == [None, 0, 0, 1_000_000_000]
    rates.keep([])
    assert rates.nano_cores("c", ContainerResourceUsage(at=NOW, cpu_nanoseconds=1)) is None


def test_machine_is_read_where_linux_keeps_it(tmp_path: Path) -> None:
    """CPU time without idle time, memory without inactive file cache; missing files give no values."""
    (tmp_path / "proc").mkdir()
    ticks = os.sysconf("SC_CLK_TCK")
    (tmp_path / "proc/stat").write_text(f"cpu  {ticks} 0 {ticks} 99999 5 0 {ticks} 0 0 0\ncpu0 1\nbtime 1767323045\n")
    numbers = {"MemTotal": 1000, "MemFree": 300, "Inactive(file)": 200, "AnonPages": 50, "SwapTotal": 9, "SwapFree": 4}
    (tmp_path / "proc/meminfo").write_text("".join(f"{name}: {number} kB\n" for name, number in numbers.items()))
    (tmp_path / "proc/vmstat").write_text("pgfault 11\npgmajfault 2\n")
    found = MachineReader(data_dir=tmp_path, clock=ManualClock(), root=tmp_path).read()
    usage = found.usage
    assert (usage.cpu_nanoseconds, found.booted_at, found.page_faults) == (3_000_000_000, NOW, 11)
    assert (usage.memory_bytes, usage.working_set_bytes, usage.swap_bytes) == (700 * 1024, 500 * 1024, 5 * 1024)
    assert found.file_system is not None
    assert found.file_system.capacity_bytes > 0
    nothing = MachineReader(data_dir=tmp_path / "none", clock=ManualClock(), root=tmp_path / "none").read()
    assert (nothing.usage.cpu_nanoseconds, nothing.booted_at, nothing.file_system) == (None, None, None)


def test_total_is_known_only_if_all_parts_are() -> None:
    """A field that one container lacks is missing from the sum."""
    whole = total(
        [
            ContainerResourceUsage(at=NOW, cpu_nanoseconds=1, rss_bytes=5),
            ContainerResourceUsage(at=NOW, cpu_nanoseconds=2),
        ]
    )
    assert (whole.cpu_nanoseconds, whole.rss_bytes) == (3, None)


def test_lists_of_pods() -> None:
    """The API's pods have the kubelet's status if they are static; the runtime's list has only running containers."""
    ours = PodStatus(phase="Running")
    listed = desired_pods([static_pod("s"), pod("p")], lambda _uid: ours)
    assert [item.status.phase for item in listed["items"]] == ["Running", "Pending"]
    assert (listed["kind"], listed["apiVersion"]) == ("PodList", "v1")
    running = running_pods([RUNNING, seen(("a", ContainerState.EXITED))])["items"]
    assert [(item["metadata"]["name"], len(item["spec"]["containers"])) for item in running] == [("web", 2)]
