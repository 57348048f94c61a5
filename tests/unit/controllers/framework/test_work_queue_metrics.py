"""The metrics of a work queue: depth, waiting time, duration and retries."""

import asyncio

from prometheus_client import CollectorRegistry

from pykubelet.controllers.framework.work_queue import WorkQueue, WorkQueueCollector


def value(counts: WorkQueueCollector, name: str) -> float | None:
    registry = CollectorRegistry()
    registry.register(counts)
    return registry.get_sample_value(name, {"name": "jobs"})


async def test_queue_metrics_cover_a_key_from_its_addition_to_its_sync() -> None:
    """A waiting key is not added twice; a failed sync is retried."""
    queue, counts = WorkQueue(), WorkQueueCollector()
    counts.add("jobs", queue)
    # Not at the clock's beginning, where a time and a duration since then are equal.
    await asyncio.sleep(10)
    for _ in range(2):
        queue.add("default/one")
    await asyncio.sleep(2)
    assert value(counts, "workqueue_depth") == 1
    assert value(counts, "workqueue_adds_total") == 1

    async def fail(_: str) -> None:
        await asyncio.sleep(3)
        assert value(counts, "workqueue_unfinished_work_seconds") == 3
        assert value(counts, "workqueue_longest_running_processor_seconds") == 3
        assert value(counts, "workqueue_depth") == 0
        raise ValueError("not yet")

    await queue.process_next(fail)
    assert value(counts, "workqueue_queue_duration_seconds_sum") == 2
    assert value(counts, "workqueue_work_duration_seconds_sum") == 3
    assert value(counts, "workqueue_retries_total") == 1
    assert value(counts, "workqueue_unfinished_work_seconds") == 0
