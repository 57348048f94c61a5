"""Problems are reported when they begin or change, and cleared when they end."""

from pykubelet.client.manifests.last_known_good import ProblemBook, SourceProblem


class Told:
    def __init__(self) -> None:
        self.calls: list[object] = []

    def report(self, problem: SourceProblem) -> None:
        self.calls.append(problem)

    def clear(self, source: str, where: str) -> None:
        self.calls.append((source, where))


def test_problem_is_reported_once_and_cleared_once() -> None:
    """A repeated message is not reported again; a different one replaces it."""
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


def test_problem_is_printed_when_it_begins_and_ends() -> None:
    """For people at a terminal."""
    told, lines = Told(), list[str]()
    book = ProblemBook("file", told, say=lines.append)
    for messages in ({"/a": "line 3: bad"}, {"/a": "line 3: bad"}, {}):
        book.update(messages)
    assert lines == ["/a: line 3: bad", "/a: is in good order again"]
    assert told.calls == [SourceProblem("file", "/a", "line 3: bad"), ("file", "/a")]
