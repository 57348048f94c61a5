"""Lines of a description: titles, labels, annotations, times, lists."""

from collections.abc import Mapping, Sequence
from datetime import UTC

from pykubelet.api.times import parse_time
from pykubelet.api.wire import Document

NONE = "<none>"
UNSET = "<unset>"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_LONGEST_ANNOTATION = 140
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class Report:
    """Collects lines; a tab ends a cell (`tab_stops.py`)."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def line(self, text: str = "", level: int = 0) -> None:
        """One line, two spaces further in for each level."""
        self._lines.append("  " * level + text)

    def field(self, name: str, value: object, level: int = 0) -> None:
        """A name and its value."""
        self.line(f"{name}:\t{value}", level)

    def some(self, name: str, value: object, level: int = 0) -> None:
        """The same, if there is a value."""
        if value not in (None, "", 0):
            self.field(name, value, level)

    def entries(self, name: str, entries: Sequence[str]) -> None:
        """A name and several values below each other."""
        first, *rest = entries or [NONE]
        self.field(name, first)
        for entry in rest:
            self.line(f"\t{entry}")

    def labels(self, name: str, labels: Mapping[str, str] | None) -> None:
        """Pairs, one in each line."""
        self.entries(name, [f"{key}={value}" for key, value in sorted((labels or {}).items())])

    def annotations(self, name: str, annotations: Mapping[str, str] | None) -> None:
        """Pairs; those that are long or have several lines stand below their key."""
        shown = {key: value for key, value in (annotations or {}).items() if key != LAST_APPLIED}
        entries: list[str] = []
        for key, value in sorted(shown.items()):
            text = value.removesuffix("\n")
            if len(text) + len(key) + 2 > _LONGEST_ANNOTATION or "\n" in text:
                entries += [f"{key}:", *(f"  {_shortened(line)}" for line in text.split("\n"))]
            else:
                entries.append(f"{key}: {text}")
        self.entries(name, entries)

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(f"{line}\n" for line in self._lines)


def _shortened(text: str) -> str:
    most = _LONGEST_ANNOTATION - 2
    return text if len(text) <= most else text[:most] + "..."


def when(text: str) -> str:
    """A time as people read it: Wed, 18 Nov 2026 02:14:32 +0000, whatever the language of the machine."""
    at = parse_time(text).astimezone(UTC)
    day, month = _DAYS[at.weekday()], _MONTHS[at.month - 1]
    return f"{day}, {at.day:02} {month} {at.year:04} {at:%H:%M:%S} +0000"


def controller(metadata: Document) -> str:
    """`ReplicaSet/web-5d9`, or nothing."""
    owners = (owner for owner in metadata.get("ownerReferences") or () if owner.get("controller"))
    return next((f"{owner['kind']}/{owner['name']}" for owner in owners), "")


def yes_no(value: object) -> str:
    """True or False, as people write it."""
    return "True" if value else "False"


def go_bool(value: object) -> str:
    """True or false, as machines write it."""
    return "true" if value else "false"


def pairs(labels: Mapping[str, str] | None) -> str:
    """All pairs in one line."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE
