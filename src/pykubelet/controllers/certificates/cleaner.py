"""Deletes certificate requests that are over: an hour after they were settled, a day after no word.

In: changes of requests. Out: deletions, when they are due.

Upstream: pkg/controller/certificates/cleaner/cleaner.go, which looks once an hour
"""

from contextlib import suppress

from pykubelet.aio.clock import Clock
from pykubelet.api.errors import NotFound
from pykubelet.api.generated.certificates import CertificateSigningRequest
from pykubelet.api.generated.meta import DeleteOptions, Preconditions
from pykubelet.api.typed import CERTIFICATE_SIGNING_REQUESTS
from pykubelet.controllers.certificates.following import RequestClient, RequestQueue
from pykubelet.controllers.certificates.plan import due_at
from pykubelet.controllers.informers import Informers
from pykubelet.controllers.object_index import ObjectIndex


class CertificateCleaner:
    """Syncs requests by name."""

    def __init__(
        self, *, client: RequestClient, requests: ObjectIndex[CertificateSigningRequest], clock: Clock
    ) -> None:
        self._client, self._queue, self._clock = client, RequestQueue(requests), clock

    def listen(self, informers: Informers) -> None:
        """Hear of every change of requests."""
        self._queue.listen(informers)

    async def process_next(self) -> None:
        """Sync the next request of the queue; a failure puts it back, later."""
        await self._queue.work.process_next(self.sync)

    async def sync(self, name: str) -> None:
        """Delete one request if it is over, or come back when it will be."""
        request = self._queue.get(name)
        due = due_at(request) if request is not None else None
        if request is None or due is None:
            return
        left = (due - self._clock.now()).total_seconds()
        if left > 0:
            self._queue.work.add_after(name, left)
            return
        options = DeleteOptions(preconditions=Preconditions(uid=request.metadata.uid))
        with suppress(NotFound):
            await self._client.delete(CERTIFICATE_SIGNING_REQUESTS, name, options=options)
