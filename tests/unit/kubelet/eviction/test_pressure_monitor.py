"""Node pressure: thresholds, how long a condition lasts, and what is measured."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.quantity import QuantityOrPercentage, parse_quantity_or_percentage
from pykubelet.kubelet.eviction.pressure_monitor import (
    LinuxSignals,
    PressureMonitor,
    PressureState,
    next_pressure_state,
)
from pykubelet.kubelet.eviction.thresholds import (
    CONDITIONS,
    DEFAULT_THRESHOLDS,
    Observation,
    Threshold,
    kept_free,
    met_thresholds,
    parse_thresholds,
)
from pykubelet.runtimes.protocol import FileSystem, RuntimeFailure
from pykubelet.testing.virtual_time import VirtualClock

MIB = 2**20
PLENTY = {"memory.available": Observation(500 * MIB, 1000 * MIB), "nodefs.available": Observation(50, 100)}


@pytest.mark.parametrize(
    ("signal", "available", "is_short"),
    [
        ("memory.available", 100 * MIB - 1, True),
        ("memory.available", 100 * MIB, False),
        ("nodefs.available", 99, True),
        ("nodefs.available", 100, False),
        ("nodefs.inodesFree", 49, True),
        ("nodefs.inodesFree", 50, False),
        ("imagefs.available", 149, True),
        ("imagefs.available", 150, False),
        ("pid.available", 0, False),
    ],
)
def test_default_thresholds_are_met_by_less_than_their_amount(signal: str, available: int, *, is_short: bool) -> None:
    """Upstream's defaults: 100Mi memory, 10 % of nodefs, 15 % of imagefs, 5 % of inodes, no limit for PIDs."""
    met = met_thresholds(DEFAULT_THRESHOLDS, {signal: Observation(available, 1000)})
    assert [one.signal for one in met] == ([signal] if is_short else [])


def test_threshold_of_a_whole_or_an_empty_share_is_switched_off() -> None:
    """Other thresholds beside it stay in effect, as upstream."""
    assert parse_thresholds({"nodefs.available": "0%", "imagefs.available": "100%", "pid.available": "10%"}) == (
        Threshold(signal="pid.available", value=parse_quantity_or_percentage("10%")),
    )


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ({"cpu.available": "1"}, "unsupported eviction signal cpu.available"),
        ({"memory.available": "-1Mi"}, "must be positive"),
        ({"memory.available": "many"}, "quantities must match"),
        ({"nodefs.available": "-1%"}, "must be >= 0%"),
        ({"nodefs.available": "101%"}, "must be <= 100%"),
        ({"nodefs.available": "a%"}, "could not convert"),
        ({"nodefs.available": "nan%"}, "must be >= 0%"),
        ({"nodefs.available": "1e99%"}, "must be <= 100%"),
    ],
    ids=["signal", "negative", "word", "below", "above", "no number", "not a number", "too large"],
)
def test_invalid_threshold_is_refused(statement: Mapping[str, str], why: str) -> None:
    """The error names the mistake."""
    with pytest.raises(ValueError, match=why):
        parse_thresholds(statement)


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ({"soft": {"memory.available": "1Gi"}}, "grace period must be specified for the soft .* memory.available"),
        ({"soft_grace_seconds": {"memory.available": -1}}, "invalid eviction grace period specified: -1"),
        ({"soft_grace_seconds": {"cpu": 1}}, "unsupported eviction signal cpu"),
        ({"minimum_reclaim": {"memory.available": "-1"}}, "negative eviction minimum reclaim"),
        ({"minimum_reclaim": {"memory.available": "0%"}}, "must be positive: 0%"),
        ({"minimum_reclaim": {"memory.available": "1e99%"}}, "must be positive: 1e99%"),
        ({"minimum_reclaim": {"cpu": "1"}}, "unsupported eviction signal cpu"),
    ],
    ids=[
        "no grace",
        "negative grace",
        "grace of what",
        "negative reclaim",
        "empty reclaim",
        "endless reclaim",
        "reclaim of what",
    ],
)
def test_invalid_eviction_rules_are_refused(rules: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_thresholds({}, **rules)


def test_soft_thresholds_and_minimum_reclaims_are_read() -> None:
    """A minimum reclaim applies to every threshold of its signal; only hard memory and disk thresholds are reserved."""
    hard, soft = parse_thresholds(
        {"memory.available": "100Mi"},
        soft={"memory.available": "10%"},
        soft_grace_seconds={"memory.available": 90},
        minimum_reclaim={"memory.available": "5%"},
    )
    assert (hard.is_hard, soft.is_hard, soft.grace_seconds) == (True, False, 90)
    assert hard.min_reclaim == soft.min_reclaim == parse_quantity_or_percentage("5%")
    assert kept_free([hard, soft]) == {"memory": parse_quantity_or_percentage("100Mi")}
    assert set(kept_free(DEFAULT_THRESHOLDS)) == {"memory", "ephemeral-storage"}


def test_threshold_calls_for_eviction_until_its_minimum_is_reclaimed() -> None:
    """An amount between threshold and minimum reclaim is starved only if the threshold was crossed before."""
    rules = parse_thresholds({"memory.available": "100"}, minimum_reclaim={"memory.available": "50"})
    between, enough = {"memory.available": Observation(120, 1000)}, {"memory.available": Observation(150, 1000)}
    assert next_pressure_state(PressureState(), rules, between, 0.0).starved == ()
    short = next_pressure_state(PressureState(), rules, {"memory.available": Observation(99, 1000)}, 0.0)
    lasting = next_pressure_state(short, rules, between, 10.0)
    assert (lasting.starved, lasting.seen_at) == (rules, {"MemoryPressure": 10.0})
    assert next_pressure_state(lasting, rules, enough, 20.0).starved == ()
    assert next_pressure_state(lasting, rules, {}, 20.0).starved == ()


def test_pressure_stays_for_its_transition_period_after_it_was_last_seen() -> None:
    """The condition appears at once and ends five minutes after the last measurement that met the threshold."""
    short = {"memory.available": Observation(MIB, 1000 * MIB)}
    first = next_pressure_state(PressureState(), DEFAULT_THRESHOLDS, short, 0.0)
    assert first.conditions == ("MemoryPressure",)
    again = next_pressure_state(first, DEFAULT_THRESHOLDS, short, 10.0)
    assert again.met_since == {DEFAULT_THRESHOLDS[0]: 0.0}
    lasting = next_pressure_state(again, DEFAULT_THRESHOLDS, PLENTY, 309.0)
    assert (lasting.conditions, lasting.starved) == (("MemoryPressure",), ())
    assert next_pressure_state(lasting, DEFAULT_THRESHOLDS, PLENTY, 310.0).conditions == ()


def test_soft_threshold_calls_for_eviction_only_after_its_grace() -> None:
    """The condition appears at once; a recovery restarts the grace period."""
    soft = Threshold(signal="pid.available", value=QuantityOrPercentage(share=0.5), grace_seconds=20)
    short, plenty = {"pid.available": Observation(1, 100)}, {"pid.available": Observation(99, 100)}
    now = next_pressure_state(PressureState(), [soft], short, 0.0)
    assert (now.conditions, now.starved) == (("PIDPressure",), ())
    assert next_pressure_state(now, [soft], short, 20.0).starved == (soft,)
    broken = next_pressure_state(next_pressure_state(now, [soft], plenty, 10.0), [soft], short, 20.0)
    assert broken.starved == ()


@given(
    looks=st.lists(
        st.tuples(st.floats(0.1, 200), st.dictionaries(st.sampled_from(sorted(CONDITIONS)), st.integers(0, 40))),
        max_size=12,
    )
)
def test_condition_holds_exactly_while_it_was_seen_within_the_period(
    looks: list[tuple[float, dict[str, int]]],
) -> None:
    """The incremental state agrees with a model that remembers every measurement."""
    thresholds = parse_thresholds(dict.fromkeys(CONDITIONS, "10%"))
    judgement, now, seen = PressureState(), 0.0, dict[str, float]()
    for pause, amounts in looks:
        now += pause
        judgement = next_pressure_state(
            judgement, thresholds, {name: Observation(n, 100) for name, n in amounts.items()}, now
        )
        seen |= {CONDITIONS[name]: now for name, amount in amounts.items() if amount < 10}
        assert set(judgement.conditions) == {name for name, at in seen.items() if now - at < 300}
        assert {one.signal for one in judgement.starved} == {name for name, n in amounts.items() if n < 10}


class Scripted:
    """A machine whose measurements are set by the test."""

    def __init__(self) -> None:
        self.observed = PLENTY
        self.reads = 0

    def read(self) -> Mapping[str, Observation]:
        self.reads += 1
        return self.observed


async def test_monitor_reports_changes_only_and_measures_every_ten_seconds() -> None:
    """It measures at once and reports nothing while the conditions stay the same."""
    machine, told = Scripted(), list[tuple[str, ...]]()
    watch = PressureMonitor(reader=machine, changed=told.append, clock=VirtualClock())
    ready = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(watch.run(ready))
        await ready.wait()
        assert told == []
        await asyncio.sleep(95)
        assert machine.reads == 10
        machine.observed = {"nodefs.available": Observation(1, 100)}
        await asyncio.sleep(25)
        assert told == [("DiskPressure",)]
        assert [one.signal for one in watch.state.starved] == ["nodefs.available"]
        machine.observed = PLENTY
        await asyncio.sleep(300)
        assert told == [("DiskPressure",), ()]
        task.cancel()


async def test_undisturbed_pressure_ends_soon_and_one_with_an_eviction_after_the_transition_period() -> None:
    """While a condition holds, it is measured every two seconds."""
    machine, told = Scripted(), list[tuple[str, ...]]()
    watch = PressureMonitor(reader=machine, changed=told.append, clock=VirtualClock(), undisturbed_seconds=5)
    machine.observed = {"nodefs.available": Observation(1, 100)}
    async with asyncio.TaskGroup() as group:
        task = group.create_task(watch.run(asyncio.Event()))
        await asyncio.sleep(1)
        machine.observed = PLENTY
        await asyncio.sleep(9)
        assert told == [("DiskPressure",), ()]
        machine.observed = {"nodefs.available": Observation(1, 100)}
        await asyncio.sleep(11)
        watch.note_eviction()
        machine.observed = PLENTY
        await asyncio.sleep(290)
        assert told == [("DiskPressure",), (), ("DiskPressure",)]
        await asyncio.sleep(20)
        assert told[-1] == ()
        task.cancel()


class ImageDisk:
    """The image file system, set by the test. Implements ImageFs."""

    def __init__(self) -> None:
        self.found: FileSystem | None = FileSystem(device=7, capacity_bytes=100, available_bytes=14)

    async def image_file_system(self) -> FileSystem:
        if self.found is None:
            raise RuntimeFailure("no answer")
        return self.found


@pytest.mark.parametrize(("node_device", "is_dedicated"), [(7, False), (8, True), (None, False)])
async def test_file_system_of_images_counts_too(node_device: int | None, *, is_dedicated: bool) -> None:
    """On a dedicated disk or the node's; while the runtime does not answer, it is not short."""
    disk = ImageDisk()
    watch = PressureMonitor(
        reader=Scripted(), changed=lambda _: None, clock=VirtualClock(), image_fs=disk, node_device=node_device
    )
    await watch.measure()
    assert (watch.state.conditions, watch.has_image_fs) == (("DiskPressure",), is_dedicated)
    assert watch.shortage is not None
    assert (watch.shortage.first.signal, watch.shortage.has_image_fs) == ("imagefs.available", is_dedicated)
    assert not await watch.is_relieved()
    disk.found = None
    await watch.measure()
    assert watch.shortage is None
    disk.found = FileSystem(device=7, capacity_bytes=100, available_bytes=50, inodes=100, inodes_free=4)
    await watch.measure()
    assert [one.signal for one in watch.state.starved] == ["imagefs.inodesFree"]


def test_linux_is_read_where_it_keeps_its_numbers(tmp_path: Path) -> None:
    """Reads MemAvailable, the lower of the two task limits, and the file system of the data directory."""
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemTotal:  4000 kB\nMemFree:  10 kB\nMemAvailable:  1000 kB\n")
    (tmp_path / "proc/loadavg").write_text("0.00 0.01 0.05 1/300 4242\n")
    (tmp_path / "proc/sys/kernel/pid_max").write_text("4194304\n")
    (tmp_path / "proc/sys/kernel/threads-max").write_text("1000\n")
    found = LinuxSignals(data_dir=tmp_path, root=tmp_path).read()
    assert found["memory.available"] == Observation(1000 * 1024, 4000 * 1024)
    assert found["pid.available"] == Observation(700, 1000)
    assert 0 < found["nodefs.available"].available < found["nodefs.available"].capacity


def test_what_cannot_be_measured_is_not_short(tmp_path: Path) -> None:
    found = LinuxSignals(data_dir=tmp_path / "gone", root=tmp_path / "gone").read()
    assert (found, next_pressure_state(PressureState(), DEFAULT_THRESHOLDS, found, 0.0).conditions) == ({}, ())
