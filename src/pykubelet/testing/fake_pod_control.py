"""A PodControl that only remembers what it was asked to do.

For tests of controllers: implements `pykubelet.controllers.pod_actions.PodActions`. Upstream: FakePodControl in
pkg/controller/controller_utils.go.
"""

from typing import Any

from pykubelet.api.generated.core import Pod, PodTemplateSpec
from pykubelet.api.generated.meta import OwnerReference
from pykubelet.api.typed import ApiObject
from pykubelet.controllers.pod_control import pod_from_template


class FakePodControl:
    """Remembers templates, references, deleted names and patches; fails if told to, after remembering."""

    def __init__(self, *, create_limit: int = 0) -> None:
        """With a limit n the (n+1)-th creation and all later ones fail, and are not remembered."""
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
        """The pod that the template describes; it is not stored anywhere."""
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
        """Remembers the name."""
        self.deleted.append(name)
        if self.error is not None:
            raise self.error

    async def patch_pod(self, namespace: str, name: str, patch: Any) -> None:  # noqa: ARG002  the Protocol has it
        """Remembers name and patch."""
        self.patches.append((name, patch))
        if self.error is not None:
            raise self.error

    def clear(self) -> None:
        """Forget everything but the error."""
        self._reset(0)

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many creations, deletions and patches are remembered."""
        return len(self.templates), len(self.deleted), len(self.patches)

    def _reset(self, create_limit: int) -> None:
        self.create_limit, self.create_calls = create_limit, 0
        self.templates: list[PodTemplateSpec] = []
        self.controller_refs: list[OwnerReference | None] = []
        self.generate_names: list[str] = []
        self.deleted: list[str] = []
        self.patches: list[tuple[str, Any]] = []
