"""Which of the node's pages a path is, and whose pod and container it names.

In: method, path, and whether what is meant for debugging is on. Out: a route, or the refusal.

Upstream: pkg/kubelet/server/server.go. Not offered: /checkpoint, /configz, /logs/, /debug/. Ours alone: what is below
/pykubelet.
"""

from enum import Enum
from typing import NamedTuple
from urllib.parse import unquote

from pykubelet.nodeapi.replies import NOT_FOUND, Refused

DISABLED = "Debug endpoints are disabled.\n"


class Page(Enum):
    """What can be asked for."""

    HEALTH = "/healthz"
    PODS = "/pods"
    RUNNING_PODS = "/runningpods"
    METRICS = "/metrics"
    RESOURCE_METRICS = "/metrics/resource"
    PROBE_METRICS = "/metrics/probes"
    CADVISOR_METRICS = "/metrics/cadvisor"
    SUMMARY = "/stats/summary"
    WHY = "/pykubelet/why"
    LOGS = "/containerLogs"
    EXEC = "/exec"
    ATTACH = "/attach"
    PORT_FORWARD = "/portForward"
    RUN = "/run"


class Route(NamedTuple):
    """A page and what its path names."""

    page: Page
    namespace: str = ""
    pod: str = ""
    uid: str = ""
    container: str = ""
    check: str = ""
    """Of the health page: one check alone."""


_GET = frozenset({"GET", "HEAD"})
_UPGRADE = frozenset({"GET", "POST"})
_METHODS = {
    Page.EXEC: _UPGRADE,
    Page.ATTACH: _UPGRADE,
    Page.PORT_FORWARD: _UPGRADE,
    Page.RUN: frozenset({"POST"}),
    Page.LOGS: frozenset({"GET"}),
}
_DEBUGGING = (
    "/run/",
    "/exec/",
    "/attach/",
    "/portForward/",
    "/containerLogs/",
    "/runningpods/",
    "/debug/pprof/",
    "/logs/",
)
_PLAIN = {page.value: page for page in Page if page not in _METHODS and page not in {Page.HEALTH, Page.WHY}}
_OF_PODS = {page.value.removeprefix("/"): page for page in _METHODS}


def route(method: str, path: str, *, debugging: bool = True) -> Route:
    """Where a request leads; Refused if nowhere."""
    if not debugging and f"{path}/".startswith(_DEBUGGING):
        raise Refused(405, DISABLED)
    found = _route(path)
    if found is None:
        raise NoSuchPage
    if method not in _METHODS.get(found.page, _GET):
        raise Refused(405, "405: Method Not Allowed")
    return found


class NoSuchPage(Refused):
    """There is nothing there."""

    def __init__(self) -> None:
        super().__init__(404, NOT_FOUND.body.decode())


def _route(path: str) -> Route | None:
    plain = _PLAIN.get(path.rstrip("/") or "/")
    if plain is not None:
        return Route(plain)
    first, *parts = path.removeprefix("/").split("/")
    if first == "healthz" and len(parts) <= 1:
        return Route(Page.HEALTH, check="".join(parts))
    if first == "pykubelet" and parts[:1] == ["why"]:
        return _pod_route(Page.WHY, [unquote(part) for part in parts[1:]])
    page = _OF_PODS.get(first)
    return _pod_route(page, [unquote(part) for part in parts]) if page is not None else None


def _pod_route(page: Page, parts: list[str]) -> Route | None:
    if page is Page.LOGS:
        _require_parts(parts)
    if not all(parts):
        return None
    match page, parts:
        case Page.PORT_FORWARD | Page.WHY, [namespace, pod]:
            return Route(page, namespace, pod)
        case Page.PORT_FORWARD, [namespace, pod, uid]:
            return Route(page, namespace, pod, uid)
        case Page.EXEC | Page.ATTACH | Page.RUN | Page.LOGS, [namespace, pod, container]:
            return Route(page, namespace, pod, container=container)
        case Page.EXEC | Page.ATTACH | Page.RUN, [namespace, pod, uid, container]:
            return Route(page, namespace, pod, uid, container)
        case _:
            return None


def _require_parts(parts: list[str]) -> None:
    """The page of logs says which part of its path is missing."""
    if len(parts) == 3:
        for part, what in ((parts[1], "podID"), (parts[2], "container name"), (parts[0], "podNamespace")):
            if not part:
                raise Refused(400, f'{{"message": "Missing {what}."}}')
