"""Problems of sources, told as events about the node, and kept as long as they last.

Upstream tells of them in its log only.
"""

from pykubelet.agent.sources.problems import SourceProblem
from pykubelet.api.generated.core import ObjectReference
from pykubelet.kube.recorder import WARNING, EventRecorder

SOURCE_PROBLEM = "PodSourceProblem"
_LONGEST_EVENT = 1024
"""What an event may say at most."""


class ReportedProblems:
    """What is wrong with the sources now; a `Problems`."""

    def __init__(self, *, recorder: EventRecorder, node: ObjectReference) -> None:
        self._recorder, self._node = recorder, node
        self._open: dict[tuple[str, str], SourceProblem] = {}

    def report(self, problem: SourceProblem) -> None:
        self._open[problem.source, problem.where] = problem
        message = f"{problem.where}: {problem.message}"
        self._recorder.event(self._node, WARNING, SOURCE_PROBLEM, message[:_LONGEST_EVENT])

    def clear(self, source: str, where: str) -> None:
        self._open.pop((source, where), None)

    def all(self) -> tuple[SourceProblem, ...]:
        """All that is wrong now."""
        return tuple(self._open.values())

    def warning(self) -> str:
        """The same in a few words, for the node's condition; empty if nothing is."""
        places = ", ".join(problem.where for problem in self._open.values())
        return f"problems with sources of pods: {places}" if places else ""
