"""Limits of a request: its duration and its size."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.errors import BadRequest
from pykubelet.apiserver.filters.limits import REQUEST_SECONDS, request_seconds, too_large, took_too_long


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [
        ("", REQUEST_SECONDS),
        ("5s", 5.0),
        ("1m", REQUEST_SECONDS),
        ("1h", REQUEST_SECONDS),
        ("0", REQUEST_SECONDS),
        ("0s", REQUEST_SECONDS),
        ("-3s", REQUEST_SECONDS),
        ("+500ms", 0.5),
        ("1.5s", 1.5),
        (".5s", 0.5),
        ("2s500ms", 2.5),
        ("250us", 250e-6),
        ("250\u00b5s", 250e-6),
    ],
)
def test_request_seconds_takes_the_timeout_up_to_the_limit(asked: str, seconds: float) -> None:
    """The parameter is a Go duration."""
    assert request_seconds({"timeout": asked}) == pytest.approx(seconds)
    assert request_seconds({}) == REQUEST_SECONDS


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ("abc", 'time: invalid duration "abc"'),
        ("5", 'time: missing unit in duration "5"'),
        ("5x", 'time: unknown unit "x" in duration "5x"'),
        ("-", 'time: invalid duration "-"'),
        ("1s2", 'time: missing unit in duration "1s2"'),
    ],
)
def test_request_seconds_refuses_other_texts_in_gos_words(asked: str, complaint: str) -> None:
    """The error is 400 Bad Request."""
    with pytest.raises(BadRequest) as caught:
        request_seconds({"timeout": asked})
    assert caught.value.message == f"invalid timeout specified in the request URL - {complaint}"


@given(st.text(max_size=12))
@settings(max_examples=100)
def test_request_seconds_survives_anything(asked: str) -> None:
    """The result is a number of seconds within the limit, or BadRequest."""
    with suppress(BadRequest):
        assert 0 < request_seconds({"timeout": asked}) <= REQUEST_SECONDS


def test_refusals_have_upstream_s_texts() -> None:
    assert too_large().message == "Request entity too large: limit is 3145728"
    assert took_too_long().to_status()["message"] == "Timeout: request did not complete within the allotted timeout"
