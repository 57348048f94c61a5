"""The ports of the ingress controller, opened when the first Ingress needs them."""

import asyncio
from collections.abc import Callable
from functools import partial

from pykubelet.aio.tasks import running
from pykubelet.httpserver.dialer import Dialer
from pykubelet.httpserver.listener import is_unspecified, public_host
from pykubelet.httpserver.reverse_proxy import ProxyLimits, reverse_proxy
from pykubelet.ingress.backends import ServiceBackends
from pykubelet.ingress.certificates import IngressCertificates
from pykubelet.ingress.controller import PublishedAddress
from pykubelet.ingress.handler import IngressHandler
from pykubelet.ingress.listener import IngressListener, Port
from pykubelet.ingress.routes import Routes

Changed = Callable[[PublishedAddress | None, tuple[str, ...]], None]
"""Gets the address where the controller is reached, and the problems with its ports."""


class IngressServer:
    """Serves HTTP and HTTPS."""

    def __init__(
        self,
        *,
        bind: str,
        http_port: int,
        https_port: int,
        routes: Routes,
        backends: ServiceBackends,
        certificates: IngressCertificates,
        changed: Changed,
        dialer: Dialer,
    ) -> None:
        """`dialer` connects to endpoints, which may be in another network namespace."""
        self._routes, self._backends, self._certificates = routes, backends, certificates
        self._bind, self._changed, self._dialer = bind, changed, dialer
        self._ports = Port(bind, http_port, "http"), Port(bind, https_port, "https")

    async def run(self, is_needed: asyncio.Event) -> None:
        """Serve until cancelled, from when there is an Ingress."""
        await is_needed.wait()
        async with reverse_proxy(ProxyLimits(), self._dialer) as proxy:
            listeners: list[IngressListener] = []
            handler = IngressHandler(
                routes=self._routes,
                backends=self._backends,
                proxy=proxy,
                https_port=lambda: listeners[1].number,
            )
            changed = partial(self._report, listeners)
            listeners += [IngressListener(port, answer=handler.answer, changed=changed) for port in self._ports]
            http, https = listeners
            tls = self._certificates.serving_context()
            runners = {"ingress over http": partial(http.run, None), "ingress over https": partial(https.run, tls)}
            async with running(runners):
                await asyncio.get_running_loop().create_future()

    def _report(self, listeners: list[IngressListener]) -> None:
        ports = tuple(each.number for each in listeners if each.number)
        ip = public_host(self._bind) if is_unspecified(self._bind) else self._bind
        problems = tuple(each.problem for each in listeners if each.problem)
        self._changed(PublishedAddress(ip, ports) if ports else None, problems)
