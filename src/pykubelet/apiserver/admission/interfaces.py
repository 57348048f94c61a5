"""The interface of admission plugins, which change or reject writes.

A plugin sees the object before the kind's own rules run; a ValidatePlugin sees it after they have validated it.

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


def _no_options() -> None:
    """The options of a write that has none."""


def _ignore_annotation(_key: str, _value: str) -> None:
    """Drops the annotations of a write that is not audited."""


AdmissionVerb = Literal["create", "update", "delete", "connect"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionAttributes:
    """The write to admit. The name is empty if it will be generated."""

    user: UserInfo
    verb: AdmissionVerb
    served: Kind
    namespace: str
    name: str
    subresource: str = ""
    dry_run: bool = False
    warn: Callable[[str], None] = _ignore
    """Adds a warning to the response."""
    state_options: Callable[[], Document | None] = _no_options
    """Makes `options`, which few writes need."""
    annotate: Callable[[str, str], None] = _ignore_annotation
    """Adds an annotation to the request's line in the audit log."""
    is_reinvoked: bool = False
    """Whether admission runs once more, on an object that it has seen and webhooks may have changed since."""

    @property
    def options(self) -> Document | None:
        """The request's CreateOptions, UpdateOptions, PatchOptions or DeleteOptions, which webhooks and expressions see."""
        return self.state_options()


ValidatePlugin = Callable[[AdmissionAttributes, Document | None, Document | None], None]
"""Rejects a write with ApiError, given the new object as it would be stored and the old one; false if it has no rules."""


class AdmissionPlugin(Protocol):
    """Changes or rejects writes. It may read the store's newest state and must not await anything."""

    @property
    def resources(self) -> frozenset[str] | None:
        """The group resources whose writes it handles; None for all."""

    def admit(self, attributes: AdmissionAttributes, new: Document | None, old: Document | None) -> Document | None:
        """Returns the object to go on with, or raises ApiError; `new` is None for a deletion, `old` for a creation."""
