"""Problems of sources, told as events about the node, and kept as long as they last.

What follows manifests beside the node may tell its problems here too; they are no problems of the node's pods.

Upstream tells of them in its log only.
"""

from pykubelet.agent.flow import Source
from pykubelet.api.generated.core import ObjectReference
from pykubelet.kube.manifests.problems import SourceProblem
from pykubelet.kube.recorder import WARNING, EventRecorder

SOURCE_PROBLEM = "PodSourceProblem"
MANIFEST_PROBLEM = "ManifestProblem"
"""With documents that are no pods."""
_SOURCES_OF_PODS = frozenset(Source)
_LONGEST_EVENT = 1024
"""What an event may say at most."""


class ReportedProblems:
    """What is wrong with the sources now; a `Problems`."""

    def __init__(self, *, recorder: EventRecorder, node: ObjectReference) -> None:
        self._recorder, self._node = recorder, node
        self._open: dict[tuple[str, str], SourceProblem] = {}

    def report(self, problem: SourceProblem) -> None:
        # Two that follow one file find the same wrong with its text: one event says it.
        is_told = any((each.where, each.message) == (problem.where, problem.message) for each in self._open.values())
        self._open[problem.source, problem.where] = problem
        if is_told:
            return
        message = f"{problem.where}: {problem.message}"
        reason = SOURCE_PROBLEM if problem.source in _SOURCES_OF_PODS else MANIFEST_PROBLEM
        self._recorder.event(self._node, WARNING, reason, message[:_LONGEST_EVENT])

    def clear(self, source: str, where: str) -> None:
        self._open.pop((source, where), None)

    def all(self) -> tuple[SourceProblem, ...]:
        """All that is wrong now."""
        return tuple(self._open.values())

    def warning(self) -> str:
        """What is wrong with pods in a few words, for the node's condition; empty if nothing is."""
        places = ", ".join(problem.where for problem in self._open.values() if problem.source in _SOURCES_OF_PODS)
        return f"problems with sources of pods: {places}" if places else ""
