"""CEL match conditions of webhooks and policies: variables, failures, budget, compile errors."""

from typing import Any

import pytest

from pykubelet.api.cel.admission import compile_condition
from pykubelet.apiserver.admission.interfaces import AdmissionAttributes
from pykubelet.apiserver.admission.plugin.cel.condition import admission_values
from pykubelet.apiserver.admission.plugin.webhook.matchconditions import (
    MatchConditionError,
    compile_conditions,
    conditions_match,
)
from pykubelet.apiserver.admission.plugin.webhook.predicates import Invocation, kind_name, resource_name
from pykubelet.apiserver.admission.plugin.webhook.request import admission_request
from pykubelet.apiserver.registry import BUILT_IN_KINDS
from pykubelet.apiserver.request import AuthorizationAttributes, AuthorizationDecision, UserInfo

PODS = next(kind for kind in BUILT_IN_KINDS if kind.resource.group_resource == "pods")
POD = {"metadata": {"name": "one", "labels": {"app": "a"}}, "spec": {"priority": 3}}


def authorize(review: AuthorizationAttributes) -> AuthorizationDecision:
    allowed = (review.user.name, review.verb, review.group, review.resource, review.namespace, review.name)
    return AuthorizationDecision(
        allowed
        in {("ann", "get", "", "pods", "shop", "one"), ("system:serviceaccount:a:b", "list", "apps", "x", "", "")},
        "by rule",
    )


def matches(*expressions: str, fails: bool = True, new: Any = POD, old: Any = None) -> bool:
    user = UserInfo("ann", ("dev",), extra={"scopes": ("a", "b")})
    attributes = AdmissionAttributes(
        user=user,
        verb="create",
        served=PODS,
        namespace="shop",
        name="one",
        state_options=lambda: {"kind": "CreateOptions"},
    )
    request = admission_request(attributes, Invocation(PODS, resource_name(PODS), kind_name(PODS)))
    values = admission_values(attributes, request, new, old, authorize=authorize)
    conditions = compile_conditions([{"name": "c", "expression": each} for each in expressions])
    return conditions_match(conditions, values, fails=fails)


@pytest.mark.parametrize(
    "expression",
    [
        "object.metadata.name == 'one' && oldObject == null",
        "object.spec.priority > 2",
        "!has(object.spec.nodeName)",
        "request.operation == 'CREATE' && request.kind.kind == 'Pod' && request.resource.resource == 'pods'",
        "request.userInfo.username == 'ann' && 'dev' in request.userInfo.groups",
        "request.userInfo.extra['scopes'] == ['a', 'b']",
        "!request.dryRun && request.namespace == 'shop' && request.options.kind == 'CreateOptions'",
        "!has(request.subResource)",
        "authorizer.requestResource.check('get').allowed()",
        "!authorizer.requestResource.check('delete').allowed()",
        "authorizer.requestResource.check('delete').reason() == 'by rule'",
        "authorizer.group('').resource('pods').namespace('shop').name('one').check('get').allowed()",
        "authorizer.serviceAccount('a', 'b').group('apps').resource('x').check('list').allowed()",
        "!authorizer.path('/healthz').check('get').allowed()",
        "!authorizer.path('/healthz').check('get').errored()",
    ],
)
def test_conditions_see_object_request_and_authorizer(expression: str) -> None:
    assert matches(expression)


def test_a_false_condition_wins_over_a_failing_one() -> None:
    assert not matches("object.spec.missing == 1", "false")


def test_a_failing_condition_fails_the_request_unless_failures_are_ignored() -> None:
    with pytest.raises(MatchConditionError) as caught:
        matches("true", "object.spec.missing == 1")

    assert str(caught.value) == "expression 'object.spec.missing == 1' resulted in error: no such key: missing"
    assert not matches("object.spec.missing == 1", fails=False)


def test_all_failures_are_reported_together() -> None:
    with pytest.raises(MatchConditionError, match=r"\[expression 'object.a == 1' .*, expression 'object.b == 1' .*\]"):
        matches("object.a == 1", "object.b == 1")


def test_checks_end_when_the_budget_is_spent() -> None:
    check = "authorizer.requestResource.check('get').allowed()"

    with pytest.raises(MatchConditionError, match=r"^validation failed due to running out of cost budget"):
        matches(" && ".join([check] * 8), "object.missing")


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("object.name ==", "compilation failed: ERROR: <input>:1:15: Syntax error"),
        ("foo == 1", "compilation failed: ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')"),
        ("request.nope == 1", "compilation failed: ERROR: <input>:1:8: undefined field 'nope'"),
        ("'text'", "must evaluate to bool but got string"),
        ("object.enabled", "must evaluate to bool but got dyn"),
    ],
)
def test_conditions_that_do_not_compile_say_why(expression: str, error: str) -> None:
    assert compile_condition(expression).error.startswith(error)
