"""Problems are told when they begin, change and end, and only then."""

from pykubelet.agent.sources.problems import ProblemBook, SourceProblem


class Told:
    def __init__(self) -> None:
        self.calls: list[object] = []

    def report(self, problem: SourceProblem) -> None:
        self.calls.append(problem)

    def clear(self, source: str, where: str) -> None:
        self.calls.append((source, where))


def test_problem_is_told_once_and_cleared_once() -> None:
    """Saying the same again is silence; another message replaces the first."""
    told = Told()
    book = ProblemBook("file", told)
    for messages in ({}, {"/a": "x"}, {"/a": "x"}, {"/a": "y", "/b": "z"}, {"/b": "z"}, {}, {}):
        book.update(messages)
    assert told.calls == [
        SourceProblem("file", "/a", "x"),
        SourceProblem("file", "/a", "y"),
        SourceProblem("file", "/b", "z"),
        ("file", "/a"),
        ("file", "/b"),
    ]
