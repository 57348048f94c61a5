"""The routes of all Ingresses: which backend serves a host and a path.

Paths are kept in a tree of their elements, one for each host, so a lookup costs as much as the path is long, and a change
as much as the Ingress that changed. A lookup sees all of an Ingress or nothing: it is replaced in one step of the event loop.

The longest matching path of the most specific host wins: a host, then a wildcard for its first label, then rules without
a host. Only if no rule matches, a `defaultBackend` is used, in the same order: it is that of its Ingress's hosts, or of
all hosts if the Ingress has no rules. If several Ingresses claim a path, the oldest one has it.
"""

from collections.abc import Iterator, Sequence
from enum import Enum, auto
from typing import NamedTuple
from urllib.parse import unquote

from pykubelet.api.generated.networking import Ingress, IngressBackend
from pykubelet.api.times import nanoseconds
from pykubelet.client.indexer import key_of

SSL_REDIRECT = "ingress.pykubelet.io/ssl-redirect"
"""An annotation: `false` has HTTP requests served though the host has TLS. That of ingress-nginx counts too."""
_SSL_REDIRECT_NAMES = (SSL_REDIRECT, "nginx.ingress.kubernetes.io/ssl-redirect")
ANY_HOST = ""


class ServicePortReference(NamedTuple):
    """The Service and port that a backend names, by name or number."""

    service: str
    """Its `namespace/name`."""
    port: str | int


class Route(NamedTuple):
    """The backend to which the requests of a host and path are sent."""

    ingress: str
    """The `namespace/name` of the Ingress."""
    backend: ServicePortReference | None
    """None if the backend is a resource of another kind, which is not supported."""
    redirects: bool = False
    """Whether requests without TLS are redirected."""


class Precedence(NamedTuple):
    """Orders Ingresses that claim the same: the oldest first."""

    created: int
    ingress: str


class RouteClaims:
    """The Ingresses that claim one path; the winner is chosen when they change, so that a request costs the same."""

    __slots__ = ("_by_ingress", "winner")

    def __init__(self) -> None:
        self._by_ingress: dict[str, tuple[Precedence, Route]] = {}
        self.winner: Route | None = None

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_ingress)

    def __bool__(self) -> bool:
        return bool(self._by_ingress)

    def add(self, order: Precedence, route: Route) -> None:
        """Add the claim of an Ingress that has none here."""
        self._by_ingress[route.ingress] = (order, route)
        if self.winner is None or order < self._by_ingress[self.winner.ingress][0]:
            self.winner = route

    def remove(self, ingress: str) -> None:
        del self._by_ingress[ingress]
        if self.winner is not None and self.winner.ingress == ingress:
            self.winner = min(self._by_ingress.values())[1] if self._by_ingress else None


class MatchKind(Enum):
    """How a path is matched; DEFAULT is a backend for what no rule matches."""

    EXACT = auto()
    PREFIX = auto()
    DEFAULT = auto()


class Place(NamedTuple):
    """What a rule claims."""

    host: str
    kind: MatchKind
    elements: tuple[str, ...]

    def __str__(self) -> str:
        where = f"host {self.host}" if self.host else "all hosts"
        if self.kind is MatchKind.DEFAULT:
            return f"the default backend of {where}"
        return f"path /{'/'.join(self.elements)} of {where}"


class RouteConflict(NamedTuple):
    """An Ingress does not get what it claims."""

    place: Place
    winner: str


class _Node:
    """The paths that begin with the same elements."""

    __slots__ = ("children", "exact", "prefix")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.exact, self.prefix = RouteClaims(), RouteClaims()

    def is_empty(self) -> bool:
        return not (self.children or self.exact or self.prefix)


class _Host:
    """The routes of one host."""

    __slots__ = ("default", "root")

    def __init__(self) -> None:
        self.root, self.default = _Node(), RouteClaims()

    def is_empty(self) -> bool:
        return not self.default and self.root.is_empty()

    def claims(self, place: Place) -> RouteClaims:
        """The claims of a place, which is added if it is new."""
        if place.kind is MatchKind.DEFAULT:
            return self.default
        node = self.root
        for element in place.elements:
            node = node.children.setdefault(element, _Node())
        return node.exact if place.kind is MatchKind.EXACT else node.prefix

    def prune(self, elements: Sequence[str]) -> None:
        """Remove the nodes of a path that have nothing left."""
        path = [self.root]
        for element in elements:
            path.append(path[-1].children[element])
        for parent, element in zip(reversed(path[:-1]), reversed(elements), strict=True):
            if not parent.children[element].is_empty():
                return
            del parent.children[element]

    def find(self, elements: Sequence[str]) -> Route | None:
        """The route of the longest path that matches."""
        node, found = self.root, self.root.prefix.winner
        for element in elements:
            child = node.children.get(element)
            if child is None:
                return found
            node, found = child, child.prefix.winner or found
        return node.exact.winner or found


class Routes:
    """The routes of all Ingresses that this controller serves."""

    def __init__(self) -> None:
        self._hosts: dict[str, _Host] = {}
        self._placed: dict[str, dict[Place, Route]] = {}

    def find(self, host: str, path: str) -> Route | None:
        """The route of a request, given the host without its port and the path as sent, still encoded."""
        candidates = [found for name in host_names(host) if (found := self._hosts.get(name)) is not None]
        if not candidates:
            return None
        elements = request_elements(path)
        for each in candidates:
            if (route := each.find(elements)) is not None:
                return route
        return next((route for each in candidates if (route := each.default.winner) is not None), None)

    def put(self, ingress: Ingress) -> None:
        """Add or replace an Ingress."""
        key, new = key_of(ingress), routes_of(ingress)
        self.remove(key)
        if not new:
            return
        order = precedence(ingress)
        self._placed[key] = new
        for place, route in new.items():
            self._hosts.setdefault(place.host, _Host()).claims(place).add(order, route)

    def remove(self, key: str) -> None:
        """Remove the Ingress of this name, if it is there."""
        for place in self._placed.pop(key, {}):
            host = self._hosts[place.host]
            host.claims(place).remove(key)
            if place.kind is not MatchKind.DEFAULT:
                host.prune(place.elements)
            if host.is_empty():
                del self._hosts[place.host]

    def conflicts(self, key: str) -> Iterator[RouteConflict]:
        """What an Ingress claims and does not get."""
        for place in self._placed.get(key, {}):
            winner = self._hosts[place.host].claims(place).winner
            assert winner is not None
            if winner.ingress != key:
                yield RouteConflict(place, winner.ingress)

    def rivals(self, key: str) -> set[str]:
        """The Ingresses that do not get what this one has."""
        found: set[str] = set()
        for place in self._placed.get(key, {}):
            claims = self._hosts[place.host].claims(place)
            if claims.winner is not None and claims.winner.ingress == key:
                found.update(claims)
        return found - {key}


def host_names(host: str) -> tuple[str, ...]:
    """The names under which the rules of a host are found: its own, the wildcard of its domain, and none."""
    _, _, domain = host.partition(".")
    return (host, f"*.{domain}", ANY_HOST) if domain else (host, ANY_HOST)


def routes_of(ingress: Ingress) -> dict[Place, Route]:
    """The routes of one Ingress; of equal rules the first counts."""
    key, spec, namespace = key_of(ingress), ingress.spec, ingress.metadata.namespace
    secured = tls_hosts(ingress) if redirects_to_tls(ingress) else frozenset()
    found: dict[Place, Route] = {}
    for rule in spec.rules:
        host = rule.host.lower()
        is_secured = bool(secured.intersection(host_names(host)[:2]))
        for each in rule.http.paths if rule.http is not None else ():
            is_exact = each.path_type == "Exact"
            elements = request_elements(each.path) if is_exact else prefix_elements(each.path)
            place = Place(host, MatchKind.EXACT if is_exact else MatchKind.PREFIX, tuple(elements))
            found.setdefault(place, Route(key, _backend(namespace, each.backend), is_secured))
    if spec.default_backend is not None:
        backend = _backend(namespace, spec.default_backend)
        for host in dict.fromkeys(rule.host.lower() for rule in spec.rules) or (ANY_HOST,):
            is_secured = bool(secured.intersection(host_names(host)[:2]))
            found[Place(host, MatchKind.DEFAULT, ())] = Route(key, backend, is_secured)
    return found


def tls_hosts(ingress: Ingress) -> frozenset[str]:
    """The hosts that have TLS. An entry without hosts is for those of the rules."""
    of_rules = [rule.host for rule in ingress.spec.rules]
    return frozenset(host.lower() for entry in ingress.spec.tls for host in (entry.hosts or of_rules))


def redirects_to_tls(ingress: Ingress) -> bool:
    """Whether an annotation leaves on the redirect of requests without TLS."""
    annotations = ingress.metadata.annotations
    return not any(annotations.get(name, "").lower() == "false" for name in _SSL_REDIRECT_NAMES)


def precedence(ingress: Ingress) -> Precedence:
    """The place of an Ingress among those that claim the same."""
    created = ingress.metadata.creation_timestamp
    return Precedence(nanoseconds(created) if created else 0, key_of(ingress))


def request_elements(path: str) -> list[str]:
    """The elements of a path, decoded one by one so that an encoded slash separates nothing."""
    elements = path.removeprefix("/").split("/")
    return [unquote(one) for one in elements] if "%" in path else elements


def prefix_elements(path: str) -> list[str]:
    """The elements of a path that is a prefix: a slash at its end does not count."""
    trimmed = path.removeprefix("/").removesuffix("/")
    return request_elements(trimmed) if trimmed else []


def _backend(namespace: str, backend: IngressBackend) -> ServicePortReference | None:
    if backend.service is None:
        return None
    port = backend.service.port
    return ServicePortReference(f"{namespace}/{backend.service.name}", port.name or port.number)
