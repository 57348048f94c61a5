"""Admission of Ingresses: one that names no class gets the default class.

Upstream: plugin/pkg/admission/network/defaultingressclass/admission.go
"""

from collections.abc import Callable, Sequence

from pykubelet.api.schema import INGRESSES
from pykubelet.api.serializer import Document
from pykubelet.apiserver.admission.interfaces import AdmissionAttributes
from pykubelet.apiserver.storage.interfaces import StoreEntry
from pykubelet.kinds.ingress import CLASS_ANNOTATION
from pykubelet.kinds.ingress_class import is_default_class


class DefaultIngressClass:
    """Sets the class of new Ingresses that have neither the field nor the annotation. `classes` returns all classes."""

    resources = frozenset({INGRESSES.group_resource})

    def __init__(self, classes: Callable[[], Sequence[StoreEntry]]) -> None:
        self._classes = classes

    def admit(self, attributes: AdmissionAttributes, new: Document | None, old: Document | None) -> Document | None:
        """Returns the object as it is to be stored."""
        if new is None or old is not None or attributes.subresource:
            return new
        if new["spec"].get("ingressClassName") is not None:
            return new
        if CLASS_ANNOTATION in (new["metadata"].get("annotations") or {}):
            return new
        name = default_class([entry.document for entry in self._classes()])
        return new if not name else {**new, "spec": {**new["spec"], "ingressClassName": name}}


def default_class(classes: Sequence[Document]) -> str:
    """The name of the default class, the newest if several are marked; empty if none is."""
    marked = [one["metadata"] for one in classes if is_default_class(one)]
    # Equally old ones go by name: the newest first, then the first name.
    marked.sort(key=lambda meta: str(meta["name"]))
    marked.sort(key=lambda meta: str(meta.get("creationTimestamp", "")), reverse=True)
    return str(marked[0]["name"]) if marked else ""
