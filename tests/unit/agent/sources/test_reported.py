"""Problems of sources as users hear of them."""

from pykubelet.agent.sources import ReportedProblems, SourceProblem
from pykubelet.api.generated.core import ObjectReference

NODE = ObjectReference(kind="Node", name="node-1")


class Told:
    """Remembers events."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str, str]] = []

    def event(self, involved: ObjectReference, event_type: str, reason: str, message: str) -> None:
        self.events.append((involved.name, event_type, reason, message))


def test_problem_is_an_event_and_a_warning_until_it_is_healed() -> None:
    """It is about the node, names the place, and its words are kept within what an event may hold."""
    told = Told()
    problems = ReportedProblems(recorder=told, node=NODE)
    assert (problems.warning(), problems.all()) == ("", ())
    for message in ("line 3: unknown field", "x" * 5000):
        problems.report(SourceProblem("file", "/etc/web.yaml", message))
    assert told.events[0] == (
        "node-1",
        "Warning",
        "PodSourceProblem",
        "/etc/web.yaml: line 3: unknown field",
    )
    assert len(told.events[1][3]) == 1024
    assert problems.warning() == "problems with sources of pods: /etc/web.yaml"
    assert len(problems.all()) == 1
    problems.clear("file", "/etc/web.yaml")
    problems.clear("file", "/etc/other.yaml")
    assert (problems.warning(), problems.all()) == ("", ())
