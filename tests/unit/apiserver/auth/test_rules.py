"""Policy rules against plain models of them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from access_objects import ALICE, ask
from pykubelet.apiserver.auth.rules import Rule, compact, missing, read_rules
from pykubelet.apiserver.call import Review

VERBS = ("get", "list", "*")
GROUPS = ("", "apps", "*")
RESOURCES = ("pods", "pods/status", "pods/*", "*/scale", "*/status", "*")
NAMES = ("a", "b")
PATHS = ("/healthz", "/healthz/*", "/*", "*", "/version")


def some(values: tuple[str, ...]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(values), max_size=2, unique=True).map(tuple)


RULES = st.one_of(
    st.builds(Rule, verbs=some(VERBS), groups=some(GROUPS), resources=some(RESOURCES), names=some(NAMES)),
    st.builds(Rule, verbs=some(VERBS), paths=some(PATHS)),
)
REVIEWS = st.one_of(
    st.builds(
        lambda verb, group, resource, sub, name: Review(
            user=ALICE, verb=verb, group=group, resource=resource, subresource=sub, name=name, path="/ignored"
        ),
        st.sampled_from(("get", "list", "watch")),
        st.sampled_from(("", "apps", "batch")),
        st.sampled_from(("pods", "jobs")),
        st.sampled_from(("", "status", "scale")),
        st.sampled_from(("", "a", "c")),
    ),
    st.builds(
        lambda verb, path: Review(user=ALICE, verb=verb, path=path),
        st.sampled_from(("get", "list")),
        st.sampled_from(("/healthz", "/healthz/etcd", "/version", "/api")),
    ),
)


def naive_allows(rule: Rule, review: Review) -> bool:
    """Upstream's words, one after the other."""
    if not {review.verb, "*"} & set(rule.verbs):
        return False
    if not review.resource:
        return any(
            one in ("*", review.path) or (one[-1] == "*" and review.path.startswith(one.strip("*")))
            for one in rule.paths
        )
    combined = "/".join(filter(None, (review.resource, review.subresource)))
    wanted = {"*", combined} | ({f"*/{review.subresource}"} if review.subresource else set())
    return (
        bool({review.group, "*"} & set(rule.groups))
        and bool(wanted & set(rule.resources))
        and (not rule.names or review.name in rule.names)
    )


@settings(max_examples=300)
@given(RULES, REVIEWS)
def test_rule_allows_what_a_plain_reading_of_it_allows(rule: Rule, review: Review) -> None:
    """The quick decision is the plain one."""
    assert rule.allows(review) == naive_allows(rule, review)


@settings(max_examples=300)
@given(st.lists(RULES, max_size=3), RULES, REVIEWS)
def test_who_lacks_nothing_of_a_rule_may_do_all_it_allows(held: list[Rule], wanted: Rule, review: Review) -> None:
    """Covering is sound: no request is allowed by the granted rule alone."""
    if not missing(held, [wanted]) and wanted.allows(review):
        assert any(rule.allows(review) for rule in held)


@given(RULES)
def test_rule_lacks_nothing_of_itself(rule: Rule) -> None:
    """A rule covers itself, and its atoms allow no more and no less."""
    assert missing([rule], [rule]) == []
    atoms = list(rule.atoms())
    assert missing(atoms, [rule]) == []
    assert missing(compact(atoms), [rule]) == []


@given(RULES)
def test_rule_is_the_same_after_writing_and_reading(rule: Rule) -> None:
    """Documents lose nothing."""
    assert read_rules([rule.document]) == (rule,)


@pytest.mark.parametrize(
    ("rule", "review", "allowed"),
    [
        pytest.param(
            Rule(verbs=("get",), groups=("",), resources=("pods",)), ask(ALICE, "get", "pods"), True, id="plain"
        ),
        pytest.param(
            Rule(verbs=("get",), groups=("",), resources=("pods",)), ask(ALICE, "get", "pods/log"), False, id="sub"
        ),
        pytest.param(
            Rule(verbs=("get",), groups=("",), resources=("pods/*",)), ask(ALICE, "get", "pods/log"), False, id="pods/*"
        ),
        pytest.param(
            Rule(verbs=("get",), groups=("",), resources=("*/log",)), ask(ALICE, "get", "pods/log"), True, id="*/log"
        ),
        pytest.param(
            Rule(verbs=("*",), groups=("*",), resources=("*",)), ask(ALICE, "get", "pods/log"), True, id="everything"
        ),
        pytest.param(
            Rule(verbs=("list",), groups=("",), resources=("pods",), names=("a",)),
            ask(ALICE, "list", "pods"),
            False,
            id="a-name-is-needed",
        ),
        pytest.param(
            Rule(verbs=("get",), paths=("/a/*",)), Review(user=ALICE, verb="get", path="/a/b/c"), True, id="path"
        ),
        pytest.param(
            Rule(verbs=("get",), paths=("/a/*",)), Review(user=ALICE, verb="get", path="/a"), False, id="above"
        ),
    ],
)
def test_rule_allows_or_does_not(rule: Rule, review: Review, *, allowed: bool) -> None:
    """Cases worth a name."""
    assert rule.allows(review) is allowed


def test_missing_rights_are_named_as_upstream_names_them() -> None:
    """Verbs of one resource come together; paths stay apart."""
    wanted = [
        Rule(verbs=("get", "list"), groups=("",), resources=("pods",), names=("x",)),
        Rule(verbs=("get",), paths=("/healthz",)),
    ]
    held = [Rule(verbs=("list",), groups=("",), resources=("secrets",))]
    assert [rule.text for rule in compact(missing(held, wanted))] == [
        '{NonResourceURLs:["/healthz"], Verbs:["get"]}',
        '{APIGroups:[""], Resources:["pods"], ResourceNames:["x"], Verbs:["get" "list"]}',
    ]
