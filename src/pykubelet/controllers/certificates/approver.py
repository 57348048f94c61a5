"""Approves the requests of nodes for their client certificates, if whoever asks has the right to one.

In: changes of requests. Out: the condition Approved. Requests for serving certificates are for somebody who knows which
addresses are whose.

Upstream: pkg/controller/certificates/approver/sarapprove.go
"""

from pykubelet.aio.backoff import Backoff
from pykubelet.aio.log import get_logger
from pykubelet.api.certificates import APPROVED
from pykubelet.api.generated.certificates import CertificateSigningRequest
from pykubelet.api.scheme import CERTIFICATE_SIGNING_REQUESTS, SUBJECT_ACCESS_REVIEWS
from pykubelet.client.indexer import ObjectIndex
from pykubelet.client.informers import Informers
from pykubelet.client.interface import Client, PatchType
from pykubelet.controllers.certificates.certificate_controller import (
    CertificateRequestQueue,
    csr_recognizers,
    new_access_review,
    status_patch,
    with_condition,
)

log = get_logger(__name__)

_RETRY = Backoff(first_seconds=0.2, limit_seconds=1000)


class NotPermitted(Exception):
    """A node's request whose sender has no right to it: asked about again later, as rights change."""


class CertificateApprover:
    """Syncs requests by name."""

    def __init__(self, *, client: Client, requests: ObjectIndex[CertificateSigningRequest]) -> None:
        self._client, self._queue = client, CertificateRequestQueue(requests, retry=_RETRY)

    def listen(self, informers: Informers) -> None:
        """Hear of every change of requests."""
        self._queue.listen(informers)

    async def process_next(self) -> None:
        """Sync the next request of the queue; a failure puts it back, later."""
        await self._queue.work.process_next(self.sync)

    async def sync(self, name: str) -> None:
        """Approve one request if it may be."""
        request = self._queue.get(name)
        if request is None or not (open_questions := csr_recognizers(request)):
            return
        for question in open_questions:
            answer = await self._client.create(SUBJECT_ACCESS_REVIEWS, new_access_review(request, question))
            if answer.status.allowed:
                patch = status_patch(
                    request, conditions=with_condition(request, APPROVED, "AutoApproved", question.message)
                )
                await self._client.patch(
                    CERTIFICATE_SIGNING_REQUESTS,
                    name,
                    patch,
                    patch_type=PatchType.MERGE,
                    subresource="approval",
                )
                log.info("certificate request approved", request=name, user=request.spec.username)
                return
        tried = " ".join(question.subresource for question in open_questions)
        raise NotPermitted(f"recognized csr {name} as [{tried}] but subject access review was not approved")
