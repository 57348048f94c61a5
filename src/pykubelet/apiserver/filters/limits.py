"""Limits of a request: its size and its duration.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/request_deadline.go
"""

import re
from collections.abc import Mapping

from pykubelet.api.errors import BadRequest, Timeout, TooLarge
from pykubelet.api.field_errors import go_quote

MAX_BODY_BYTES = 3 * 1024 * 1024
# A service account token has about a kilobyte, a long label selector a few. Go allows a megabyte for all headers.
MAX_LINE_BYTES = 64 * 1024
MAX_HEADERS = 128
REQUEST_SECONDS = 60.0
# The longest time a connection may stay idle: Go's IdleTimeout in an API server.
IDLE_SECONDS = 90.0
# A client that reads nothing for this long is disconnected, so that its memory is released.
STALLED_SECONDS = 30.0
_UNIT_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_STEP = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_NUMBER = re.compile(r"[0-9.]+")


def too_large() -> TooLarge:
    return TooLarge(f"Request entity too large: limit is {MAX_BODY_BYTES}")


def took_too_long() -> Timeout:
    return Timeout("Timeout: request did not complete within the allotted timeout", details={})


def request_seconds(query: Mapping[str, str]) -> float:
    """The time a request may take: its `timeout` parameter, within the server's limit."""
    requested = query.get("timeout")
    if not requested:
        return REQUEST_SECONDS
    seconds = _duration_seconds(requested)
    return seconds if 0 < seconds < REQUEST_SECONDS else REQUEST_SECONDS


def _duration_seconds(text: str) -> float:
    """Parses a Go duration: 1h30m, 500ms, 0."""
    rest = text[1:] if text[:1] in ("-", "+") else text
    sign = -1.0 if text.startswith("-") else 1.0
    if rest == "0":
        return 0.0
    seconds, at = 0.0, 0
    while step := _STEP.match(rest, at):
        seconds += float(step[1]) * _UNIT_SECONDS[step[2]]
        at = step.end()
    if not rest or at < len(rest):
        raise BadRequest(f"invalid timeout specified in the request URL - time: {_duration_error(text, rest[at:])}")
    return sign * seconds


def _duration_error(text: str, rest: str) -> str:
    number = _NUMBER.match(rest)
    if number is None or not any(map(str.isdigit, number[0])) or number[0].count(".") > 1:
        return f"invalid duration {go_quote(text)}"
    unit = rest[number.end() :]
    if not unit:
        return f"missing unit in duration {go_quote(text)}"
    word = re.split(r"[0-9.]", unit, maxsplit=1)[0]
    return f"unknown unit {go_quote(word)} in duration {go_quote(text)}"
