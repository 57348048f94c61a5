"""Which pods stand behind which services, and which services a change of a pod matters to.

A change costs as much as the pod has labels, however many services and pods there are. Upstream:
GetServicesToUpdate in k8s.io/endpointslice/util/controller_utils.go.
"""

from collections.abc import Callable

from pykubelet.api.generated.core import Pod, Service
from pykubelet.api.typed import PODS, SERVICES
from pykubelet.controllers.endpoints.pod_facts import endpoint_facts
from pykubelet.controllers.informers import Informers
from pykubelet.controllers.label_index import LabelIndex, SelectorIndex, has_labels
from pykubelet.controllers.object_index import ObjectIndex, key_of


class ServicePods:
    """Services and pods, each found by the other. Who wants to know gets the keys of services to look at."""

    def __init__(self, services: ObjectIndex[Service]) -> None:
        self._services = services
        self._pods: LabelIndex[Pod] = LabelIndex()
        self._selectors = SelectorIndex()
        self._listeners: list[Callable[[str], None]] = []

    def listen(self, informers: Informers) -> None:
        """Hear of every change of services and pods."""
        informers.tell(
            SERVICES,
            added=self.service_put,
            updated=lambda _old, new: self.service_put(new),
            deleted=self.service_deleted,
        )
        informers.tell(PODS, added=self.pod_added, updated=self.pod_updated, deleted=self.pod_deleted)

    def tell(self, listener: Callable[[str], None]) -> None:
        """Have a listener called with the key of every service whose endpoints may have changed."""
        self._listeners.append(listener)

    def pods_of(self, service: Service) -> list[Pod]:
        """The pods that a service selects, by name."""
        return self._pods.labelled(service.metadata.namespace, service.spec.selector)

    def service_put(self, service: Service) -> None:
        """A service is new or has changed."""
        if service.spec.selector:
            self._selectors.put(key_of(service), service.spec.selector)
        else:
            self._selectors.remove(key_of(service))
        self._tell({key_of(service)})

    def service_deleted(self, service: Service) -> None:
        """A service is gone."""
        self._selectors.remove(key_of(service))
        self._tell({key_of(service)})

    def pod_added(self, pod: Pod) -> None:
        """A pod is new."""
        self._pods.put(pod)
        self._tell(self._selecting(pod))

    def pod_updated(self, old: Pod, new: Pod) -> None:
        """A pod has changed; most changes concern no service."""
        self._pods.put(new)
        has_changed = old.metadata.uid != new.metadata.uid or endpoint_facts(old) != endpoint_facts(new)
        if has_changed:
            self._tell(self._selecting(old) | self._selecting(new))
        elif old.metadata.labels != new.metadata.labels:
            self._tell(self._selecting(old) ^ self._selecting(new))

    def pod_deleted(self, pod: Pod) -> None:
        """A pod is gone."""
        self._pods.remove(pod)
        self._tell(self._selecting(pod))

    def _selecting(self, pod: Pod) -> set[str]:
        found = (self._services.get(key) for key in self._selectors.candidates(pod))
        return {key_of(one) for one in found if one is not None and has_labels(pod.metadata.labels, one.spec.selector)}

    def _tell(self, keys: set[str]) -> None:
        for key in sorted(keys):
            for listener in self._listeners:
                listener(key)
