"""The syntax of names, and the texts of validation errors."""

import ipaddress
import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api import names

VALID: list[tuple[Callable[[str], list[str]], list[str]]] = [
    (names.qualified_name_errors, ["simple", "now-with.dots_1", "a.b/c", "1-num.2-num/3-num", "x" * 63]),
    (names.label_value_errors, ["", "a", "A_b.c-9", "x" * 63]),
    (names.dns1123_label_errors, ["a", "0", "a-b", "1-2", "a" * 63]),
    (names.dns1123_subdomain_errors, ["a", "a.b", "0.1--2.3", "a" * 253]),
    (names.dns1123_subdomain_with_underscore_errors, ["_a._b", "a_b.c"]),
    (names.wildcard_dns1123_subdomain_errors, ["*.a", "*.a.b"]),
    (names.dns1035_label_errors, ["a", "a-9", "a" * 63]),
    (names.c_identifier_errors, ["a", "_", "_A9", "a" * 300]),
    (names.env_var_name_errors, ["a", "_x", "-a", "a.b", ".a"]),
    (names.relaxed_env_var_name_errors, [" ", "~", "9 a!", "."]),
    (names.config_map_key_errors, ["a", ".hidden", "A_b-c.d"]),
    (names.port_name_errors, ["a", "a-1", "1a", "a23456789012345"]),
    (names.percent_errors, ["0%", "100%", "007%"]),
    (names.http_header_name_errors, ["X-A", "9", "-"]),
    (names.ip_errors, ["1.2.3.4", "010.002.003.0004", "::", "::1", "1::", "1:2:3:4:5:6:7:8", "::ffff:1.2.3.4"]),
    (names.ip_errors, ["00001::", "1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:7::", "FE80::A"]),
    (names.cidr_errors, ["1.2.3.4/0", "1.2.3.4/032", "::/128", "1.2.3.255/24"]),
]
WRONG: list[tuple[Callable[[str], list[str]], list[str]]] = [
    (names.qualified_name_errors, ["", "/a", "a/", "a/b/c", "-a", "a_", "x" * 64, "A.b/c", "a\n", "é"]),
    (names.label_value_errors, ["-", "a.", "a b", "a/b", "x" * 64, "a\n", "é" * 32]),
    (names.dns1123_label_errors, ["", "-", "a-", "A", "a.b", "a_b", "a" * 64, "a\n"]),
    (names.dns1123_subdomain_errors, ["", ".", "a.", ".a", "a..b", "A", "a_b", "a" * 254, "a\n"]),
    (names.dns1123_subdomain_with_underscore_errors, ["_", "__a", "a_"]),
    (names.wildcard_dns1123_subdomain_errors, ["*", "*.", "*a", "a.b", "*.*.a", "*." + "a" * 252]),
    (names.dns1035_label_errors, ["", "0", "9a", "-a", "a-", "A", "a" * 64]),
    (names.c_identifier_errors, ["", "9a", "a-b", "a\n"]),
    (names.env_var_name_errors, ["", "9a", "a=b", ".", "..", "..a", "a b"]),
    (names.relaxed_env_var_name_errors, ["", "=", "a\x7f", "é", "a\n"]),
    (names.config_map_key_errors, ["", ".", "..", "..a", "a/b", "a" * 254]),
    (names.port_name_errors, ["", "1", "-a", "a-", "a--b", "A", "a" * 16]),
    (names.percent_errors, ["", "%", "1", "-1%", "1%\n"]),
    (names.http_header_name_errors, ["", "a_b", "a:"]),
    (names.ip_errors, ["", "1", "1.2.3", "1.2.3.4.5", "256.1.1.1", "1.2.3.4 ", "a.b.c.d", "1.2.3.4:80", "1..2.3"]),
    (names.ip_errors, [":", ":::", "1:2", "1::2::3", "::12345", "1:2:3:4:5:6:7:8::", "1.2.3.4::", "::1%eth0", "1::g"]),
    (names.ip_errors, ["::1.2.3.4:5", "1:2:3:4:5:6:7:1.2.3.4", "::1.2.3", "1:2:3:4:5:6:7:8:9", ":1::"]),
    (names.cidr_errors, ["", "1.2.3.4", "1.2.3.4/", "1.2.3.4/33", "::/129", "1.2.3.4/-1", "/8", "1.2.3.4/8/8"]),
]


@pytest.mark.parametrize(
    ("errors_of", "value"),
    [pytest.param(check, value, id=f"{check.__name__} {value!r:.40}") for check, values in VALID for value in values],
)
def test_name_is_accepted_when_valid(errors_of: Callable[[str], list[str]], value: str) -> None:
    assert errors_of(value) == []


@pytest.mark.parametrize(
    ("errors_of", "value"),
    [pytest.param(check, value, id=f"{check.__name__} {value!r:.40}") for check, values in WRONG for value in values],
)
def test_name_is_refused_when_invalid(errors_of: Callable[[str], list[str]], value: str) -> None:
    assert errors_of(value)


LABEL_SYNTAX = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an "
    "alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        (names.dns1123_label_errors("a.b"), ["must not contain dots"]),
        (names.dns1123_label_errors("A"), [LABEL_SYNTAX]),
        (names.dns1123_label_errors("a" * 64), ["must be no more than 63 characters"]),
        (names.dns1123_label_errors("A" * 64), ["must be no more than 63 characters", LABEL_SYNTAX]),
        (names.label_value_errors("é" * 32)[:1], ["must be no more than 63 characters"]),
        (names.qualified_name_errors("/a"), ["prefix part must be non-empty"]),
        (names.qualified_name_errors("a/")[:1], ["name part must be non-empty"]),
        (names.config_map_key_errors(".."), ["must not be '..'"]),
        (names.config_map_key_errors("..a"), ["must not start with '..'"]),
        (names.relaxed_env_var_name_errors(""), ["environment variable name must be non-empty"]),
        (names.port_number_errors(0), ["must be between 1 and 65535, inclusive"]),
        (names.port_number_errors(65535), []),
        (names.user_id_errors(-1), ["must be between 0 and 2147483647, inclusive"]),
        (names.group_id_errors(2**31 - 1), []),
        (
            names.port_name_errors("-"),
            ["must contain at least one letter (a-z)", "must not begin or end with a hyphen"],
        ),
    ],
)
def test_name_errors_use_the_words_of_kubernetes(errors: list[str], expected: list[str]) -> None:
    assert errors == expected


def test_regex_error_leaves_out_examples_when_there_are_none() -> None:
    assert names.regex_error("wrong", "a+") == "wrong (regex used for validation is 'a+')"


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.ip_addresses().map(str), st.from_regex(r"[0-9a-f:.]{0,20}", fullmatch=True)))
def test_ip_errors_accept_what_python_takes_for_an_address(text: str) -> None:
    """Besides the addresses that Python parses, only those with leading zeros are accepted."""
    try:
        ipaddress.ip_address(text)
        strict = True
    except ValueError:
        strict = False
    accepted = not names.ip_errors(text)
    assert accepted == strict or (accepted and re.search(r"(^|[.:])0[0-9a-f]", text))


@pytest.mark.parametrize("errors_of", [check for check, _ in VALID if check != names.relaxed_env_var_name_errors])
@pytest.mark.parametrize("text", ["a" * 200_000 + "!", "a." * 100_000 + "!", "-" * 200_000 + "!", "0" * 200_000 + "!"])
def test_name_errors_take_linear_time_when_the_text_is_hostile(
    errors_of: Callable[[str], list[str]], text: str
) -> None:
    """The time limit of the test is the check."""
    assert errors_of(text)
