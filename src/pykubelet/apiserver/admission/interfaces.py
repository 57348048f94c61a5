"""The interface of admission plugins, which change or reject writes before the kind's own rules run.

A plugin sees the object as it would be stored, before the kind's strategy prepares it.

Upstream: staging/src/k8s.io/apiserver/pkg/admission/interfaces.go,
staging/src/k8s.io/apiserver/pkg/admission/attributes.go
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from pykubelet.api.serializer import Document
from pykubelet.apiserver.request import UserInfo
from pykubelet.kinds.kind import Kind


def _ignore(_warning: str) -> None:
    """Drops the warnings of a write whose response has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionAttributes:
    """The write to admit. The name is empty if it will be generated."""

    user: UserInfo
    verb: Literal["create", "update", "delete", "connect"]
    served: Kind
    namespace: str
    name: str
    subresource: str = ""
    dry_run: bool = False
    warn: Callable[[str], None] = _ignore
    """Adds a warning to the response."""
    options: Document | None = None
    """The request's CreateOptions, UpdateOptions, PatchOptions or DeleteOptions, which webhooks and expressions see."""


class AdmissionPlugin(Protocol):
    """Changes or rejects writes. It may read the store's newest state and must not await anything."""

    @property
    def resources(self) -> frozenset[str] | None:
        """The group resources whose writes it handles; None for all."""

    def admit(self, attributes: AdmissionAttributes, new: Document | None, old: Document | None) -> Document | None:
        """Returns the object to go on with, or raises ApiError; `new` is None for a deletion, `old` for a creation."""
