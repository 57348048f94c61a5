"""Follows the secrets of type kubernetes.io/tls, once an Ingress names one."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from pykubelet.aio.clock import Clock
from pykubelet.api.generated.core import Secret
from pykubelet.api.scheme import SECRETS
from pykubelet.client.interface import Selection
from pykubelet.client.reflector import ListerWatcher, Reflector

_TLS = Selection(fields="type=kubernetes.io/tls")


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSecrets:
    """Passes changes of TLS secrets on; a ResourceEventHandler."""

    changed: Callable[[Secret], None]
    removed: Callable[[Secret], None]
    listed: Callable[[], None]

    async def run(self, client: ListerWatcher, clock: Clock, are_needed: asyncio.Event) -> None:
        """Follow the secrets until cancelled, from when they are needed."""
        await are_needed.wait()
        await Reflector(client=client, kind=SECRETS, sink=self, clock=clock, selection=_TLS).run(asyncio.Event())

    def added(self, secret: Secret, /) -> None:
        self.changed(secret)

    def modified(self, secret: Secret, /) -> None:
        self.changed(secret)

    def deleted(self, secret: Secret, /) -> None:
        self.removed(secret)

    def synced(self) -> None:
        self.listed()
