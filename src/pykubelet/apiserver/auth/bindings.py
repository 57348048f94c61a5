"""Roles and bindings, found by whom they are bound to (pure).

Objects go in one by one as they change; out come the rules a user has in a namespace, each with the binding that gives it.
A question costs as much as the user has bindings, not as much as there are.

Upstream: pkg/registry/rbac/validation/rule.go (DefaultRuleResolver), which looks at every binding for every question
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from pykubelet.api.validation.field_errors import go_quote
from pykubelet.api.wire import Document
from pykubelet.apiserver.auth.identity import account_name
from pykubelet.apiserver.auth.rules import Rule, read_rules
from pykubelet.apiserver.call import User
from pykubelet.apiserver.store import Key

GROUP = "rbac.authorization.k8s.io"
ROLES = f"roles.{GROUP}"
CLUSTER_ROLES = f"clusterroles.{GROUP}"
ROLE_BINDINGS = f"rolebindings.{GROUP}"
CLUSTER_ROLE_BINDINGS = f"clusterrolebindings.{GROUP}"
COLLECTIONS = (ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS)

_ROLE_COLLECTIONS = {"Role": ROLES, "ClusterRole": CLUSTER_ROLES}


class RoleMissing(LookupError):
    """A binding names a role that is not there; the text is the API server's."""


class RoleRef(NamedTuple):
    """The role that a binding gives."""

    kind: str
    name: str
    group: str = GROUP


class _Subject(NamedTuple):
    """Who a binding is for: `kind` User or Group; a service account is the user it acts as."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class _Binding:
    key: Key
    role: RoleRef
    subjects: tuple[_Subject | None, ...]
    """In the order of the object; None for one that nobody can be."""
    shown: tuple[str, ...]
    """The subjects as messages show them."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The rules that one binding gives a user, or why it gives none."""

    rules: tuple[Rule, ...]
    source: str = ""
    """The binding as reasons of decisions name it."""
    problem: str = ""


class BindingIndex:
    """Every role and binding, indexed by subject."""

    def __init__(self) -> None:
        self._roles: dict[Key, tuple[Rule, ...]] = {}
        self._bindings: dict[Key, _Binding] = {}
        # By namespace (empty for cluster role bindings), then subject.
        self._by_subject: dict[str, dict[_Subject, dict[Key, None]]] = {}

    def apply(self, key: Key, document: Document | None) -> None:
        """Take in an object as it is now; None if it is gone."""
        if key.collection in {ROLES, CLUSTER_ROLES}:
            if document is None:
                self._roles.pop(key, None)
            else:
                self._roles[key] = read_rules(document.get("rules"))
            return
        if (old := self._bindings.pop(key, None)) is not None:
            self._forget(old)
        if document is not None:
            self._add(_read_binding(key, document))

    def grants(self, user: User, namespace: str) -> Iterator[Grant]:
        """What each binding of the user gives there: those of the whole cluster first, each group in name order."""
        subjects = (_Subject("User", user.name), *(_Subject("Group", group) for group in user.groups))
        for scope in ("", namespace) if namespace else ("",):
            by_subject = self._by_subject.get(scope, {})
            keys = {key for subject in subjects for key in by_subject.get(subject, ())}
            for key in sorted(keys):
                yield self._grant(self._bindings[key], frozenset(subjects))

    def role_rules(self, role: RoleRef, namespace: str) -> tuple[Rule, ...]:
        """The rules of the role a binding in this namespace (empty: in none) names; RoleMissing if there are none."""
        collection = _ROLE_COLLECTIONS.get(role.kind)
        if collection is None:
            raise RoleMissing(f"unsupported role reference kind: {go_quote(role.kind)}")
        rules = self._roles.get(Key(collection, namespace if role.kind == "Role" else "", role.name))
        if rules is None:
            raise RoleMissing(f"{role.kind.lower()}.{GROUP} {go_quote(role.name)} not found")
        return rules

    def _grant(self, binding: _Binding, subjects: frozenset[_Subject]) -> Grant:
        try:
            rules = self.role_rules(binding.role, binding.key.namespace)
        except RoleMissing as error:
            return Grant((), problem=str(error))
        first = next(index for index, subject in enumerate(binding.subjects) if subject in subjects)
        kind, name = ("RoleBinding", f"{binding.key.name}/{binding.key.namespace}")
        if not binding.key.namespace:
            kind, name = ("ClusterRoleBinding", binding.key.name)
        role = f"{binding.role.kind} {go_quote(binding.role.name)}"
        return Grant(rules, f"{kind} {go_quote(name)} of {role} to {binding.shown[first]}")

    def _add(self, binding: _Binding) -> None:
        self._bindings[binding.key] = binding
        by_subject = self._by_subject.setdefault(binding.key.namespace, {})
        for subject in filter(None, binding.subjects):
            by_subject.setdefault(subject, {})[binding.key] = None

    def _forget(self, binding: _Binding) -> None:
        # Another binding without subjects may have been the last of its namespace before.
        by_subject = self._by_subject.get(binding.key.namespace, {})
        for subject in set(filter(None, binding.subjects)):
            keys = by_subject[subject]
            del keys[binding.key]
            if not keys:
                del by_subject[subject]
        if not by_subject:
            self._by_subject.pop(binding.key.namespace, None)


def read_role_ref(binding: Document) -> RoleRef:
    """The role a RoleBinding or ClusterRoleBinding gives."""
    reference = binding.get("roleRef") or {}
    return RoleRef(reference.get("kind", ""), reference.get("name", ""), reference.get("apiGroup", GROUP))


def _read_binding(key: Key, document: Document) -> _Binding:
    subjects = document.get("subjects") or ()
    return _Binding(
        key,
        read_role_ref(document),
        tuple(_read_subject(subject, key.namespace) for subject in subjects),
        tuple(_shown(subject, key.namespace) for subject in subjects),
    )


def _read_subject(subject: Document, binding_namespace: str) -> _Subject | None:
    kind, name = subject.get("kind"), subject.get("name", "")
    if kind in {"User", "Group"}:
        return _Subject(kind, name)
    namespace = subject.get("namespace") or binding_namespace
    if kind == "ServiceAccount" and namespace:
        return _Subject("User", account_name(namespace, name))
    return None


def _shown(subject: Document, binding_namespace: str) -> str:
    kind, name = subject.get("kind", ""), subject.get("name", "")
    if kind == "ServiceAccount":
        name = f"{name}/{subject.get('namespace') or binding_namespace}"
    return f"{kind} {go_quote(name)}"
