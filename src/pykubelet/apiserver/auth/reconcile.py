"""What a default role or binding must become, and what a gathered role consists of (pure).

In: the object as it is and as it should be. Out: the object to store; the same one if nothing is missing. What a user
added stays; what a user marked with `autoupdate: "false"` stays as it is.

Upstream: staging/src/k8s.io/component-helpers/auth/rbac/reconciliation/{reconcile_role,reconcile_rolebindings}.go,
pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go
"""

from collections.abc import Iterable, Sequence

from pykubelet.api.selector import SelectorError, selector_from_document
from pykubelet.api.wire import DecodeError, Document
from pykubelet.apiserver.auth.coverage import missing
from pykubelet.apiserver.auth.default_roles import AUTOUPDATE
from pykubelet.apiserver.auth.rules import read_rules


def reconciled(existing: Document, expected: Document) -> Document:
    """The existing role or binding with everything expected that it lacks; `expected` itself if its roleRef differs."""
    if (existing["metadata"].get("annotations") or {}).get(AUTOUPDATE) == "false":
        return existing
    if "roleRef" in expected:
        if existing.get("roleRef") != expected["roleRef"]:
            return expected
        changed = _with_subjects(existing, expected)
    else:
        changed = _with_rules(existing, expected)
    return _with_marks(changed, expected)


def gathered(cluster_roles: Iterable[Document]) -> dict[str, list[Document]]:
    """The new rules of every role that gathers those of others and does not have them yet, by its name.

    A role may gather from one that gathers itself, so this goes on until nothing changes; roles that gather from each
    other in a circle end up with the same rules. A selector that is none finds nothing.
    """
    roles = {role["metadata"]["name"]: role for role in sorted(cluster_roles, key=_name)}
    finders = {name: _found_by(role, roles.values()) for name, role in roles.items() if role.get("aggregationRule")}
    rules = {name: list(role.get("rules") or ()) for name, role in roles.items()}
    for _ in finders:
        before = dict(rules)
        for name, found in finders.items():
            rules[name] = _united(rules[other] for other in found)
        if rules == before:
            break
    return {name: rules[name] for name in finders if rules[name] != (roles[name].get("rules") or [])}


def _found_by(role: Document, roles: Iterable[Document]) -> list[str]:
    """The names of the roles that the role's selectors find: selector by selector, each in name order."""
    others = [other for other in roles if _name(other) != _name(role)]
    found: list[str] = []
    for selector in role["aggregationRule"].get("clusterRoleSelectors") or ():
        try:
            matches = selector_from_document(selector).matches
        except (SelectorError, DecodeError):
            continue
        found += [_name(other) for other in others if matches(other["metadata"].get("labels") or {})]
    return found


def _united(lists: Iterable[list[Document]]) -> list[Document]:
    rules: list[Document] = []
    for found in lists:
        rules += [rule for rule in found if rule not in rules]
    return rules


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
    lacking = missing(read_rules(existing.get("rules")), read_rules(expected.get("rules")))
    if lacking:
        changes["rules"] = [*(existing.get("rules") or ()), *(rule.document for rule in lacking)]
    wanted, held = _selectors(expected), _selectors(existing)
    if (absent := [selector for selector in wanted if selector not in held]) or (held and not wanted):
        # A default role that gathers nothing must not begin to.
        changes["aggregationRule"] = {"clusterRoleSelectors": [*held, *absent]} if wanted else None
    return {key: value for key, value in (existing | changes).items() if value is not None} if changes else existing


def _with_subjects(existing: Document, expected: Document) -> Document:
    held: Sequence[Document] = existing.get("subjects") or ()
    absent = [subject for subject in expected.get("subjects", ()) if subject not in held]
    return existing | {"subjects": [*held, *absent]} if absent else existing


def _selectors(role: Document) -> Sequence[Document]:
    selectors: Sequence[Document] = (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
    return selectors
