"""Signs the approved requests of nodes.

In: changes of requests. Out: the certificate in their status, or the condition Failed if a request is not one of a node.

Upstream: pkg/controller/certificates/signer/signer.go
"""

import asyncio
import base64
from datetime import datetime, timedelta

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.certificate_requests import FAILED, signed_request
from pykubelet.api.generated.certificates import CertificateSigningRequest
from pykubelet.api.typed import CERTIFICATE_SIGNING_REQUESTS
from pykubelet.controllers.certificates.following import RequestClient, RequestQueue, status_patch, with_condition
from pykubelet.controllers.certificates.plan import is_to_sign, problem_of
from pykubelet.controllers.certificates.signing import LIFE, Authority, signed
from pykubelet.controllers.informers import Informers
from pykubelet.controllers.object_index import ObjectIndex
from pykubelet.kube.client import PatchType

log = get_logger(__name__)


class CertificateSigner:
    """Syncs requests by name."""

    def __init__(
        self,
        *,
        client: RequestClient,
        requests: ObjectIndex[CertificateSigningRequest],
        authority: Authority,
        clock: Clock,
        longest: timedelta = LIFE,
    ) -> None:
        self._client, self._queue = client, RequestQueue(requests)
        self._authority, self._clock, self._longest = authority, clock, longest

    def listen(self, informers: Informers) -> None:
        """Hear of every change of requests."""
        self._queue.listen(informers)

    async def process_next(self) -> None:
        """Sync the next request of the queue; a failure puts it back, later."""
        await self._queue.work.process_next(self.sync)

    async def sync(self, name: str) -> None:
        """Sign one request if it is approved."""
        request = self._queue.get(name)
        if request is None or not is_to_sign(request):
            return
        if problem := problem_of(request):
            conditions = with_condition(request, FAILED, "SignerValidationFailure", problem)
            patch = status_patch(request, conditions=conditions)
        else:
            pem = await asyncio.to_thread(self._signed, request, self._clock.now())
            patch = status_patch(request, certificate=base64.b64encode(pem).decode())
        await self._client.patch(
            CERTIFICATE_SIGNING_REQUESTS, name, patch, patch_type=PatchType.MERGE, subresource="status"
        )
        log.info("certificate request signed" if not problem else "certificate request failed", request=name)

    def _signed(self, request: CertificateSigningRequest, now: datetime) -> bytes:
        spec = request.spec
        return signed(
            signed_request(spec.request or b""),
            spec.usages,
            authority=self._authority,
            now=now,
            seconds=spec.expiration_seconds,
            longest=self._longest,
        )
