"""What a request for a container's log asks for in its query.

In: the query and the time. Out: the options, or the refusal: 400 if they cannot be read, 422 if they make no sense.

Upstream: getContainerLogs in pkg/kubelet/server/server.go, ValidatePodLogOptions in
pkg/apis/core/v1/validation/validation.go
"""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from pykubelet.api.times import parse_time
from pykubelet.nodeapi.replies import Refused
from pykubelet.runtime.loglines import STDERR, STDOUT, LogQuery

_STREAMS = {"": "", "All": "", "Stdout": STDOUT, "Stderr": STDERR}
_NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
# As Go reads booleans in a query: there, and not one of these, is true.
_FALSE = frozenset({"false", "0"})


class LogOptions(NamedTuple):
    """Which log, and what of it."""

    query: LogQuery
    previous: bool = False
    """Of the container before the one that runs now."""


def log_options(query: Sequence[tuple[str, str]], now: datetime) -> LogOptions:
    """The options of a query; the first of several values counts. Raises Refused."""
    given: dict[str, str] = {}
    for name, value in query:
        given.setdefault(name, value)
    # The name of earlier days, which won over the new one.
    if tail := given.get("tail", ""):
        given["tailLines"] = tail
    if tail == "all":
        del given["tailLines"]
    tail_lines = _number(given, "tailLines", least=0)
    limit_bytes = _number(given, "limitBytes", least=1)
    since_seconds = _number(given, "sinceSeconds", least=1)
    since = _time(given)
    stream = given.get("stream", "")
    is_one_stream = stream not in ("", "All")
    if (
        (since is not None and since_seconds is not None)
        or stream not in _STREAMS
        or (is_one_stream and tail_lines is not None)
    ):
        raise _invalid()
    if since_seconds is not None:
        since = _ago(now, since_seconds)
    asked = LogQuery(
        tail_lines=tail_lines,
        limit_bytes=limit_bytes,
        since=since,
        stream=_STREAMS[stream],
        timestamps=_is_true(given, "timestamps"),
        follow=_is_true(given, "follow"),
    )
    return LogOptions(asked, _is_true(given, "previous"))


def _invalid() -> Refused:
    return Refused(422, '{"message": "Invalid request."}')


def _undecodable() -> Refused:
    return Refused(400, '{"message": "Unable to decode query."}')


def _is_true(given: dict[str, str], name: str) -> bool:
    return name in given and given[name].lower() not in _FALSE


def _number(given: dict[str, str], name: str, *, least: int) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    if not _NUMBER.fullmatch(text) or not -(2**63) <= int(text) < 2**63:
        raise _undecodable()
    if int(text) < least:
        raise _invalid()
    return int(text)


def _time(given: dict[str, str]) -> datetime | None:
    text = given.get("sinceTime", "")
    if not text:
        return None
    try:
        return parse_time(text)
    except ValueError:
        raise _undecodable() from None


def _ago(now: datetime, seconds: int) -> datetime | None:
    try:
        return now - timedelta(seconds=seconds)
    except OverflowError:
        # Longer than there are times: everything.
        return None
