"""Policy rules that others do not cover, checked against a plain comparison atom by atom."""

import time
from collections.abc import Iterable
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from policy_rules import GROUPS, NAMES, PATHS, RESOURCES, REVIEWS, RULES, VERBS
from pykubelet.apiserver.authorization.rbac import PolicyRule, compact, uncovered_rules
from pykubelet.apiserver.request import AuthorizationAttributes


def repeated(values: tuple[str, ...]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(values), max_size=3).map(tuple)


ANY_RULE = st.builds(
    PolicyRule,
    verbs=repeated(VERBS),
    groups=repeated(GROUPS),
    resources=repeated(RESOURCES),
    names=repeated(NAMES),
    paths=repeated(PATHS),
)


def atoms(rule: PolicyRule) -> Iterable[PolicyRule]:
    """The same rule in pieces of one verb, group, resource and name, or of one verb and path, in upstream's order."""
    names: list[tuple[str, ...]] = [(name,) for name in rule.names] or [()]
    for group, resource, verb, name in product(rule.groups, rule.resources, rule.verbs, names):
        yield PolicyRule(verbs=(verb,), groups=(group,), resources=(resource,), names=name)
    for path, verb in product(rule.paths, rule.verbs):
        yield PolicyRule(verbs=(verb,), paths=(path,))


def covers(own: PolicyRule, atom: PolicyRule) -> bool:
    """Follows upstream's definition literally."""
    parts = {"*", *atom.resources, *(f"*/{one.split('/', 1)[1]}" for one in atom.resources if "/" in one)}
    return (
        bool({"*", *atom.verbs} & set(own.verbs))
        and (not atom.groups or bool({"*", *atom.groups} & set(own.groups)))
        and (not atom.resources or bool(parts & set(own.resources)))
        and (not own.names or (bool(atom.names) and set(atom.names) <= set(own.names)))
        and all(
            any(one == path or (one.endswith("*") and path.startswith(one.rstrip("*"))) for one in own.paths)
            for path in atom.paths
        )
    )


@settings(max_examples=200)
@given(st.lists(RULES | ANY_RULE, max_size=4), st.lists(RULES | ANY_RULE, max_size=2))
def test_missing_is_every_atom_that_no_held_rule_covers(held: list[PolicyRule], wanted: list[PolicyRule]) -> None:
    """They come in the order of the wanted rules, with repeated values repeated."""
    expected = [atom for rule in wanted for atom in atoms(rule) if not any(covers(own, atom) for own in held)]
    assert uncovered_rules(held, wanted) == expected
    assert uncovered_rules(held, wanted, most=2) == expected[:2]


@settings(max_examples=300)
@given(st.lists(RULES, max_size=3), RULES, REVIEWS)
def test_covered_rule_allows_nothing_beyond_the_held_rules(
    held: list[PolicyRule], wanted: PolicyRule, review: AuthorizationAttributes
) -> None:
    """Covering is sound: no request is allowed by the granted rule alone."""
    if not uncovered_rules(held, [wanted]) and wanted.allows(review):
        assert any(rule.allows(review) for rule in held)


@given(RULES)
def test_rule_lacks_nothing_of_itself(rule: PolicyRule) -> None:
    """A rule covers itself, and its atoms allow no more and no less."""
    assert uncovered_rules([rule], [rule]) == []
    pieces = list(atoms(rule))
    assert uncovered_rules(pieces, [rule]) == []
    assert uncovered_rules(compact(pieces), [rule]) == []


def test_missing_rights_are_named_as_upstream_names_them() -> None:
    """Verbs of one resource are joined; paths stay separate."""
    wanted = [
        PolicyRule(verbs=("get", "list"), groups=("",), resources=("pods",), names=("x",)),
        PolicyRule(verbs=("get",), paths=("/healthz",)),
    ]
    held = [PolicyRule(verbs=("list",), groups=("",), resources=("secrets",))]
    assert [rule.text for rule in compact(uncovered_rules(held, wanted))] == [
        '{NonResourceURLs:["/healthz"], Verbs:["get"]}',
        '{APIGroups:[""], Resources:["pods"], ResourceNames:["x"], Verbs:["get" "list"]}',
    ]


def test_huge_rules_are_compared_quickly() -> None:
    """The search stops at the requested number of missing atoms."""
    many = tuple(f"v{number}" for number in range(3000))
    wanted = PolicyRule(verbs=many, groups=many, resources=many, names=many)
    held = [
        PolicyRule(verbs=many[:1500], groups=many, resources=("*",)),
        PolicyRule(verbs=many, groups=("*",), resources=many[1:]),
    ]
    began = time.process_time()
    assert uncovered_rules([wanted], [wanted]) == []
    gap = uncovered_rules(held, [wanted], most=3)
    assert [(atom.groups, atom.resources, atom.verbs, atom.names) for atom in gap] == [
        (("v0",), ("v0",), ("v1500",), (name,)) for name in many[:3]
    ]
    assert len(uncovered_rules([], [wanted], most=10_000)) == 10_000
    assert time.process_time() - began < 5
