"""Role based access: decides by the roles and bindings in the store.

Upstream: plugin/pkg/auth/authorizer/rbac/rbac.go. Roles and bindings are in force for each request that follows their
write; see `following.py`.
"""

from collections.abc import Sequence

from pykubelet.apiserver.auth.bindings import COLLECTIONS, BindingIndex, Grant, RoleRef
from pykubelet.apiserver.auth.following import Following, Objects
from pykubelet.apiserver.auth.rules import Rule
from pykubelet.apiserver.call import Decision, Review, User

# Users times namespaces whose grants are remembered; a machine has a handful of either.
_REMEMBERED = 1024


class Rbac:
    """The RBAC authorizer."""

    def __init__(self, objects: Objects) -> None:
        self._following = Following(objects, COLLECTIONS)
        self._index = BindingIndex()
        self._remembered: dict[tuple[str, tuple[str, ...], str], tuple[Grant, ...]] = {}

    def decide(self, review: Review) -> Decision:
        """Allowed by the first rule that allows it; if none does, the reason names roles that are missing."""
        problems: list[str] = []
        for grant in self._grants(review.user, review.namespace):
            if grant.problem:
                problems.append(grant.problem)
            for rule in grant.rules:
                if rule.allows(review):
                    return Decision(allowed=True, reason=f"RBAC: allowed by {grant.source}")
        return Decision(allowed=False, reason=f"RBAC: {aggregate(problems)}" if problems else "")

    def rules_for(self, user: User, namespace: str) -> tuple[list[Rule], list[str]]:
        """All rules of a user in a namespace, and why some may be missing."""
        grants = self._grants(user, namespace)
        return [rule for grant in grants for rule in grant.rules], [grant.problem for grant in grants if grant.problem]

    def role_rules(self, role: RoleRef, namespace: str) -> tuple[Rule, ...]:
        """The rules of a role; RoleMissing if it is not there."""
        self._catch_up()
        return self._index.role_rules(role, namespace)

    def _grants(self, user: User, namespace: str) -> tuple[Grant, ...]:
        self._catch_up()
        key = (user.name, user.groups, namespace)
        grants = self._remembered.get(key)
        if grants is None:
            if len(self._remembered) >= _REMEMBERED:
                self._remembered.clear()
            grants = self._remembered[key] = tuple(self._index.grants(user, namespace))
        return grants

    def _catch_up(self) -> None:
        if self._following:
            self._remembered.clear()
            for key, entry in self._following.take():
                self._index.apply(key, None if entry is None else entry.document)


def aggregate(problems: Sequence[str]) -> str:
    """A few errors in one text, each once, as Go joins them."""
    texts = list(dict.fromkeys(problems))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
