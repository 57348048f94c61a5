"""Why the server did not take a document, in words for whoever wrote it, and when to say so.

In: documents and the server's errors, pass after pass. Out: texts with line and field, by file.
"""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from pykubelet.api.errors import ApiError, Conflict, NotFound
from pykubelet.controllers.manifests.marks import Present
from pykubelet.controllers.manifests.wishes import Apply, Wish
from pykubelet.kube.manifests.documents import DocumentProblem, document_problem

PATIENT_TRIES = 4
"""So often a document may fail for a reason that passes, such as a namespace that is made just now, before it is told."""


class Failure(NamedTuple):
    """What a pass could not do."""

    file: str
    subject: str
    """The object or document, always by the same name."""
    text: str
    may_pass: bool
    """Whether a later pass may succeed without anybody mending anything."""


class Patience:
    """Counts failures in a row; owned by one task."""

    def __init__(self) -> None:
        self._tries: Counter[str] = Counter()

    def worth_telling(self, failures: Iterable[Failure]) -> dict[str, tuple[str, ...]]:
        """Of all failures of a pass those that will not pass by themselves, or have not for a while; by file."""
        failures = tuple(failures)
        self._tries = Counter({each.subject: self._tries[each.subject] + 1 for each in failures})
        told: dict[str, tuple[str, ...]] = {}
        for each in failures:
            if not each.may_pass or self._tries[each.subject] >= PATIENT_TRIES:
                told[each.file] = (*told.get(each.file, ()), each.text)
        return told


def refusal(one: Apply, error: ApiError) -> Failure:
    """The server did not take a document."""
    may_pass = _may_pass(error) or isinstance(error, NotFound) or error.has_cause("NamespaceTerminating")
    return Failure(one.mark.file, str(one.identity), _words(one.wish, error), may_pass)


def undeletable(each: Present, error: ApiError) -> Failure:
    """The server did not delete an object."""
    text = f"{each.identity} is not deleted: {error.message}"
    return Failure(each.mark.file, str(each.identity), text, _may_pass(error))


def unknown_kind(wish: Wish) -> Failure:
    """A document of a kind that is not served."""
    item = wish.item
    message = f"the server has no kind {item.kind} of {item.api_version}: a CustomResourceDefinition must define it"
    text = str(DocumentProblem(message, line=item.line))
    return Failure(item.origin, f"{item.origin} {wish.name}", text, may_pass=True)


def still_ending(one: Apply) -> Failure:
    """A document whose object is being deleted."""
    message = f"{one.identity} is being deleted, and is made anew after that"
    text = str(DocumentProblem(message, line=one.wish.item.line))
    return Failure(one.mark.file, str(one.identity), text, may_pass=True)


def _may_pass(error: ApiError) -> bool:
    return error.retry or isinstance(error, Conflict)


def _words(wish: Wish, error: ApiError) -> str:
    """What the server said, at the lines it spoke of."""
    causes = [cause for cause in error.causes if cause.get("field")]
    if causes:
        problems = (wish.item.problem(cause["field"], str(cause.get("message", ""))) for cause in causes)
        return "; ".join(str(document_problem(problem)) for problem in problems)
    message = error.message
    if isinstance(error, NotFound) and error.details.get("kind") == "namespaces":
        message += ": a Namespace is needed, here or made by hand"
    return str(DocumentProblem(message, line=wish.item.line))
