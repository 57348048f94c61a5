"""Admission of storage: the default class of claims, protection finalizers, and expansions.

Upstream: plugin/pkg/admission/storage/storageclass/setdefault/admission.go,
plugin/pkg/admission/storage/storageobjectinuseprotection/admission.go,
plugin/pkg/admission/storage/persistentvolume/resize/admission.go
"""

from collections.abc import Callable, Sequence

from pykubelet.api.errors import Forbidden
from pykubelet.api.quantity import Quantity, parse_quantity
from pykubelet.api.schema import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from pykubelet.api.serializer import Document
from pykubelet.apiserver.admission.interfaces import AdmissionAttributes
from pykubelet.apiserver.errors import forbidden
from pykubelet.apiserver.storage.interfaces import StoreEntry
from pykubelet.kinds.persistent_volume import VOLUME_PROTECTION
from pykubelet.kinds.persistent_volume_claim import CLAIM_PROTECTION, STORAGE_CLASS_ANNOTATION
from pykubelet.kinds.storage_class import is_default_class

_FINALIZERS = {
    PERSISTENT_VOLUME_CLAIMS.group_resource: CLAIM_PROTECTION,
    PERSISTENT_VOLUMES.group_resource: VOLUME_PROTECTION,
}
_CANNOT_RESIZE = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
)


class StorageAdmission:
    """Completes new claims and volumes, and checks expansions. `classes` returns all storage classes."""

    resources = frozenset(_FINALIZERS)

    def __init__(self, classes: Callable[[], Sequence[StoreEntry]]) -> None:
        self._classes = classes

    def admit(self, attributes: AdmissionAttributes, new: Document | None, old: Document | None) -> Document | None:
        """Returns the object as it is to be stored; Forbidden if a claim may not be expanded."""
        if new is None or attributes.subresource:
            return new
        resource = attributes.served.resource.group_resource
        if old is None:
            protected = _with_finalizer(new, _FINALIZERS[resource])
            return self._with_default_class(protected) if resource != PERSISTENT_VOLUMES.group_resource else protected
        if resource == PERSISTENT_VOLUME_CLAIMS.group_resource and _requested(old) < _requested(new):
            self._check_expansion(new, old)
        return new

    def _with_default_class(self, claim: Document) -> Document:
        annotations = claim["metadata"].get("annotations") or {}
        if claim["spec"].get("storageClassName") is not None or STORAGE_CLASS_ANNOTATION in annotations:
            return claim
        name = default_class([entry.document for entry in self._classes()])
        return claim if not name else {**claim, "spec": {**claim["spec"], "storageClassName": name}}

    def _check_expansion(self, claim: Document, old: Document) -> None:
        name = claim["metadata"].get("name", "")
        if (old.get("status") or {}).get("phase") != "Bound":
            raise _forbidden(name, "Only bound persistent volume claims can be expanded")
        wanted = _class_of(old)
        found = next((one.document for one in self._classes() if one.key.name == wanted), None) if wanted else None
        if found is None or not found.get("allowVolumeExpansion"):
            raise _forbidden(name, _CANNOT_RESIZE)


def default_class(classes: Sequence[Document]) -> str:
    """The name of the default class, the newest if several are marked; empty if none is."""
    marked = [one["metadata"] for one in classes if is_default_class(one["metadata"].get("annotations") or {})]
    # Equally old ones go by name: the newest first, then the first name.
    marked.sort(key=lambda meta: str(meta["name"]))
    marked.sort(key=lambda meta: str(meta.get("creationTimestamp", "")), reverse=True)
    return str(marked[0]["name"]) if marked else ""


def _with_finalizer(document: Document, name: str) -> Document:
    metadata = document["metadata"]
    finalizers = metadata.get("finalizers") or []
    if name in finalizers:
        return document
    return {**document, "metadata": {**metadata, "finalizers": [*finalizers, name]}}


def _class_of(claim: Document) -> str:
    annotations = claim["metadata"].get("annotations") or {}
    return str(annotations.get(STORAGE_CLASS_ANNOTATION) or claim["spec"].get("storageClassName") or "")


def _requested(claim: Document) -> Quantity:
    return parse_quantity(((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage", "0"))


def _forbidden(name: str, why: str) -> Forbidden:
    return forbidden(PERSISTENT_VOLUME_CLAIMS, name, why)
