"""Deletes bootstrap tokens that have expired, each when its time comes.

Upstream: pkg/controller/bootstrap/tokencleaner.go, pkg/controller/bootstrap/util.go
"""

import asyncio
from contextlib import suppress
from datetime import datetime

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.aio.tasks import start_supervised
from pykubelet.api.errors import NotFound
from pykubelet.api.scheme import SECRETS, as_documents
from pykubelet.api.serializer import Document
from pykubelet.api.times import parse_time
from pykubelet.client.interface import Client, Selection, now_if_uid
from pykubelet.client.reflector import Reflector
from pykubelet.controllers.framework.work_queue import WorkQueue
from pykubelet.kinds.bootstrap_token import SECRET_NAMESPACE, SECRET_TYPE, has_expired, token_data

log = get_logger(__name__)

_LATE_SECONDS = 0.001
"""Past the end itself, whatever the timer's and the clock's rounding."""


class TokenCleaner:
    """Follows the Secrets of tokens, by name."""

    def __init__(self, *, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._secrets: dict[str, Document] = {}
        self._queue = WorkQueue()
        self._reflector = Reflector(
            client=client,
            kind=as_documents(SECRETS.resource),
            sink=self,
            clock=clock,
            namespace=SECRET_NAMESPACE,
            selection=Selection(fields=f"type={SECRET_TYPE}"),
        )

    async def run(self, ready: asyncio.Event) -> None:
        """Deletes expired tokens until cancelled; ready once the tokens are known."""
        async with asyncio.TaskGroup() as group:
            start_supervised(group, "bootstrap tokens", lambda: self._reflector.run(ready))
            while True:
                await self._queue.process_next(self._sync)

    def added(self, secret: Document, /) -> None:
        self._secrets[secret["metadata"]["name"]] = secret
        self._queue.add(secret["metadata"]["name"])

    def modified(self, secret: Document, /) -> None:
        self.added(secret)

    def deleted(self, secret: Document, /) -> None:
        self._secrets.pop(secret["metadata"]["name"], None)

    def synced(self) -> None:
        """Ignored: a token is looked at when it is listed."""

    async def _sync(self, name: str) -> None:
        secret, now = self._secrets.get(name), self._clock.now()
        if secret is None or secret.get("type") != SECRET_TYPE:
            return
        if not has_expired(token_data(secret), now):
            if (seconds := seconds_left(secret, now)) is not None:
                self._queue.add_after(name, seconds + _LATE_SECONDS)
            return
        with suppress(NotFound):
            options = now_if_uid(secret["metadata"]["uid"])
            await self._client.delete(SECRETS, name, namespace=SECRET_NAMESPACE, options=options)
        log.info("expired bootstrap token deleted", secret=f"{SECRET_NAMESPACE}/{name}")


def seconds_left(secret: Document, now: datetime) -> float | None:
    """The time until a token expires; None if it never does."""
    expiration = token_data(secret).get("expiration", "")
    return (parse_time(expiration) - now).total_seconds() if expiration else None
