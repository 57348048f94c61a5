"""Usage from two readings: windows, restarts, repeated and missing readings."""

from hypothesis import given
from hypothesis import strategies as st

from pykubelet.apiserver.metricsserver.usage import (
    MetricsPoint,
    MetricsWindow,
    NodeUsage,
    moved_window,
    points_of,
    read_usage,
)

PAGE = b"""# HELP container_cpu_usage_seconds_total [STABLE] Cumulative cpu time
# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{container="app",namespace="shop",pod="web-0"} 4.5 1700000000250
container_cpu_usage_seconds_total{container="no-memory",namespace="shop",pod="web-0"} 1 1700000000250
container_memory_working_set_bytes{container="app",namespace="shop",pod="web-0"} 1.2500992e+07 1700000000250
container_start_time_seconds{container="app",namespace="shop",pod="web-0"} 1.69999e+09
node_cpu_usage_seconds_total 357.35 1700000000100
node_memory_working_set_bytes 1.616273408e+09 1700000000100
pod_cpu_usage_seconds_total{namespace="shop",pod="web-0"} 4.7 1700000000250
scrape_error 0
"""
APP = ("shop", "web-0")


def point(at: float, cpu: float = 0.0, started: float = 0.0) -> MetricsPoint:
    return MetricsPoint(at, cpu, 1024, started)


def test_page_of_a_kubelet_is_read_without_what_has_no_memory() -> None:
    assert points_of(PAGE) == {
        ("", "", ""): MetricsPoint(1700000000.1, 357.35, 1616273408),
        (*APP, "app"): MetricsPoint(1700000000.25, 4.5, 12500992, 1.69999e9),
    }


def test_usage_is_the_growth_between_two_readings() -> None:
    first = read_usage(PAGE, NodeUsage())
    assert first.pods[APP]["app"].nano_cores is None
    later = PAGE.replace(b"} 4.5 1700000000250", b"} 12 1700000015250").replace(
        b"357.35 1700000000100", b"360.35 1700000015100"
    )
    second = read_usage(later, first)
    assert second.pods[APP]["app"].nano_cores == 500_000_000
    assert second.pods[APP]["app"].seconds == 15
    assert second.node is not None
    assert second.node.nano_cores == 200_000_000
    assert read_usage(b"", second) == NodeUsage(None, {})


def test_repeated_reading_keeps_the_window() -> None:
    window = moved_window(point(15, 3), MetricsWindow(point(0, 0)))
    assert moved_window(point(15, 3), window) == window


def test_restarted_container_has_no_usage_until_it_is_old_enough() -> None:
    old = MetricsWindow(point(100, 50), point(85, 40))
    assert moved_window(point(115, 1, started=106), old).nano_cores is None
    fresh = moved_window(point(115, 2, started=104), old)
    assert (fresh.nano_cores, fresh.seconds) == (round(2 / 11 * 1e9), 11)
    assert moved_window(point(130, 5, started=104), fresh).before == fresh.last


def test_decreasing_counter_has_no_usage() -> None:
    assert moved_window(point(15, 1), MetricsWindow(point(0, 2))).nano_cores is None


@given(st.lists(st.tuples(st.floats(0.01, 60), st.floats(0, 8)), min_size=2, max_size=20))
def test_usage_of_a_steady_container_is_its_rate(steps: list[tuple[float, float]]) -> None:
    at = cpu = 0.0
    window: MetricsWindow | None = None
    for seconds, rate in steps:
        at, cpu = at + seconds, cpu + seconds * rate
        before, window = window, moved_window(point(at, cpu, started=-100.0), window)
        if before is not None:
            assert window.nano_cores is not None
            assert abs(window.nano_cores - rate * 1e9) < 1e9 * 1e-6 * (1 + cpu / seconds)


NUMBERS = st.sampled_from(["0", "1", "1.5", "1e3", "1e+999", "1e300", "-1", "NaN", "+Inf", "1.2.3", "9" * 400, "", "x"])
TIMES = st.sampled_from(["", " 0", " 1700000000250", " -5", f" {'9' * 30}", " 99999999999999", " x"])


@given(st.lists(st.tuples(st.sampled_from("ab"), NUMBERS, TIMES), max_size=6), NUMBERS, TIMES)
def test_any_page_of_a_node_is_read(rows: list[tuple[str, str, str]], number: str, time: str) -> None:
    """Lines without a possible number are left out; every other container has a usage or none."""
    lines = [f"node_cpu_usage_seconds_total {number}{time}", f"node_memory_working_set_bytes {number}{time}"]
    for name, value, at in rows:
        labels = f'{{container="{name}",namespace="n",pod="p"}}'
        names = ("cpu_usage_seconds_total", "memory_working_set_bytes", "start_time_seconds")
        lines += [f"container_{what}{labels} {value}{at}" for what in names]
    usage = read_usage("\n".join(lines).encode(), read_usage(PAGE, NodeUsage()))
    for window in [*usage.pods.get(("n", "p"), {}).values(), *([usage.node] if usage.node else [])]:
        assert window.nano_cores is None or window.nano_cores >= 0


@given(st.binary(max_size=200))
def test_any_bytes_are_read(page: bytes) -> None:
    assert read_usage(page, NodeUsage()).pods == {}
