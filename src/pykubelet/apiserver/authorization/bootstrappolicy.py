"""Writes the default roles and bindings at start, and aggregates cluster roles such as admin and view.

Rules that a user added stay, and objects annotated with `autoupdate: "false"` are left alone. The roles are in
default_roles.txt.

Upstream: plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go,
plugin/pkg/auth/authorizer/rbac/bootstrappolicy/controller_policy.go,
plugin/pkg/auth/authorizer/rbac/bootstrappolicy/namespace_policy.go, pkg/registry/rbac/rest/storage_rbac.go,
staging/src/k8s.io/component-helpers/auth/rbac/reconciliation/reconcile_role.go,
staging/src/k8s.io/component-helpers/auth/rbac/reconciliation/reconcile_rolebindings.go,
pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files

from pykubelet.aio.clock import Clock
from pykubelet.aio.ids import Ids
from pykubelet.api.labels import SelectorError, selector_from_document
from pykubelet.api.serializer import DecodeError, Document
from pykubelet.api.times import format_time
from pykubelet.apiserver.authorization import rbac
from pykubelet.apiserver.authorization.rbac import GROUP, PolicyRule
from pykubelet.apiserver.storage.interfaces import Store, StoreEntry, StoreKey

AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
_API_VERSION = f"{GROUP}/v1"
_JOINS = f"{GROUP}/aggregate-to-"
_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "deletecollection", "patch", "update")
_VERBS = {"READ": _READ, "WRITE": _WRITE, "READ+WRITE": tuple(sorted((*_READ, *_WRITE)))}
_EVENTS = "create patch update | core events.k8s.io | events"
_CONTROLLERS = "system:controller:"
_SUBJECTS = {"user": "User", "group": "Group", "account": "ServiceAccount"}


async def ensure_default_roles(store: Store, *, clock: Clock, ids: Ids) -> None:
    """Creates missing defaults and completes existing ones, concurrently, so that the store commits them together."""

    def identified(document: Document) -> Document:
        identity = {"uid": ids.uid(), "creationTimestamp": format_time(clock.now())}
        return document | {"metadata": document["metadata"] | identity}

    async def ensure(key: StoreKey, expected: Document) -> None:
        entry = store.get(key)
        if entry is not None and reconciled_role(existing := entry.document, expected) == existing:
            return

        def decide(entry: StoreEntry | None) -> Document:
            if entry is None:
                return identified(expected)
            changed = reconciled_role(entry.document, expected)
            return identified(expected) if changed is expected else changed

        await store.write(key, decide)

    await asyncio.gather(*(ensure(key, document) for key, document in default_roles()))
    await aggregate_cluster_roles(store)


async def aggregate_cluster_roles(store: Store) -> None:
    """Updates the rules of every aggregated cluster role."""
    roles = [entry.document for entry in store.list(rbac.CLUSTER_ROLES).entries]
    found = aggregated_rules(roles)
    await asyncio.gather(
        *(store.write(StoreKey(rbac.CLUSTER_ROLES, "", name), _set_rules(found[name])) for name in found)
    )


class ClusterRoleAggregation:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def run(self, ready: asyncio.Event) -> None:
        """Runs until cancelled. Fails if the watch falls too far behind; the supervisor restarts it."""
        revision = self._store.revision
        await aggregate_cluster_roles(self._store)
        async with self._store.watch(rbac.CLUSTER_ROLES, revision) as batches:
            ready.set()
            async for batch in batches:
                if batch.changes:
                    await aggregate_cluster_roles(self._store)


@cache
def default_roles() -> tuple[tuple[StoreKey, Document], ...]:
    """Every default role and binding with its key, without uid and times."""
    text = files(__package__).joinpath("default_roles.txt").read_text(encoding="utf-8")
    return tuple((_key(document), document) for document in _documents(text))


def node_rules() -> tuple[PolicyRule, ...]:
    return next(rbac.read_rules(role["rules"]) for key, role in default_roles() if key.name == "system:node")


def _documents(text: str) -> Iterator[Document]:
    role: Document = {}
    for line in text.splitlines():
        if line.startswith("  "):
            role["rules"].append(_rule(line.strip()).document)
            continue
        word, _, rest = line.partition(" ")
        if word == "role":
            yield (role := _role(rest.split()))
        elif word == "controller":
            yield (role := _role([_CONTROLLERS + rest]))
            yield _binding([_CONTROLLERS + rest, f"account=kube-system/{rest}"])
        elif word == "bind":
            yield _binding(rest.split())


def _role(words: list[str]) -> Document:
    metadata = _metadata(words[0])
    role: Document = {"kind": "Role" if "namespace" in metadata else "ClusterRole", "apiVersion": _API_VERSION}
    role |= {"metadata": metadata, "rules": []}
    for option, _, value in (word.partition("=") for word in words[1:]):
        label = {_JOINS + value: "true"}
        if option == "joins":
            metadata["labels"] |= label
        else:
            role["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": label}]}
    return role


def _rule(line: str) -> PolicyRule:
    verbs, groups, what, *names = (part.split() for part in (_EVENTS if line == "EVENTS" else line).split(" | "))
    allowed = tuple(verb for word in verbs for verb in _VERBS.get(word, (word,)))
    if groups == ["paths"]:
        return PolicyRule(verbs=allowed, paths=tuple(what))
    return PolicyRule(
        verbs=allowed,
        groups=tuple("" if group == "core" else group for group in groups),
        resources=tuple(what),
        names=tuple(names[0]) if names else (),
    )


def _binding(words: list[str]) -> Document:
    metadata = _metadata(words[0])
    role, namespaced = metadata["name"], "namespace" in metadata
    subjects: list[Document] = []
    for option, _, value in (word.partition("=") for word in words[1:]):
        if option == "role":
            role = value
        else:
            subjects.append(_subject(_SUBJECTS[option], value))
    binding: Document = {
        "kind": "RoleBinding" if namespaced else "ClusterRoleBinding",
        "apiVersion": _API_VERSION,
        "metadata": metadata,
        "roleRef": {"apiGroup": GROUP, "kind": "Role" if namespaced else "ClusterRole", "name": role},
    }
    return binding | ({"subjects": subjects} if subjects else {})


def _subject(kind: str, value: str) -> Document:
    if kind == "ServiceAccount":
        namespace, _, name = value.partition("/")
        return {"kind": kind, "name": name, "namespace": namespace}
    return {"apiGroup": GROUP, "kind": kind, "name": value}


def _metadata(name: str) -> Document:
    namespace, slash, plain = name.partition("/")
    metadata: Document = {"name": plain, "namespace": namespace} if slash else {"name": name}
    metadata["labels"] = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    metadata["annotations"] = {AUTOUPDATE: "true"}
    return metadata


def _key(document: Document) -> StoreKey:
    collections = {
        "Role": rbac.ROLES,
        "ClusterRole": rbac.CLUSTER_ROLES,
        "RoleBinding": rbac.ROLE_BINDINGS,
        "ClusterRoleBinding": rbac.CLUSTER_ROLE_BINDINGS,
    }
    metadata = document["metadata"]
    return StoreKey(collections[document["kind"]], metadata.get("namespace", ""), metadata["name"])


def reconciled_role(existing: Document, expected: Document) -> Document:
    """Adds everything expected that the role or binding lacks; returns `expected` itself if the roleRef differs."""
    if (existing["metadata"].get("annotations") or {}).get(AUTOUPDATE) == "false":
        return existing
    if "roleRef" in expected:
        if existing.get("roleRef") != expected["roleRef"]:
            return expected
        held: Sequence[Document] = existing.get("subjects") or ()
        absent = [subject for subject in expected.get("subjects", ()) if subject not in held]
        changed = existing | {"subjects": [*held, *absent]} if absent else existing
    else:
        changed = _with_rules(existing, expected)
    return _with_marks(changed, expected)


def aggregated_rules(cluster_roles: Iterable[Document]) -> dict[str, list[Document]]:
    """The rules of every aggregated role whose rules are out of date, by its name.

    A role may aggregate another aggregated role, so this repeats until nothing changes. An invalid selector selects
    nothing.
    """
    roles = {role["metadata"]["name"]: role for role in sorted(cluster_roles, key=_name)}
    finders = {
        name: _selected_names(role, roles.values()) for name, role in roles.items() if role.get("aggregationRule")
    }
    rules = {name: list(role.get("rules") or ()) for name, role in roles.items()}
    for _ in finders:
        before = dict(rules)
        for name, found in finders.items():
            united: list[Document] = []
            for other in found:
                united += [rule for rule in rules[other] if rule not in united]
            rules[name] = united
        if rules == before:
            break
    return {name: rules[name] for name in finders if rules[name] != (roles[name].get("rules") or [])}


def _selected_names(role: Document, roles: Iterable[Document]) -> list[str]:
    """The names of the roles that the role's selectors select: selector by selector, each in name order."""
    others = [other for other in roles if _name(other) != _name(role)]
    found: list[str] = []
    for selector in role["aggregationRule"].get("clusterRoleSelectors") or ():
        try:
            matches = selector_from_document(selector).matches
        except (SelectorError, DecodeError):
            continue
        found += [_name(other) for other in others if matches(other["metadata"].get("labels") or {})]
    return found


def _name(role: Document) -> str:
    name: str = role["metadata"]["name"]
    return name


def _with_marks(existing: Document, expected: Document) -> Document:
    metadata: Document = existing["metadata"]
    marks = {field: expected["metadata"][field] | (metadata.get(field) or {}) for field in ("labels", "annotations")}
    if all(marks[field] == metadata.get(field) for field in marks):
        return existing
    return existing | {"metadata": metadata | marks}


def _with_rules(existing: Document, expected: Document) -> Document:
    changes: Document = {}
    lacking = rbac.uncovered_rules(rbac.read_rules(existing.get("rules")), rbac.read_rules(expected.get("rules")))
    if lacking:
        changes["rules"] = [*(existing.get("rules") or ()), *(rule.document for rule in lacking)]
    wanted, held = _selectors(expected), _selectors(existing)
    if (absent := [selector for selector in wanted if selector not in held]) or (held and not wanted):
        # A default role without aggregation must not start to aggregate.
        changes["aggregationRule"] = {"clusterRoleSelectors": [*held, *absent]} if wanted else None
    return {key: value for key, value in (existing | changes).items() if value is not None} if changes else existing


def _selectors(role: Document) -> Sequence[Document]:
    selectors: Sequence[Document] = (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
    return selectors


def _set_rules(rules: list[Document]) -> Callable[[StoreEntry | None], Document | None]:
    def decide(entry: StoreEntry | None) -> Document | None:
        if entry is None:
            return None
        role = entry.document
        return role | {"rules": rules} if role.get("aggregationRule") else role

    return decide
