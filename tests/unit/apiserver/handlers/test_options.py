"""Query parameters of requests, and continue tokens of lists."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.errors import ApiError, BadRequest, Invalid
from pykubelet.apiserver.handlers.get import NEWEST, ContinuePosition, continue_token, read_continue_token
from pykubelet.apiserver.handlers.options import (
    APPLY_PATCH,
    WriteOptions,
    integer,
    is_true,
    list_options,
    parse_revision,
    revision_error,
    write_options,
)


@pytest.mark.parametrize(
    ("value", "expected"), [(None, False), ("", True), ("x", True), ("False", False), ("0", False)]
)
def test_switch_is_off_only_by_false_and_zero(value: str | None, expected: bool) -> None:
    """Go's query conversion does the same."""
    assert is_true({} if value is None else {"x": value}, "x") is expected


@pytest.mark.parametrize(
    ("query", "patch_type", "message"),
    [
        ({}, APPLY_PATCH, "fieldManager: Required value: is required for apply patch"),
        ({"force": "1"}, "application/merge-patch+json", "force: Forbidden: may not be specified for non-apply patch"),
        ({"fieldManager": "x" * 129}, "", "fieldManager: Too long: may not be more than 128 bytes"),
        (
            {"fieldManager": "a\nb"},
            "",
            r'fieldManager: Invalid value: "a\nb": invalid character U+000A (at position 1)',
        ),
        ({"dryRun": ""}, "", 'dryRun: Unsupported value: [""]: supported values: "All"'),
        (
            {"fieldValidation": "x"},
            "",
            'fieldValidation: Unsupported value: "x": supported values: "", "Ignore", "Strict", "Warn"',
        ),
    ],
)
def test_bad_write_options_are_invalid(query: dict[str, str], patch_type: str, message: str) -> None:
    """Each rule has upstream's message."""
    with pytest.raises(Invalid) as refused:
        write_options(query, "PatchOptions", patch_type=patch_type)
    assert refused.value.message == f'PatchOptions.meta.k8s.io "" is invalid: {message}'


def test_write_options_are_read() -> None:
    """Warn is the default."""
    query = {"dryRun": "All", "fieldManager": "me", "fieldValidation": "Strict", "force": "true", "other": "x"}
    assert write_options(query, "PatchOptions", patch_type=APPLY_PATCH) == WriteOptions(True, "me", "Strict", True)
    assert write_options({}, "CreateOptions") == WriteOptions(False, "", "Warn", False)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"sendInitialEvents": "1"}, "resourceVersionMatch: Forbidden: sendInitialEvents requires setting"),
        (
            {"resourceVersionMatch": "Exact", "continue": "x"},
            "[resourceVersionMatch: Forbidden: resourceVersionMatch is",
        ),
    ],
)
def test_bad_watch_options_are_invalid(query: dict[str, str], message: str) -> None:
    """A watch has rules of its own."""
    with pytest.raises(Invalid) as refused:
        list_options({"watch": "1", **query})
    assert refused.value.message.removeprefix('ListOptions.meta.k8s.io "" is invalid: ')[: len(message)] == message


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            {"resourceVersionMatch": "Exact"},
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        (
            {"resourceVersionMatch": "Exact", "resourceVersion": "7", "continue": "x"},
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided",
        ),
        (
            {"resourceVersionMatch": "Newer", "resourceVersion": "7"},
            'resourceVersionMatch: Unsupported value: "Newer": supported values: "Exact", "NotOlderThan", ""',
        ),
        (
            {"resourceVersionMatch": "Exact", "resourceVersion": "0"},
            'resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
        ),
        ({"sendInitialEvents": "0"}, "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"),
    ],
)
def test_bad_list_options_are_invalid(query: dict[str, str], message: str) -> None:
    with pytest.raises(Invalid) as refused:
        list_options(query)
    assert refused.value.message == f'ListOptions.meta.k8s.io "" is invalid: {message}'


@pytest.mark.parametrize("match", ["NotOlderThan", "Exact"])
def test_lists_of_a_revision_are_no_error(match: str) -> None:
    revision = "7" if match == "Exact" else "0"
    options = list_options({"resourceVersionMatch": match, "resourceVersion": revision})
    assert (options.resource_version_match, options.resource_version) == (match, revision)


@given(st.dictionaries(st.sampled_from(["limit", "timeoutSeconds", "watch", "resourceVersionMatch", "x"]), st.text()))
def test_any_query_is_read_or_refused(query: dict[str, str]) -> None:
    """Only errors of the API are raised, and numbers have 64 bits."""
    refusal: ApiError | None = None
    limit = 0
    try:
        limit = list_options(query).limit
    except ApiError as error:
        refusal = error
    assert refusal is None or refusal.code in (400, 422)
    assert -(2**63) <= limit < 2**63


@given(st.integers())
def test_integers_are_those_of_64_bits(number: int) -> None:
    """Others are out of range."""
    if -(2**63) <= number < 2**63:
        assert integer({"x": str(number)}, "x") == number
    else:
        with pytest.raises(BadRequest, match="value out of range"):
            integer({"x": str(number)}, "x")


@given(st.text(alphabet="abc-.", min_size=1, max_size=10), st.integers(1, 2**62) | st.just(NEWEST))
def test_continue_token_gives_its_position_back(name: str, revision: int) -> None:
    """Any name works, except those that would leave the collection."""
    if name in (".", ".."):
        with pytest.raises(BadRequest):
            read_continue_token(continue_token(f"ns/{name}/x", revision))
    else:
        assert read_continue_token(continue_token(f"ns/{name}", revision)) == ContinuePosition(f"ns/{name}", revision)


@given(st.text(max_size=30))
def test_text_that_is_no_token_is_refused(text: str) -> None:
    """The message has upstream's prefix."""
    with pytest.raises(BadRequest, match="invalid continue token: continue key is not valid"):
        read_continue_token(text)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("eyJ2IjoieCJ9", "server does not recognize this encoded version x"),
        ("eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ", "incorrect encoded start resourceVersion (version meta.k8s.io/v1)"),
        ("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MX0", "encoded start key empty (version meta.k8s.io/v1)"),
        ("eyJ2Ijo1fQ", "json: cannot unmarshal it into Go value of type storage.continueToken"),
        ("bnVsbA", "server does not recognize this encoded version "),
    ],
)
def test_token_with_other_content_is_refused(content: str, message: str) -> None:
    """Each error has upstream's message."""
    with pytest.raises(BadRequest) as refused:
        read_continue_token(content)
    assert refused.value.message == f"invalid continue token: continue key is not valid: {message}"


@given(st.text() | st.integers(-5, 2**65).map(str))
def test_revisions_are_unsigned_numbers_of_64_bits(text: str) -> None:
    """Other texts give Go's message."""
    number = parse_revision(text)
    if number is None:
        assert revision_error(text).startswith("resourceVersion: Invalid value: ")
    else:
        assert number == int(text or 0)
        assert 0 <= number < 2**64


def test_list_options_are_read() -> None:
    """The query sets all parameters together."""
    query: dict[str, Any] = {
        "limit": "5",
        "continue": "t",
        "labelSelector": "a",
        "fieldSelector": "b",
        "resourceVersion": "7",
    }
    options = list_options(query)
    assert (options.limit, options.continue_token, options.labels, options.fields) == (5, "t", "a", "b")
    assert (options.resource_version, options.watch, options.send_initial_events) == ("7", False, None)
