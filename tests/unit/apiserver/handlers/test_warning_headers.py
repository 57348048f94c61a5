"""Warnings as headers of a response."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.errors import TooManyRequests
from pykubelet.apiserver.handlers.responsewriters import status_response, warning_headers


def _values(*texts: str) -> list[str]:
    return [f'299 - "{text}"' for text in texts]


_LONG = [f"{index}{'x' * 999}" for index in range(30)]
_SHORT = [f"{index:050}" for index in range(200)]


@pytest.mark.parametrize(
    ("warnings", "values"),
    [
        pytest.param([], [], id="none"),
        pytest.param(['unknown field "spec.x"'], _values('unknown field \\"spec.x\\"'), id="quotes"),
        pytest.param(["a\\b"], _values("a\\\\b"), id="backslash"),
        pytest.param(["a", "b", "a", ""], _values("a", "b"), id="each once"),
        pytest.param(["a\r\nSet-Cookie: x", "\x85"], [], id="no header in a header"),
        pytest.param(["a\u00a0é\u200b"], _values("a\u00a0é\u200b"), id="any other letter"),
        pytest.param(["x" * 4096], _values("x" * 4096), id="fits"),
        pytest.param(["x" * 4097], _values("x" * 256), id="cut"),
        pytest.param(_LONG[:4], _values(*_LONG[:4]), id="fit together"),
        pytest.param(_LONG, _values(*(text[:256] for text in _LONG[:16])), id="many that are cut"),
        pytest.param(_SHORT, _values(*_SHORT[:82]), id="many that are short"),
    ],
)
def test_warning_headers_are_safe_and_bounded(warnings: list[str], values: list[str]) -> None:
    """They contain texts that clients sent."""
    assert warning_headers(warnings) == tuple(("Warning", value) for value in values)


@given(st.lists(st.text(max_size=300), max_size=40))
@settings(max_examples=50)
def test_warning_headers_never_break_a_line_or_grow_without_end(warnings: list[str]) -> None:
    """This holds for any texts."""
    values = [value for _, value in warning_headers(warnings)]
    assert sum(map(len, values)) < 20_000
    assert all("\n" not in value and "\r" not in value and value.encode() for value in values)


def test_error_response_has_warnings_and_retry_after() -> None:
    """The warnings come first."""
    error = TooManyRequests("later", retry_after_seconds=1.5)
    assert status_response(error, "", {}, "").headers == (("Retry-After", "2"),)
    error.warnings = ("a", "b")
    assert status_response(error, "", {}, "").headers == (
        *(("Warning", value) for value in _values("a", "b")),
        ("Retry-After", "2"),
    )
