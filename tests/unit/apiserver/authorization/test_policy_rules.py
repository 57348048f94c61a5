"""Policy rules compared with plain models of them."""

import pytest
from hypothesis import given, settings

from access_objects import ALICE, ask
from policy_rules import REVIEWS, RULES
from pykubelet.apiserver.authorization.rbac import PolicyRule, read_rules
from pykubelet.apiserver.request import AuthorizationAttributes


def naive_allows(rule: PolicyRule, review: AuthorizationAttributes) -> bool:
    """Follows upstream's definition literally."""
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
def test_rule_allows_what_a_plain_reading_of_it_allows(rule: PolicyRule, review: AuthorizationAttributes) -> None:
    """The optimized decision equals that of the naive model."""
    assert rule.allows(review) == naive_allows(rule, review)


@given(RULES)
def test_rule_is_the_same_after_writing_and_reading(rule: PolicyRule) -> None:
    assert read_rules([rule.document]) == (rule,)


@pytest.mark.parametrize(
    ("rule", "review", "allowed"),
    [
        pytest.param(
            PolicyRule(verbs=("get",), groups=("",), resources=("pods",)), ask(ALICE, "get", "pods"), True, id="plain"
        ),
        pytest.param(
            PolicyRule(verbs=("get",), groups=("",), resources=("pods",)),
            ask(ALICE, "get", "pods/log"),
            False,
            id="sub",
        ),
        pytest.param(
            PolicyRule(verbs=("get",), groups=("",), resources=("pods/*",)),
            ask(ALICE, "get", "pods/log"),
            False,
            id="pods/*",
        ),
        pytest.param(
            PolicyRule(verbs=("get",), groups=("",), resources=("*/log",)),
            ask(ALICE, "get", "pods/log"),
            True,
            id="*/log",
        ),
        pytest.param(
            PolicyRule(verbs=("*",), groups=("*",), resources=("*",)),
            ask(ALICE, "get", "pods/log"),
            True,
            id="everything",
        ),
        pytest.param(
            PolicyRule(verbs=("list",), groups=("",), resources=("pods",), names=("a",)),
            ask(ALICE, "list", "pods"),
            False,
            id="a-name-is-needed",
        ),
        pytest.param(
            PolicyRule(verbs=("get",), paths=("/a/*",)),
            AuthorizationAttributes(user=ALICE, verb="get", path="/a/b/c"),
            True,
            id="path",
        ),
        pytest.param(
            PolicyRule(verbs=("get",), paths=("/a/*",)),
            AuthorizationAttributes(user=ALICE, verb="get", path="/a"),
            False,
            id="above",
        ),
    ],
)
def test_rule_allows_or_does_not(rule: PolicyRule, review: AuthorizationAttributes, *, allowed: bool) -> None:
    """Named examples of typical and edge cases."""
    assert rule.allows(review) is allowed
