"""API errors: one table of reason, HTTP code and class, shared by client and server.

    ApiError
      BadRequest 400   Unauthorized 401   Forbidden 403   NotFound 404   MethodNotAllowed 405   NotAcceptable 406
      AlreadyExists 409   Conflict 409   Gone 410   Expired 410   TooLarge 413   UnsupportedMediaType 415
      Invalid 422   TooManyRequests 429   InternalError 500   ServerTimeout 500   ServiceUnavailable 503   Timeout 504
      NotReached (no response: refused, cut, timed out)

The server raises an error and encodes `to_status`; the client gets the same class back from `from_status`. Callers
branch on the class and on `retry` (the same call may succeed later).

Upstream: staging/src/k8s.io/apimachinery/pkg/api/errors/errors.go
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from pykubelet.api.serializer import Document


class ApiError(Exception):
    """The API server rejected a request, or did not respond."""

    reason: str = ""
    code: int = 500
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
        """Warnings of the server, sent beside the Status."""

    @property
    def causes(self) -> Sequence[Document]:
        """The causes in the Status, each with reason, message and field."""
        return self.details.get("causes") or ()

    def has_cause(self, reason: str) -> bool:
        """Whether a cause has this reason, for example `NamespaceTerminating`."""
        return any(cause.get("reason") == reason for cause in self.causes)

    def to_status(self) -> Document:
        """Returns the Status object of the response; details that were given appear even if they are empty."""
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
    """The request is malformed or contradicts itself."""

    reason, code = "BadRequest", 400


class Unauthorized(ApiError):
    """The credentials are missing or invalid; the client may retry with renewed ones."""

    reason, code, retry = "Unauthorized", 401, True


class Forbidden(ApiError):
    """The user is not allowed to do this."""

    reason, code = "Forbidden", 403


class NotFound(ApiError):
    """The object or resource does not exist."""

    reason, code = "NotFound", 404


class MethodNotAllowed(ApiError):
    """The resource does not support this verb."""

    reason, code = "MethodNotAllowed", 405


class NotAcceptable(ApiError):
    """The server cannot produce a content type that the client accepts."""

    reason, code = "NotAcceptable", 406


class AlreadyExists(ApiError):
    """An object of this name already exists."""

    reason, code = "AlreadyExists", 409


class Conflict(ApiError):
    """The object was modified concurrently, or a precondition failed."""

    reason, code = "Conflict", 409


class Gone(ApiError):
    """The resource no longer exists and will not return."""

    reason, code = "Gone", 410


class Expired(Gone):
    """The resource version is too old; the client must list again."""

    reason = "Expired"


class TooLarge(ApiError):
    """The request body exceeds the server's limit."""

    reason, code = "RequestEntityTooLarge", 413


class UnsupportedMediaType(ApiError):
    """The server does not accept this content type."""

    reason, code = "UnsupportedMediaType", 415


class Invalid(ApiError):
    """The object failed validation; `causes` names each field."""

    reason, code = "Invalid", 422


class TooManyRequests(ApiError):
    """The server is overloaded; retry after `retry_after_seconds`."""

    reason, code, retry = "TooManyRequests", 429, True


class InternalError(ApiError):
    """The server failed to process the request."""

    reason, code, retry = "InternalError", 500, True


class ServerTimeout(ApiError):
    """The server stopped waiting for the operation; retry."""

    reason, code, retry = "ServerTimeout", 500, True


class ServiceUnavailable(ApiError):
    """The server is not ready to serve."""

    reason, code, retry = "ServiceUnavailable", 503, True


class Timeout(ApiError):
    """The request exceeded its time limit."""

    reason, code, retry = "Timeout", 504, True


class NotReached(ApiError):
    """No response arrived: whether the request was carried out is unknown."""

    reason, code, retry = "NotReached", 0, True


_ALL: list[type[ApiError]] = [*ApiError.__subclasses__(), Expired]
# NotReached, which no server sends, has the code 0.
CLASSES = tuple(kind for kind in _ALL if kind.code)
_BY_REASON = {kind.reason: kind for kind in CLASSES}
# A response without a reason (from a proxy, for example) is classified by its code.
_BY_CODE = {kind.code: kind for kind in reversed(CLASSES)} | {409: Conflict, 500: InternalError}


def from_status(status: Any, code: int, *, retry_after_seconds: float | None = None) -> ApiError:
    """Creates the error for a response: `status` is the decoded body of any type, `code` the HTTP code."""
    document = status if isinstance(status, dict) else {}
    details = document.get("details")
    kind = _BY_REASON.get(str(document.get("reason", "")))
    if kind is None:
        kind = _BY_CODE.get(code, InternalError if code >= 500 else BadRequest)
    message = str(document.get("message") or f"the server answered {code}")
    return kind(
        message, details=details if isinstance(details, dict) else None, retry_after_seconds=retry_after_seconds
    )
