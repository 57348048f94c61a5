"""For tests of controllers: a PodControl that records calls, and a feed of pods for their handlers.

`FakePodControl` implements `pykubelet.controllers.framework.pod_control.PodActions`. `PodFeed.show` updates a PodIndex
from a MemoryApi and calls the handlers, as an informer would; between two calls the controller sees old state.

Upstream: pkg/controller/controller_utils.go
"""

from typing import Any, Protocol

from pykubelet.api import serializer
from pykubelet.api.generated.core import Pod, PodTemplateSpec
from pykubelet.api.generated.meta import OwnerReference
from pykubelet.api.pods import pod_label
from pykubelet.api.scheme import PODS, ApiObject
from pykubelet.client.indexer import PodIndex
from pykubelet.controllers.framework.pod_control import pod_from_template
from pykubelet.testing.memory_api import MemoryApi


class FakePodControl:
    """Records templates, references, deleted names and patches; raises `error`, if set, after recording."""

    def __init__(self, *, create_limit: int = 0) -> None:
        """With a limit n the (n+1)-th and all later creations fail and are not recorded."""
        self.error: Exception | None = None
        self._reset(create_limit)

    async def create_pods(
        self,
        namespace: str,  # noqa: ARG002  the Protocol has it
        template: PodTemplateSpec,
        owner: ApiObject,
        controller_ref: OwnerReference | None,
        *,
        generate_name: str = "",
    ) -> Pod:
        """Record a creation and return the pod of the template; it is not stored."""
        self.create_calls += 1
        if self.create_limit and self.create_calls > self.create_limit:
            limit = f"limit {self.create_limit} already reached (create call {self.create_calls})"
            raise RuntimeError(f"not creating pod, {limit}")
        self.templates.append(template)
        self.controller_refs.append(controller_ref)
        self.generate_names.append(generate_name)
        if self.error is not None:
            raise self.error
        return pod_from_template(template, owner.metadata.name, controller_ref)

    async def delete_pod(self, namespace: str, name: str, owner: ApiObject) -> None:  # noqa: ARG002  the Protocol has them
        self.deleted.append(name)
        if self.error is not None:
            raise self.error

    async def patch_pod(self, namespace: str, name: str, patch: Any) -> None:  # noqa: ARG002  the Protocol has it
        self.patches.append((name, patch))
        if self.error is not None:
            raise self.error

    def clear(self) -> None:
        """Drop everything that was recorded; keep the error."""
        self._reset(0)

    @property
    def counts(self) -> tuple[int, int, int]:
        """The numbers of recorded creations, deletions and patches."""
        return len(self.templates), len(self.deleted), len(self.patches)

    def _reset(self, create_limit: int) -> None:
        self.create_limit, self.create_calls = create_limit, 0
        self.templates: list[PodTemplateSpec] = []
        self.controller_refs: list[OwnerReference | None] = []
        self.generate_names: list[str] = []
        self.deleted: list[str] = []
        self.patches: list[tuple[str, Any]] = []


class PodEventHandlers(Protocol):
    def pod_added(self, pod: Pod) -> None:
        """Handle a new pod."""

    def pod_updated(self, old: Pod, new: Pod) -> None:
        """Handle a changed pod."""

    def pod_deleted(self, pod: Pod) -> None:
        """Handle a deleted pod."""


class PodFeed:
    """Feeds one index and any number of controllers."""

    def __init__(self, api: MemoryApi, pods: PodIndex, *handlers: PodEventHandlers) -> None:
        self._api, self._pods, self._handlers = api, pods, handlers
        self._shown: dict[str, Pod] = {}

    def show(self) -> int:
        """Deliver the changes since the last call; returns how many there were."""
        found = [serializer.from_document(document, Pod) for document in self._api.documents(PODS.resource)]
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
