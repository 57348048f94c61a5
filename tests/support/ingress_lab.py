"""The ports of the ingress controller on loopback, with backends that a test writes, and clients that send any bytes."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from pykubelet.aio.clock import SystemClock
from pykubelet.aio.tasks import running
from pykubelet.api.generated.core import Secret, Service, ServicePort, ServiceSpec
from pykubelet.api.generated.discovery import Endpoint, EndpointConditions, EndpointPort, EndpointSlice
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.generated.networking import (
    HTTPIngressPath,
    HTTPIngressRuleValue,
    Ingress,
    IngressBackend,
    IngressRule,
    IngressServiceBackend,
    IngressSpec,
    IngressTLS,
    ServiceBackendPort,
)
from pykubelet.httpserver.dialer import Dialer
from pykubelet.ingress.backends import SERVICE_NAME, ServiceBackends
from pykubelet.ingress.certificates import IngressCertificates
from pykubelet.ingress.controller import PublishedAddress
from pykubelet.ingress.routes import Routes
from pykubelet.ingress.server import IngressServer

LOOPBACK = "127.0.0.1"
HOST = "web.example.com"
SECONDS = 10.0
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def backend(service: str, port: str | int = 80) -> IngressBackend:
    """A backend that names a Service and its port."""
    named = ServiceBackendPort(name=port) if isinstance(port, str) else ServiceBackendPort(number=port)
    return IngressBackend(service=IngressServiceBackend(name=service, port=named))


def ingress(
    name: str = "web",
    *rules: tuple[str, str, str, str],
    created: str = "2026-01-01T00:00:00Z",
    tls: tuple[IngressTLS, ...] = (),
    default: str = "",
    annotations: dict[str, str] | None = None,
) -> Ingress:
    """An Ingress with rules of host, path type, path and Service; with `default` as the Service of the rest."""
    hosts: dict[str, list[HTTPIngressPath]] = {}
    for host, kind, path, service in rules:
        hosts.setdefault(host, []).append(HTTPIngressPath(path=path, path_type=kind, backend=backend(service)))
    return Ingress(
        metadata=ObjectMeta(name=name, namespace="default", creation_timestamp=created, annotations=annotations or {}),
        spec=IngressSpec(
            default_backend=backend(default) if default else None,
            rules=tuple(
                IngressRule(host=host, http=HTTPIngressRuleValue(paths=tuple(paths))) for host, paths in hosts.items()
            ),
            tls=tls,
        ),
    )


def service(name: str = "web", *, port: str = "http", kind: str = "ClusterIP") -> Service:
    """A Service with port 80."""
    return Service(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=ServiceSpec(type=kind, ports=(ServicePort(name=port, port=80),)),
    )


def endpoints(
    *numbers: int, name: str = "web", port: str = "http", ready: bool = True, terminating: bool = False
) -> list[EndpointSlice]:
    """Slices of a Service with one endpoint on each of these ports of loopback."""
    conditions = EndpointConditions(ready=ready, serving=True, terminating=terminating)
    return [
        EndpointSlice(
            metadata=ObjectMeta(name=f"{name}-{number}", namespace="default", labels={SERVICE_NAME: name}),
            address_type="IPv4",
            endpoints=(Endpoint(addresses=(LOOPBACK,), conditions=conditions),),
            ports=(EndpointPort(name=port, port=number, protocol="TCP"),),
        )
        for number in numbers
    ]


def tls_secret(name: str, certificate: bytes, key: bytes) -> Secret:
    """A secret with a certificate."""
    data = {"tls.crt": certificate, "tls.key": key}
    return Secret(metadata=ObjectMeta(name=name, namespace="default"), data=data, type="kubernetes.io/tls")


@dataclass(kw_only=True)
class IngressLab:
    """A running controller without an API server: tests put objects into its parts."""

    routes: Routes
    backends: ServiceBackends
    certificates: IngressCertificates
    services: dict[str, Service] = field(default_factory=dict)
    http_port: int = 0
    https_port: int = 0

    def serve(self, *numbers: int, name: str = "web") -> None:
        """Have a Service with endpoints on these ports of loopback."""
        self.services[f"default/{name}"] = service(name)
        self.backends.service_changed(service(name))
        for each in endpoints(*numbers, name=name):
            self.backends.put_slice(each)

    async def connect(
        self, *, tls: ssl.SSLContext | None = None, server_name: str = HOST
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to one of the ports."""
        if tls is None:
            return await asyncio.open_connection(LOOPBACK, self.http_port)
        return await asyncio.open_connection(LOOPBACK, self.https_port, ssl=tls, server_hostname=server_name)

    async def send(self, request: bytes) -> bytes:
        """Everything that comes back for these bytes until the server closes the connection."""
        reader, writer = await self.connect()
        try:
            writer.write(request)
            async with asyncio.timeout(SECONDS):
                return await reader.read()
        finally:
            writer.close()

    async def get(self, path: str = "/", *lines: str, host: str = HOST) -> bytes:
        """The response to a GET with these additional header lines."""
        head = (f"GET {path} HTTP/1.1", f"Host: {host}", "Connection: close", *lines, "", "")
        return await self.send("\r\n".join(head).encode())


@asynccontextmanager
async def ingress_lab() -> AsyncIterator[IngressLab]:
    """Serve on free ports of loopback."""
    backends, listens = ServiceBackends(), asyncio.Event()
    lab = IngressLab(routes=Routes(), backends=backends, certificates=IngressCertificates(SystemClock()))
    backends.look_up(lab.services.get)

    def changed(address: PublishedAddress | None, problems: tuple[str, ...]) -> None:
        assert not problems
        if address is not None and len(address.ports) == 2:
            lab.http_port, lab.https_port = address.ports
            listens.set()

    server = IngressServer(
        bind=LOOPBACK,
        http_port=0,
        https_port=0,
        routes=lab.routes,
        backends=backends,
        certificates=lab.certificates,
        changed=changed,
        dialer=Dialer(),
    )
    is_needed = asyncio.Event()
    is_needed.set()
    async with running({"ingress": lambda: server.run(is_needed)}):
        async with asyncio.timeout(SECONDS):
            await listens.wait()
        yield lab


@dataclass
class Backend:
    """A server on a port of loopback that keeps what it received."""

    serve: Serve
    port: int = 0
    connections: int = 0
    received: list[bytes] = field(default_factory=list)


@asynccontextmanager
async def backend_server(serve: Serve) -> AsyncIterator[Backend]:
    """Run a server whose connections are served by a coroutine."""
    found = Backend(serve)

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found.connections += 1
        try:
            await serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(accept, LOOPBACK, 0)
    found.port = server.sockets[0].getsockname()[1]
    try:
        yield found
    finally:
        server.close()


@asynccontextmanager
async def echo_server(reply: str = "") -> AsyncIterator[Backend]:
    """A server that answers each request with `reply`, or with the head that it received."""
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            heads.append(head)
            body = reply.encode() or head
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
            await writer.drain()

    async with backend_server(serve) as found:
        found.received = heads
        yield found
