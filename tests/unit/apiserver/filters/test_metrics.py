"""The API server's metrics and their page, with upstream's names."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from pykubelet.apiserver.filters.metrics import ApiServerMetrics, RequestLabels, StorageFigures, scope_of
from pykubelet.apiserver.filters.requestinfo import RequestInfo
from pykubelet.apiserver.flowcontrol.controller import FlowController
from pykubelet.apiserver.request import UserInfo
from pykubelet.testing.virtual_time import VirtualClock

LIST = RequestLabels("list", "", "", "v1", "pods", "", "namespace")
WATCH = LIST._replace(verb="watch")
NOTHING_STORED = StorageFigures(objects=dict, size_bytes=lambda: 0)


def samples(metrics: ApiServerMetrics) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    families = text_string_to_metric_families(metrics.page().decode())
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def value(metrics: ApiServerMetrics, name: str, **labels: str) -> float:
    found = [
        number
        for (metric, pairs), number in samples(metrics).items()
        if metric == name and frozenset(labels.items()) <= pairs
    ]
    assert len(found) == 1, found
    return found[0]


def test_page_has_requests_by_kind_and_code_and_their_latency() -> None:
    """Each code has a counter, and one histogram covers all codes."""
    metrics = ApiServerMetrics(FlowController(VirtualClock()), NOTHING_STORED)
    metrics.answered(LIST, 200, 0.004)
    metrics.answered(LIST, 200, 0.3)
    metrics.answered(LIST, 404, 100)
    labels = {"verb": "LIST", "version": "v1", "resource": "pods", "scope": "namespace", "component": "apiserver"}
    assert value(metrics, "apiserver_request_total", code="200", **labels) == 2
    assert value(metrics, "apiserver_request_total", code="404", **labels) == 1
    assert value(metrics, "apiserver_request_duration_seconds_bucket", le="0.005", **labels) == 1
    assert value(metrics, "apiserver_request_duration_seconds_bucket", le="0.4", **labels) == 2
    assert value(metrics, "apiserver_request_duration_seconds_bucket", le="+Inf", **labels) == 3
    assert value(metrics, "apiserver_request_duration_seconds_sum", **labels) == pytest.approx(100.304)


async def test_page_has_what_runs_now_and_what_is_stored() -> None:
    """It has gauges of requests, watches, objects and the process."""
    flow = FlowController(VirtualClock())
    metrics = ApiServerMetrics(
        flow, StorageFigures(objects=lambda: {"pods": 7, "jobs.batch": 2}, size_bytes=lambda: 4096)
    )
    info = RequestInfo(path="", verb="create", group="", version="v1", plural="pods", namespace="default")
    await flow.enter(UserInfo("somebody", ("system:authenticated",)), info, 60, writes=True)
    metrics.long_started(WATCH)
    metrics.long_started(WATCH)
    metrics.long_ended(WATCH)
    metrics.events_sent(WATCH, 5)
    assert value(metrics, "apiserver_current_inflight_requests", request_kind="mutating") == 1
    assert value(metrics, "apiserver_current_inflight_requests", request_kind="readOnly") == 0
    assert value(metrics, "apiserver_current_inqueue_requests", request_kind="mutating") == 0
    assert value(metrics, "apiserver_flowcontrol_current_executing_seats", priority_level="catch-all") == 1
    assert value(metrics, "apiserver_flowcontrol_dispatched_requests_total", priority_level="catch-all") == 1
    assert value(metrics, "apiserver_longrunning_requests", verb="WATCH", resource="pods") == 1
    assert value(metrics, "apiserver_watch_events_total", resource="pods") == 5
    assert value(metrics, "apiserver_storage_objects", resource="pods") == 7
    assert value(metrics, "apiserver_resource_objects", group="batch", resource="jobs") == 2
    assert value(metrics, "apiserver_storage_size_bytes") == 4096
    assert value(metrics, "process_resident_memory_bytes") > 0


def test_latency_slis_leave_out_watches() -> None:
    """A watch of half an hour is not a slow request; a dry run counts with the others."""
    metrics = ApiServerMetrics(FlowController(VirtualClock()), NOTHING_STORED)
    metrics.answered(LIST, 200, 0.3)
    metrics.answered(LIST._replace(dry_run="All"), 200, 0.4)
    metrics.answered(WATCH, 200, 1800)
    assert value(metrics, "apiserver_request_sli_duration_seconds_count") == 2
    assert value(metrics, "apiserver_request_sli_duration_seconds_sum", verb="LIST") == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("verb", "namespace", "name", "scope"),
    [
        ("get", "ns", "x", "resource"),
        ("create", "ns", "", "resource"),
        ("list", "ns", "", "namespace"),
        ("list", "", "", "cluster"),
    ],
)
def test_scope_of_tells_objects_from_collections(verb: str, namespace: str, name: str, scope: str) -> None:
    """The labels are upstream's values."""
    assert scope_of(verb=verb, namespace=namespace, name=name) == scope


@given(st.lists(st.floats(min_value=0, max_value=100), max_size=30))
@settings(max_examples=20)
def test_histogram_counts_every_request_once(latencies: list[float]) -> None:
    """The last bucket holds them all, and no bucket holds fewer than the one before."""
    metrics = ApiServerMetrics(FlowController(VirtualClock()), NOTHING_STORED)
    for seconds in latencies:
        metrics.answered(LIST, 200, seconds)
    buckets = sorted(
        (float(dict(labels)["le"]), count)
        for (name, labels), count in samples(metrics).items()
        if name == "apiserver_request_duration_seconds_bucket"
    )
    counts = [count for _, count in buckets]
    assert counts == sorted(counts)
    assert (counts[-1] if counts else 0) == len(latencies)
