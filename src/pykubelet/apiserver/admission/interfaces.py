"""The last word before a write: what may be created, changed or deleted, beyond the rules of the kind.

Each rule is an `Admission`. It sees the object as it would be stored, before the kind's own rules put things right, and
gives the object it lets through, perhaps changed; it raises ApiError to refuse.

Upstream: k8s.io/apiserver/pkg/admission/interfaces.go
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from pykubelet.api.serializer import Document
from pykubelet.apiserver.request import UserInfo
from pykubelet.kinds.kind import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionAttributes:
    """What is to be done, and by whom. The name may be empty when it is yet to be made up."""

    user: UserInfo
    verb: Literal["create", "update", "delete", "connect"]
    served: Kind
    namespace: str
    name: str
    subresource: str = ""
    dry_run: bool = False


class AdmissionPlugin(Protocol):
    """One rule. Plain and quick: it may look at the store's newest state, and must not wait for anything."""

    def admit(self, request: AdmissionAttributes, new: Document | None, old: Document | None) -> Document | None:
        """The object to go on with (`new` is None for a deletion, `old` for a creation); ApiError to refuse."""


def admitted(
    rules: Sequence[AdmissionPlugin], request: AdmissionAttributes, new: Document | None, old: Document | None
) -> Document | None:
    """The object after all rules, in order."""
    for rule in rules:
        new = rule.admit(request, new, old)
    return new
