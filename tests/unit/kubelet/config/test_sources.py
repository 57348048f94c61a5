"""Problems of sources as users hear of them."""

from pykubelet.api.generated.core import ObjectReference
from pykubelet.client.manifests.last_known_good import SourceProblem
from pykubelet.kubelet.config.config import SourceProblemReporter

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
    """The node's condition speaks of pods alone."""
    told = Told()
    problems = SourceProblemReporter(recorder=told, node=NODE)
    problems.report(SourceProblem("manifests", "/etc/map.yaml", "line 3: unknown field"))
    assert told.events == [("node-1", "Warning", "ManifestProblem", "/etc/map.yaml: line 3: unknown field")]
    assert (problems.warning(), len(problems.all())) == ("", 1)


def test_what_two_find_wrong_with_one_file_is_one_event() -> None:
    """And it is over for each when it is for each."""
    told = Told()
    problems = SourceProblemReporter(recorder=told, node=NODE)
    for source in ("file", "manifests"):
        problems.report(SourceProblem(source, "/etc/web.yaml", "line 3: unknown field"))
    assert [reason for _, _, reason, _ in told.events] == ["PodSourceProblem"]
    problems.clear("manifests", "/etc/web.yaml")
    assert problems.warning() == "problems with sources of pods: /etc/web.yaml"
    problems.report(SourceProblem("manifests", "/etc/web.yaml", "line 4: Invalid value"))
    assert [reason for _, _, reason, _ in told.events] == ["PodSourceProblem", "ManifestProblem"]
