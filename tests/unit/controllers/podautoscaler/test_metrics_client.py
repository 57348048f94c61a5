"""Usage read from metrics.k8s.io."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.controllers.podautoscaler.metrics_client import (
    ContainerMetricsItem,
    PodMetricsItem,
    container_metrics,
    pod_metrics,
)
from pykubelet.controllers.podautoscaler.replica_calculator import MetricError, PodMetric
from pykubelet.testing.virtual_time import EPOCH

AT = EPOCH.isoformat().replace("+00:00", "Z")


def measured(name: str, window: str = "15s", **cpu: str | None) -> PodMetricsItem:
    """The metrics of a pod whose containers use this much; None for unknown usage."""
    containers = tuple(
        ContainerMetricsItem(container, {"memory": "1Mi"} | ({"cpu": used} if used is not None else {}))
        for container, used in cpu.items()
    )
    return PodMetricsItem(ObjectMeta(namespace="default", name=name), AT, window, containers)


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=4))
def test_usage_of_a_pod_is_that_of_its_containers(used: list[int]) -> None:
    pod = measured("p", **{f"c{number}": f"{each}m" for number, each in enumerate(used)})
    assert pod_metrics([pod], "cpu") == {"p": PodMetric(sum(used), EPOCH, timedelta(seconds=15))}


def test_pod_of_which_a_container_is_unknown_is_left_out() -> None:
    """So is one without containers; others count."""
    pods = [measured("half", a="1", b=None), measured("none"), measured("whole", a="1", b="2")]
    assert {name: metric.value for name, metric in pod_metrics(pods, "cpu").items()} == {"whole": 3000}
    assert {*pod_metrics(pods, "memory")} == {"half", "whole"}


def test_usage_of_one_container_is_an_error_if_a_pod_does_not_have_it() -> None:
    pods = [measured("p", a="1", b="2"), measured("q", b=None)]
    assert {name: metric.value for name, metric in container_metrics(pods, "cpu", "b").items()} == {"p": 2000}
    with pytest.raises(MetricError, match="container a not present in metrics for pod default/q"):
        container_metrics(pods, "cpu", "a")


@pytest.mark.parametrize(
    ("window", "seconds"),
    [
        *(("15s", 15), ("1m0.5s", 60.5), ("1h2m3s", 3723), ("250ms", 0.25)),
        *(("500us", 0.0005), ("500µs", 0.0005), ("2000000ns", 0.002), ("", 0)),
    ],
)
def test_window_is_a_duration_of_go(window: str, seconds: float) -> None:
    assert pod_metrics([measured("p", window, a="1")], "cpu")["p"].window == timedelta(seconds=seconds)
