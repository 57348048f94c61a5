"""What Go says about a text that is no time: how far it could be read, and what should have come next.

In: the text, and whether it must have six digits behind the seconds (`MicroTime`). Out: the complaint, or None.

Upstream: time.Parse and ParseError of Go's library, RFC3339 and RFC3339Micro in apimachinery/pkg/apis/meta/v1.
"""

import re
from calendar import monthrange

from pykubelet.api.validation.field_errors import go_quote

_LAYOUT = "2006-01-02T15:04:05Z07:00"
_MICRO_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"
# Each part of a layout with how it must look and, for numbers that are checked at once, name and bounds.
_PARTS: tuple[tuple[str, str, str, range], ...] = (
    ("2006", r"\d{4}", "", range(0)),
    ("-", "-", "", range(0)),
    ("01", r"\d\d", "month", range(1, 13)),
    ("-", "-", "", range(0)),
    ("02", r"\d\d", "", range(0)),
    ("T", "T", "", range(0)),
    ("15", r"\d\d", "hour", range(24)),
    (":", ":", "", range(0)),
    ("04", r"\d\d", "minute", range(60)),
    (":", ":", "", range(0)),
    ("05", r"\d\d", "second", range(60)),
)
_ZONE = r"Z|[+-]\d\d:\d\d"


def time_error(text: str, *, micro: bool = False) -> str | None:
    """Go's complaint about a text as a time; None if it is one."""
    fraction = (".000000", r"[.,]\d{6}") if micro else ("", r"([.,]\d+)?")
    rest, quoted = text, go_quote(text)
    for shown, looks, name, bounds in (*_PARTS, (*fraction, "", range(0)), ("Z07:00", _ZONE, "", range(0))):
        found = re.match(looks, rest, re.ASCII)
        if found is None:
            layout = _MICRO_LAYOUT if micro else _LAYOUT
            return f"parsing time {quoted} as {go_quote(layout)}: cannot parse {go_quote(rest)} as {go_quote(shown)}"
        if name and int(found[0]) not in bounds:
            return f"parsing time {quoted}: {name} out of range"
        rest = rest[found.end() :]
    if rest:
        return f"parsing time {quoted}: extra text: {go_quote(rest)}"
    year, month, day = int(text[:4]), int(text[5:7]), int(text[8:10])
    # Every fourth century has the same days; Python knows no year 0.
    last = monthrange(year or 400, month)[1]
    return None if 1 <= day <= last else f"parsing time {quoted}: day out of range"
