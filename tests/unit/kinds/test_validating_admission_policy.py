"""The rules of ValidatingAdmissionPolicies and their bindings: defaults, errors word for word, generations, columns."""

from typing import Any

import pytest

from pykubelet.api.times import Age
from pykubelet.kinds import validating_admission_policy, validating_admission_policy_binding
from strategy_calls import create, update, update_status

_POLICY = validating_admission_policy.KIND
_BINDING = validating_admission_policy_binding.KIND
_RULE = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}
_AT = "spec.matchConstraints.resourceRules[0]"
_ONE = [{"expression": "object.spec.replicas <= 5"}]
Spec = dict[str, Any]


def _policy(**spec: Any) -> dict[str, Any]:
    return {"spec": {"matchConstraints": {"resourceRules": [_RULE]}, "validations": _ONE, **spec}}


def _rule(**fields: Any) -> dict[str, Any]:
    return _policy(matchConstraints={"resourceRules": [{**_RULE, **fields}]})


def _validation(**fields: Any) -> dict[str, Any]:
    return _policy(validations=[{**_ONE[0], **fields}])


_POLICIES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "good": (_policy(), []),
    "nothing": (
        {"spec": {}},
        [
            "spec.matchConstraints: Required value",
            "spec.validations: Required value: validations or auditAnnotations must contain at least one item",
            "spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item",
        ],
    ),
    "no rules": (
        _policy(matchConstraints={}),
        ["spec.matchConstraints.resourceRules: Required value"],
    ),
    "failure policy": (
        _policy(failurePolicy="Maybe"),
        ['spec.failurePolicy: Unsupported value: "Maybe": supported values: "Fail", "Ignore"'],
    ),
    "match policy": (
        _policy(matchConstraints={"resourceRules": [_RULE], "matchPolicy": "Some"}),
        ['spec.matchConstraints.matchPolicy: Unsupported value: "Some": supported values: "Equivalent", "Exact"'],
    ),
    "empty rule": (
        _policy(matchConstraints={"resourceRules": [{}]}),
        [f"{_AT}.{name}: Required value" for name in ("operations", "apiGroups", "apiVersions", "resources")],
    ),
    "wildcards beside others": (
        _rule(operations=["*", "CREATE"], apiGroups=["*", ""], apiVersions=["*", ""], resources=["*", "pods"]),
        [
            f'{_AT}.operations: Invalid value: ["*","CREATE"]: if \'*\' is present, must not specify other operations',
            f'{_AT}.apiGroups: Invalid value: ["*",""]: if \'*\' is present, must not specify other API groups',
            f'{_AT}.apiVersions: Invalid value: ["*",""]: if \'*\' is present, must not specify other API versions',
            f"{_AT}.apiVersions[1]: Required value",
            f'{_AT}.resources: Invalid value: ["*","pods"]: if \'*\' is present, must not specify other resources without subresources',
        ],
    ),
    "subresources": (
        _rule(resources=["pods/*", "pods/log", "*/scale", "apps/scale", "*/*", ""]),
        [
            f"{_AT}.resources[1]: Invalid value: \"pods/log\": if 'pods/*' is present, must not specify pods/log",
            f"{_AT}.resources[3]: Invalid value: \"apps/scale\": if '*/scale' is present, must not specify apps/scale",
            f"{_AT}.resources[5]: Required value",
            f'{_AT}.resources: Invalid value: ["pods/*","pods/log","*/scale","apps/scale","*/*",""]: if \'*/*\' is present, must not specify other resources',
        ],
    ),
    "operation and scope": (
        _rule(operations=["READ"], scope="World"),
        [
            f'{_AT}.operations[0]: Unsupported value: "READ": supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE"',
            f'{_AT}.scope: Unsupported value: "World": supported values: "*", "Cluster", "Namespaced"',
        ],
    ),
    "names": (
        _rule(resourceNames=["a", "a", "b/c"]),
        [
            f'{_AT}.resourceNames[1]: Duplicate value: "a"',
            f"{_AT}.resourceNames[2]: Invalid value: \"b/c\": may not contain '/'",
        ],
    ),
    "parameters": (
        _policy(paramKind={"apiVersion": "Up/1", "kind": "-"}),
        [
            "spec.paramKind.apiVersion: Invalid value: \"Up\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            "spec.paramKind.apiVersion: Invalid value: \"1\": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
            "spec.paramKind.kind: Invalid value: \"-\": may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
        ],
    ),
    "parameters of no version": (
        _policy(paramKind={"apiVersion": "a/", "kind": ""}),
        [
            'spec.paramKind.apiVersion: Invalid value: "a/": version must be specified',
            "spec.paramKind.kind: Required value",
        ],
    ),
    "expression with a typing error": (
        _validation(expression="object.spec.replicas <=", message="a\nb", reason="Why"),
        [
            "spec.validations[0].expression: Invalid value: \"object.spec.replicas <=\": compilation failed: ERROR: <input>:1:24: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | object.spec.replicas <=\n | .......................^",
            'spec.validations[0].message: Invalid value: "a\\nb": must not contain line breaks',
            'spec.validations[0].reason: Unsupported value: "Why": supported values: "Forbidden", "Invalid", "RequestEntityTooLarge"',
        ],
    ),
    "results": (
        _validation(expression="object.spec.x", messageExpression="1"),
        [
            'spec.validations[0].expression: Invalid value: "object.spec.x": must evaluate to bool but got dyn',
            'spec.validations[0].messageExpression: Invalid value: "1": must evaluate to string but got int',
        ],
    ),
    "unknown names": (
        _validation(
            expression="params.x == 1 || variables.y", messageExpression="authorizer.path('/').check('get').reason()"
        ),
        [
            "spec.validations[0].expression: Invalid value: \"params.x == 1 || variables.y\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')\n | params.x == 1 || variables.y\n | ^\nERROR: <input>:1:18: undeclared reference to 'variables' (in container '')\n | params.x == 1 || variables.y\n | .................^",
            "spec.validations[0].messageExpression: Invalid value: \"authorizer.path('/').check('get').reason()\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'authorizer' (in container '')\n | authorizer.path('/').check('get').reason()\n | ^",
        ],
    ),
    "a field of the request that does not exist": (
        _validation(expression="request.verb == 'get'"),
        [
            "spec.validations[0].expression: Invalid value: \"request.verb == 'get'\": compilation failed: ERROR: <input>:1:8: undefined field 'verb'\n | request.verb == 'get'\n | .......^"
        ],
    ),
    "too many expressions": (
        _policy(validations=[{"expression": "object.a == '" + "a" * 50 + "'"}] * 2100),
        ["spec: Too long: may not be more than 131072 bytes"],
    ),
    "blank texts": (
        _validation(expression=" ", messageExpression=" ", message=" "),
        [
            "spec.validations[0].expression: Required value: expression is not specified",
            'spec.validations[0].messageExpression: Invalid value: " ": must be non-empty if specified',
            'spec.validations[0].message: Invalid value: " ": must be non-empty if specified',
        ],
    ),
    "variables": (
        _policy(
            variables=[
                {"name": "a", "expression": "object.x"},
                {"name": "two", "expression": "1 + 1"},
                {"name": "for", "expression": "1"},
                {"name": "", "expression": ""},
                {"name": "broken", "expression": "variables.later"},
                {"name": "later", "expression": "variables.two == 2"},
            ],
            validations=[
                {"expression": "variables.two > 1"},
                {"expression": "variables.two.x"},
                {"expression": "variables.later && variables.broken"},
            ],
        ),
        [
            'spec.variables[2].name: Invalid value: "for": must be a valid CEL identifier',
            "spec.variables[3].name: Required value: name is not specified",
            "spec.variables[3].expression: Required value: expression is not specified",
            "spec.variables[4].expression: Invalid value: \"variables.later\": compilation failed: ERROR: <input>:1:10: undefined field 'later'\n | variables.later\n | .........^",
            "spec.validations[1].expression: Invalid value: \"variables.two.x\": compilation failed: ERROR: <input>:1:14: type 'int' does not support field selection\n | variables.two.x\n | .............^",
        ],
    ),
    "match conditions": (
        _policy(
            matchConditions=[
                {"name": "a", "expression": " true "},
                {"name": "a", "expression": "1"},
                {"name": "-", "expression": ""},
                {"name": "", "expression": "params.x"},
            ]
        ),
        [
            'spec.matchConditions[1].expression: Invalid value: "1": must evaluate to bool but got int',
            'spec.matchConditions[1].name: Duplicate value: "a"',
            "spec.matchConditions[2].expression: Required value",
            "spec.matchConditions[2].name: Invalid value: \"-\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            "spec.matchConditions[3].expression: Invalid value: \"params.x\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')\n | params.x\n | ^",
            "spec.matchConditions[3].name: Required value",
        ],
    ),
    "too many match conditions": (
        _policy(matchConditions=[{"name": f"c{index}", "expression": "true"} for index in range(65)]),
        ["spec.matchConditions: Too many: 65: must have at most 64 items"],
    ),
    "audit annotations": (
        _policy(
            validations=[],
            auditAnnotations=[
                {"key": "good", "valueExpression": "'x'"},
                {"key": "good", "valueExpression": "null"},
                {"key": "", "valueExpression": "timestamp('2020-01-01T00:00:00Z')"},
                {"key": "long", "valueExpression": "'" + "x" * 5120 + "'"},
                {"key": "none", "valueExpression": " "},
            ],
        ),
        [
            'spec.auditAnnotations[1].key: Duplicate value: "good"',
            'spec.auditAnnotations[2].key: Invalid value: "x/": name part must be non-empty',
            "spec.auditAnnotations[2].key: Invalid value: \"x/\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            "spec.auditAnnotations[2].valueExpression: Invalid value: \"timestamp('2020-01-01T00:00:00Z')\": must evaluate to one of [string null_type] but got google.protobuf.Timestamp",
            "spec.auditAnnotations[3].valueExpression: Required value: must not exceed 5120 bytes in length",
            "spec.auditAnnotations[4].valueExpression: Required value: valueExpression is not specified",
        ],
    ),
}


@pytest.mark.parametrize(("document", "errors"), _POLICIES.values(), ids=_POLICIES.keys())
def test_errors_of_a_policy(document: dict[str, Any], errors: list[str]) -> None:
    _, found = create(_POLICY.strategy, document, namespace="")
    assert found == errors


def test_policy_that_uses_all_that_expressions_offer_is_valid() -> None:
    expressions = (
        "object.metadata.?labels['a'].orValue('') == oldObject.x",
        "request.namespace == 'a' && request.kind.group == request.resource.group && request.userInfo.groups.exists(g, g == 'a')",
        "request.userInfo.extra['a'].size() > 0 && has(request.dryRun) && !request.dryRun && request.options.x == 1",
        "namespaceObject.metadata.labels['a'] == 'b' && namespaceObject.status.phase == 'Active'",
        "authorizer.group('apps').resource('deployments').namespace('a').name('b').check('get').allowed()",
        "authorizer.serviceAccount('a', 'b').path('/healthz').check('get').reason() == ''",
        "authorizer.requestResource.subresource('x').fieldSelector('a=b').labelSelector('a').check('list').errored()",
        "quantity(object.a).isGreaterThan(quantity('1')) && ip('1.2.3.4').family() == 4 && cidr('1.2.3.0/24').containsIP('1.2.3.4')",
        "isSemver('1.2.3') && !format.dns1123Label().validate(object.x).hasValue() && object.x.matches('^a')",
        "params.x == variables.x && object.list.all(i, e, e > i)",
    )
    document = _policy(
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        variables=[{"name": "x", "expression": "object.x"}],
        matchConditions=[{"name": "params", "expression": "params.x == 'a'"}],
        validations=[{"expression": each} for each in expressions],
        auditAnnotations=[{"key": "k", "valueExpression": "string(params.x)"}],
    )
    _, errors = create(_POLICY.strategy, document, namespace="")
    assert errors == []


def test_defaults_of_a_policy() -> None:
    stored, errors = create(_POLICY.strategy, _policy(), namespace="")
    assert not errors
    assert stored["spec"]["failurePolicy"] == "Fail"
    matched = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
    assert stored["spec"]["matchConstraints"] == {**matched, "resourceRules": [{**_RULE, "scope": "*"}]}
    assert stored["metadata"]["generation"] == 1
    assert stored["status"] == {}


def test_condition_that_was_valid_is_not_validated_again() -> None:
    document = _policy(matchConditions=[{"name": "a", "expression": "broken"}])
    stored, errors = create(_POLICY.strategy, document, namespace="")
    assert errors
    assert update(_POLICY.strategy, stored, {"spec": {"failurePolicy": "Ignore"}})[1] == []
    assert update(_POLICY.strategy, stored, {"spec": {"paramKind": {"apiVersion": "v1", "kind": "Secret"}}})[1]


def test_status_is_validated_and_leaves_the_spec() -> None:
    stored, _ = create(_POLICY.strategy, _policy(), namespace="")
    status = {"typeChecking": {"expressionWarnings": [{"fieldRef": " ", "warning": ""}]}}
    patch = {"spec": {"failurePolicy": "Ignore"}, "status": status}
    changed, errors = update_status(_POLICY.strategy, stored, patch)
    at = "status.typeChecking.expressionWarnings[0]"
    assert errors == [f"{at}.warning: Required value", f"{at}.fieldRef: Required value"]
    assert changed["spec"] == stored["spec"]


def _binding(**spec: Any) -> dict[str, Any]:
    return {"spec": {"policyName": "p", "validationActions": ["Deny"], **spec}}


def _ref(**fields: Any) -> dict[str, Any]:
    return _binding(paramRef={"parameterNotFoundAction": "Deny", **fields})


_BINDINGS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "good": (_ref(name="x"), []),
    "nothing": (
        {"spec": {}},
        [
            "spec.policyName: Required value",
            "spec.validationActions: Required value: at least one validation action is required",
        ],
    ),
    "actions": (
        _binding(validationActions=["Deny", "Warn", "Deny", "Log"]),
        [
            'spec.validationActions[2]: Duplicate value: "Deny"',
            'spec.validationActions[3]: Unsupported value: "Log": supported values: "Audit", "Deny", "Warn"',
            'spec.validationActions: Invalid value: ["Deny","Warn","Deny","Log"]: must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)',
        ],
    ),
    "parameter by name and selector": (
        _ref(name="a/b", selector={}),
        [
            "spec.paramRef.name: Invalid value: \"a/b\": may not contain '/'",
            "spec.paramRef.name: Forbidden: name and selector are mutually exclusive",
            "spec.paramRef.selector: Forbidden: name and selector are mutually exclusive",
        ],
    ),
    "no parameter": (
        _binding(paramRef={}),
        [
            "spec.paramRef: Required value: one of name or selector must be specified",
            "spec.paramRef.parameterNotFoundAction: Required value",
        ],
    ),
    "missing parameters": (
        _ref(name="a", parameterNotFoundAction="Wait"),
        ['spec.paramRef.parameterNotFoundAction: Unsupported value: "Wait": supported values: "Deny", "Allow"'],
    ),
}


@pytest.mark.parametrize(("document", "errors"), _BINDINGS.values(), ids=_BINDINGS.keys())
def test_errors_of_a_binding(document: dict[str, Any], errors: list[str]) -> None:
    _, found = create(_BINDING.strategy, document, namespace="")
    assert found == errors


def test_binding_has_defaults_and_counts_generations() -> None:
    stored, errors = create(_BINDING.strategy, _binding(matchResources={"resourceRules": [_RULE]}), namespace="")
    assert not errors
    assert stored["spec"]["matchResources"]["resourceRules"][0]["scope"] == "*"
    assert stored["metadata"]["generation"] == 1
    changed, errors = update(_BINDING.strategy, stored, {"spec": {"policyName": "q"}})
    assert not errors
    assert changed["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    ("ref", "shown"),
    [
        (None, "<unset>"),
        ({"name": "a"}, "*/a"),
        ({"name": "a", "namespace": "b"}, "b/a"),
        (
            {
                "selector": {
                    "matchLabels": {"b": "2", "a": "1"},
                    "matchExpressions": [{"key": "k", "operator": "In", "values": ["x", "y"]}],
                }
            },
            "&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:k,Operator:In,Values:[x y],},},}",
        ),
    ],
)
def test_cells_of_a_binding(ref: dict[str, Any] | None, shown: str) -> None:
    document = {"metadata": {"name": "b"}, "spec": {"policyName": "p", "paramRef": ref}}
    assert _BINDING.cells is not None
    assert _BINDING.cells(document, _age)[:3] == ["b", "p", shown]


def _age(_created: str | None) -> str:
    return "1s"


def test_cells_of_a_policy() -> None:
    assert _POLICY.cells is not None
    age: Age = _age
    document: Spec = {"metadata": {"name": "p"}, "spec": {"validations": [{}, {}]}}
    assert _POLICY.cells(document, age) == ["p", 2, "<unset>", "1s"]
    document["spec"]["paramKind"] = {"apiVersion": "v1", "kind": "ConfigMap"}
    assert _POLICY.cells(document, age)[2] == "v1/ConfigMap"
