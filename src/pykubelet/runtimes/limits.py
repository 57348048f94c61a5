"""The resource limits of pods that a runtime cannot enforce, and the message about them.

A limit that has no effect is no error, as it may still be right for the scheduler and other nodes; but the pod's author
must learn that it has none here. Upstream has nothing like it: a kubelet without cgroups does not start.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from pykubelet.api.generated.core import Pod, ResourceRequirements
from pykubelet.api.quantity import QuantityError, parse_quantity

_LIMITED = ("cpu", "memory")
"""The resources whose limits are enforced while a container runs; others count when a pod is admitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnenforcedLimits:
    """What a runtime cannot limit. `advice` says why and what to do about it."""

    resources: frozenset[str] = frozenset()
    max_pids: int = 0
    """The limit of processes in each container that is not enforced; 0 if there is none."""
    only_of_containers: bool = False
    """Whether limits of the pod as a whole have no effect."""
    advice: str = ""

    def message(self, pod: Pod) -> str:
        """Which limits of a pod are not enforced, and what to do; empty if all are."""
        found, steps = list(self._of_containers(pod)), []
        if found:
            steps.append(self.advice)
        if pooled := self._without_effect(pod.spec.resources, everything=self.only_of_containers):
            found.insert(0, f"the pod: {', '.join(pooled)}")
            steps.append("set the limits of the pod on its containers")
        if not found:
            return ""
        if self.max_pids:
            found.append(f"processes of each container (--pod-max-pids {self.max_pids})")
        return f"This node does not enforce limits of {'; '.join(found)}. To have them enforced: {'; '.join(steps)}"

    def _of_containers(self, pod: Pod) -> Iterator[str]:
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            if names := self._without_effect(container.resources):
                yield f"container {container.name}: {', '.join(names)}"

    def _without_effect(self, wanted: ResourceRequirements | None, *, everything: bool = False) -> list[str]:
        limits = wanted.limits if wanted is not None else {}
        names = [name for name in _LIMITED if everything or name in self.resources]
        return [f"{name} {limits[name]}" for name in names if _is_limit(limits.get(name, ""))]


def _is_limit(text: str) -> bool:
    """Whether this quantity limits anything; 0 does not."""
    try:
        return parse_quantity(text).milli_value() > 0
    except QuantityError:
        return False


ALL_ENFORCED = UnenforcedLimits()
"""For runtimes that enforce every limit."""
