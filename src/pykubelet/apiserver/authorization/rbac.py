"""The RBAC authorizer: policy rules, an index of bindings by subject, and the comparison of rules.

A decision costs as much as the user has bindings. Roles and bindings take effect for every request after their write.
A rule of a hundred groups, resources and verbs has a million combinations, so rules are compared by bit sets: each
value has the bits of the rules that contain it, and a combination is uncovered if its values share no bit.

Upstream: plugin/pkg/auth/authorizer/rbac/rbac.go, pkg/apis/rbac/v1/evaluation_helpers.go,
pkg/registry/rbac/validation/rule.go, pkg/registry/rbac/validation/policy_compact.go,
staging/src/k8s.io/component-helpers/auth/rbac/validation/policy_comparator.go
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import NamedTuple

from pykubelet.api.field_errors import go_quote
from pykubelet.api.serializer import Document
from pykubelet.apiserver.request import AuthorizationAttributes, AuthorizationDecision, UserInfo, account_name
from pykubelet.apiserver.storage.interfaces import Store, StoreKey
from pykubelet.apiserver.storage.watch_cache import ChangeTracker

ALL = "*"
GROUP = "rbac.authorization.k8s.io"
ROLES = f"roles.{GROUP}"
CLUSTER_ROLES = f"clusterroles.{GROUP}"
ROLE_BINDINGS = f"rolebindings.{GROUP}"
CLUSTER_ROLE_BINDINGS = f"clusterrolebindings.{GROUP}"
COLLECTIONS = (ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS)
_ROLE_COLLECTIONS = {"Role": ROLES, "ClusterRole": CLUSTER_ROLES}
Marked = Sequence[tuple[str, int]]
"""Values, each with the bits of the rules that contain it."""
# Cached grants by user and namespace; a machine has few of either.
_REMEMBERED = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRule:
    """One rule of a role; the order of its values is kept for messages and reviews."""

    verbs: tuple[str, ...]
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    def allows(self, review: AuthorizationAttributes) -> bool:
        if review.verb not in self.verbs and ALL not in self.verbs:
            return False
        if not is_resource_request(review):
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
        """The rule in messages about missing rights."""
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
        parts = {
            "verbs": self.verbs,
            "apiGroups": self.groups,
            "resources": self.resources,
            "resourceNames": self.names,
            "nonResourceURLs": self.paths,
        }
        return {key: list(values) for key, values in parts.items() if values or key == "verbs"}


class RoleRef(NamedTuple):
    kind: str
    name: str
    group: str = GROUP


@dataclass(frozen=True, slots=True)
class Grant:
    """The rules that a binding grants a user, or the error why it grants none."""

    rules: tuple[PolicyRule, ...]
    source: str = ""
    """The binding in the reasons of decisions."""
    problem: str = ""


class RbacAuthorizer:
    def __init__(self, store: Store) -> None:
        self._changes = ChangeTracker(store, COLLECTIONS)
        self._index = BindingIndex()
        self._remembered: dict[tuple[str, tuple[str, ...], str], tuple[Grant, ...]] = {}

    def decide(self, review: AuthorizationAttributes) -> AuthorizationDecision:
        """Allows by the first rule that matches; otherwise the reason names missing roles."""
        problems: list[str] = []
        for grant in self._grants(review.user, review.namespace):
            if grant.problem:
                problems.append(grant.problem)
            for rule in grant.rules:
                if rule.allows(review):
                    return AuthorizationDecision(allowed=True, reason=f"RBAC: allowed by {grant.source}")
        return AuthorizationDecision(allowed=False, reason=f"RBAC: {aggregate(problems)}" if problems else "")

    def rules_for(self, user: UserInfo, namespace: str) -> tuple[list[PolicyRule], list[str]]:
        """All rules of a user in a namespace, and the errors why some may be missing."""
        grants = self._grants(user, namespace)
        return [rule for grant in grants for rule in grant.rules], [grant.problem for grant in grants if grant.problem]

    def role_rules(self, role: RoleRef, namespace: str) -> tuple[PolicyRule, ...]:
        """The rules of a role; RoleMissing if it does not exist."""
        self._update_index()
        return self._index.role_rules(role, namespace)

    def _grants(self, user: UserInfo, namespace: str) -> tuple[Grant, ...]:
        self._update_index()
        key = (user.name, user.groups, namespace)
        grants = self._remembered.get(key)
        if grants is None:
            if len(self._remembered) >= _REMEMBERED:
                self._remembered.clear()
            grants = self._remembered[key] = tuple(self._index.grants(user, namespace))
        return grants

    def _update_index(self) -> None:
        if self._changes:
            self._remembered.clear()
            for key, entry in self._changes.take():
                self._index.apply(key, None if entry is None else entry.document)


class _Subject(NamedTuple):
    """A subject of a binding: `kind` User or Group; a service account is its user."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class _Binding:
    key: StoreKey
    role: RoleRef
    subjects: tuple[_Subject | None, ...]
    """In the order of the object; None for an invalid subject."""
    shown: tuple[str, ...]
    """The subjects in messages."""


class BindingIndex:
    """All roles and bindings, indexed by subject."""

    def __init__(self) -> None:
        self._roles: dict[StoreKey, tuple[PolicyRule, ...]] = {}
        self._bindings: dict[StoreKey, _Binding] = {}
        # By namespace (empty for cluster role bindings), then subject.
        self._by_subject: dict[str, dict[_Subject, dict[StoreKey, None]]] = {}

    def apply(self, key: StoreKey, document: Document | None) -> None:
        """Updates a role or binding; None if it is removed."""
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

    def grants(self, user: UserInfo, namespace: str) -> Iterator[Grant]:
        """The grants of a user in a namespace: cluster role bindings first, each group in name order."""
        subjects = (_Subject("User", user.name), *(_Subject("Group", group) for group in user.groups))
        for scope in ("", namespace) if namespace else ("",):
            by_subject = self._by_subject.get(scope, {})
            keys = {key for subject in subjects for key in by_subject.get(subject, ())}
            for key in sorted(keys):
                yield self._grant(self._bindings[key], frozenset(subjects))

    def role_rules(self, role: RoleRef, namespace: str) -> tuple[PolicyRule, ...]:
        """The rules of a referenced role; RoleMissing if it does not exist. `namespace` is empty for a cluster role binding."""
        collection = _ROLE_COLLECTIONS.get(role.kind)
        if collection is None:
            raise RoleMissing(f"unsupported role reference kind: {go_quote(role.kind)}")
        rules = self._roles.get(StoreKey(collection, namespace if role.kind == "Role" else "", role.name))
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
        # Removing the previous binding may have removed the namespace's entry.
        by_subject = self._by_subject.get(binding.key.namespace, {})
        for subject in set(filter(None, binding.subjects)):
            keys = by_subject[subject]
            del keys[binding.key]
            if not keys:
                del by_subject[subject]
        if not by_subject:
            self._by_subject.pop(binding.key.namespace, None)


def is_resource_request(review: AuthorizationAttributes) -> bool:
    """Whether the attributes are about a resource, not a path; a review may leave the resource empty."""
    return bool(review.resource) or not review.path


def read_rules(rules: Sequence[Document] | None) -> tuple[PolicyRule, ...]:
    """The rules of a role; a missing or null list has none."""
    return tuple(
        PolicyRule(
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
    """Whether a path of a rule, which may end in a star, covers this path."""
    return own == path or (own.endswith("*") and path.startswith(own.rstrip("*")))


class RoleMissing(LookupError):
    """A binding references a role that does not exist; the message is upstream's."""


def read_role_ref(binding: Document) -> RoleRef:
    reference = binding.get("roleRef") or {}
    return RoleRef(reference.get("kind", ""), reference.get("name", ""), reference.get("apiGroup", GROUP))


def _read_binding(key: StoreKey, document: Document) -> _Binding:
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


def uncovered_rules(
    held: Sequence[PolicyRule], wanted: Iterable[PolicyRule], *, most: int | None = None
) -> list[PolicyRule]:
    """The combinations of the requested rules that the held rules do not cover, in order and up to a limit."""
    holders = _Holders(held)
    return list(islice((atom for rule in wanted for atom in holders.missing_of(rule)), most))


def compact(atoms: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Merges rules that differ only in the verb; the others stay as they are."""
    verbs: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    others: list[PolicyRule] = []
    for atom in atoms:
        if atom.paths:
            others.append(atom)
        else:
            verbs.setdefault((atom.groups, atom.resources, atom.names), []).extend(atom.verbs)
    united = [PolicyRule(verbs=tuple(verbs[key]), groups=key[0], resources=key[1], names=key[2]) for key in verbs]
    return [*others, *united]


class _Holders:
    """Which of the held rules contain a value."""

    def __init__(self, held: Sequence[PolicyRule]) -> None:
        self._verbs = _bits(held, lambda rule: rule.verbs)
        self._groups = _bits(held, lambda rule: rule.groups)
        self._resources = _bits(held, lambda rule: rule.resources)
        self._names = _bits(held, lambda rule: rule.names)
        self._paths = _bits(held, lambda rule: rule.paths)
        self._any_name = sum(1 << index for index, rule in enumerate(held) if not rule.names)

    def missing_of(self, rule: PolicyRule) -> Iterator[PolicyRule]:
        verbs = [(verb, _either(self._verbs, verb, ALL)) for verb in rule.verbs]
        groups = [(group, _either(self._groups, group, ALL)) for group in rule.groups]
        resources = [(resource, self._of_resource(resource)) for resource in rule.resources]
        names = [(name, self._any_name | self._names.get(name, 0)) for name in rule.names] or [("", self._any_name)]
        for group, resource, verb, name in _uncovered_combinations([groups, resources, verbs, names]):
            named = (name,) if rule.names else ()
            yield PolicyRule(verbs=(verb,), groups=(group,), resources=(resource,), names=named)
        paths = [(path, self._any_name & self._of_path(path)) for path in rule.paths]
        for path, verb in _uncovered_combinations([paths, verbs]):
            yield PolicyRule(verbs=(verb,), paths=(path,))

    def _of_resource(self, resource: str) -> int:
        _, slash, subresource = resource.partition("/")
        return _either(self._resources, resource, ALL, *([f"*/{subresource}"] if slash else ()))

    def _of_path(self, path: str) -> int:
        return _either(self._paths, *(own for own in self._paths if path_covers(own, path)))


def _bits(held: Sequence[PolicyRule], values_of: Callable[[PolicyRule], Iterable[str]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for index, rule in enumerate(held):
        for value in values_of(rule):
            found[value] = found.get(value, 0) | 1 << index
    return found


def _either(bits: dict[str, int], *values: str) -> int:
    united = 0
    for value in values:
        united |= bits.get(value, 0)
    return united


def _uncovered_combinations(lists: Sequence[Marked]) -> Iterator[tuple[str, ...]]:
    """The combinations of one value of each list whose bits have none in common, in order."""
    kinds = [{bits for _, bits in values} for values in lists]

    @cache
    def leads_on(depth: int, bits: int) -> bool:
        if depth == len(lists):
            return not bits
        return any(leads_on(depth + 1, bits & more) for more in kinds[depth])

    @cache
    def steps(depth: int, bits: int) -> Marked:
        return [(value, bits & more) for value, more in lists[depth] if leads_on(depth + 1, bits & more)]

    def walk(depth: int, bits: int, before: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        if depth == len(lists):
            yield before
            return
        for value, left in steps(depth, bits):
            yield from walk(depth + 1, left, (*before, value))

    # -1 has all bits set.
    return walk(0, -1, ())


def aggregate(problems: Sequence[str]) -> str:
    """Joins errors as Go's aggregate does, each once."""
    texts = list(dict.fromkeys(problems))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
