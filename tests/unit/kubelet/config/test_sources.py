"""Problems of pod sources as users see them: events and the node condition."""

from pykubelet.api.generated.core import ObjectReference
from pykubelet.client.manifests.last_known_good import SourceProblem
from pykubelet.kubelet.config.config import SourceProblemReporter

NODE = ObjectReference(kind="Node", name="node-1")


class Told:
    """Records the emitted events."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str, str]] = []

    def event(self, involved: ObjectReference, event_type: str, reason: str, message: str) -> None:
        self.events.append((involved.name, event_type, reason, message))


def test_problem_is_an_event_and_a_warning_until_it_is_healed() -> None:
    """The event is about the node and names the file; its message is cut to 1024 characters."""
    told = Told()
    problems = SourceProblemReporter(recorder=told, node=NODE)
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


def test_problem_of_other_manifests_is_an_event_of_its_own_and_no_warning() -> None:
    """The node's condition covers pod manifests only."""
    told = Told()
    problems = SourceProblemReporter(recorder=told, node=NODE)
    problems.report(SourceProblem("manifests", "/etc/map.yaml", "line 3: unknown field"))
    assert told.events == [("node-1", "Warning", "ManifestProblem", "/etc/map.yaml: line 3: unknown field")]
    assert (problems.warning(), len(problems.all())) == ("", 1)


def test_same_problem_from_two_sources_is_one_event() -> None:
    """The problem ends separately for each source."""
    told = Told()
    problems = SourceProblemReporter(recorder=told, node=NODE)
    for source in ("file", "manifests"):
        problems.report(SourceProblem(source, "/etc/web.yaml", "line 3: unknown field"))
    assert [reason for _, _, reason, _ in told.events] == ["PodSourceProblem"]
    problems.clear("manifests", "/etc/web.yaml")
    assert problems.warning() == "problems with sources of pods: /etc/web.yaml"
    problems.report(SourceProblem("manifests", "/etc/web.yaml", "line 4: Invalid value"))
    assert [reason for _, _, reason, _ in told.events] == ["PodSourceProblem", "ManifestProblem"]
