"""Policy rules: what one allows, and how messages show it (pure).

In: `Rule` values, made of the rules of a role. Out: decisions and texts.

Upstream: pkg/apis/rbac/v1/evaluation_helpers.go
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pykubelet.api.validation.field_errors import go_quote
from pykubelet.api.wire import Document
from pykubelet.apiserver.call import Review

ALL = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule of a role; the order of its parts is kept, because messages and reviews show it."""

    verbs: tuple[str, ...]
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    def allows(self, review: Review) -> bool:
        """Whether this rule alone allows what is asked."""
        if review.verb not in self.verbs and ALL not in self.verbs:
            return False
        if not about_resource(review):
            return any(path_covers(path, review.path) for path in self.paths)
        return (
            (review.group in self.groups or ALL in self.groups)
            and self._has_resource(review.resource, review.subresource)
            and (not self.names or review.name in self.names)
        )

    def _has_resource(self, resource: str, subresource: str) -> bool:
        resources = self.resources
        if not subresource:
            return resource in resources or ALL in resources
        return f"{resource}/{subresource}" in resources or ALL in resources or f"*/{subresource}" in resources

    @property
    def text(self) -> str:
        """The rule as messages about missing rights show it."""
        parts = (
            ("APIGroups", self.groups),
            ("Resources", self.resources),
            ("NonResourceURLs", self.paths),
            ("ResourceNames", self.names),
            ("Verbs", self.verbs),
        )
        return "{" + ", ".join(f"{title}:{go_list(values)}" for title, values in parts if values) + "}"

    @property
    def document(self) -> Document:
        """The rule as it stands in a role."""
        parts = {
            "verbs": self.verbs,
            "apiGroups": self.groups,
            "resources": self.resources,
            "resourceNames": self.names,
            "nonResourceURLs": self.paths,
        }
        return {key: list(values) for key, values in parts.items() if values or key == "verbs"}


def about_resource(review: Review) -> bool:
    """Whether a resource is asked for, and not a path; a review made by a client may leave the resource empty."""
    return bool(review.resource) or not review.path


def read_rules(rules: Sequence[Document] | None) -> tuple[Rule, ...]:
    """The rules of a role; an absent or null list has none."""
    return tuple(
        Rule(
            verbs=tuple(rule.get("verbs") or ()),
            groups=tuple(rule.get("apiGroups") or ()),
            resources=tuple(rule.get("resources") or ()),
            names=tuple(rule.get("resourceNames") or ()),
            paths=tuple(rule.get("nonResourceURLs") or ()),
        )
        for rule in rules or ()
    )


def go_list(values: Iterable[str]) -> str:
    """A list of texts as Go's `%q` prints it."""
    return f"[{' '.join(map(go_quote, values))}]"


def path_covers(own: str, path: str) -> bool:
    """Whether a path of a rule, which may end in a star, means this path as well."""
    return own == path or (own.endswith("*") and path.startswith(own.rstrip("*")))
