"""Texts that the cells of many kinds share: labels, selectors, lists that are cut, quantities.

Upstream: staging/src/k8s.io/apimachinery/pkg/labels/labels.go, pkg/apis/meta/v1/helpers.go (FormatLabelSelector)
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pykubelet.api.ages import Age
from pykubelet.api.quantity import QuantityError, parse_quantity
from pykubelet.api.selector import SelectorError, selector_from_document
from pykubelet.api.wire import DecodeError, Document

NONE = "<none>"
UNSET = "<unset>"
UNKNOWN = "<unknown>"
_SHOWN = 3
_EMPTY: Document = {}


def at(document: Document, *path: str) -> Document:
    """The object at a path, or an empty one."""
    for step in path:
        document = document.get(step) or _EMPTY
    return document


def name_of(document: Document) -> str:
    """The name of the object."""
    name: str = at(document, "metadata").get("name", "")
    return name


def created(document: Document, age: Age) -> str:
    """How old the object is."""
    return age(at(document, "metadata").get("creationTimestamp"))


def format_labels(labels: Mapping[str, str]) -> str:
    """`a=b,c=d` in the order of the text."""
    return ",".join(sorted(f"{key}={value}" for key, value in labels.items())) or NONE


def format_selector(selector: Document | None) -> str:
    """A label selector as it would be typed."""
    return selector_text(selector, invalid="<error>") or NONE


def selector_text(selector: Document | None, *, invalid: str) -> str:
    """The same; empty if it selects everything or nothing."""
    try:
        return str(selector_from_document(selector))
    except (SelectorError, DecodeError):
        return invalid


def first_few(texts: Sequence[str], *, empty: str) -> str:
    """The first three, and how many more there are."""
    if len(texts) > _SHOWN:
        return f"{','.join(texts[:_SHOWN])} + {len(texts) - _SHOWN} more..."
    return ",".join(texts) or empty


def quantity_text(value: Any) -> str:
    """A quantity in its canonical form; 0 if it is not there."""
    try:
        return str(parse_quantity(str(value))) if value is not None else "0"
    except QuantityError:
        return str(value)


def joined(texts: Iterable[str]) -> str:
    """`a, b`."""
    return ", ".join(texts)
