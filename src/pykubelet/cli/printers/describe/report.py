"""The lines of a description: fields, labels, annotations, times and events.

Upstream: staging/src/k8s.io/kubectl/pkg/describe/describe.go
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pykubelet.api.serializer import Document
from pykubelet.api.times import human_duration, parse_time

NONE = "<none>"
UNSET = "<unset>"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_LONGEST_ANNOTATION = 140
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class Report:
    """Collects the lines of a description; a tab ends a cell."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def line(self, text: str = "", level: int = 0) -> None:
        """Add a line, indented by two spaces for each level."""
        self._lines.append("  " * level + text)

    def field(self, name: str, value: object, level: int = 0) -> None:
        self.line(f"{name}:\t{value}", level)

    def some(self, name: str, value: object, level: int = 0) -> None:
        """Add a name and its value if there is one."""
        if value not in (None, "", 0):
            self.field(name, value, level)

    def entries(self, name: str, entries: Sequence[str]) -> None:
        """Add a name and several values, one per line."""
        first, *rest = entries or [NONE]
        self.field(name, first)
        for entry in rest:
            self.line(f"\t{entry}")

    def labels(self, name: str, labels: Mapping[str, str] | None) -> None:
        """Add labels, one per line."""
        self.entries(name, [f"{key}={value}" for key, value in sorted((labels or {}).items())])

    def annotations(self, name: str, annotations: Mapping[str, str] | None) -> None:
        """Add annotations; long and multi-line ones stand below their key."""
        shown = {key: value for key, value in (annotations or {}).items() if key != LAST_APPLIED}
        entries: list[str] = []
        for key, value in sorted(shown.items()):
            text = value.removesuffix("\n")
            if len(text) + len(key) + 2 > _LONGEST_ANNOTATION or "\n" in text:
                entries += [f"{key}:", *(f"  {_shortened(line)}" for line in text.split("\n"))]
            else:
                entries.append(f"{key}: {text}")
        self.entries(name, entries)

    def identity(self, metadata: Document) -> None:
        """Add name, namespace, labels and annotations."""
        self.field("Name", metadata["name"])
        self.field("Namespace", metadata.get("namespace", ""))
        self.labels("Labels", metadata.get("labels"))
        self.annotations("Annotations", metadata.get("annotations"))

    def title(self, title: str) -> None:
        """Add an empty line and the underlined title of a section."""
        for line in ("", title, "===="):
            self.line(line)

    def columns(self, header: str) -> None:
        """Add the underlined header of an indented table."""
        self.line(header, 1)
        self.line(re.sub(r"[^\t]", "-", header), 1)

    def events(self, subject: "DescribedObject") -> None:
        """Add the events of an object, oldest first."""
        if not subject.events:
            self.field("Events", NONE)
            return
        self.line("Events:")
        self.line("Type\tReason\tAge\tFrom\tMessage", 1)
        self.line("----\t------\t----\t----\t-------", 1)
        for event in sorted(subject.events, key=lambda one: str(one.get("lastTimestamp") or "")):
            source = (event.get("source") or {}).get("component") or event.get("reportingComponent", "")
            age, message = _age(event, subject), str(event.get("message", "")).strip()
            self.line(f"{event.get('type', '')}\t{event.get('reason', '')}\t{age}\t{source}\t{message}", 1)

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self._lines)


def _shortened(text: str) -> str:
    most = _LONGEST_ANNOTATION - 2
    return text if len(text) <= most else text[:most] + "..."


def when(text: str) -> str:
    """A time in the form Wed, 18 Nov 2026 02:14:32 +0000, independent of the locale."""
    at = parse_time(text).astimezone(UTC)
    day, month = _DAYS[at.weekday()], _MONTHS[at.month - 1]
    return f"{day}, {at.day:02} {month} {at.year:04} {at:%H:%M:%S} +0000"


def controller(metadata: Document) -> str:
    """The controller of an object, as `ReplicaSet/web-5d9`; empty if there is none."""
    owners = (owner for owner in metadata.get("ownerReferences") or () if owner.get("controller"))
    return next((f"{owner['kind']}/{owner['name']}" for owner in owners), "")


def title_bool(value: object) -> str:
    """A boolean as True or False."""
    return "True" if value else "False"


def go_bool(value: object) -> str:
    """A boolean as true or false."""
    return "true" if value else "false"


def pairs(labels: Mapping[str, str] | None) -> str:
    """All labels in one line."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedObject:
    """An object with its events and related objects by plural name; None for those that are forbidden."""

    object: Document
    events: Sequence[Document] = ()
    related: Mapping[str, Sequence[Document] | None] = field(default_factory=dict)
    now: datetime

    @property
    def metadata(self) -> Document:
        return part(self.object, "metadata")

    @property
    def spec(self) -> Document:
        return part(self.object, "spec")

    @property
    def status(self) -> Document:
        return part(self.object, "status")

    def others(self, plural: str) -> Sequence[Document]:
        return self.related.get(plural) or ()

    def since(self, text: str | None) -> str:
        """The age of a time."""
        if not text:
            return "<unknown>"
        return human_duration((self.now - parse_time(text)).total_seconds())


def part(document: Document, name: str) -> Document:
    """A nested object of a document; empty if absent."""
    found: Any = document.get(name)
    return found if isinstance(found, dict) else {}


def _age(event: Document, subject: DescribedObject) -> str:
    first = subject.since(event.get("eventTime") or event.get("firstTimestamp"))
    series = event.get("series")
    if series:
        return f"{subject.since(series.get('lastObservedTime'))} (x{series.get('count', 0)} over {first})"
    if event.get("count", 0) > 1:
        return f"{subject.since(event.get('lastTimestamp'))} (x{event['count']} over {first})"
    return first
