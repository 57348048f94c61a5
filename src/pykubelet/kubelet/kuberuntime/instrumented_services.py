"""Wraps a runtime, its images and its commands to count operations, errors and durations.

Upstream: pkg/kubelet/kuberuntime/instrumented_services.go, pkg/kubelet/metrics/metrics.go
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pykubelet.aio.clock import Clock
from pykubelet.aio.histogram import Histogram
from pykubelet.api.pods import PodUid
from pykubelet.runtimes.protocol import (
    CommandResult,
    Commands,
    ContainerRequest,
    Image,
    Images,
    RegistryCredentials,
    Runtime,
    RuntimePod,
    SandboxRequest,
)

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_MEGA, _GIGA = 1 << 20, 1 << 30
_IMAGE_SIZE_BOUNDS = (
    *(10 * _MEGA, 100 * _MEGA, 500 * _MEGA, _GIGA),
    *(5 * _GIGA, 10 * _GIGA, 20 * _GIGA, 30 * _GIGA, 40 * _GIGA, 60 * _GIGA, 100 * _GIGA),
)
_IMAGE_SIZE_NAMES = (
    *("0-10MB", "10MB-100MB", "100MB-500MB", "500MB-1GB", "1GB-5GB", "5GB-10GB"),
    *("10GB-20GB", "20GB-30GB", "30GB-40GB", "40GB-60GB", "60GB-100GB", "GT100GB"),
)
_BOUNDS = tuple(0.005 * 2.5**power for power in range(14))
_PULL_BOUNDS = (1, 5, 10, 20, 30, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600)
_LABELS = ("operation_type",)


def image_size_bucket(size_bytes: int) -> str:
    """The label of the size bucket that an image belongs to."""
    return _IMAGE_SIZE_NAMES[bisect_left(_IMAGE_SIZE_BOUNDS, size_bytes)]


class RuntimeOperationMetrics:
    """Prometheus collector for the operations of one runtime; operations have CRI's names in every runtime."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._failures: Counter[str] = Counter()
        self._took: dict[str, Histogram] = {}
        self._pulls: dict[str, Histogram] = {}

    @contextmanager
    def counting(self, operation: str) -> Iterator[None]:
        """Count and time the operation in a `with` block; a cancelled one is not counted as failed."""
        began = self._clock.monotonic()
        try:
            yield
        except Exception:
            self._failures[operation] += 1
            raise
        finally:
            self._took.setdefault(operation, Histogram(_BOUNDS)).observe(self._clock.monotonic() - began)

    def pulled(self, size_bytes: int, seconds: float) -> None:
        self._pulls.setdefault(image_size_bucket(size_bytes), Histogram(_PULL_BOUNDS)).observe(seconds)

    def collect(self) -> "Iterator[Metric]":
        """Yield the metrics to prometheus_client."""
        from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily

        total = CounterMetricFamily("kubelet_runtime_operations_total", "Operations of the runtime.", labels=_LABELS)
        errors = CounterMetricFamily("kubelet_runtime_operations_errors_total", "Those that failed.", labels=_LABELS)
        took = HistogramMetricFamily(
            "kubelet_runtime_operations_duration_seconds", "How long operations of the runtime took.", labels=_LABELS
        )
        for operation, histogram in self._took.items():
            total.add_metric((operation,), histogram.count)
            took.add_metric((operation,), buckets=histogram.buckets, sum_value=histogram.sum)
        for operation, count in self._failures.items():
            errors.add_metric((operation,), count)
        pulls = HistogramMetricFamily(
            "kubelet_image_pull_duration_seconds", "How long images took to fetch.", labels=("image_size_in_bytes",)
        )
        for size, histogram in self._pulls.items():
            pulls.add_metric((size,), buckets=histogram.buckets, sum_value=histogram.sum)
        yield from (total, errors, took, pulls)


class InstrumentedRuntime:
    """A Runtime that counts the operations of another."""

    def __init__(self, runtime: Runtime, counts: RuntimeOperationMetrics) -> None:
        self._runtime, self._counting = runtime, counts.counting
        # `stop` and `remove` get an id only; an id that is not known as a sandbox counts as a container.
        self._sandboxes: set[str] = set()

    async def pods(self) -> Sequence[RuntimePod]:
        with self._counting("list_podsandbox"):
            return await self._runtime.pods()

    async def inspect(self, uid: PodUid) -> RuntimePod | None:
        with self._counting("podsandbox_status"):
            found = await self._runtime.inspect(uid)
        if found is not None:
            self._sandboxes.update(sandbox.id for sandbox in found.sandboxes)
        return found

    async def create_sandbox(self, request: SandboxRequest) -> str:
        with self._counting("run_podsandbox"):
            sandbox_id = await self._runtime.create_sandbox(request)
        self._sandboxes.add(sandbox_id)
        return sandbox_id

    async def create_container(self, request: ContainerRequest) -> str:
        with self._counting("create_container"):
            return await self._runtime.create_container(request)

    async def start(self, container_id: str) -> None:
        with self._counting("start_container"):
            await self._runtime.start(container_id)

    async def stop(self, id: str, grace_seconds: float) -> None:
        with self._counting("stop_podsandbox" if id in self._sandboxes else "stop_container"):
            await self._runtime.stop(id, grace_seconds)

    async def remove(self, id: str) -> None:
        with self._counting("remove_podsandbox" if id in self._sandboxes else "remove_container"):
            await self._runtime.remove(id)
        self._sandboxes.discard(id)


class InstrumentedImages:
    """Images of a runtime, with counted operations."""

    def __init__(self, images: Images, counts: RuntimeOperationMetrics, *, clock: Clock) -> None:
        self._images, self._counts, self._clock = images, counts, clock

    async def find(self, name: str) -> Image | None:
        with self._counts.counting("image_status"):
            return await self._images.find(name)

    async def pull(self, name: str, credentials: Sequence[RegistryCredentials]) -> Image:
        began = self._clock.monotonic()
        with self._counts.counting("pull_image"):
            image = await self._images.pull(name, credentials)
        self._counts.pulled(image.size_bytes, self._clock.monotonic() - began)
        return image

    async def images(self) -> Sequence[Image]:
        with self._counts.counting("list_images"):
            return await self._images.images()

    async def remove_image(self, id: str) -> None:
        with self._counts.counting("remove_image"):
            await self._images.remove_image(id)


class InstrumentedCommands:
    """Commands of a runtime, with counted operations."""

    def __init__(self, commands: Commands, counts: RuntimeOperationMetrics) -> None:
        self._commands, self._counts = commands, counts

    async def run(
        self, container_id: str, command: Sequence[str], *, timeout_seconds: float | None, limit_bytes: int
    ) -> CommandResult:
        with self._counts.counting("exec_sync"):
            return await self._commands.run(
                container_id, command, timeout_seconds=timeout_seconds, limit_bytes=limit_bytes
            )
