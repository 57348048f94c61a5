"""Logs: a constant message and facts as pairs.

`log = get_logger(__name__)`, then `log.info("status sent", pod="default/web", version=3)`. A logger with facts bound
to it (`log.bind(pod=...)`) adds them to every line. Facts are rendered only if the line is written.

A line is a line, whatever is in it: what pods and requests say cannot make a second one, nor speak to a terminal.
"""

import json
import logging
from typing import Any, Protocol

from pykubelet.aio.clock import Clock

_FACTS = "pykubelet_facts"


class Logger:
    """A named logger with facts bound to it; immutable, cheap to bind."""

    __slots__ = ("_facts", "_logger")

    def __init__(self, logger: logging.Logger, facts: dict[str, Any]) -> None:
        self._logger, self._facts = logger, facts

    def bind(self, **facts: Any) -> "Logger":
        """The same logger with more facts on every line."""
        return Logger(self._logger, {**self._facts, **facts})

    def debug(self, message: str, **facts: Any) -> None:
        """What only someone searching wants to know."""
        self._write(logging.DEBUG, message, facts)

    def info(self, message: str, **facts: Any) -> None:
        """Something changed."""
        self._write(logging.INFO, message, facts)

    def warning(self, message: str, **facts: Any) -> None:
        """It went wrong and will be tried again."""
        self._write(logging.WARNING, message, facts)

    def error(self, message: str, *, error: BaseException | None = None, **facts: Any) -> None:
        """Someone must act."""
        self._write(logging.ERROR, message, facts, error)

    def _write(self, level: int, message: str, facts: dict[str, Any], error: BaseException | None = None) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, message, extra={_FACTS: {**self._facts, **facts}}, exc_info=error)


def get_logger(name: str) -> Logger:
    """The logger of a module."""
    return Logger(logging.getLogger(name), {})


def facts_of(record: logging.LogRecord) -> dict[str, Any]:
    """The pairs of a line, for tests and formatters."""
    facts: dict[str, Any] = getattr(record, _FACTS, {})
    return facts


class LineFormatter(logging.Formatter):
    """One line: time, level, message, facts; as text for people or as JSON for machines."""

    def __init__(self, *, clock: Clock, as_json: bool = False) -> None:
        super().__init__()
        self._clock, self._as_json = clock, as_json

    def format(self, record: logging.LogRecord) -> str:
        at = self._clock.now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        message, facts = record.getMessage(), facts_of(record)
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        if self._as_json:
            line = {"at": at, "level": record.levelname.lower(), "message": message}
            line |= {key: value for key, value in facts.items() if key not in line}
            return _json(line | {"error": trace} if trace else line)
        pairs = "".join(f" {key}={_shown(value)}" for key, value in facts.items())
        text = f"{at} {record.levelname[0]} {_printable(message)}{pairs}"
        # Set in, no line of it passes for one of the log.
        return "\n    ".join([text, *(_printable(part) for part in trace.splitlines())])


def _shown(value: Any) -> str:
    """A fact as text; quoted if it holds spaces, and never more than one line."""
    text = str(value)
    return text if text and text.isprintable() and " " not in text else _json(text)


def _printable(text: str) -> str:
    return text if text.isprintable() else _json(text)


def _json(value: Any) -> str:
    """One line that every reader of JSON takes, with nothing in it that a terminal obeys."""
    try:
        text = json.dumps(value, default=str, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):
        # Infinite, or with keys that are none in JSON.
        text = json.dumps({str(key): str(each) for key, each in value.items()}, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(json.loads(text))


class Lines(Protocol):
    """Where lines go: a file, a terminal."""

    def write(self, text: str, /) -> object:
        """Take a line, its end included."""


def write_to(stream: Lines, *, clock: Clock, level: int = logging.INFO, as_json: bool = False) -> None:
    """Send the lines of this package, and the warnings of others, to a stream; called once, by the program."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LineFormatter(clock=clock, as_json=as_json))
    logging.getLogger().handlers = [handler]
    logging.captureWarnings(capture=True)
    logger = logging.getLogger("pykubelet")
    logger.handlers = [handler]
    logger.setLevel(level)
    logger.propagate = False
