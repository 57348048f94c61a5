"""A new pod gets what its runtime class says; one that names a class which is not there stays out.

Upstream: plugin/pkg/admission/runtimeclass/admission.go
"""

from collections.abc import Callable

from pykubelet.api.schema import PODS, RUNTIME_CLASSES
from pykubelet.api.serializer import Document
from pykubelet.apiserver.admission.interfaces import AdmissionAttributes
from pykubelet.apiserver.admission.pods import missing_runtime_class, with_runtime_class
from pykubelet.apiserver.storage.interfaces import StoreEntry, StoreKey


class RuntimeClassAdmission:
    """The rule; `newest` gives the newest entry of a key."""

    def __init__(self, newest: Callable[[StoreKey], StoreEntry | None]) -> None:
        self._newest = newest

    def admit(self, request: AdmissionAttributes, new: Document | None, old: Document | None) -> Document | None:
        if new is None or old is not None or request.subresource:
            return new
        if request.served.resource.group_resource != PODS.group_resource:
            return new
        name = new["spec"].get("runtimeClassName")
        if name is None:
            return with_runtime_class(new, None)
        found = self._newest(StoreKey(RUNTIME_CLASSES.group_resource, "", name))
        if found is None:
            raise missing_runtime_class(new)
        return with_runtime_class(new, found.document)
