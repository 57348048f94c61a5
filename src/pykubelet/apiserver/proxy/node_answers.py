"""What a node's refusal of a log becomes for the caller (pure).

In: the code and the words of the node's answer. Out: the ApiError that tells them. Where upstream has words of its own for a code, the node's are not shown.

Upstream: staging/src/k8s.io/apiserver/pkg/registry/generic/rest/response_checker.go, NewGenericServerResponse in
staging/src/k8s.io/apimachinery/pkg/api/errors/errors.go
"""

from pykubelet.api.errors import (
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    InternalError,
    Invalid,
    MethodNotAllowed,
    NotAcceptable,
    NotFound,
    Timeout,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    UnsupportedMediaType,
)
from pykubelet.api.validation.field_errors import go_quote

MOST_BYTES = 50_000
"""How much of a node's words is read."""

_OWN_WORDS: dict[int, tuple[type[ApiError], str]] = {
    401: (Unauthorized, "the server has asked for the client to provide credentials"),
    404: (NotFound, "the server could not find the requested resource"),
    405: (MethodNotAllowed, "the server does not allow this method on the requested resource"),
    409: (Conflict, "the server reported a conflict"),
    422: (Invalid, "the server rejected our request due to an error in our request"),
    429: (TooManyRequests, "the server has received too many requests and has asked us to try again later"),
    503: (Unavailable, "the server is currently unable to handle the request"),
    504: (
        Timeout,
        "the server was unable to return a response in the time allotted, but may still be processing the request",
    ),
}
_NODES_WORDS: dict[int, type[ApiError]] = {403: Forbidden, 406: NotAcceptable, 415: UnsupportedMediaType}


def is_refusal(code: int) -> bool:
    """Whether an answer with this code has no log in it."""
    return not 200 <= code <= 206


def log_refusal(code: int, text: str, pod_name: str) -> ApiError:
    """The error for such an answer."""
    if code == 400:
        return BadRequest(text)
    if code == 500:
        return InternalError(f"Internal error occurred: {text}", details={"causes": [{"message": text}]})
    if code in _NODES_WORDS:
        kind, message = _NODES_WORDS[code], text
    elif code in _OWN_WORDS:
        kind, message = _OWN_WORDS[code]
    elif code > 500:
        kind = InternalError
        message = f"an error on the server ({go_quote(text)}) has prevented the request from succeeding"
    else:
        kind = ApiError
        message = f"the server responded with the status code {code} but did not return more information"
    # Upstream leaves out the verb, but not the blank after it.
    return kind(f"{message} ( pods/log {pod_name})", details={"name": pod_name, "kind": "pods/log"})
