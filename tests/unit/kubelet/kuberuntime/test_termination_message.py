"""Termination messages of exited containers."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.kubelet.kuberuntime.termination import join_messages, should_read_log, text_of_file, text_of_log
from pykubelet.kubelet.logs.log_lines import split_lines
from pykubelet.runtimes.log_format import format_lines
from volume_pods import container

FALL_BACK = "FallbackToLogsOnError"
WHEN: list[Any] = [
    (FALL_BACK, 1, "Error", None, True),
    (FALL_BACK, 1, "Error", b"", True),
    (FALL_BACK, 1, "Error", b"said", False),
    (FALL_BACK, 0, "Completed", None, False),
    (FALL_BACK, 128, "ContainerCannotRun", None, False),
    ("File", 1, "Error", None, False),
]


@pytest.mark.parametrize(("policy", "exit_code", "reason", "file", "expected"), WHEN)
def test_log_is_read_when_a_container_failed_without_a_message(
    policy: str, exit_code: int, reason: str, file: bytes | None, expected: bool
) -> None:
    """Only with the FallbackToLogsOnError policy."""
    spec = container(terminationMessagePolicy=policy)
    assert should_read_log(spec, exit_code=exit_code, reason=reason, file=file) is expected


def test_message_of_the_runtime_comes_first() -> None:
    """A colon separates the two if both exist."""
    assert join_messages("killed", "bye") == "killed: bye"
    assert join_messages("", "bye") == "bye"
    assert join_messages("killed", "") == "killed"


def test_log_gives_its_last_lines_of_both_streams() -> None:
    """At most 80 lines and 2048 bytes."""
    many = format_lines(0, "stdout", b"".join(b"line %d\n" % number for number in range(100)))
    assert text_of_log(split_lines(many)).splitlines() == [f"line {number}" for number in range(20, 100)]
    mixed = format_lines(0, "stderr", b"oops\n") + b"no log line\n" + format_lines(1, "stdout", b"end")
    assert text_of_log(split_lines(mixed)) == "oops\nend"


@settings(max_examples=100)
@given(st.binary(max_size=5000))
def test_text_is_the_end_of_what_was_written_within_bounds(content: bytes) -> None:
    """Invalid UTF-8 is replaced, not rejected."""
    assert text_of_file(content) == content[-4096:].decode(errors="replace")
    lines = split_lines(format_lines(0, "stdout", content))
    printed = text_of_log(lines)
    assert len(printed) <= 2048
    assert content.decode(errors="replace").endswith(printed.lstrip("\ufffd"))
