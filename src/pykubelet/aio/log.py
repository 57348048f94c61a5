"""Structured logs: a constant message with facts as key=value pairs.

`log = get_logger(__name__)`, then `log.info("status sent", pod="default/web", version=3)`. `log.bind(pod=...)` returns
a logger that adds these facts to every line. Facts are rendered only if the line is written.

Each entry is one line: control characters in what pods and clients send are escaped, so that they cannot forge an entry
or control a terminal.

Upstream: staging/src/k8s.io/component-base/logs
"""

import json
import logging
from typing import Any, Protocol

from pykubelet.aio.clock import Clock

_FACTS = "pykubelet_facts"
BUGS = (ArithmeticError, AssertionError, AttributeError, LookupError, NameError, TypeError)
"""Exceptions that mean a bug of ours, not a failure of something else: they are logged with their traceback."""


class Logger:
    """A named logger with bound facts; immutable and cheap to bind."""

    __slots__ = ("_facts", "_logger")

    def __init__(self, logger: logging.Logger, facts: dict[str, Any]) -> None:
        self._logger, self._facts = logger, facts

    def bind(self, **facts: Any) -> "Logger":
        """A logger that adds these facts to every line."""
        return Logger(self._logger, {**self._facts, **facts})

    @property
    def is_verbose(self) -> bool:
        """Whether details are logged, for callers to whom their facts cost something."""
        return self._logger.isEnabledFor(logging.DEBUG)

    def debug(self, message: str, **facts: Any) -> None:
        """Log a detail for troubleshooting."""
        self._write(logging.DEBUG, message, facts)

    def info(self, message: str, **facts: Any) -> None:
        """Log a change of state."""
        self._write(logging.INFO, message, facts)

    def warning(self, message: str, **facts: Any) -> None:
        """Log a failure that will be retried."""
        self._write(logging.WARNING, message, facts)

    def error(self, message: str, *, error: BaseException | None = None, **facts: Any) -> None:
        """Log a failure that needs attention, with its traceback."""
        self._write(logging.ERROR, message, facts, error)

    def _write(self, level: int, message: str, facts: dict[str, Any], error: BaseException | None = None) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, message, extra={_FACTS: {**self._facts, **facts}}, exc_info=error)


def get_logger(name: str) -> Logger:
    return Logger(logging.getLogger(name), {})


def facts_of(record: logging.LogRecord) -> dict[str, Any]:
    """The facts of a log record, for tests and formatters."""
    facts: dict[str, Any] = getattr(record, _FACTS, {})
    return facts


class LineFormatter(logging.Formatter):
    """Formats a record as one line: time, level, message and facts, as text or as JSON."""

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
        # Continuation lines are indented so that pod output cannot forge a log entry.
        return "\n    ".join([text, *(_printable(part) for part in trace.splitlines())])


def _shown(value: Any) -> str:
    """A fact as text on one line, quoted if it contains spaces."""
    text = str(value)
    return text if text and text.isprintable() and " " not in text else _json(text)


def _printable(text: str) -> str:
    return text if text.isprintable() else _json(text)


def _json(value: Any) -> str:
    """JSON on one line, without characters that control a terminal."""
    try:
        text = json.dumps(value, default=str, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):
        # Infinite numbers, or keys that JSON does not allow.
        text = json.dumps({str(key): str(each) for key, each in value.items()}, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(json.loads(text))


class Lines(Protocol):
    """A stream that receives log lines: a file or a terminal."""

    def write(self, text: str, /) -> object:
        """Write one line, including its newline."""


def write_to(stream: Lines, *, clock: Clock, level: int = logging.INFO, as_json: bool = False) -> None:
    """Send this package's log and other packages' warnings to a stream. Programs call it once."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LineFormatter(clock=clock, as_json=as_json))
    logging.getLogger().handlers = [handler]
    logging.captureWarnings(capture=True)
    logger = logging.getLogger("pykubelet")
    logger.handlers = [handler]
    logger.setLevel(level)
    logger.propagate = False
