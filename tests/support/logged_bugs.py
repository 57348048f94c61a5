"""Fails tests during which a bug was logged.

Whatever runs for ever logs an exception and tries again, so that a bug in it may be no more than a delay.
"""

import logging

from pykubelet.aio.log import BUGS


class LoggedBugs(logging.Handler):
    """Keeps the exceptions of log records that only a bug raises; a test that raises one on purpose clears `found`."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, BUGS):
            self.found.append(error)
