"""What somebody must be allowed to do on the node's object for a request to be answered.

In: the method and the path. Out: a verb and subresources of `nodes/<this one>`, any of which is enough.

Upstream: pkg/kubelet/server/auth.go. On purpose otherwise: what runs commands or opens connections needs `create`, by
whatever method it is asked for. Upstream takes the verb from the method, so over WebSocket, which begins with GET, the
right to read a node is the right to run anything in its pods.
"""

from typing import NamedTuple

_VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
# Tried first, with the general right to everything behind them.
_FINE = {
    "/pods": "pods",
    "/healthz": "healthz",
    "/configz": "configz",
    "/runningpods": "pods",
    "/pykubelet/why": "pods",
}
_OWN = {
    "/stats": "stats",
    "/metrics": "metrics",
    "/logs": "log",
    "/checkpoint": "checkpoint",
    "/statusz": "statusz",
    "/flagz": "configz",
}
_DOING = ("/exec", "/attach", "/portForward", "/run", "/checkpoint")


class Attributes(NamedTuple):
    """A verb, and the subresources of the node of which one must be allowed."""

    verb: str
    subresources: tuple[str, ...]


def attributes_of(method: str, path: str) -> Attributes:
    """What a request needs; every path has an answer."""
    verb = "create" if _is_below(path, _DOING) else _VERBS.get(method, "")
    fine = tuple(name for prefix, name in _FINE.items() if _is_below(path, (prefix,)))
    own = tuple(name for prefix, name in _OWN.items() if _is_below(path, (prefix,)))
    return Attributes(verb, (*fine, *(own or ("proxy",))))


def _is_below(path: str, prefixes: tuple[str, ...]) -> bool:
    return any(path == prefix or path.startswith(f"{prefix}/") for prefix in prefixes)
