"""What controllers do to pods, many at once, and what became of it.

Upstream: the error channels of pkg/controller, and k8s.io/apimachinery/pkg/util/errors.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, Protocol

from pykubelet.api.generated.core import Pod, PodTemplateSpec
from pykubelet.api.generated.meta import OwnerReference
from pykubelet.api.typed import ApiObject


class PodActions(Protocol):
    """What a controller asks of PodControl."""

    async def create_pods(
        self,
        namespace: str,
        template: PodTemplateSpec,
        owner: ApiObject,
        controller_ref: OwnerReference | None,
        *,
        generate_name: str = "",
    ) -> Pod:
        """Create one pod from a template, managed by `owner`; its name starts with the owner's unless said otherwise."""

    async def delete_pod(self, namespace: str, name: str, owner: ApiObject) -> None:
        """Delete a pod with its own grace period; NotFound if there is none."""

    async def patch_pod(self, namespace: str, name: str, patch: Any) -> None:
        """Apply a strategic merge patch to a pod."""


class AggregateError(Exception):
    """Several things went wrong; each message appears once."""

    def __init__(self, errors: Sequence[Exception]) -> None:
        self.errors = tuple(errors)
        texts = list(dict.fromkeys(str(error) for error in errors))
        super().__init__(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


async def attempt_all(calls: Iterable[Coroutine[Any, Any, None]]) -> list[Exception | None]:
    """Make all calls at once and wait for all; what each of them raised, in their order."""
    outcomes: list[Exception | None] = []
    for outcome in await asyncio.gather(*calls, return_exceptions=True):
        if outcome is not None and not isinstance(outcome, Exception):
            raise outcome
        outcomes.append(outcome)
    return outcomes
