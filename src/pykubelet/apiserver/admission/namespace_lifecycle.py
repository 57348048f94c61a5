"""NamespaceLifecycle: rejects writes in missing or terminating namespaces; protects system ones.

Upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle/admission.go
"""

from collections.abc import Callable

import msgspec

from pykubelet.api.schema import NAMESPACES
from pykubelet.api.serializer import Document, decode
from pykubelet.apiserver.admission.interfaces import AdmissionAttributes
from pykubelet.apiserver.errors import forbidden, not_found
from pykubelet.apiserver.storage.interfaces import StoreEntry, StoreKey

IMMORTAL = frozenset({"default", "kube-system", "kube-public"})
# The error would reveal whether a namespace exists.
_REVIEWS = "localsubjectaccessreviews.authorization.k8s.io"


class _NamespaceStatus(msgspec.Struct):
    phase: str = ""


class _Namespace(msgspec.Struct):
    """The fields of a namespace that every creation checks."""

    status: _NamespaceStatus = msgspec.field(default_factory=_NamespaceStatus)


class NamespaceLifecycle:
    """Rejects writes to missing or terminating namespaces. `newest` returns the newest entry of a key."""

    resources = None

    def __init__(self, newest: Callable[[StoreKey], StoreEntry | None]) -> None:
        self._newest = newest

    def admit(self, attributes: AdmissionAttributes, new: Document | None, old: Document | None) -> Document | None:  # noqa: ARG002  the Protocol's
        resource = attributes.served.resource
        if resource.group_resource == NAMESPACES.group_resource:
            if attributes.verb == "delete" and attributes.name in IMMORTAL:
                raise forbidden(resource, attributes.name, "this namespace may not be deleted")
            return new
        if attributes.namespace and attributes.verb in ("create", "update") and resource.group_resource != _REVIEWS:
            self._check(attributes)
        return new

    def _check(self, attributes: AdmissionAttributes) -> None:
        namespace = attributes.namespace
        entry = self._newest(StoreKey(NAMESPACES.group_resource, "", namespace))
        if entry is None:
            raise not_found(NAMESPACES, namespace)
        if attributes.verb == "create" and decode(entry.text, _Namespace).status.phase == "Terminating":
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise forbidden(attributes.served.resource, attributes.name, why, causes=[cause])
