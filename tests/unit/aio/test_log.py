"""Log lines have a constant message and facts as pairs, one line each, as text or JSON."""

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.aio.log import facts_of, get_logger, write_to
from pykubelet.testing.virtual_time import ManualClock

log = get_logger("pykubelet.unit")


def test_bound_facts_are_added_and_the_facts_of_the_call_override_them(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        log.bind(pod="default/web", version=1).debug("status sent", version=2)
    assert [(r.message, facts_of(r)) for r in caplog.records] == [("status sent", {"pod": "default/web", "version": 2})]


@contextmanager
def written(*, as_json: bool) -> Iterator[io.StringIO]:
    """Redirects the log to a string buffer for the duration of the block."""
    stream = io.StringIO()
    logger, root = logging.getLogger("pykubelet"), logging.getLogger()
    before = logger.handlers, logger.level, logger.propagate, root.handlers
    write_to(stream, clock=ManualClock(), as_json=as_json)
    try:
        yield stream
    finally:
        logger.handlers, logger.level, logger.propagate, root.handlers = before
        logging.captureWarnings(capture=False)


def lines_of(*, as_json: bool) -> list[str]:
    with written(as_json=as_json) as stream:
        log.info("mirror created", pod="default/web", why="two words\nand a line")
        log.debug("not shown")
        log.warning("refused")
    return stream.getvalue().splitlines()


def test_text_line_is_one_line_with_quoted_facts() -> None:
    """Values with spaces or line breaks are quoted, so that each entry stays on one line."""
    assert lines_of(as_json=False) == [
        '2026-01-01T00:00:00.000Z I mirror created pod=default/web why="two words\\nand a line"',
        "2026-01-01T00:00:00.000Z W refused",
    ]


def test_json_line_has_message_and_facts_as_fields() -> None:
    first = json.loads(lines_of(as_json=True)[0])
    assert first == {
        "at": "2026-01-01T00:00:00.000Z",
        "level": "info",
        "message": "mirror created",
        "pod": "default/web",
        "why": "two words\nand a line",
    }


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers() | st.binary(), inner),
)


@given(ANYTHING, st.text())
def test_any_fact_is_one_line_of_json_with_what_every_line_has(value: Any, name: str) -> None:
    """A fact named `at` or `level` does not replace the standard field."""
    with written(as_json=True) as stream:
        log.info("a pod came", value=value, **{f"x{name}": value, "at": "never", "level": "none"})
    text = stream.getvalue()
    assert text.endswith("\n")
    assert text[:-1].isprintable()
    line = json.loads(text, parse_constant=pytest.fail)
    assert (line["at"], line["level"], line["message"]) == ("2026-01-01T00:00:00.000Z", "info", "a pod came")


@given(ANYTHING)
def test_any_fact_is_one_line_of_text(value: Any) -> None:
    """No fact puts control characters on a terminal or forges a log entry."""
    with written(as_json=False) as stream:
        log.info("a pod came", value=value)
    assert stream.getvalue().removesuffix("\n").isprintable()


@pytest.mark.parametrize("as_json", [True, False])
def test_what_an_error_says_is_not_taken_for_a_line(as_json: bool) -> None:
    """Error text cannot forge a log entry.

    Error text may come from a pod: continuation lines are indented in text logs, and a field in JSON logs.
    """
    with written(as_json=as_json) as stream:
        log.error("sync failed", error=ValueError("no\n2026-01-01T00:00:00.000Z I all is well\x1b[2J"))
    first, *others = stream.getvalue().splitlines()
    assert "sync failed" in first
    assert "\x1b" not in stream.getvalue()
    assert others == [] if as_json else all(line.startswith("    ") for line in others)


def test_warnings_of_other_packages_have_the_same_format() -> None:
    """Lower levels of other packages are not logged."""
    with written(as_json=True) as stream:
        logging.getLogger("asyncio").warning("slow: %s", "a callback")
        logging.getLogger("asyncio").info("not shown")
    assert [json.loads(line)["message"] for line in stream.getvalue().splitlines()] == ["slow: a callback"]
