"""The request that an `httpGet` of a hook or a probe stands for.

Upstream: pkg/probe/http/request.go, pkg/probe/util.go
"""

import re
from dataclasses import dataclass, replace

from pykubelet.api.generated.core import Container, EphemeralContainer, HTTPGetAction
from pykubelet.api.validation.field_errors import go_quote

# The release whose behaviour is reproduced, as servers see it.
VERSION = "1.34"

Headers = tuple[tuple[str, str], ...]
_SECRET = frozenset({"authorization", "cookie"})


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A GET: the parts of its URL, and its headers, of which several may bear one name."""

    scheme: str
    host: str
    port: int
    path: str
    headers: Headers

    @property
    def host_port(self) -> str:
        """Host and port as in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The whole URL."""
        slash = "" if self.path.startswith(("/", "?", "#")) or not self.path else "/"
        return f"{self.scheme}://{self.host_port}{slash}{self.path}"


def http_request(
    action: HTTPGetAction, container: Container | EphemeralContainer, *, pod_ip: str, purpose: str
) -> HttpRequest:
    """What to ask for; `purpose` goes into the User-Agent. ValueError if the port is none."""
    return HttpRequest(
        scheme=action.scheme.lower() or "http",
        host=action.host or pod_ip,
        port=container_port(action.port, container),
        path=action.path,
        headers=_headers(tuple((header.name, header.value) for header in action.http_headers), purpose),
    )


def as_plain_http(request: HttpRequest) -> HttpRequest:
    """The same without TLS; a secret meant for an encrypted connection stays behind."""
    return replace(request, scheme="http", headers=_without_secrets(request.headers))


def redirected_headers(headers: Headers, *, url: str, target: str) -> Headers:
    """What goes along from one URL to the next; no secret goes from an encrypted connection to a plain one."""
    is_laid_open = url.startswith("https:") and not target.startswith("https:")
    return _without_secrets(headers) if is_laid_open else headers


def _without_secrets(headers: Headers) -> Headers:
    return tuple((name, value) for name, value in headers if name.lower() not in _SECRET)


def container_port(port: int | str | None, container: Container | EphemeralContainer) -> int:
    """The number of a port given by number or by a name the container gave it."""
    number = port
    if isinstance(port, str):
        named = next((known.container_port for known in container.ports if known.name == port), None)
        number = named if named is not None else _number(port)
    if number is None:
        raise ValueError("the port is missing")
    if not 0 < int(number) < 65536:
        raise ValueError(f"invalid port number: {number}")
    return int(number)


def _number(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise ValueError(f"strconv.Atoi: parsing {go_quote(text)}: invalid syntax")
    return int(text)


def _headers(given: Headers, purpose: str) -> Headers:
    names = {name.lower() for name, _ in given}
    headers = list(given)
    if "user-agent" not in names:
        headers.append(("User-Agent", f"kube-{purpose}/{VERSION}"))
    if "accept" not in names:
        headers.append(("Accept", "*/*"))
    elif not next(value for name, value in given if name.lower() == "accept"):
        # Given as empty it is not sent at all.
        headers = [(name, value) for name, value in headers if name.lower() != "accept"]
    return tuple(headers)
