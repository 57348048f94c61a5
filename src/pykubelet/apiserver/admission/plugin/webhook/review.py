"""AdmissionReview: the document that a webhook receives, and what its answer means.

Upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/request/admissionreview.go,
staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/errors/statuserror.go
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pykubelet.api.errors import ApiError
from pykubelet.api.field_errors import go_quote
from pykubelet.api.serializer import DecodeError, Document, decode_document

_GROUP, _KIND = "admission.k8s.io", "AdmissionReview"
KNOWN_VERSIONS = ("v1", "v1beta1")
_JSON_PATCH = "JSONPatch"
_ERROR_CODES = range(400, 600)


class ReviewError(Exception):
    """There is no review for a webhook, or its answer is not valid; the message has upstream's words."""


class WebhookDenial(ApiError):
    """A webhook denied a request; code, reason and details are the webhook's."""

    def __init__(self, webhook: str, result: Document) -> None:
        denied = f"admission webhook {go_quote(webhook)} denied the request"
        message, reason = result.get("message") or "", result.get("reason") or ""
        why = message or reason
        super().__init__(f"{denied}: {why}" if why else f"{denied} without explanation", details=result.get("details"))
        code: int = result.get("code") or 0
        self.reason, self.code = reason, code if code in _ERROR_CODES else _ERROR_CODES[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionResponse:
    """A webhook's answer to a request."""

    allowed: bool
    patch: Any = None
    """The operations of a JSON patch; None if there is no patch."""
    result: Document
    warnings: Sequence[str]
    audit_annotations: Mapping[str, str]


def review_version(versions: Sequence[str]) -> str:
    """The version to send: the first known one that the webhook understands; ReviewError if there is none."""
    for version in versions:
        if version in KNOWN_VERSIONS:
            return version
    raise ReviewError(
        "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)"
    )


def admission_review(version: str, uid: str, request: Document, new: Document | None, old: Document | None) -> Document:
    """The review to send; `request` is the AdmissionRequest without uid and objects."""
    objects = {"uid": uid, **request, "object": new, "oldObject": old}
    return {"kind": _KIND, "apiVersion": f"{_GROUP}/{version}", "request": objects}


def read_response(answer: Any, version: str, uid: str, *, mutating: bool) -> AdmissionResponse:
    """Reads a webhook's answer; ReviewError if it is invalid."""
    response = _checked(answer, version, uid)
    encoded, patch_type = response.get("patch") or "", response.get("patchType")
    if version == "v1":
        _check_patch_type(encoded, patch_type, mutating=mutating)
    return AdmissionResponse(
        allowed=response.get("allowed") is True,
        patch=_patch(encoded) if mutating and encoded else None,
        result=response.get("status") or {},
        warnings=response.get("warnings") or (),
        audit_annotations=response.get("auditAnnotations") or {},
    )


def _checked(answer: Any, version: str, uid: str) -> Document:
    """The response in an answer, with the types that its fields must have."""
    if not isinstance(answer, dict):
        raise _invalid("couldn't get version/kind; the answer is not an object")
    response: Document | None = answer.get("response")
    if response is None:
        raise _invalid("webhook response was absent")
    _check_types(response, _TYPES, "response")
    _check_types(response.get("status") or {}, _STATUS_TYPES, "response.status")
    texts = [*(response.get("warnings") or ()), *(response.get("auditAnnotations") or {}).values()]
    _check_types(dict(enumerate(texts)), dict.fromkeys(range(len(texts)), str), "text")
    if version == "v1":
        if (found := response.get("uid") or "") != uid:
            raise _invalid(f"expected response.uid={go_quote(uid)}, got {go_quote(found)}")
        _check_kind(answer)
    return response


def _check_types(values: Any, types: Mapping[Any, type], path: str) -> None:
    if not isinstance(values, dict):
        raise _invalid(f"{path} has the wrong type")
    for name, wanted in types.items():
        if values.get(name) is not None and not isinstance(values[name], wanted):
            raise _invalid(f"{path}.{name} has the wrong type")


_TYPES = {
    "uid": str,
    "allowed": bool,
    "status": dict,
    "patch": str,
    "patchType": str,
    "auditAnnotations": dict,
    "warnings": list,
}
_STATUS_TYPES = {"message": str, "reason": str, "code": int, "details": dict}


def _invalid(problem: str) -> ReviewError:
    return ReviewError(f"received invalid webhook response: {problem}")


def _check_kind(answer: Document) -> None:
    api_version, kind = answer.get("apiVersion") or "", answer.get("kind") or ""
    if (api_version, kind) != (f"{_GROUP}/v1", _KIND):
        raise _invalid(f"expected webhook response of {_GROUP}/v1, Kind={_KIND}, got {api_version}, Kind={kind}")


def _check_patch_type(patch: str, patch_type: str | None, *, mutating: bool) -> None:
    if not mutating:
        if patch:
            raise _invalid("validating webhook may not return response.patch")
        if patch_type is not None:
            raise _invalid("validating webhook may not return response.patchType")
    elif patch and patch_type is None:
        raise _invalid("webhook returned response.patch but not response.patchType")
    elif not patch and patch_type is not None:
        raise _invalid("webhook returned response.patchType but not response.patch")
    elif patch and not patch_type:
        raise _invalid('webhook returned invalid response.patchType of ""')
    elif patch and patch_type != _JSON_PATCH:
        raise _invalid(f"unsupported patch type {go_quote(str(patch_type))}")


def _patch(encoded: str) -> Any:
    try:
        return decode_document(base64.b64decode(encoded, validate=True)) or None
    except (binascii.Error, DecodeError, ValueError) as error:
        raise ReviewError(f"received undecodable patch in webhook response: {error}") from error
