"""The syntax of schedules: five fields of numbers, names, ranges, steps; or a word such as `@daily`.

In: the text. Out: the first complaint in the words of the Go library, or None.

Upstream: ParseStandard in github.com/robfig/cron/v3/parser.go
"""

import re
from typing import NamedTuple

from pykubelet.api.int64 import int64_problem, parse_int64
from pykubelet.api.time_zones import is_time_zone
from pykubelet.api.validation.field_errors import go_quote

_DESCRIPTORS = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})
_EVERY = "@every "
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_UNITS = ("ns", "us", "µs", "μs", "ms", "s", "m", "h")
_DURATION_PART = re.compile(r"([0-9]*)(\.[0-9]*)?([^0-9.]*)")


class _Bounds(NamedTuple):
    low: int
    high: int
    names: tuple[str, ...] = ()


_FIELDS = (_Bounds(0, 59), _Bounds(0, 23), _Bounds(1, 31), _Bounds(1, 12, _MONTHS), _Bounds(0, 6, _DAYS))


class _ScheduleError(ValueError):
    pass


def schedule_problem(text: str) -> str | None:
    """What is wrong with a schedule."""
    try:
        _check(text)
    except _ScheduleError as error:
        return str(error)
    return None


def _check(text: str) -> None:
    if not text:
        raise _ScheduleError("empty spec string")
    if text.startswith(("TZ=", "CRON_TZ=")):
        zone, _, text = text.partition("=")[2].partition(" ")
        if not is_time_zone(zone):
            raise _ScheduleError(f"provided bad location {zone}: unknown time zone {zone}")
        text = text.strip()
    if text.startswith("@"):
        _check_descriptor(text)
        return
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise _ScheduleError(f"expected exactly {len(_FIELDS)} fields, found {len(fields)}: [{' '.join(fields)}]")
    for field, bounds in zip(fields, _FIELDS, strict=True):
        for part in filter(None, field.split(",")):
            _check_range(part, bounds)


def _check_descriptor(text: str) -> None:
    if text in _DESCRIPTORS:
        return
    if not text.startswith(_EVERY):
        raise _ScheduleError(f"unrecognized descriptor: {text}")
    if problem := _duration_problem(text.removeprefix(_EVERY)):
        raise _ScheduleError(f"failed to parse duration {text}: {problem}")


def _check_range(part: str, bounds: _Bounds) -> None:
    span, *steps = part.split("/")
    limits = span.split("-")
    if limits[0] in {"*", "?"}:
        start, end = bounds.low, bounds.high
    else:
        start = _number(limits[0], bounds)
        if len(limits) > 2:
            raise _ScheduleError(f"too many hyphens: {part}")
        end = _number(limits[1], bounds) if len(limits) == 2 else start
    if len(steps) > 1:
        raise _ScheduleError(f"too many slashes: {part}")
    step = _plain_number(steps[0]) if steps else 1
    # A number before a step stands for everything from it on.
    if steps and len(limits) == 1:
        end = bounds.high
    if start < bounds.low:
        raise _ScheduleError(f"beginning of range ({start}) below minimum ({bounds.low}): {part}")
    if end > bounds.high:
        raise _ScheduleError(f"end of range ({end}) above maximum ({bounds.high}): {part}")
    if start > end:
        raise _ScheduleError(f"beginning of range ({start}) beyond end of range ({end}): {part}")
    if step == 0:
        raise _ScheduleError(f"step of range should be a positive number: {part}")


def _number(text: str, bounds: _Bounds) -> int:
    lower = text.lower()
    if lower in bounds.names:
        return bounds.names.index(lower) + bounds.low
    return _plain_number(text)


def _plain_number(text: str) -> int:
    number = parse_int64(text)
    if number is None:
        problem = int64_problem(text).replace("strconv.ParseInt", "strconv.Atoi")
        raise _ScheduleError(f"failed to parse int from {text}: {problem}")
    if number < 0:
        raise _ScheduleError(f"negative number ({number}) not allowed: {text}")
    return number


def _duration_problem(text: str) -> str | None:
    """What Go's time.ParseDuration says about a text, overflow left out."""
    rest = text[1:] if text[:1] in {"+", "-"} else text
    if rest == "0":
        return None
    wrong = f"time: invalid duration {go_quote(text)}"
    if not rest:
        return wrong
    while rest:
        match = _DURATION_PART.match(rest)
        assert match is not None
        whole, fraction, unit = match.groups(default="")
        if not whole and fraction in {"", "."}:
            return wrong
        if not unit:
            return f"time: missing unit in duration {go_quote(text)}"
        if unit not in _UNITS:
            return f"time: unknown unit {go_quote(unit)} in duration {go_quote(text)}"
        rest = rest[match.end() :]
    return None
