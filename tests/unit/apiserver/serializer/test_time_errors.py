"""Errors of invalid times, in Go's words; times that this server writes are valid."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.times import format_micro_time, format_time
from pykubelet.apiserver.serializer.decode_errors import time_error

AS = ' as "2006-01-02T15:04:05Z07:00": cannot parse '
AS_MICRO = ' as "2006-01-02T15:04:05.000000Z07:00": cannot parse '


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("yesterday", f'{AS}"yesterday" as "2006"'),
        ("", f'{AS}"" as "2006"'),
        ("2026-01-01", f'{AS}"" as "T"'),
        ("2026/01/01", f'{AS}"/01/01" as "-"'),
        ("2026-1-01T00:00:00Z", f'{AS}"1-01T00:00:00Z" as "01"'),
        ("2026-01-01 00:00:00", f'{AS}" 00:00:00" as "T"'),
        ("2026-01-01T00:00:00", f'{AS}"" as "Z07:00"'),
        ("2026-13-01T00:00:00Z", ": month out of range"),
        ("2026-01-01T24:00:00Z", ": hour out of range"),
        ("2026-02-30T00:00:00Z", ": day out of range"),
        ("2026-01-01T00:00:00Zx", ': extra text: "x"'),
    ],
)
def test_invalid_time_error_names_the_first_wrong_part(text: str, complaint: str) -> None:
    """For a syntax error, the message has the remaining text and the expected layout."""
    assert time_error(text) == f'parsing time "{text}"{complaint}'


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("2026-01-01T00:00:00Z", '"Z" as ".000000"'),
        ("2026-01-01T00:00:00.5Z", '".5Z" as ".000000"'),
        ("2026-01-01T00:00:00.123456789Z", '"789Z" as "Z07:00"'),
        ("x", '"x" as "2006"'),
    ],
)
def test_micro_time_needs_exactly_six_digits(text: str, complaint: str) -> None:
    assert time_error(text, micro=True) == f'parsing time "{text}"{AS_MICRO}{complaint}'


@given(st.datetimes(timezones=st.just(UTC)))
def test_times_that_the_server_writes_are_valid(at: datetime) -> None:
    """Both formats are valid, and a fraction is also valid where none is needed."""
    assert time_error(format_time(at)) is time_error(format_micro_time(at)) is None
    assert time_error(format_micro_time(at), micro=True) is None


@given(st.text(alphabet="0123456789-:.,TZ+ x", max_size=30), st.booleans())
def test_any_text_is_a_time_or_gives_an_error(text: str, micro: bool) -> None:
    """The error names the text."""
    complaint = time_error(text, micro=micro)
    assert complaint is None or complaint.startswith(f'parsing time "{text}"')
