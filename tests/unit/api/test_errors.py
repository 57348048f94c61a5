"""API errors have the same class on both sides of the wire."""

import pytest

from pykubelet.api import errors


@pytest.mark.parametrize("kind", errors.CLASSES, ids=lambda kind: kind.reason)
def test_error_survives_the_wire(kind: type[errors.ApiError]) -> None:
    """An error converted to a Status and back is the same error."""
    sent = kind("no", details={"causes": [{"reason": "NamespaceTerminating"}]})
    got = errors.from_status(sent.to_status(), sent.code)
    assert type(got) is kind
    assert (got.message, got.details) == (sent.message, sent.details)
    assert got.has_cause("NamespaceTerminating")
    assert not got.has_cause("Other")


def test_reasons_have_the_codes_of_kubernetes() -> None:
    assert {kind.reason: kind.code for kind in errors.CLASSES} == {
        "BadRequest": 400,
        "Unauthorized": 401,
        "Forbidden": 403,
        "NotFound": 404,
        "MethodNotAllowed": 405,
        "NotAcceptable": 406,
        "AlreadyExists": 409,
        "Conflict": 409,
        "Gone": 410,
        "Expired": 410,
        "RequestEntityTooLarge": 413,
        "UnsupportedMediaType": 415,
        "Invalid": 422,
        "TooManyRequests": 429,
        "InternalError": 500,
        "ServerTimeout": 500,
        "ServiceUnavailable": 503,
        "Timeout": 504,
    }


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (404, errors.NotFound),
        (409, errors.Conflict),
        (410, errors.Gone),
        (418, errors.BadRequest),
        (500, errors.InternalError),
        (502, errors.InternalError),
        (503, errors.ServiceUnavailable),
    ],
)
@pytest.mark.parametrize("body", [None, "<html>", {}, {"reason": "Strange"}, {"details": "?"}])
def test_status_code_decides_when_the_body_has_no_reason(code: int, kind: type[errors.ApiError], body: object) -> None:
    """The answer of a proxy has no reason."""
    error = errors.from_status(body, code, retry_after_seconds=3)
    assert type(error) is kind
    assert error.retry_after_seconds == 3
    assert str(code) in error.message


def test_only_transient_errors_are_retried() -> None:
    known: list[type[errors.ApiError]] = [*errors.CLASSES, errors.NotReached]
    retried = {kind.reason for kind in known if kind.retry}
    assert retried == {
        "Unauthorized",
        "TooManyRequests",
        "InternalError",
        "ServerTimeout",
        "ServiceUnavailable",
        "Timeout",
        "NotReached",
    }
