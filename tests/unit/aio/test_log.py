"""Logs: constant message, facts as pairs, bound facts, one line each."""

import io
import json
import logging

import pytest

from pykubelet.aio.log import facts_of, get_logger, write_to
from pykubelet.testing.virtual_time import ManualClock

log = get_logger("pykubelet.unit")


def test_bound_facts_come_before_the_line_s_own(caplog: pytest.LogCaptureFixture) -> None:
    """A bound logger adds its facts to every line; the line's own win."""
    with caplog.at_level(logging.DEBUG):
        log.bind(pod="default/web", version=1).debug("status sent", version=2)
    assert [(r.message, facts_of(r)) for r in caplog.records] == [("status sent", {"pod": "default/web", "version": 2})]


def lines_of(*, as_json: bool) -> list[str]:
    stream = io.StringIO()
    logger = logging.getLogger("pykubelet")
    before = logger.handlers, logger.level, logger.propagate
    write_to(stream, clock=ManualClock(), as_json=as_json)
    try:
        log.info("mirror created", pod="default/web", why="two words\nand a line")
        log.debug("not shown")
        log.warning("refused")
    finally:
        logger.handlers, logger.level, logger.propagate = before
    return stream.getvalue().splitlines()


def test_text_line_is_one_line_with_quoted_facts() -> None:
    """Values with spaces or line breaks are quoted, so that a line stays a line."""
    assert lines_of(as_json=False) == [
        '2026-01-01T00:00:00.000Z I mirror created pod=default/web why="two words\\nand a line"',
        "2026-01-01T00:00:00.000Z W refused",
    ]


def test_json_line_has_message_and_facts_as_fields() -> None:
    """Each line is one JSON object."""
    first = json.loads(lines_of(as_json=True)[0])
    assert first == {
        "at": "2026-01-01T00:00:00.000Z",
        "level": "info",
        "message": "mirror created",
        "pod": "default/web",
        "why": "two words\nand a line",
    }
