"""What kinds with a spec and a status have in common: who writes which, when the generation moves.

Users write the spec, controllers the status, each through its own door; whatever comes through the wrong one is put
back. The generation counts the changes of the spec, so that a status can say which spec it has seen.

Upstream: PrepareForCreate and PrepareForUpdate of the strategies in pkg/registry
"""

from pykubelet.api.normal_form import normal_form
from pykubelet.api.wire import Document
from pykubelet.apiserver.served import Change


def with_metadata(document: Document, **fields: object) -> Document:
    """The document with these fields of its metadata; None takes a field out."""
    metadata = {key: value for key, value in document["metadata"].items() if key not in fields}
    return {**document, "metadata": metadata | {key: value for key, value in fields.items() if value is not None}}


def first_generation(document: Document) -> Document:
    """A new object of a kind that counts generations."""
    return with_metadata(document, generation=1)


def without_status(status_definition: str) -> Change:
    """The change that a new object goes through: no status yet, but what is always written."""

    def prepare(document: Document) -> Document:
        return {**first_generation(document), "status": normal_form({}, status_definition)}

    return prepare


def keep_status(new: Document, old: Document) -> Document:
    """An update by a user: the status stays, the generation moves if the spec does."""
    return with_part_of(next_generation(new, old, changed=new.get("spec") != old.get("spec")), old, "status")


def keep_spec(new: Document, old: Document) -> Document:
    """An update of the status: the spec stays."""
    return with_part_of(next_generation(new, old, changed=False), old, "spec")


def next_generation(new: Document, old: Document, *, changed: bool) -> Document:
    """The new document with the old one's generation, or the one after it; requests cannot set it."""
    generation = old["metadata"].get("generation", 0) + changed
    return with_metadata(new, generation=generation or None)


def with_part_of(new: Document, old: Document, part: str) -> Document:
    """The new document with a field as it was."""
    rest = {key: value for key, value in new.items() if key != part}
    return {**rest, part: old[part]} if part in old else rest
