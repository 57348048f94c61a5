"""What is to become of a request for a certificate (pure).

In: the request. Out: whose right to it has to be asked about, what keeps it from being signed, when it may be deleted.

Upstream: pkg/controller/certificates/{approver/sarapprove.go,signer/signer.go,cleaner/cleaner.go}

Deletes certificate requests that are over: an hour after they were settled, a day after no word.

In: changes of requests. Out: deletions, when they are due.

Upstream: pkg/controller/certificates/cleaner/cleaner.go, which looks once an hour

What controllers of certificate requests share: they hear of every request, and sync one by name.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from cryptography import x509

from pykubelet.aio.backoff import Backoff
from pykubelet.aio.clock import Clock
from pykubelet.api.certificates import (
    APPROVED,
    DENIED,
    FAILED,
    KUBELET_CLIENT_SIGNER,
    KUBELET_SERVING_SIGNER,
    RequestError,
    common_name,
    kubelet_client_problem,
    kubelet_serving_problem,
    parse_request,
)
from pykubelet.api.errors import NotFound
from pykubelet.api.generated.authorization import ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec
from pykubelet.api.generated.certificates import CertificateSigningRequest
from pykubelet.api.generated.meta import DeleteOptions, Preconditions
from pykubelet.api.schema import CERTIFICATE_SIGNING_REQUESTS as SCHEMA_CERTIFICATE_SIGNING_REQUESTS
from pykubelet.api.scheme import CERTIFICATE_SIGNING_REQUESTS
from pykubelet.api.serializer import Document, to_document
from pykubelet.api.times import parse_time
from pykubelet.client.indexer import ObjectIndex
from pykubelet.client.informers import Informers
from pykubelet.client.interface import Client
from pykubelet.controllers.framework.work_queue import RETRY, WorkQueue


class CertificateRequestQueue:
    """The requests that have changed, by name."""

    def __init__(self, requests: ObjectIndex[CertificateSigningRequest], *, retry: Backoff = RETRY) -> None:
        self._requests = requests
        self.work = WorkQueue(retry)

    def listen(self, informers: Informers) -> None:
        """Hear of every change."""
        informers.add_event_handler(
            CERTIFICATE_SIGNING_REQUESTS,
            added=self._changed,
            updated=lambda _old, new: self._changed(new),
            deleted=lambda _request: None,
        )

    def get(self, name: str) -> CertificateSigningRequest | None:
        """The request of this name, as last heard of."""
        return self._requests.get(f"/{name}")

    def _changed(self, request: CertificateSigningRequest) -> None:
        self.work.add(request.metadata.name)


def status_patch(request: CertificateSigningRequest, **fields: Any) -> Document:
    """A change of the status, good only for the request as it was seen."""
    metadata = request.metadata
    return {"metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version}, "status": fields}


def with_condition(request: CertificateSigningRequest, type: str, reason: str, message: str) -> Sequence[Document]:
    """The conditions, and one more that is true."""
    added = {"type": type, "status": "True", "reason": reason, "message": message}
    return [*(to_document(condition) for condition in request.status.conditions), added]


_PROBLEMS = {KUBELET_CLIENT_SIGNER: kubelet_client_problem, KUBELET_SERVING_SIGNER: kubelet_serving_problem}
SIGNERS = frozenset(_PROBLEMS)
"""Whose requests are signed here."""
_DECIDED_KEPT = timedelta(hours=1)
_PENDING_KEPT = timedelta(hours=24)


class CsrRecognizer(NamedTuple):
    """The right that approves a request, and what is said if its sender has it."""

    subresource: str
    message: str


_SELF = CsrRecognizer("selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview.")
_NODE = CsrRecognizer("nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview.")


def csr_recognizers(request: CertificateSigningRequest) -> tuple[CsrRecognizer, ...]:
    """The rights of which one is enough; none if it is not a request that approves itself, or is decided."""
    if request.status.certificate or {APPROVED, DENIED} & _types(request):
        return ()
    if request.spec.signer_name != KUBELET_CLIENT_SIGNER or csr_problem(request):
        return ()
    asked_for = common_name(parse_request(request.spec.request or b""))
    return (_SELF, _NODE) if request.spec.username == asked_for else (_NODE,)


def new_access_review(request: CertificateSigningRequest, question: CsrRecognizer) -> SubjectAccessReview:
    """Whether the sender of a request has a right, as a question to the API server."""
    spec, resource = request.spec, SCHEMA_CERTIFICATE_SIGNING_REQUESTS
    attributes = ResourceAttributes(
        group=resource.group,
        resource=resource.plural,
        subresource=question.subresource,
        verb="create",
        version="*",
    )
    return SubjectAccessReview(
        spec=SubjectAccessReviewSpec(
            user=spec.username, uid=spec.uid, groups=spec.groups, extra=spec.extra, resource_attributes=attributes
        )
    )


def is_to_sign(request: CertificateSigningRequest) -> bool:
    """Whether it is approved, not signed yet, and for a signer here."""
    types = _types(request)
    is_open = APPROVED in types and not {DENIED, FAILED} & types and not request.status.certificate
    return is_open and request.spec.signer_name in SIGNERS


def csr_problem(request: CertificateSigningRequest) -> str:
    """Why a request is not what its signer signs; empty if it is."""
    try:
        return _PROBLEMS[request.spec.signer_name](parse_request(request.spec.request or b""), request.spec.usages)
    except RequestError as error:
        return str(error)


def csr_deletion_time(request: CertificateSigningRequest) -> datetime | None:
    """When a request may be deleted; None if nobody knows yet."""
    made = request.metadata.creation_timestamp
    if not request.status.conditions:
        return parse_time(made) + _PENDING_KEPT if made else None
    times = [
        parse_time(condition.last_update_time) + _DECIDED_KEPT
        for condition in request.status.conditions
        if condition.last_update_time and _is_settled(request, condition.type)
    ]
    if request.status.certificate and APPROVED in _types(request) and (end := _end_of(request.status.certificate)):
        times.append(end)
    return min(times, default=None)


def _is_settled(request: CertificateSigningRequest, type: str) -> bool:
    return type in (DENIED, FAILED) or (type == APPROVED and bool(request.status.certificate))


def _end_of(pem: bytes) -> datetime | None:
    try:
        return x509.load_pem_x509_certificate(pem).not_valid_after_utc
    except ValueError:
        return None


def _types(request: CertificateSigningRequest) -> set[str]:
    return {condition.type for condition in request.status.conditions}


class CertificateCleaner:
    """Syncs requests by name."""

    def __init__(self, *, client: Client, requests: ObjectIndex[CertificateSigningRequest], clock: Clock) -> None:
        self._client, self._queue, self._clock = client, CertificateRequestQueue(requests), clock

    def listen(self, informers: Informers) -> None:
        """Hear of every change of requests."""
        self._queue.listen(informers)

    async def process_next(self) -> None:
        """Sync the next request of the queue; a failure puts it back, later."""
        await self._queue.work.process_next(self.sync)

    async def sync(self, name: str) -> None:
        """Delete one request if it is over, or come back when it will be."""
        request = self._queue.get(name)
        due = csr_deletion_time(request) if request is not None else None
        if request is None or due is None:
            return
        left = (due - self._clock.now()).total_seconds()
        if left > 0:
            self._queue.work.add_after(name, left)
            return
        options = DeleteOptions(preconditions=Preconditions(uid=request.metadata.uid))
        with suppress(NotFound):
            await self._client.delete(CERTIFICATE_SIGNING_REQUESTS, name, options=options)
