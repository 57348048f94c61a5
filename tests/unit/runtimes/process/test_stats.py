"""Resource usage from the kernel: process trees, cgroups, and unknown values."""

import os
from datetime import UTC, datetime
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pykubelet.runtimes.process.cgroups import CPU, MEMORY, NO_CGROUPS, AvailableCgroups
from pykubelet.runtimes.process.shim.processes import ProcessIdentity
from pykubelet.runtimes.process.stats import (
    ProcessStat,
    ResidentMemory,
    UsageReader,
    combined,
    cpu_nanoseconds,
    group_usage,
    members,
    parse_process,
    parse_resident,
    processes_usage,
)
from pykubelet.runtimes.protocol import ContainerResourceUsage

NOW = datetime(2026, 1, 2, tzinfo=UTC)
STAT = "7 (a ) b) S 5 7 7 0 -1 4194560 9 8 0 0 11 12 13 14 20 0 1 0 777 1000 30"


def test_processes_are_read_whatever_their_names() -> None:
    """A name may contain parentheses and spaces."""
    assert parse_process(STAT) == ProcessStat(parent=5, ticks=23, ended_children_ticks=27, start_ticks=777)
    assert parse_resident("100 30 10 1 0 20 0\n", 4096) == ResidentMemory(30 * 4096, 10 * 4096)


def test_time_is_that_of_all_below_the_supervisor_and_of_those_that_ended() -> None:
    """The supervisor's own time is not counted."""
    supervisor, main, child = ProcessStat(1, 1000, 5, 0), ProcessStat(2, 10, 3, 0), ProcessStat(3, 20, 0, 0)
    assert cpu_nanoseconds(supervisor, [main, child], 100) == 380_000_000


def test_memory_without_a_group_counts_what_is_shared_once() -> None:
    """Memory shared by forked workers is counted once."""
    found = processes_usage(7, [ResidentMemory(100, 60), ResidentMemory(90, 50)], NOW)
    assert found == ContainerResourceUsage(
        at=NOW, cpu_nanoseconds=7, memory_bytes=140, working_set_bytes=140, rss_bytes=80
    )
    assert processes_usage(7, [], NOW).memory_bytes == 0


def test_groups_of_both_versions_are_understood() -> None:
    """The working set is the usage minus inactive file cache."""
    second = group_usage(
        {
            "cpu.stat": "usage_usec 5\nuser_usec 3\n",
            "memory.current": "1000\n",
            "memory.stat": "anon 300\ninactive_file 400\n",
            "memory.swap.current": "0\n",
        },
        NOW,
    )
    assert second == ContainerResourceUsage(
        at=NOW, cpu_nanoseconds=5000, memory_bytes=1000, working_set_bytes=600, rss_bytes=300, swap_bytes=0
    )
    first = group_usage(
        {
            "cpuacct.usage": "5000\n",
            "cpu.stat": "nr_periods 0\n",
            "memory.usage_in_bytes": "1000\n",
            "memory.stat": "inactive_file 1\ntotal_inactive_file 400\ntotal_rss 300\n",
        },
        NOW,
    )
    assert first == ContainerResourceUsage(
        at=NOW, cpu_nanoseconds=5000, memory_bytes=1000, working_set_bytes=600, rss_bytes=300
    )


def test_values_missing_from_a_cgroup_come_from_its_processes() -> None:
    """Only one of the two controllers may be available."""
    processes = ContainerResourceUsage(at=NOW, cpu_nanoseconds=9, memory_bytes=8, working_set_bytes=7, rss_bytes=6)
    only_cpu, only_memory = (
        ContainerResourceUsage(at=NOW, cpu_nanoseconds=1),
        ContainerResourceUsage(at=NOW, memory_bytes=2, working_set_bytes=1),
    )
    assert combined(only_cpu, processes) == ContainerResourceUsage(
        at=NOW, cpu_nanoseconds=1, memory_bytes=8, working_set_bytes=7, rss_bytes=6
    )
    assert combined(only_memory, processes) == ContainerResourceUsage(
        at=NOW, cpu_nanoseconds=9, memory_bytes=2, working_set_bytes=1, rss_bytes=None
    )
    assert combined(only_cpu, None) == only_cpu


@given(st.lists(st.integers(0, 30), max_size=30), st.sets(st.integers(1, 31), max_size=5))
def test_members_are_exactly_the_descendants(parents: list[int], supervisors: set[int]) -> None:
    """For any process tree; no process is its own descendant."""
    # Each process is younger than its parent, as in reality.
    processes = {pid: ProcessStat(min(parent, pid - 1), 0, 0, 0) for pid, parent in enumerate(parents, start=1)}

    def ancestors(pid: int) -> set[int]:
        found = set[int]()
        while (process := processes.get(pid)) is not None:
            pid = process.parent
            found.add(pid)
        return found

    expected = {one: {pid for pid in processes if one in ancestors(pid)} for one in supervisors}
    assert {one: set(below) for one, below in members(processes, supervisors).items()} == expected


def write_process(proc: Path, pid: int, parent: int, *, ticks: int = 0, ended: int = 0) -> None:
    (proc / str(pid)).mkdir(parents=True, exist_ok=True)
    fields = f"{ticks} 0 {ended} 0 20 0 1 0 {pid}"
    (proc / str(pid) / "stat").write_text(f"{pid} (sh) S {parent} 1 1 0 -1 0 0 0 0 0 {fields} 0 0")
    (proc / str(pid) / "statm").write_text("0 2 1 0 0 0 0")


def identity(pid: int, start_ticks: int | None = None) -> ProcessIdentity:
    return ProcessIdentity(pid, pid if start_ticks is None else start_ticks, "boot")


def test_time_never_goes_back_and_a_supervisor_of_another_time_is_not_measured(tmp_path: Path) -> None:
    """The time of a child that was not waited for disappears from /proc, but stays counted."""
    write_process(tmp_path, 10, 1, ended=1)
    write_process(tmp_path, 11, 10, ticks=100)
    reader = UsageReader(cgroups=NO_CGROUPS, proc=tmp_path)
    wanted = {"a": identity(10), "old": identity(11, 5), "gone": identity(99)}
    before = reader.read(wanted, NOW)
    assert list(before) == ["a"]
    (tmp_path / "11/stat").unlink()
    assert reader.read(wanted, NOW)["a"].cpu_nanoseconds == before["a"].cpu_nanoseconds
    assert (before["a"].memory_bytes, reader.read({}, NOW)) == (2 * os.sysconf("SC_PAGE_SIZE"), {})


def test_container_with_a_group_is_measured_by_it_alone(tmp_path: Path) -> None:
    """The processes are not read."""
    group = tmp_path / "group/a"
    group.mkdir(parents=True)
    (group / "cpu.stat").write_text("usage_usec 5\n")
    (group / "memory.current").write_text("1000\n")
    folder = str(group.parent)
    reader = UsageReader(
        cgroups=AvailableCgroups(version=2, folders={CPU: folder, MEMORY: folder}), proc=tmp_path / "none"
    )
    found = reader.read({"a": identity(10)}, NOW)
    assert found["a"] == ContainerResourceUsage(at=NOW, cpu_nanoseconds=5000, memory_bytes=1000, working_set_bytes=1000)
