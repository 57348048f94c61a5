"""Approves client certificate requests of nodes.

A SubjectAccessReview must authorize the requester.
Requests for serving certificates are left to an approver that knows which addresses belong to which node.

Upstream: pkg/controller/certificates/approver/sarapprove.go
"""

from pykubelet.aio.backoff import Backoff
from pykubelet.aio.log import get_logger
from pykubelet.api.certificates import APPROVED
from pykubelet.api.generated.certificates import CertificateSigningRequest
from pykubelet.api.scheme import CERTIFICATE_SIGNING_REQUESTS, SUBJECT_ACCESS_REVIEWS
from pykubelet.client.indexer import ObjectIndex
from pykubelet.client.interface import Client, PatchType
from pykubelet.controllers.certificates.certificate_controller import (
    CertificateController,
    csr_recognizers,
    new_access_review,
    status_patch,
    with_condition,
)

log = get_logger(__name__)

_RETRY = Backoff(first_seconds=0.2, limit_seconds=1000)


class NotPermitted(Exception):
    """The requester is not authorized; the request is retried later, since permissions may change."""


class CertificateApprover(CertificateController):
    """Approves requests, by name."""

    def __init__(self, *, client: Client, requests: ObjectIndex[CertificateSigningRequest]) -> None:
        super().__init__(requests, retry=_RETRY)
        self._client = client

    async def sync(self, name: str) -> None:
        """Approves one request if its requester is authorized."""
        request = self._request(name)
        if request is None or not (recognizers := csr_recognizers(request)):
            return
        for recognizer in recognizers:
            review = await self._client.create(SUBJECT_ACCESS_REVIEWS, new_access_review(request, recognizer))
            if review.status.allowed:
                patch = status_patch(
                    request, conditions=with_condition(request, APPROVED, "AutoApproved", recognizer.message)
                )
                await self._client.patch(
                    CERTIFICATE_SIGNING_REQUESTS, name, patch, patch_type=PatchType.MERGE, subresource="approval"
                )
                log.info("certificate request approved", request=name, user=request.spec.username)
                return
        tried = " ".join(recognizer.subresource for recognizer in recognizers)
        raise NotPermitted(f"recognized csr {name} as [{tried}] but subject access review was not approved")
