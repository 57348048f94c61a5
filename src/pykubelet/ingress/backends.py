"""The endpoints of Services that backends of Ingresses name.

A backend is resolved when the first request needs it. The result is kept until its Service or one of its EndpointSlices
changes, so a request costs O(1). The ready endpoints take turns; if there are none, those are used that still serve while
they terminate.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from pykubelet.api.generated.core import Service, ServicePort
from pykubelet.api.generated.discovery import Endpoint, EndpointSlice
from pykubelet.client.indexer import key_of
from pykubelet.ingress.routes import ServicePortReference

SERVICE_NAME = "kubernetes.io/service-name"
"""The label that names the Service of an EndpointSlice."""
Endpoints = Sequence[tuple[str, int]]
"""Addresses and ports."""


class BackendProblem(StrEnum):
    """Why a backend has no endpoints; the value is the reason of an event."""

    NOT_A_SERVICE = "BackendNotSupported"
    NO_SERVICE = "ServiceNotFound"
    NO_PORT = "ServicePortNotFound"
    EXTERNAL = "ExternalNameRefused"


class ResolvedBackend:
    """The endpoints of one backend, which take turns."""

    __slots__ = ("_turn", "endpoints", "problem")

    def __init__(self, endpoints: Endpoints, problem: BackendProblem | None = None) -> None:
        self.endpoints, self.problem = endpoints, problem
        self._turn = 0

    def next(self, most: int) -> Endpoints:
        """Up to `most` different endpoints, beginning with the one whose turn it is."""
        count = len(self.endpoints)
        if not count:
            return ()
        start = self._turn = (self._turn + 1) % count
        return [self.endpoints[(start + offset) % count] for offset in range(min(most, count))]


class ServiceBackends:
    """Resolves backends. `service` returns a Service by its `namespace/name`."""

    def __init__(self) -> None:
        self._service: Callable[[str], Service | None] = lambda _key: None
        self._slices: dict[str, dict[str, EndpointSlice]] = {}
        self._service_of: dict[str, str] = {}
        self._resolved: dict[str, dict[str | int, ResolvedBackend]] = {}

    def look_up(self, service: Callable[[str], Service | None]) -> None:
        """Sets where Services are looked up."""
        self._service = service

    def resolve(self, backend: ServicePortReference | None) -> ResolvedBackend:
        """The endpoints of a backend now."""
        if backend is None:
            return ResolvedBackend((), BackendProblem.NOT_A_SERVICE)
        found = self._resolved.get(backend.service, {}).get(backend.port)
        if found is None:
            service, slices = self._service(backend.service), self._slices.get(backend.service, {})
            found = resolved(service, backend.port, slices.values())
            # What is kept ends with the Service.
            if service is not None:
                self._resolved.setdefault(backend.service, {})[backend.port] = found
        return found

    def service_changed(self, service: Service) -> None:
        """A Service was added, changed or removed."""
        self._resolved.pop(key_of(service), None)

    def put_slice(self, endpoints: EndpointSlice) -> None:
        """Adds or replaces a slice, which may have moved to another Service."""
        self.remove_slice(endpoints)
        key, name = key_of(endpoints), endpoints.metadata.labels.get(SERVICE_NAME)
        if name:
            service = self._service_of[key] = f"{endpoints.metadata.namespace}/{name}"
            self._slices.setdefault(service, {})[key] = endpoints
            self._resolved.pop(service, None)

    def remove_slice(self, endpoints: EndpointSlice) -> None:
        key = key_of(endpoints)
        service = self._service_of.pop(key, None)
        if service is None:
            return
        slices = self._slices[service]
        del slices[key]
        if not slices:
            del self._slices[service]
        self._resolved.pop(service, None)


def resolved(service: Service | None, port: str | int, slices: Iterable[EndpointSlice]) -> ResolvedBackend:
    """The endpoints of a port of a Service, given by name or number."""
    if service is None:
        return ResolvedBackend((), BackendProblem.NO_SERVICE)
    if service.spec.type == "ExternalName":
        # A DNS name that a user chooses would have this program send requests to whatever it reaches.
        return ResolvedBackend((), BackendProblem.EXTERNAL)
    named = next((one for one in service.spec.ports if port in (one.name or None, one.port)), None)
    if named is None or (named.protocol or "TCP") != "TCP":
        return ResolvedBackend((), BackendProblem.NO_PORT)
    found = list(_candidates(named, slices))
    ready = [one.target for one in found if one.is_ready]
    return ResolvedBackend(sorted(set(ready or [one.target for one in found])))


class _Candidate(NamedTuple):
    target: tuple[str, int]
    is_ready: bool


def _candidates(port: ServicePort, slices: Iterable[EndpointSlice]) -> Iterable[_Candidate]:
    """The endpoints that serve a port, ready or while they terminate."""
    for one in slices:
        if one.address_type not in ("IPv4", "IPv6"):
            continue
        numbers = [each.port for each in one.ports if (each.name or "") == (port.name or "") and each.port is not None]
        for endpoint in one.endpoints:
            is_ready, is_usable = _state(endpoint)
            if is_usable and endpoint.addresses:
                yield from (_Candidate((endpoint.addresses[0], number), is_ready) for number in numbers)


def _state(endpoint: Endpoint) -> tuple[bool, bool]:
    """Whether an endpoint is ready, and whether it may be used at all."""
    conditions = endpoint.conditions
    is_ready = conditions.ready is not False
    return is_ready, is_ready or (conditions.serving is True and conditions.terminating is True)
