"""Every pod gets what admission fills in: tolerations of lost nodes, and the priority of its class.

Upstream: plugin/pkg/admission/defaulttolerationseconds/admission.go, plugin/pkg/admission/priority/admission.go
"""

from collections.abc import Callable, Sequence

from pykubelet.api.resources import PODS
from pykubelet.api.wire import Document
from pykubelet.apiserver.admission import Request
from pykubelet.apiserver.store import Entry
from pykubelet.apiserver.strategies.pod_admission import (
    missing_class,
    with_default_tolerations,
    with_old_priority,
    with_priority,
)


class PodAdmission:
    """The rule; `priority_classes` gives the entries of all priority classes."""

    def __init__(self, priority_classes: Callable[[], Sequence[Entry]]) -> None:
        self._priority_classes = priority_classes

    def admit(self, request: Request, new: Document | None, old: Document | None) -> Document | None:
        if new is None or request.subresource or request.served.resource.group_resource != PODS.group_resource:
            return new
        tolerant = with_default_tolerations(new)
        return self._with_priority(tolerant) if old is None else with_old_priority(tolerant, old)

    def _with_priority(self, pod: Document) -> Document:
        name = pod["spec"].get("priorityClassName", "")
        entries = self._priority_classes()
        if name:
            found = next((entry for entry in entries if entry.key.name == name), None)
            if found is None:
                raise missing_class(pod)
            return with_priority(pod, found.document)
        # Few classes are the default of all, so that most are told apart without being decoded.
        marked = [entry.document for entry in entries if b'"globalDefault":true' in entry.text]
        defaults = [each for each in marked if each.get("globalDefault")]
        return with_priority(pod, min(defaults, key=lambda each: int(each["value"]), default=None))
