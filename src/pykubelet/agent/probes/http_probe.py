"""Probes a container by HTTP: asks, follows redirects within the host, judges the last answer.

Upstream: pkg/probe/http/http.go
"""

import asyncio
from typing import Protocol
from urllib.parse import urlsplit

from pykubelet.agent.probes.finding import Finding, State
from pykubelet.agent.probes.http_answer import HttpAnswer, NoAnswer, judge, redirect_target
from pykubelet.runtime.http_get import Headers, HttpRequest, redirected_headers

MAX_REQUESTS = 10


class HttpDoor(Protocol):
    """Asks a server."""

    async def get(self, url: str, headers: Headers, *, deadline: float) -> HttpAnswer:
        """The answer to one GET, by this time of the loop. NoAnswer if none begins, ProbeError if one breaks off."""

    async def close(self) -> None:
        """Let go of what is held for the next request."""


async def probe_http(door: HttpDoor, request: HttpRequest, timeout_seconds: float) -> Finding:
    """What the server says within the time, redirects included; ProbeError if its answer breaks off."""
    deadline = asyncio.get_running_loop().time() + timeout_seconds
    try:
        return judge(await _last_answer(door, request, deadline))
    except NoAnswer as failure:
        return Finding(State.FAILURE, f'Get "{request.url}": {failure}')


async def _last_answer(door: HttpDoor, request: HttpRequest, deadline: float) -> HttpAnswer:
    url, headers = request.url, request.headers
    for _ in range(MAX_REQUESTS):
        answer = await door.get(url, headers, deadline=deadline)
        target = redirect_target(request.url, url, answer)
        if target is None:
            return answer
        if urlsplit(answer.location or "").netloc:
            # A Host header of the probe's own goes with the address that was asked, not with one the server names.
            headers = tuple((name, value) for name, value in headers if name.lower() != "host")
        headers = redirected_headers(headers, url=url, target=target)
        url = target
    raise NoAnswer(f"stopped after {MAX_REQUESTS} redirects")
