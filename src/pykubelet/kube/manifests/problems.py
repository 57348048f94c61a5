"""What is wrong with a source of manifests, said when it begins and when it is healed.

In: at each look at a source, everything that is wrong with it now. Out: `report` and `clear` for what changed since.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import Struct

from pykubelet.aio.log import get_logger

log = get_logger(__name__)


class SourceProblem(Struct, frozen=True):
    """Something a user should mend: in which source, where (a path or a URL), and what. Holds no file contents."""

    source: str
    where: str
    message: str


class Problems(Protocol):
    """Tells the user what is wrong with the sources."""

    def report(self, problem: SourceProblem) -> None:
        """This is wrong now; it replaces what was said of the same source and place. Never waits."""

    def clear(self, source: str, where: str) -> None:
        """Nothing is wrong any more at this place of the source. Never waits."""


class ProblemBook:
    """What has been reported about one source; belongs to that source."""

    def __init__(self, source: str, problems: Problems, *, say: Callable[[str], None] | None = None) -> None:
        """With `say` each problem is a line for the terminal, else one of the log."""
        self._source, self._problems, self._say = source, problems, say
        self._open: Mapping[str, str] = {}

    def update(self, messages: Mapping[str, str]) -> None:
        """Take all that is wrong now, by place; tells only what is new, different or healed."""
        before, self._open = self._open, dict(messages)
        for where, message in messages.items():
            if before.get(where) != message:
                self._tell(where, message)
                self._problems.report(SourceProblem(self._source, where, message))
        for where in before.keys() - messages.keys():
            self._tell(where, "")
            self._problems.clear(self._source, where)

    def _tell(self, where: str, message: str) -> None:
        if self._say is not None:
            self._say(f"{where}: {message or 'is in good order again'}")
        elif message:
            log.warning("source has a problem", source=self._source, where=where, problem=message)
        else:
            log.info("source is healed", source=self._source, where=where)
