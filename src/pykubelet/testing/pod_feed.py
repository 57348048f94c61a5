"""Shows a controller what the API has, when a test wants it to.

In: the pods of a MemoryApi. Out: a PodIndex brought up to date and a controller's handlers called, as an informer
would. Between two calls of `show` the controller acts on what is old by then.
"""

from typing import Protocol

from pykubelet.api import wire
from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import pod_label
from pykubelet.api.typed import PODS
from pykubelet.controllers.pod_index import PodIndex
from pykubelet.testing.memory_api import MemoryApi


class PodHandlers(Protocol):
    """The part of a controller that is told about pods."""

    def pod_added(self, pod: Pod) -> None:
        """A pod is new."""

    def pod_updated(self, old: Pod, new: Pod) -> None:
        """A pod has changed."""

    def pod_deleted(self, pod: Pod) -> None:
        """A pod is gone."""


class PodFeed:
    """Feeds one index and any number of controllers."""

    def __init__(self, api: MemoryApi, pods: PodIndex, *handlers: PodHandlers) -> None:
        self._api, self._pods, self._handlers = api, pods, handlers
        self._shown: dict[str, Pod] = {}

    def show(self) -> int:
        """Tell what has changed since the last time; how many changes that was."""
        found = [wire.from_document(document, Pod) for document in self._api.documents(PODS.resource)]
        present = {pod_label(pod): pod for pod in found}
        changed = [(self._shown.get(label), pod) for label, pod in present.items() if self._shown.get(label) != pod]
        gone = [pod for label, pod in self._shown.items() if label not in present]
        for pod in gone:
            self._pods.remove(pod)
            for handler in self._handlers:
                handler.pod_deleted(pod)
        for old, new in changed:
            self._pods.put(new)
            for handler in self._handlers:
                if old is None:
                    handler.pod_added(new)
                else:
                    handler.pod_updated(old, new)
        self._shown = present
        return len(gone) + len(changed)
