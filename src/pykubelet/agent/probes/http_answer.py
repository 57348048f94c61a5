"""What an HTTP answer means to a probe, and whether it leads elsewhere.

Any answer from 200 to 399 is a success; one that still is a redirect is a success with a warning. Redirects are followed
within the host. Pure. Upstream: pkg/probe/http/http.go (DoHTTPProbe, RedirectChecker)
"""

from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

from pykubelet.agent.probes.finding import Finding, State

_REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What a server said; `body` is its beginning."""

    status: int
    location: str | None
    body: bytes


class NoAnswer(Exception):
    """There was no answer, or none that can be used; says why."""


def judge(answer: HttpAnswer) -> Finding:
    """What an answer means."""
    text = answer.body.decode(errors="replace")
    if 200 <= answer.status < 300:
        return Finding(State.SUCCESS, text)
    if 300 <= answer.status < 400:
        return Finding(State.WARNING, f"Probe terminated redirects, Response body: {text}")
    # Without the body: events are read by more people than may read what the server tells the node.
    return Finding(State.FAILURE, f"HTTP probe failed with statuscode: {answer.status}")


def redirect_target(first: str, url: str, answer: HttpAnswer) -> str | None:
    """Where an answer leads, if that is to be followed: only to the host that was asked first."""
    if answer.status not in _REDIRECTS or not answer.location:
        return None
    try:
        target = urljoin(url, answer.location)
        parts = urlsplit(target)
        hostname = parts.hostname
    except ValueError:
        raise NoAnswer("failed to parse the Location header") from None
    if hostname != urlsplit(first).hostname:
        return None
    if parts.scheme not in {"http", "https"}:
        raise NoAnswer(f'unsupported protocol scheme "{parts.scheme}"')
    return target
