"""The metrics of admission webhooks, with upstream's names.

Upstream: staging/src/k8s.io/apiserver/pkg/admission/metrics/metrics.go
"""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pykubelet.aio.histogram import Histogram
from pykubelet.apiserver.admission.plugin.webhook.configuration import Webhook

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_BOUNDS = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0)
_PREFIX = "apiserver_admission_webhook_"


class WebhookMetrics:
    """Counts calls by webhook, type, operation and result. Names of webhooks come from administrators, so they are few."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[str, ...], Histogram] = {}
        self._requests: Counter[tuple[str, ...]] = Counter()
        self._rejections: Counter[tuple[str, ...]] = Counter()
        self._failed_open: Counter[tuple[str, ...]] = Counter()

    def called(self, webhook: Webhook, operation: str, code: int, seconds: float, *, error_type: str) -> None:
        """Counts a call; `error_type` is why it rejected the request, empty if it did not."""
        labels, rejected = (webhook.name, webhook.type, operation), str(bool(error_type)).lower()
        self._seconds.setdefault((*labels, rejected), Histogram(_BOUNDS)).observe(seconds)
        self._requests[*labels, str(code), rejected] += 1
        if error_type:
            self._rejections[*labels, error_type, str(code)] += 1

    def failed_open(self, webhook: Webhook) -> None:
        """Counts a request that went on although the webhook could not be called."""
        self._failed_open[webhook.name, webhook.type] += 1

    def collect(self) -> Iterator["Metric"]:
        """The metric families of the page."""
        from prometheus_client.metrics_core import GaugeMetricFamily, HistogramMetricFamily

        labels = ("name", "type", "operation")
        durations = HistogramMetricFamily(
            f"{_PREFIX}admission_duration_seconds",
            "Admission webhook latency, by webhook, operation and whether it rejected the request.",
            labels=(*labels, "rejected"),
        )
        for values, histogram in self._seconds.items():
            durations.add_metric(values, histogram.buckets, histogram.sum)
        yield durations
        for name, help_text, names, counts in (
            ("request_total", "Calls of admission webhooks.", (*labels, "code", "rejected"), self._requests),
            (
                "rejection_count",
                "Requests that admission webhooks rejected.",
                (*labels, "error_type", "rejection_code"),
                self._rejections,
            ),
            ("fail_open_count", "Requests that went on although a webhook failed.", labels[:2], self._failed_open),
        ):
            # As a counter, each would be called `..._total`.
            family = GaugeMetricFamily(f"{_PREFIX}{name}", help_text, labels=names)
            for values, count in counts.items():
                family.add_metric(values, count)
            yield family
