"""Objects of any kind: all their fields, in words.

Upstream: genericDescriber and printUnstructuredContent in kubectl/pkg/describe/describe.go, github.com/fatih/camelcase.
"""

import re
from typing import Any

from pykubelet.api.wire import Document
from pykubelet.cli.describe.events import add_events
from pykubelet.cli.describe.report import Report, go_bool
from pykubelet.cli.describe.subject import Subject

_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^A-Za-z0-9]+")
_ACRONYMS = frozenset({"API", "URL", "UID", "OSB", "GUID"})
_TOLD = frozenset({"name", "namespace", "labels", "annotations", "managedFields"})


def describe_any(subject: Subject) -> str:
    """An object of a kind that has no form of its own."""
    report, metadata = Report(), subject.metadata
    report.field("Name", metadata["name"])
    report.field("Namespace", metadata.get("namespace", ""))
    report.labels("Labels", metadata.get("labels"))
    report.annotations("Annotations", metadata.get("annotations"))
    rest = {key: value for key, value in metadata.items() if key not in _TOLD}
    _add_fields(report, {**subject.object, "metadata": rest}, 0)
    add_events(report, subject)
    return report.text


def _add_fields(report: Report, fields: Document, level: int) -> None:
    for name, value in sorted(fields.items()):
        label = words_of(name)
        if isinstance(value, dict):
            report.line(f"{label}:", level)
            _add_fields(report, value, level + 1)
        elif isinstance(value, list):
            report.line(f"{label}:", level)
            for item in value:
                if isinstance(item, dict):
                    _add_fields(report, item, level + 1)
                else:
                    report.line(_text(item), level + 1)
        else:
            report.field(label, _text(value), level)


def words_of(field: str) -> str:
    """`leaseDurationSeconds` as `Lease Duration Seconds`."""
    parts = (part for part in _PARTS.findall(field) if part != "_")
    return " ".join(part.upper() if part.upper() in _ACRONYMS else part[:1].upper() + part[1:] for part in parts)


def _text(value: Any) -> str:
    if value is None:
        return "<nil>"
    return go_bool(value) if isinstance(value, bool) else str(value)
