"""The door to PyYAML: a text to parser events, its complaints to `YamlError`.

Only events are taken from PyYAML: the C parser makes them one at a time, without recursion and without building
anything. The pure Python parser stands in where the C library is missing.

Upstream: go.yaml.in/yaml/v2/decode.go (wording of errors).
"""

from collections.abc import Callable
from typing import NamedTuple, cast

import yaml
from yaml.events import Event, ScalarEvent, StreamStartEvent
from yaml.reader import ReaderError
from yaml.scanner import ScannerError

from pykubelet.api.yaml_scalars import MERGE_TAG

_LOADER = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader

# What the parser raises on bad input; Unicode errors come from percent escapes in tags.
PARSER_ERRORS = (yaml.YAMLError, UnicodeError)

NextEvent = Callable[[], Event]


class Position(NamedTuple):
    """A place in a text; both numbers count from 1."""

    line: int
    column: int


class YamlError(ValueError):
    """The text cannot be read. Lines and columns count from 1; 0 means that the place is not known.

    `upstream` is what Go's reader says: it names fewer places, and counts lines in its own way.
    """

    def __init__(self, message: str, *, line: int = 0, column: int = 0, upstream: str = "") -> None:
        where = f"line {line}: " if line else ""
        super().__init__(f"yaml: {where}{message}")
        self.upstream = upstream or str(self)
        self.message = message
        self.line = line
        self.column = column


def open_events(text: bytes) -> NextEvent:
    """A function that gives the text's next event, beginning behind the start of the stream."""
    # The stubs allow None, which only comes after the end of the stream.
    next_event = cast("NextEvent", _LOADER(text).get_event)
    start = next_event()
    assert isinstance(start, StreamStartEvent)
    return next_event


def is_merge(event: Event) -> bool:
    """Whether this key merges another mapping into its own."""
    return isinstance(event, ScalarEvent) and event.value == "<<" and bool(event.implicit[0] or event.tag == MERGE_TAG)


def position_of(event: Event, first_line: int) -> Position:
    """Where an event starts, in a text that is a part of a longer one."""
    mark = event.start_mark
    assert mark is not None
    return Position(mark.line + first_line, mark.column + 1)


def error_at(event: Event, message: str, first_line: int) -> YamlError:
    """An error at the place of an event."""
    line, column = position_of(event, first_line)
    return YamlError(message, line=line, column=column)


def parser_error(error: Exception, text: bytes, first_line: int) -> YamlError:
    """What the parser complained of, in its own words and with the place where it did."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark, begun = error.problem_mark, error.context_mark
        message = error.problem or "unknown problem parsing YAML content"
        upstream = _upstream_words(error, mark.line, message)
        if error.context and begun is not None and begun.line < mark.line:
            # An open quote shows at the end of the text; where it was opened is what helps.
            message += f" ({error.context} from line {begun.line + first_line})"
        return YamlError(message, line=mark.line + first_line, column=mark.column + 1, upstream=upstream)
    if isinstance(error, ReaderError):
        before = text[: error.position] if isinstance(error.position, int) else b""
        line_start = before.rfind(b"\n") + 1
        line = before.count(b"\n") + first_line
        return YamlError(str(error.reason), line=line, column=len(before) - line_start + 1)
    return YamlError(f"the text cannot be parsed: {error}")


def _upstream_words(error: yaml.MarkedYAMLError, line: int, message: str) -> str:
    if not line and error.context_mark is not None:
        line = error.context_mark.line
    elif line and isinstance(error, ScannerError):
        line += 1
    where = f"line {line}: " if line else ""
    return f"yaml: {where}{message}"
