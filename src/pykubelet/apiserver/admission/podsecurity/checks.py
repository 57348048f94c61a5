"""A check of the Pod Security Standards, what it finds, and which checks apply at a version.

Upstream: staging/src/k8s.io/pod-security-admission/policy/checks.go,
staging/src/k8s.io/pod-security-admission/policy/registry.go,
staging/src/k8s.io/pod-security-admission/policy/helpers.go,
staging/src/k8s.io/pod-security-admission/policy/visitor.go
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pykubelet.api.serializer import Document


class SecurityFinding(NamedTuple):
    """Why a pod violates a level: briefly, and with the fields and values."""

    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})"


CheckPod = Callable[[Document, Document], SecurityFinding | None]
"""Checks the metadata and the spec of a pod, or of a pod template."""


@dataclass(frozen=True, slots=True)
class SecurityCheck:
    """One check, by the minor version of Kubernetes since which it is done this way."""

    name: str
    since: tuple[tuple[int, CheckPod], ...]
    replaces: str = ""
    """The check of the baseline level that need not be done as well."""

    def at(self, minor: int) -> CheckPod | None:
        return next((check for first, check in reversed(self.since) if first <= minor), None)


def checks_at(baseline: Sequence[SecurityCheck], restricted: Sequence[SecurityCheck], minor: int) -> list[CheckPod]:
    """The checks of a version in the order of messages: those of the baseline level first, then by name."""
    active = [one for one in restricted if one.at(minor) is not None]
    replaced = {one.replaces for one in active}
    kept = [one for one in baseline if one.name not in replaced]
    ordered = (*sorted(kept, key=lambda one: one.name), *sorted(active, key=lambda one: one.name))
    return [check for one in ordered if (check := one.at(minor)) is not None]


def containers_of(spec: Document) -> list[Document]:
    """All containers of a pod, in the order of messages."""
    return [
        container
        for field in ("initContainers", "containers", "ephemeralContainers")
        for container in spec.get(field) or ()
    ]


def security_of(holder: Document) -> Document:
    """The security context of a pod or container; empty if it has none."""
    found: Document = holder.get("securityContext") or {}
    return found


def containers_with(spec: Document, is_bad: Callable[[Document], Any]) -> list[str]:
    """The names of the containers whose security context is bad."""
    return [container["name"] for container in containers_of(spec) if is_bad(security_of(container))]


def joined(items: Iterable[str]) -> str:
    """Quotes names; what they contain stays as it is."""
    return ", ".join(f'"{item}"' for item in items)


def plural(word: str, items: Sequence[str]) -> str:
    return word if len(items) == 1 else f"{word}s"


def titled(word: str, items: Sequence[str]) -> str:
    """`container "a"`, or `containers "a", "b"`."""
    return f"{plural(word, items)} {joined(items)}"


def setters(names: Sequence[str], *, pod: bool) -> str:
    """What sets a field badly: the pod, some containers, or both; empty for neither."""
    return " and ".join(filter(None, ("pod" if pod else "", titled("container", names) if names else "")))
