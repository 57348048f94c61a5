"""RuntimeClass admission: sets what a new pod's runtime class requires.

Upstream: plugin/pkg/admission/runtimeclass/admission.go
"""

from collections.abc import Callable

from pykubelet.api.schema import PODS, RUNTIME_CLASSES
from pykubelet.api.serializer import Document
from pykubelet.apiserver.admission.interfaces import AdmissionAttributes
from pykubelet.apiserver.admission.pods import missing_runtime_class, with_runtime_class
from pykubelet.apiserver.storage.interfaces import StoreEntry, StoreKey


class RuntimeClassAdmission:
    """Sets a new pod's overhead and scheduling from its runtime class. `newest` returns the newest entry of a key."""

    resources = frozenset({PODS.group_resource})

    def __init__(self, newest: Callable[[StoreKey], StoreEntry | None]) -> None:
        self._newest = newest

    def admit(self, attributes: AdmissionAttributes, new: Document | None, old: Document | None) -> Document | None:
        if new is None or old is not None or attributes.subresource:
            return new
        name = new["spec"].get("runtimeClassName")
        if name is None:
            return with_runtime_class(new, None)
        found = self._newest(StoreKey(RUNTIME_CLASSES.group_resource, "", name))
        if found is None:
            raise missing_runtime_class(new)
        return with_runtime_class(new, found.document)
