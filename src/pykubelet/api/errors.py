"""The API's errors: one table of reason, code and class, for client and server alike.

    ApiError
      BadRequest 400   Unauthorized 401   Forbidden 403   NotFound 404   MethodNotAllowed 405   NotAcceptable 406
      AlreadyExists 409   Conflict 409   Gone 410   Expired 410   TooLarge 413   UnsupportedMediaType 415
      Invalid 422   TooManyRequests 429   InternalError 500   ServerTimeout 500   Unavailable 503   Timeout 504
      NotReached (no answer at all: refused, cut, timed out)

The server raises them and encodes `to_status`; the client gets the same class back from `from_status`. Callers ask
two questions only: which class, and `retry` (may the same call work later?) or final.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from pykubelet.api.serializer import Document


class ApiError(Exception):
    """An API server said no, or said nothing."""

    reason: ClassVar[str] = ""
    code: ClassVar[int] = 500
    retry: ClassVar[bool] = False

    def __init__(
        self, message: str = "", *, details: Document | None = None, retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(message or self.reason)
        self.message = message or self.reason
        self.details: Document = details or {}
        self._shows_details = details is not None
        self.retry_after_seconds = retry_after_seconds
        self.warnings: Sequence[str] = ()
        """What the server warns of besides; no part of the Status."""

    @property
    def causes(self) -> Sequence[Document]:
        """The single causes the server names, each with reason, message and field."""
        causes: Sequence[Document] = self.details.get("causes") or ()
        return causes

    def has_cause(self, reason: str) -> bool:
        """Whether one of the causes has this reason (`NamespaceTerminating`, say)."""
        return any(cause.get("reason") == reason for cause in self.causes)

    def to_status(self) -> Document:
        """The Status object a server answers with; details that were given are shown, even if there is nothing in them."""
        status: Document = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        }
        if self.reason:
            status["reason"] = self.reason
        if self._shows_details:
            status["details"] = self.details
        return status


class BadRequest(ApiError):
    """The request makes no sense."""

    reason, code = "BadRequest", 400


class Unauthorized(ApiError):
    """We do not know who you are; credentials may have been renewed meanwhile."""

    reason, code, retry = "Unauthorized", 401, True


class Forbidden(ApiError):
    """We know who you are, and you may not."""

    reason, code = "Forbidden", 403


class NotFound(ApiError):
    """There is no such object."""

    reason, code = "NotFound", 404


class MethodNotAllowed(ApiError):
    """This resource does not take this verb."""

    reason, code = "MethodNotAllowed", 405


class NotAcceptable(ApiError):
    """No form the client accepts can be given."""

    reason, code = "NotAcceptable", 406


class AlreadyExists(ApiError):
    """The name is taken."""

    reason, code = "AlreadyExists", 409


class Conflict(ApiError):
    """Someone else changed the object, or a precondition failed."""

    reason, code = "Conflict", 409


class Gone(ApiError):
    """It was there and will not come back."""

    reason, code = "Gone", 410


class Expired(Gone):
    """That resource version is too old: list again."""

    reason = "Expired"


class TooLarge(ApiError):
    """The request is bigger than the server takes."""

    reason, code = "RequestEntityTooLarge", 413


class UnsupportedMediaType(ApiError):
    """The server does not read this content type."""

    reason, code = "UnsupportedMediaType", 415


class Invalid(ApiError):
    """The object breaks a rule; `causes` names each field."""

    reason, code = "Invalid", 422


class TooManyRequests(ApiError):
    """Come back after `retry_after_seconds`."""

    reason, code, retry = "TooManyRequests", 429, True


class InternalError(ApiError):
    """The server failed."""

    reason, code, retry = "InternalError", 500, True


class ServerTimeout(ApiError):
    """The server gave up on it; try again."""

    reason, code, retry = "ServerTimeout", 500, True


class ServiceUnavailable(ApiError):
    """The server is not ready."""

    reason, code, retry = "ServiceUnavailable", 503, True


class Timeout(ApiError):
    """The request took too long."""

    reason, code, retry = "Timeout", 504, True


class NotReached(ApiError):
    """No answer came: whether the request was carried out is unknown."""

    reason, code, retry = "NotReached", 0, True


CLASSES: tuple[type[ApiError], ...] = (
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    NotAcceptable,
    AlreadyExists,
    Conflict,
    Gone,
    Expired,
    TooLarge,
    UnsupportedMediaType,
    Invalid,
    TooManyRequests,
    InternalError,
    ServerTimeout,
    ServiceUnavailable,
    Timeout,
)
_BY_REASON = {kind.reason: kind for kind in CLASSES}
# Where an answer carries no reason (a proxy's, say) the code decides; the plainer class of a shared code wins.
_BY_CODE = {kind.code: kind for kind in reversed(CLASSES)} | {409: Conflict, 500: InternalError}


def from_status(status: Any, code: int, *, retry_after_seconds: float | None = None) -> ApiError:
    """The error for an answer: `status` is its body as a document (whatever came), `code` its HTTP code."""
    document = status if isinstance(status, dict) else {}
    details = document.get("details")
    kind = _BY_REASON.get(str(document.get("reason", "")))
    if kind is None:
        kind = _BY_CODE.get(code, InternalError if code >= 500 else BadRequest)
    message = str(document.get("message") or f"the server answered {code}")
    return kind(
        message,
        details=details if isinstance(details, dict) else None,
        retry_after_seconds=retry_after_seconds,
    )
