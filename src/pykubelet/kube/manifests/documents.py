"""The objects of a manifest, or what is wrong with it, in the words all who follow files use.

In: bytes. Out: every object, lists taken apart; if the text itself is wrong, an unknown field included, only problems.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pykubelet.api.manifest import ManifestError, ManifestItem, ManifestProblem, read_manifest

MAX_MANIFEST_BYTES = 10 * 2**20
_PLACE = re.compile(r"(?:\A|; )line (\d+)(?:, column (\d+))?: ")


@dataclass(frozen=True, slots=True)
class DocumentProblem:
    """What is wrong with a document of a manifest; line and column are 0 where there is no such place."""

    message: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        if not self.line:
            return self.message
        place = f"line {self.line}, column {self.column}" if self.column else f"line {self.line}"
        return f"{place}: {self.message}"


@dataclass(frozen=True, slots=True)
class Documents:
    """The objects of a manifest in their order, or what is wrong with it; neither: an explicit empty list."""

    items: tuple[ManifestItem, ...] = ()
    problems: tuple[DocumentProblem, ...] = ()


def read_documents(data: bytes, *, origin: str) -> Documents:
    """What a manifest holds; `origin` is its path or URL."""
    if len(data) >= MAX_MANIFEST_BYTES:
        return Documents(problems=(DocumentProblem("the read limit is reached"),))
    try:
        return Documents(read_manifest(data, origin=origin).items)
    except ManifestError as error:
        return Documents(problems=tuple(map(document_problem, error.problems)))


def document_problem(problem: ManifestProblem) -> DocumentProblem:
    """The same without the name of the file, which is told apart from it."""
    message = f"{problem.path}: {problem.message}" if problem.path else problem.message
    return DocumentProblem(message, problem.line, problem.column)


def problem_text(problems: Iterable[DocumentProblem]) -> str:
    """All problems of a manifest in one text."""
    return "; ".join(map(str, problems))


def told_problems(text: str) -> tuple[DocumentProblem, ...]:
    """The problems that such a text tells; what has no place belongs to what is said before it."""
    first, *rest = _PLACE.split(text)
    told = [DocumentProblem(first)] if first else []
    places = zip(rest[::3], rest[1::3], rest[2::3], strict=True)
    return (*told, *(DocumentProblem(message, int(line), int(column or 0)) for line, column, message in places))


def is_pod(item: ManifestItem) -> bool:
    """Whether an object is a pod, which a node runs from its file, or of another kind, which only an API server keeps."""
    return (item.api_version, item.kind) == ("v1", "Pod")
