"""Policy rules: what one allows, and whether some rules cover others (pure).

In: `Rule` values, made of the rules of a role. Out: decisions, and the texts that name the rules somebody lacks.

Upstream: pkg/apis/rbac/v1/evaluation_helpers.go, pkg/registry/rbac/validation/policy_compact.go,
staging/src/k8s.io/component-helpers/auth/rbac/validation/policy_comparator.go
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

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
            return any(_path_covers(path, review.path) for path in self.paths)
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

    def covers(self, atom: "Rule") -> bool:
        """Whether this rule allows all that an atom (see `atoms`) allows."""
        if not (_has_all(self.verbs, atom.verbs) and all(_any_covers(self.paths, path) for path in atom.paths)):
            return False
        if self.names and not (atom.names and set(atom.names) <= set(self.names)):
            return False
        return _has_all(self.groups, atom.groups) and all(self._covers_resource(part) for part in atom.resources)

    def _covers_resource(self, resource: str) -> bool:
        if resource in self.resources or ALL in self.resources:
            return True
        _, slash, subresource = resource.partition("/")
        return bool(slash) and f"*/{subresource}" in self.resources

    def atoms(self) -> Iterable["Rule"]:
        """The same rule in pieces of one verb, group, resource and name, or of one verb and path."""
        for group in self.groups:
            for resource in self.resources:
                for verb in self.verbs:
                    atom = Rule(verbs=(verb,), groups=(group,), resources=(resource,))
                    yield from (replace(atom, names=(name,)) for name in self.names) if self.names else (atom,)
        for path in self.paths:
            for verb in self.verbs:
                yield Rule(verbs=(verb,), paths=(path,))

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


def missing(held: Sequence[Rule], wanted: Iterable[Rule]) -> list[Rule]:
    """The atoms of the wanted rules that no held rule covers, in order."""
    return [atom for rule in wanted for atom in rule.atoms() if not any(own.covers(atom) for own in held)]


def compact(atoms: Iterable[Rule]) -> list[Rule]:
    """The same rights in fewer rules: atoms that differ only in the verb become one, the others stay as they are."""
    verbs: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    others: list[Rule] = []
    for atom in atoms:
        if atom.paths:
            others.append(atom)
        else:
            verbs.setdefault((atom.groups, atom.resources, atom.names), []).extend(atom.verbs)
    united = [Rule(verbs=tuple(verbs[key]), groups=key[0], resources=key[1], names=key[2]) for key in verbs]
    return [*others, *united]


def go_list(values: Iterable[str]) -> str:
    """A list of texts as Go's `%q` prints it."""
    return f"[{' '.join(map(go_quote, values))}]"


def _has_all(held: Sequence[str], wanted: Sequence[str]) -> bool:
    return ALL in held or all(part in held for part in wanted)


def _any_covers(held: Sequence[str], path: str) -> bool:
    return any(_path_covers(own, path) for own in held)


def _path_covers(own: str, path: str) -> bool:
    return own == path or (own.endswith("*") and path.startswith(own.rstrip("*")))
