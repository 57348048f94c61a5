"""Routes of the kubelet's API: the endpoint of a path, and the pod and container it names.

Not served: /checkpoint, /configz, /logs/, /debug/. /pykubelet/ is not part of upstream.

Upstream: pkg/kubelet/server/server.go
"""

from enum import Enum
from typing import NamedTuple
from urllib.parse import unquote

from pykubelet.httpserver.request import pairs as query_pairs
from pykubelet.httpserver.request import split_target
from pykubelet.httpserver.response import NOT_FOUND, HttpError

_GET = frozenset({"GET", "HEAD"})
_UPGRADE = frozenset({"GET", "POST"})
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
# More than the kernel accepts as a command line.
_MOST_PARAMETERS = 4096


class KubeletEndpoint(Enum):
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


class KubeletRoute(NamedTuple):
    """An endpoint and the names in its path."""

    page: KubeletEndpoint
    namespace: str = ""
    pod: str = ""
    uid: str = ""
    container: str = ""
    check: str = ""
    """The single check of /healthz."""


_METHODS = {
    KubeletEndpoint.EXEC: _UPGRADE,
    KubeletEndpoint.ATTACH: _UPGRADE,
    KubeletEndpoint.PORT_FORWARD: _UPGRADE,
    KubeletEndpoint.RUN: frozenset({"POST"}),
    KubeletEndpoint.LOGS: frozenset({"GET"}),
}
_PLAIN = {
    page.value: page
    for page in KubeletEndpoint
    if page not in _METHODS and page not in {KubeletEndpoint.HEALTH, KubeletEndpoint.WHY}
}
_OF_PODS = {page.value.removeprefix("/"): page for page in _METHODS}


def route(method: str, path: str, *, debugging: bool = True) -> KubeletRoute:
    """The route of a request; raises HttpError if there is none."""
    if not debugging and f"{path}/".startswith(_DEBUGGING):
        raise HttpError(405, "Debug endpoints are disabled.\n")
    found = _route(path)
    if found is None:
        raise HttpError(404, NOT_FOUND.body.decode())
    if method not in _METHODS.get(found.page, _GET):
        raise HttpError(405, "405: Method Not Allowed")
    return found


def _route(path: str) -> KubeletRoute | None:
    plain = _PLAIN.get(path.rstrip("/") or "/")
    if plain is not None:
        return KubeletRoute(plain)
    first, *parts = path.removeprefix("/").split("/")
    if first == "healthz" and len(parts) <= 1:
        return KubeletRoute(KubeletEndpoint.HEALTH, check="".join(parts))
    if first == "pykubelet" and parts[:1] == ["why"]:
        return _pod_route(KubeletEndpoint.WHY, [unquote(part) for part in parts[1:]])
    page = _OF_PODS.get(first)
    return _pod_route(page, [unquote(part) for part in parts]) if page is not None else None


def _pod_route(page: KubeletEndpoint, parts: list[str]) -> KubeletRoute | None:
    if page is KubeletEndpoint.LOGS:
        _require_parts(parts)
    if not all(parts):
        return None
    match page, parts:
        case KubeletEndpoint.PORT_FORWARD | KubeletEndpoint.WHY, [namespace, pod]:
            return KubeletRoute(page, namespace, pod)
        case KubeletEndpoint.PORT_FORWARD, [namespace, pod, uid]:
            return KubeletRoute(page, namespace, pod, uid)
        case KubeletEndpoint.EXEC | KubeletEndpoint.ATTACH | KubeletEndpoint.RUN | KubeletEndpoint.LOGS, [
            namespace,
            pod,
            container,
        ]:
            return KubeletRoute(page, namespace, pod, container=container)
        case KubeletEndpoint.EXEC | KubeletEndpoint.ATTACH | KubeletEndpoint.RUN, [namespace, pod, uid, container]:
            return KubeletRoute(page, namespace, pod, uid, container)
        case _:
            return None


def _require_parts(parts: list[str]) -> None:
    """/containerLogs reports which part of its path is missing."""
    if len(parts) == 3:
        for part, what in ((parts[1], "podID"), (parts[2], "container name"), (parts[0], "podNamespace")):
            if not part:
                raise HttpError(400, f'{{"message": "Missing {what}."}}')


class KubeletTarget(NamedTuple):
    """The path, still encoded, and the pairs of the query."""

    path: str
    query: tuple[tuple[str, str], ...]


def read_target(raw: str) -> KubeletTarget:
    """The parts of a request's target; raises HttpError if it is not a path."""
    path, query = split_target(raw)
    if not path.startswith("/"):
        raise HttpError(400, "the target of a request is a path")
    return KubeletTarget(path, pairs(query))


def pairs(query: str) -> tuple[tuple[str, str], ...]:
    """The pairs of a query or form; raises HttpError if there are too many."""
    if query.count("&") >= _MOST_PARAMETERS:
        raise HttpError(400, "the query has too many parameters")
    return tuple(query_pairs(query))
