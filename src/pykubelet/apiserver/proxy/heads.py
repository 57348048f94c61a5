"""Heads of requests and answers that are passed on (pure).

In: a request's headers and where it goes, or the first lines of an answer. Out: what is sent instead.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/proxy/upgradeaware.go, Go's net/http/httputil/reverseproxy.go
"""

import re
from collections.abc import Sequence

from pykubelet.apiserver.proxy.proxy_targets import ProxyTarget

# Never passed on: what proves to us who asks is nobody else's, and the next hop has a connection of its own.
_KEPT_BACK_FAMILIES = ("impersonate-", "x-remote-", "x-forwarded-", "proxy-")
_KEPT_BACK = frozenset(
    [
        "authorization",
        "cookie",
        "host",
        "connection",
        "content-length",
        "transfer-encoding",
        "keep-alive",
        "te",
        "trailer",
        "upgrade",
        "expect",
        "forwarded",
    ]
)
_CODE = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})[ \r]")
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[^\r\n]*\bchunked[ \t]*\r", re.IGNORECASE)
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,18})[ \t]*\r", re.IGNORECASE)
_CONNECTION = re.compile(rb"\r\n(?:connection|keep-alive):[^\r\n]*", re.IGNORECASE)


def request_head(target: ProxyTarget, method: str, headers: Sequence[tuple[str, str]], body_bytes: int) -> bytes:
    """The request line and headers for the next hop; an upgrade is asked for on, anything else ends the connection."""
    upgrade = asked_upgrade(headers)
    lines = [f"{method} {target.path} HTTP/1.1", f"Host: {_host(target)}"]
    lines += [f"{name}: {value}" for name, value in headers if _goes_on(name.lower())]
    lines += ["Connection: Upgrade", f"Upgrade: {upgrade}"] if upgrade else ["Connection: close"]
    if body_bytes or method not in ("GET", "HEAD"):
        lines.append(f"Content-Length: {body_bytes}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "surrogateescape")


def _goes_on(name: str) -> bool:
    return name not in _KEPT_BACK and not name.startswith(_KEPT_BACK_FAMILIES)


def _host(target: ProxyTarget) -> str:
    return f"[{target.host}]:{target.port}" if ":" in target.host else f"{target.host}:{target.port}"


def asked_upgrade(headers: Sequence[tuple[str, str]]) -> str:
    """The protocol that a request wants to change to; empty if it does not."""
    if not any(name.lower() == "connection" and "upgrade" in value.lower() for name, value in headers):
        return ""
    return next((value for name, value in headers if name.lower() == "upgrade"), "")


def answer_code(head: bytes) -> int:
    """The code of an answer; 0 if it is none of HTTP."""
    found = _CODE.match(head)
    return int(found[1]) if found else 0


def answer_bytes(head: bytes) -> int | None:
    """How long the body of an answer is; None if only its end tells."""
    found = _LENGTH.search(head)
    return int(found[1]) if found else None


def is_chunked(head: bytes) -> bool:
    """Whether the body of an answer comes in chunks, each with its length."""
    return _CHUNKED.search(head) is not None


def last_head(head: bytes) -> bytes:
    """The head of an answer after which the connection ends."""
    return _CONNECTION.sub(b"", head[:-2]) + b"Connection: close\r\n\r\n"
