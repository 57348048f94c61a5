"""What the CertificateSigningRequest controllers share, and the cleaner of old requests.

Decides which access review approves a request, what prevents its signature, and when it is deleted: an hour after it
was decided, a day if it stays pending. Upstream's cleaner polls once an hour; this one runs when a request is due.

Upstream: pkg/controller/certificates/certificate_controller.go, pkg/controller/certificates/cleaner/cleaner.go
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
from pykubelet.api.scheme import CERTIFICATE_SIGNING_REQUESTS
from pykubelet.api.serializer import Document, to_document
from pykubelet.api.times import parse_time
from pykubelet.client.indexer import ObjectIndex
from pykubelet.client.informers import Informers
from pykubelet.client.interface import Client
from pykubelet.controllers.framework.work_queue import RETRY, KeyedController, WorkQueue

_PROBLEMS = {KUBELET_CLIENT_SIGNER: kubelet_client_problem, KUBELET_SERVING_SIGNER: kubelet_serving_problem}
SIGNERS = frozenset(_PROBLEMS)
"""The signers this controller implements."""
_DECIDED_KEPT = timedelta(hours=1)
_PENDING_KEPT = timedelta(hours=24)


class CertificateController(KeyedController):
    """The base of the controllers that sync CertificateSigningRequests by name."""

    def __init__(self, requests: ObjectIndex[CertificateSigningRequest], *, retry: Backoff = RETRY) -> None:
        self._requests = requests
        self.queue = WorkQueue(retry)

    def listen(self, informers: Informers) -> None:
        informers.add_event_handler(CERTIFICATE_SIGNING_REQUESTS, changed=self.request_changed)

    def request_changed(self, request: CertificateSigningRequest) -> None:
        self.queue.add(request.metadata.name)

    def _request(self, name: str) -> CertificateSigningRequest | None:
        return self._requests.get(f"/{name}")


class CsrRecognizer(NamedTuple):
    """The permission that approves a request, and the message of the approval."""

    subresource: str
    message: str


_SELF = CsrRecognizer("selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview.")
_NODE = CsrRecognizer("nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview.")


class CertificateCleaner(CertificateController):
    """Deletes old requests, by name."""

    def __init__(self, *, client: Client, requests: ObjectIndex[CertificateSigningRequest], clock: Clock) -> None:
        super().__init__(requests)
        self._client, self._clock = client, clock

    async def sync(self, name: str) -> None:
        """Deletes a request if it is due, else enqueues it for when it will be."""
        request = self._request(name)
        due = csr_deletion_time(request) if request is not None else None
        if request is None or due is None:
            return
        left = (due - self._clock.now()).total_seconds()
        if left > 0:
            self.queue.add_after(name, left)
            return
        options = DeleteOptions(preconditions=Preconditions(uid=request.metadata.uid))
        with suppress(NotFound):
            await self._client.delete(CERTIFICATE_SIGNING_REQUESTS, name, options=options)


def status_patch(request: CertificateSigningRequest, **fields: Any) -> Document:
    """A merge patch of the status, valid only for this resource version."""
    metadata = request.metadata
    return {"metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version}, "status": fields}


def with_condition(request: CertificateSigningRequest, type: str, reason: str, message: str) -> Sequence[Document]:
    """The conditions with one more that is True."""
    added = {"type": type, "status": "True", "reason": reason, "message": message}
    return [*(to_document(condition) for condition in request.status.conditions), added]


def csr_recognizers(request: CertificateSigningRequest) -> tuple[CsrRecognizer, ...]:
    """The permissions of which one suffices; empty if the request is not auto-approved or already decided."""
    if request.status.certificate or {APPROVED, DENIED} & _types(request):
        return ()
    if request.spec.signer_name != KUBELET_CLIENT_SIGNER or csr_problem(request):
        return ()
    requested_name = common_name(parse_request(request.spec.request or b""))
    return (_SELF, _NODE) if request.spec.username == requested_name else (_NODE,)


def new_access_review(request: CertificateSigningRequest, recognizer: CsrRecognizer) -> SubjectAccessReview:
    """The SubjectAccessReview that checks a permission of the requester."""
    spec, resource = request.spec, CERTIFICATE_SIGNING_REQUESTS.resource
    attributes = ResourceAttributes(
        group=resource.group, resource=resource.plural, subresource=recognizer.subresource, verb="create", version="*"
    )
    return SubjectAccessReview(
        spec=SubjectAccessReviewSpec(
            user=spec.username, uid=spec.uid, groups=spec.groups, extra=spec.extra, resource_attributes=attributes
        )
    )


def is_to_sign(request: CertificateSigningRequest) -> bool:
    """Whether the request is approved, unsigned, and for one of SIGNERS."""
    types = _types(request)
    is_open = APPROVED in types and not {DENIED, FAILED} & types and not request.status.certificate
    return is_open and request.spec.signer_name in SIGNERS


def csr_problem(request: CertificateSigningRequest) -> str:
    """Why the request violates the rules of its signer; empty if it does not."""
    try:
        return _PROBLEMS[request.spec.signer_name](parse_request(request.spec.request or b""), request.spec.usages)
    except RequestError as error:
        return str(error)


def csr_deletion_time(request: CertificateSigningRequest) -> datetime | None:
    """When a request may be deleted; None if not determined yet."""
    made = request.metadata.creation_timestamp
    if not request.status.conditions:
        return parse_time(made) + _PENDING_KEPT if made else None
    times = [
        parse_time(condition.last_update_time) + _DECIDED_KEPT
        for condition in request.status.conditions
        if condition.last_update_time and _is_decided(request, condition.type)
    ]
    if request.status.certificate and APPROVED in _types(request) and (end := _end_of(request.status.certificate)):
        times.append(end)
    return min(times, default=None)


def _is_decided(request: CertificateSigningRequest, type: str) -> bool:
    return type in (DENIED, FAILED) or (type == APPROVED and bool(request.status.certificate))


def _end_of(pem: bytes) -> datetime | None:
    try:
        return x509.load_pem_x509_certificate(pem).not_valid_after_utc
    except ValueError:
        return None


def _types(request: CertificateSigningRequest) -> set[str]:
    return {condition.type for condition in request.status.conditions}
