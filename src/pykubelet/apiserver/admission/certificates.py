"""Admission of CertificateSigningRequests: records the user, restricts approval and signing.

Upstream: plugin/pkg/admission/certificates/approval/admission.go,
plugin/pkg/admission/certificates/signing/admission.go,
plugin/pkg/admission/certificates/subjectrestriction/admission.go, pkg/registry/certificates/certificates/strategy.go
"""

import base64
import binascii
from collections.abc import Callable

from pykubelet.aio.clock import Clock
from pykubelet.api.certificates import CLIENT_SIGNER, RequestError, organizations, parse_request
from pykubelet.api.field_errors import go_quote
from pykubelet.api.schema import CERTIFICATE_SIGNING_REQUESTS
from pykubelet.api.serializer import Document
from pykubelet.api.times import format_time
from pykubelet.apiserver.admission.interfaces import AdmissionAttributes
from pykubelet.apiserver.errors import forbidden
from pykubelet.apiserver.request import MASTERS, AuthorizationAttributes, AuthorizationDecision, UserInfo

_VERBS = {"approval": "approve", "status": "sign"}
_REQUESTER_FIELDS = ("username", "uid", "groups", "extra")


class CertificateAdmission:
    """Records the requesting user; only users with rights for the signer approve or sign."""

    resources = frozenset({CERTIFICATE_SIGNING_REQUESTS.group_resource})

    def __init__(self, decide: Callable[[AuthorizationAttributes], AuthorizationDecision], clock: Clock) -> None:
        self._decide, self._clock = decide, clock

    def admit(self, attributes: AdmissionAttributes, new: Document | None, old: Document | None) -> Document | None:
        """Sets the requesting user, or the time of the decision; Forbidden if the sender may not decide."""
        if new is None:
            return new
        if old is None:
            _check_subject(attributes, new)
            return {**new, "spec": _requested_by(new["spec"], attributes.user)}
        if attributes.subresource not in _VERBS:
            return new
        if attributes.subresource == "approval" or _outcome(new) != _outcome(old):
            self._check_signer(attributes, old)
        return _with_times(new, old, format_time(self._clock.now()))

    def _check_signer(self, attributes: AdmissionAttributes, old: Document) -> None:
        # The stored signer counts: the sender might name another one.
        verb = _VERBS[attributes.subresource]
        signer: str = old["spec"].get("signerName", "")
        # The right may be for all signers of a domain.
        if any(self._may(attributes.user, verb, name) for name in (signer, f"{signer.partition('/')[0]}/*")):
            return
        why = f"user not permitted to {verb} requests with signerName {go_quote(signer)}"
        raise forbidden(attributes.served.resource, attributes.name, why)

    def _may(self, user: UserInfo, verb: str, signer: str) -> bool:
        group = CERTIFICATE_SIGNING_REQUESTS.group
        review = AuthorizationAttributes(
            user=user, verb=verb, group=group, version="*", resource="signers", name=signer
        )
        return self._decide(review).allowed


def _check_subject(attributes: AdmissionAttributes, new: Document) -> None:
    """Rejects requests for certificates in the group system:masters."""
    if new["spec"].get("signerName") != CLIENT_SIGNER:
        return
    try:
        groups = organizations(parse_request(base64.b64decode(new["spec"].get("request") or "")))
    except (RequestError, binascii.Error, ValueError) as error:
        raise forbidden(attributes.served.resource, attributes.name, f"failed to parse CSR: {error}") from error
    if MASTERS in groups:
        why = f"use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed"
        raise forbidden(attributes.served.resource, attributes.name, why)


def _requested_by(spec: Document, user: UserInfo) -> Document:
    asker = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
    extra = {name: list(values) for name, values in user.extra.items()}
    named = {name: value for name, value in (asker | {"extra": extra}).items() if value}
    return {name: value for name, value in spec.items() if name not in _REQUESTER_FIELDS} | named


def _outcome(document: Document) -> tuple[object, object]:
    status = document.get("status") or {}
    return status.get("certificate") or None, status.get("conditions") or []


def _with_times(new: Document, old: Document, now: str) -> Document:
    """Sets the update and transition times of each condition."""
    status = new.get("status") or {}
    if not status.get("conditions"):
        return new
    before = (old.get("status") or {}).get("conditions") or []
    timed = [_with_times_of(condition, before, now) for condition in status["conditions"]]
    return {**new, "status": {**status, "conditions": timed}}


def _with_times_of(condition: Document, before: list[Document], now: str) -> Document:
    same = (
        each["lastTransitionTime"]
        for each in before
        if (each.get("type"), each.get("status")) == (condition.get("type"), condition.get("status"))
        and each.get("lastTransitionTime")
    )
    return condition | {
        "lastUpdateTime": condition.get("lastUpdateTime") or now,
        "lastTransitionTime": condition.get("lastTransitionTime") or next(same, now),
    }
