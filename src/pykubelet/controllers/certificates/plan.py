"""What is to become of a request for a certificate (pure).

In: the request. Out: whose right to it has to be asked about, what keeps it from being signed, when it may be deleted.

Upstream: pkg/controller/certificates/{approver/sarapprove.go,signer/signer.go,cleaner/cleaner.go}
"""

from datetime import datetime, timedelta
from typing import NamedTuple

from cryptography import x509

from pykubelet.api.certificate_requests import (
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
from pykubelet.api.generated.authorization import ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec
from pykubelet.api.generated.certificates import CertificateSigningRequest
from pykubelet.api.resources import CERTIFICATE_SIGNING_REQUESTS
from pykubelet.api.times import parse_time

_PROBLEMS = {KUBELET_CLIENT_SIGNER: kubelet_client_problem, KUBELET_SERVING_SIGNER: kubelet_serving_problem}
SIGNERS = frozenset(_PROBLEMS)
"""Whose requests are signed here."""
_DECIDED_KEPT = timedelta(hours=1)
_PENDING_KEPT = timedelta(hours=24)


class Question(NamedTuple):
    """The right that approves a request, and what is said if its sender has it."""

    subresource: str
    message: str


_SELF = Question("selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview.")
_NODE = Question("nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview.")


def questions(request: CertificateSigningRequest) -> tuple[Question, ...]:
    """The rights of which one is enough; none if it is not a request that approves itself, or is decided."""
    if request.status.certificate or {APPROVED, DENIED} & _types(request):
        return ()
    if request.spec.signer_name != KUBELET_CLIENT_SIGNER or problem_of(request):
        return ()
    asked_for = common_name(parse_request(request.spec.request or b""))
    return (_SELF, _NODE) if request.spec.username == asked_for else (_NODE,)


def review(request: CertificateSigningRequest, question: Question) -> SubjectAccessReview:
    """Whether the sender of a request has a right, as a question to the API server."""
    spec, resource = request.spec, CERTIFICATE_SIGNING_REQUESTS
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


def problem_of(request: CertificateSigningRequest) -> str:
    """Why a request is not what its signer signs; empty if it is."""
    try:
        return _PROBLEMS[request.spec.signer_name](parse_request(request.spec.request or b""), request.spec.usages)
    except RequestError as error:
        return str(error)


def due_at(request: CertificateSigningRequest) -> datetime | None:
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
