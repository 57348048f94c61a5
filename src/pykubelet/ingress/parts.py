"""Connects the parts of the ingress controller, and chooses its usual ports."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pykubelet.aio.clock import Clock
from pykubelet.aio.tasks import Runner, with_ready_event
from pykubelet.api.generated.core import EventSource
from pykubelet.client.informers import Informers
from pykubelet.client.interface import Client
from pykubelet.client.recorder import Recorder
from pykubelet.httpserver.dialer import Dialer
from pykubelet.ingress.backends import ServiceBackends
from pykubelet.ingress.certificates import IngressCertificates
from pykubelet.ingress.controller import IngressController
from pykubelet.ingress.routes import Routes
from pykubelet.ingress.secrets import TlsSecrets
from pykubelet.ingress.server import IngressServer

COMPONENT = "ingress-controller"
_HTTP, _HTTPS = (80, 8080), (443, 8443)
_UNPRIVILEGED = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
_STATUS = Path("/proc/self/status")
_NET_BIND_SERVICE = 1 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class IngressParts:
    """The parts of an ingress controller, none if there is no controller."""

    listeners: Sequence[Callable[[Informers], None]] = ()
    """What subscribes to the cluster's informers."""
    runners: Callable[[asyncio.Event], dict[str, Runner]] = lambda _informed: {}
    """What runs, given the event that is set once the informers have synced."""


def ingress_parts(
    *,
    client: Client,
    clock: Clock,
    dialer: Dialer,
    bind: str,
    http_port: int | None = None,
    https_port: int | None = None,
) -> IngressParts:
    """An ingress controller; a port of None is the usual one, and `dialer` connects to pods."""
    routes, backends, certificates = Routes(), ServiceBackends(), IngressCertificates(clock)
    recorder = Recorder(sink=client, source=EventSource(component=COMPONENT), clock=clock)
    controller = IngressController(
        client=client, recorder=recorder, routes=routes, backends=backends, certificates=certificates
    )
    secrets = TlsSecrets(
        changed=controller.secret_changed, removed=controller.secret_deleted, listed=controller.secrets_listed
    )
    server = IngressServer(
        bind=bind,
        http_port=_usual_port(*_HTTP) if http_port is None else http_port,
        https_port=_usual_port(*_HTTPS) if https_port is None else https_port,
        routes=routes,
        backends=backends,
        certificates=certificates,
        changed=controller.listeners_changed,
        dialer=dialer,
    )

    def runners(informed: asyncio.Event) -> dict[str, Runner]:
        return {
            "events of ingress": with_ready_event(recorder.run),
            "ingress": partial(controller.run, informed),
            "secrets of ingress": partial(secrets.run, client, clock, controller.needs_secrets),
            "ports of ingress": partial(server.run, controller.is_needed),
        }

    return IngressParts(listeners=(controller.listen,), runners=runners)


def _usual_port(privileged: int, other: int) -> int:
    """The usual port if this user may listen on it."""
    if _UNPRIVILEGED.exists() and int(_UNPRIVILEGED.read_text()) <= privileged:
        return privileged
    effective = next((line.split()[1] for line in _STATUS.read_text().splitlines() if line.startswith("CapEff:")), "0")
    return privileged if int(effective, 16) & _NET_BIND_SERVICE else other
