"""The events of an object, at the end of its description.

Upstream: DescribeEvents in kubectl/pkg/describe/describe.go.
"""

from pykubelet.api.wire import Document
from pykubelet.cli.describe.report import NONE, Report
from pykubelet.cli.describe.subject import Subject


def add_events(report: Report, subject: Subject) -> None:
    """What happened to it, in the order of time."""
    if not subject.events:
        report.field("Events", NONE)
        return
    report.line("Events:")
    report.line("Type\tReason\tAge\tFrom\tMessage", 1)
    report.line("----\t------\t----\t----\t-------", 1)
    for event in sorted(subject.events, key=lambda one: str(one.get("lastTimestamp") or "")):
        source = (event.get("source") or {}).get("component") or event.get("reportingComponent", "")
        age, message = _age(event, subject), str(event.get("message", "")).strip()
        report.line(f"{event.get('type', '')}\t{event.get('reason', '')}\t{age}\t{source}\t{message}", 1)


def _age(event: Document, subject: Subject) -> str:
    first = subject.since(event.get("eventTime") or event.get("firstTimestamp"))
    series = event.get("series")
    if series:
        return f"{subject.since(series.get('lastObservedTime'))} (x{series.get('count', 0)} over {first})"
    if event.get("count", 0) > 1:
        return f"{subject.since(event.get('lastTimestamp'))} (x{event['count']} over {first})"
    return first
