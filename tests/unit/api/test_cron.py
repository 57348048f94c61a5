"""The syntax of cron schedules and time zones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.cron import schedule_problem
from pykubelet.api.times import is_time_zone, is_time_zone_syntax


@pytest.mark.parametrize(
    "schedule",
    [
        "* * * * *",
        "*/15 0-6/2 1,15 JAN-dec ?",
        "5/10 * ? * sun",
        "@daily",
        "@every 1h30m",
        "@every -1.5s",
        "@every 0",
        "TZ=UTC 0 0 * * *",
        "CRON_TZ=Europe/Berlin  @hourly",
        " 0  0 * * 6 ",
        ",1, * * * *",
        "59 23 31 12 6",
        "0 0 1 1 0",
    ],
)
def test_schedule_is_accepted_when_the_go_library_accepts_it(schedule: str) -> None:
    """Lists, ranges, steps, names, descriptors and time zones."""
    assert schedule_problem(schedule) is None


@pytest.mark.parametrize(
    ("schedule", "problem"),
    [
        ("", "empty spec string"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("* * * * * *", "expected exactly 5 fields, found 6: [* * * * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* 24 * * *", "end of range (24) above maximum (23): 24"),
        ("* * 32 * *", "end of range (32) above maximum (31): 32"),
        ("* * * 13 *", "end of range (13) above maximum (12): 13"),
        ("* * * 0 *", "beginning of range (0) below minimum (1): 0"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("5-3 * * * *", "beginning of range (5) beyond end of range (3): 5-3"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("*/-2 * * * *", "negative number (-2) not allowed: -2"),
        ("-5 * * * *", 'failed to parse int from : strconv.Atoi: parsing "": invalid syntax'),
        (
            "99999999999999999999 * * * *",
            'failed to parse int from 99999999999999999999: strconv.Atoi: parsing "99999999999999999999": value out of range',
        ),
        ("@never", "unrecognized descriptor: @never"),
        ("@every x", 'failed to parse duration @every x: time: invalid duration "x"'),
        ("@every 5", 'failed to parse duration @every 5: time: missing unit in duration "5"'),
        ("@every 5d", 'failed to parse duration @every 5d: time: unknown unit "d" in duration "5d"'),
        ("@every ", 'failed to parse duration @every : time: invalid duration ""'),
        ("TZ=Mars/Base 0 0 * * *", "provided bad location Mars/Base: unknown time zone Mars/Base"),
    ],
)
def test_bad_schedule_is_rejected_with_the_message_of_the_go_library(schedule: str, problem: str) -> None:
    """The message names the first fault."""
    assert schedule_problem(schedule) == problem


@given(st.tuples(st.integers(0, 59), st.integers(0, 23), st.integers(1, 31), st.integers(1, 12), st.integers(0, 6)))
def test_schedule_of_numbers_within_bounds_is_always_accepted(numbers: tuple[int, ...]) -> None:
    """As single numbers, in a list, and as the start of a step."""
    assert schedule_problem(" ".join(map(str, numbers))) is None
    assert schedule_problem(" ".join(f"{number},{number}/3" for number in numbers)) is None


@given(st.text())
def test_any_text_is_a_schedule_or_has_a_reason(text: str) -> None:
    assert schedule_problem(text) != ""


@pytest.mark.parametrize(
    ("name", "is_name", "is_known"),
    [
        ("Europe/Berlin", True, True),
        ("UTC", True, True),
        ("Etc/GMT+5", True, True),
        ("Mars/Base", True, False),
        ("Europe", True, False),
        ("../etc/passwd", False, False),
        ("-x", False, False),
        ("averyverylongname", False, False),
        ("Europe//Berlin", False, False),
    ],
)
def test_time_zone_is_known_when_the_database_has_it(name: str, is_name: bool, is_known: bool) -> None:
    """A name that could lead out of the database's folder is rejected."""
    assert (is_time_zone_syntax(name), is_time_zone(name)) == (is_name, is_known)
