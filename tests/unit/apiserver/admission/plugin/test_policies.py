"""ValidatingAdmissionPolicies on writes: matching, parameters, messages, actions, failures, budgets."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pykubelet.api.errors import ApiError, Invalid
from pykubelet.api.schema import (
    CONFIG_MAPS,
    NAMESPACES,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
    Resource,
)
from pykubelet.api.scheme import as_documents
from pykubelet.apiserver.admission.interfaces import AdmissionAttributes
from pykubelet.apiserver.admission.plugin.policy.validating import ValidatingPolicies
from pykubelet.apiserver.request import AuthorizationAttributes, AuthorizationDecision, UserInfo
from pykubelet.client.interface import PatchType
from pykubelet.testing.local_api import LocalApi, local_api

_GROUP = {"apiVersion": "admissionregistration.k8s.io/v1"}
_DEPLOYMENTS = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}
_MAPS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}
Document = dict[str, Any]


class Bed:
    """A server with policies, and writes that they judge."""

    def __init__(self, api: LocalApi) -> None:
        self.api = api
        self.warnings: list[str] = []
        self.annotations: dict[str, str] = {}
        self.judge = ValidatingPolicies(api.store, registry=api.registry, authorize=_authorize)

    async def create(self, resource: Resource, name: str, *, namespace: str = "", **fields: Any) -> None:
        document = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, **fields}
        await self.api.client.create(as_documents(resource), document, namespace=namespace)

    async def policy(self, *expressions: str, name: str = "p", rules: Any = (_MAPS,), **spec: Any) -> None:
        """A policy with these validations."""
        stated = {
            "matchConstraints": {"resourceRules": list(rules), **spec.pop("matched", {})},
            "validations": [{"expression": each} for each in expressions],
            **spec,
        }
        await self.create(VALIDATING_ADMISSION_POLICIES, name, spec=stated)

    async def binding(self, *actions: str, name: str = "b", policy: str = "p", **spec: Any) -> None:
        stated = {"policyName": policy, "validationActions": list(actions or ("Deny",)), **spec}
        await self.create(VALIDATING_ADMISSION_POLICY_BINDINGS, name, spec=stated)

    def write(self, new: Document | None = None, old: Document | None = None, **attributes: Any) -> str:
        """The message of the denial, empty if the write is admitted."""
        error = self.denial(new, old, **attributes)
        return "" if error is None else error.message

    def denial(self, new: Document | None = None, old: Document | None = None, **attributes: Any) -> ApiError | None:
        plural = attributes.pop("plural", "configmaps")
        served = next(kind for kind in self.api.registry.all() if kind.resource.group_resource == plural)
        given = {"user": UserInfo("ann"), "verb": "create", "namespace": "default", "name": "x", **attributes}
        stated = AdmissionAttributes(
            served=served, warn=self.warnings.append, annotate=self.annotations.__setitem__, **given
        )
        default = {"metadata": {"name": "x"}, "data": {"a": "1"}} if given["verb"] == "create" else None
        if not self.judge:
            return None
        try:
            self.judge(stated, default if new is None else new, old)
        except ApiError as error:
            return error
        return None


def _authorize(review: AuthorizationAttributes) -> AuthorizationDecision:
    return AuthorizationDecision(review.user.name == "ann" and review.verb == "get", "by rule")


@asynccontextmanager
async def bed(folder: Path) -> AsyncIterator[Bed]:
    async with local_api(folder) as api:
        yield Bed(api)


def _denied(message: str, *, policy: str = "p", binding: str = "b") -> str:
    named = f"ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request"
    return f'configmaps "x" is forbidden: {named}: {message}'


async def test_write_is_denied_with_message_reason_and_cause(tmp_path: Path) -> None:
    async with bed(tmp_path) as it:
        assert it.write() == ""
        await it.policy("object.data.a == '2'")
        assert it.write() == "", "without a binding a policy does nothing"
        await it.binding()
        error = it.denial()
        assert error is not None
        text = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed expression: object.data.a == '2'"
        assert (error.reason, error.code, error.message) == ("Invalid", 422, f'configmaps "x" is forbidden: {text}')
        assert error.details == {"name": "x", "kind": "configmaps", "causes": [{"message": text}]}
        await it.api.client.delete(as_documents(VALIDATING_ADMISSION_POLICY_BINDINGS), "b")
        assert it.write() == ""
        assert not it.judge, "writes skip it"


_MESSAGES: dict[str, tuple[dict[str, Any], str]] = {
    "the expression": ({}, "failed expression: false"),
    "the message": ({"message": " no "}, "no"),
    "the message expression": ({"message": "no", "messageExpression": "'not ' + object.data.a"}, "not 1"),
    "the message if its expression fails": ({"message": "no", "messageExpression": "'' + object.data.b"}, "no"),
    "the message if its expression has lines": ({"message": "no", "messageExpression": "'a\\nb'"}, "no"),
    "the message if its expression is long": ({"message": "no", "messageExpression": f"'{'x' * 5121}'"}, "no"),
    "the message if its expression is blank": ({"message": "no", "messageExpression": "' '"}, "no"),
    "what variables give": ({"messageExpression": "variables.text"}, "value 1"),
}


@pytest.mark.parametrize(("fields", "message"), _MESSAGES.values(), ids=_MESSAGES.keys())
async def test_message_is(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    async with bed(tmp_path) as it:
        await it.policy(
            validations=[{"expression": " false", **fields}],
            variables=[{"name": "text", "expression": "'value ' + object.data.a"}],
        )
        await it.binding()
        assert it.write() == _denied(message)


@pytest.mark.parametrize(("reason", "code"), [("Forbidden", 403), ("Invalid", 422), ("RequestEntityTooLarge", 413)])
async def test_reason_of_the_first_failure_decides_the_code(tmp_path: Path, reason: str, code: int) -> None:
    async with bed(tmp_path) as it:
        await it.policy(validations=[{"expression": "false", "reason": reason}, {"expression": "false"}])
        await it.binding()
        error = it.denial()
        assert error is not None
        assert (error.reason, error.code) == (reason, code)


_TRUE = [
    "object.metadata.name == 'x' && oldObject == null",
    "request.operation == 'CREATE' && request.name == 'x' && request.namespace == 'default'",
    "request.userInfo.username == 'ann' && request.resource.resource == 'configmaps' && !request.dryRun",
    "namespaceObject.metadata.name == 'default' && namespaceObject.status.phase == 'Active'",
    "authorizer.requestResource.check('get').allowed()",
    "!authorizer.group('').resource('pods').check('delete').allowed()",
    "has(object.data.a) && !has(object.data.b) && object.?data.?b.orValue('none') == 'none'",
    "object.data.all(key, object.data[key].size() == 1)",
    "variables.three == 3 && variables.three + variables.one == 4",
    "!has(variables.fails) || true",
]


@pytest.mark.parametrize("expression", _TRUE)
async def test_expressions_see_the_write(tmp_path: Path, expression: str) -> None:
    async with bed(tmp_path) as it:
        variables = {"one": "1", "three": "variables.one + 2", "fails": "object.nothing"}
        await it.policy(expression, variables=[{"name": name, "expression": text} for name, text in variables.items()])
        await it.binding()
        assert it.write() == ""


_FAILURES = {
    "object.spec.x": "expression 'object.spec.x == 1' resulted in error: no such key: spec",
    "variables.fails": "expression 'variables.fails == 1' resulted in error: composited variable \"fails\" fails to evaluate: no such key: nothing",
    "variables.chained": 'expression \'variables.chained == 1\' resulted in error: composited variable "chained" fails to evaluate: composited variable "fails" fails to evaluate: no such key: nothing',
    "size([1, 2, 3].map(i, variables.numbers.map(j, variables.numbers.map(k, k * j * i))))": "operation cancelled: actual cost limit exceeded",
}


@pytest.mark.parametrize(("expression", "message"), _FAILURES.items(), ids=range(len(_FAILURES)))
async def test_failure_to_evaluate_denies_unless_failures_are_ignored(
    tmp_path: Path, expression: str, message: str
) -> None:
    numbers = ", ".join(map(str, range(300)))
    variables = {
        "fails": "object.nothing",
        "chained": "variables.fails",
        "numbers": f"[{numbers}]",
    }
    stated = [{"name": name, "expression": text} for name, text in variables.items()]
    async with bed(tmp_path) as it:
        await it.policy(f"{expression} == 1", variables=stated)
        await it.policy(f"{expression} == 1", name="lenient", variables=stated, failurePolicy="Ignore")
        await it.binding()
        await it.binding(name="c", policy="lenient")
        assert it.write().endswith(message)
        await it.api.client.delete(as_documents(VALIDATING_ADMISSION_POLICIES), "p")
        assert it.write() == ""


async def test_budget_of_a_binding_ends_with_many_costly_expressions(tmp_path: Path) -> None:
    numbers = f"[{', '.join(map(str, range(100)))}]"
    costly = f"{numbers}.all(i, {numbers}.all(j, i < 1000 && j < 1000))"
    async with bed(tmp_path) as it:
        await it.policy(*[costly] * 2)
        await it.binding()
        assert it.write() == ""
        await it.policy(*[costly] * 40, name="q")
        await it.binding(name="c", policy="q")
        text = "validation failed due to running out of cost budget, no further validation rules will be run"
        assert it.write() == _denied(text, policy="q", binding="c")


async def test_variable_is_evaluated_once(tmp_path: Path) -> None:
    numbers = f"[{', '.join(map(str, range(100)))}]"
    costly = {"name": "costly", "expression": f"{numbers}.all(i, {numbers}.all(j, i < 1000 && j < 1000))"}
    async with bed(tmp_path) as it:
        await it.policy(*["variables.costly"] * 40, variables=[costly])
        await it.binding()
        assert it.write() == ""


async def test_write_must_match_rules_selectors_and_conditions_of_policy_and_binding(tmp_path: Path) -> None:
    async with bed(tmp_path) as it:
        await it.create(NAMESPACES, "other")
        await it.policy(
            "false",
            matched={
                "excludeResourceRules": [{**_MAPS, "resourceNames": ["free"]}],
                "objectSelector": {"matchExpressions": [{"key": "skip", "operator": "DoesNotExist"}]},
            },
            matchConditions=[{"name": "not-root", "expression": "request.userInfo.username != 'root'"}],
        )
        only_default = {"matchLabels": {"kubernetes.io/metadata.name": "default"}}
        await it.binding(matchResources={"namespaceSelector": only_default})
        assert it.write() == _denied("failed expression: false")
        assert it.write(plural="secrets") == ""
        assert it.write(name="free") == ""
        assert it.write({"metadata": {"name": "x", "labels": {"skip": ""}}}) == ""
        assert it.write(user=UserInfo("root")) == ""
        assert it.write(namespace="other") == ""
        assert it.write(verb="delete", old={"metadata": {"name": "x"}}) == _denied("failed expression: false")


async def test_policies_and_bindings_are_themselves_exempt(tmp_path: Path) -> None:
    everything = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}
    async with bed(tmp_path) as it:
        await it.policy("false", rules=[everything])
        await it.binding()
        assert it.write()
        assert it.write(plural="validatingadmissionpolicies.admissionregistration.k8s.io", namespace="") == ""


async def test_condition_that_fails_denies_the_write(tmp_path: Path) -> None:
    async with bed(tmp_path) as it:
        await it.policy("true", matchConditions=[{"name": "c", "expression": "object.nothing == 1"}])
        await it.binding()
        assert it.write() == _denied("expression 'object.nothing == 1' resulted in error: no such key: nothing")


_KIND = {"apiVersion": "v1", "kind": "ConfigMap"}


async def _with_params(it: Bed, ref: Document, **policy: Any) -> None:
    await it.create(NAMESPACES, "other")
    for namespace, limit in (("default", "1"), ("other", "2")):
        await it.create(CONFIG_MAPS, "limits", namespace=namespace, data={"limit": limit})
    await it.policy("params == null || object.data.a < params.data.limit", paramKind=_KIND, **policy)
    stated: Document = {"paramRef": ref} if ref else {}
    await it.binding(**stated)


@pytest.mark.parametrize(
    ("ref", "message"),
    [
        ({}, ""),
        ({"name": "limits", "parameterNotFoundAction": "Deny"}, "failed expression"),
        ({"name": "limits", "namespace": "other", "parameterNotFoundAction": "Deny"}, ""),
        ({"selector": {}, "namespace": "other", "parameterNotFoundAction": "Deny"}, ""),
        ({"name": "none", "parameterNotFoundAction": "Allow"}, ""),
        (
            {"name": "none", "parameterNotFoundAction": "Deny"},
            "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
        ),
        (
            {"selector": {"matchLabels": {"a": "b"}}, "parameterNotFoundAction": "Deny"},
            "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
        ),
    ],
)
async def test_parameters_are_found_by_name_or_selector(tmp_path: Path, ref: Document, message: str) -> None:
    async with bed(tmp_path) as it:
        await _with_params(it, ref)
        found = it.write()
        assert message in found
        assert bool(found) is bool(message)


async def test_write_without_namespace_cannot_use_namespaced_parameters(tmp_path: Path) -> None:
    nodes = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["nodes"]}
    async with bed(tmp_path) as it:
        await _with_params(it, {"name": "limits", "parameterNotFoundAction": "Deny"}, rules=[nodes])
        text = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
        assert it.write(plural="nodes", namespace="").endswith(f"failed to configure binding: {text}")


async def test_cluster_scoped_parameters_have_no_namespace(tmp_path: Path) -> None:
    async with bed(tmp_path) as it:
        await it.policy("params.metadata.name == 'default'", paramKind={"apiVersion": "v1", "kind": "Namespace"})
        await it.binding(paramRef={"name": "default", "parameterNotFoundAction": "Deny"})
        assert it.write() == ""
        ref = {"name": "default", "namespace": "default", "parameterNotFoundAction": "Deny"}
        await it.binding(name="c", paramRef=ref)
        text = "failed to configure binding: paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
        assert it.write() == _denied(text, binding="c")


async def test_unknown_parameter_kind_denies_what_the_policy_matches(tmp_path: Path) -> None:
    async with bed(tmp_path) as it:
        await it.policy("true", paramKind={"apiVersion": "x.io/v1", "kind": "Limit"})
        await it.binding(paramRef={"name": "a", "parameterNotFoundAction": "Allow"})
        named = "ValidatingAdmissionPolicy 'p' denied request: failed to configure policy"
        why = "failed to find resource referenced by paramKind: 'x.io/v1, Kind=Limit'"
        assert it.write() == f'configmaps "x" is forbidden: {named}: {why}'
        assert it.write(plural="secrets") == ""


async def test_failures_are_warned_about_and_recorded_without_denial(tmp_path: Path) -> None:
    async with bed(tmp_path) as it:
        await it.policy("true", "false")
        await it.binding("Warn", "Audit")
        assert it.write() == ""
        text = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': failed expression: false"
        assert it.warnings == [text]
        assert it.annotations == {
            "validation.policy.admission.k8s.io/validation_failure": '[{"message":"failed expression: false","policy":"p","binding":"b","expressionIndex":1,"validationActions":["Warn","Audit"]}]'
        }


async def test_audit_annotations_are_those_of_all_bindings(tmp_path: Path) -> None:
    values = {
        "name": "string(object.metadata.name)",
        "none": "null",
        "blank": "' '",
        "actor": "request.userInfo.username",
    }
    async with bed(tmp_path) as it:
        stated = [{"key": key, "valueExpression": value} for key, value in values.items()]
        await it.policy(
            auditAnnotations=[*stated, {"key": "limit", "valueExpression": "string(params.data.limit)"}],
            paramKind=_KIND,
        )
        for name, limit in (("l1", "1"), ("l2", "2"), ("l3", "2")):
            await it.create(CONFIG_MAPS, name, namespace="default", data={"limit": limit})
            await it.binding(name=name, paramRef={"name": name, "parameterNotFoundAction": "Deny"})
        assert it.write() == ""
        assert it.annotations == {"p/name": "x", "p/actor": "ann", "p/limit": "1, 2"}


async def test_audit_annotation_that_fails_denies_whatever_the_actions(tmp_path: Path) -> None:
    async with bed(tmp_path) as it:
        await it.policy(auditAnnotations=[{"key": "k", "valueExpression": "string(object.nothing)"}])
        await it.binding("Warn")
        assert it.write() == _denied("expression 'string(object.nothing)' resulted in error: no such key: nothing")


async def test_policies_of_an_earlier_program_hold_after_a_start(tmp_path: Path) -> None:
    async with bed(tmp_path) as it:
        await it.policy("false")
        await it.binding()
        again = Bed(it.api)
        assert again.write() == _denied("failed expression: false")


async def test_equivalent_version_is_seen_as_the_version_that_the_policy_names(tmp_path: Path) -> None:
    rule = {
        "apiGroups": ["autoscaling"],
        "apiVersions": ["v1"],
        "operations": ["*"],
        "resources": ["horizontalpodautoscalers"],
    }
    async with bed(tmp_path) as it:
        await it.policy(
            "object.spec.targetCPUUtilizationPercentage == 50 && request.kind.version == 'v1' && request.requestKind.version == 'v2'",
            rules=[rule],
        )
        await it.binding()
        metric: Document = {
            "type": "Resource",
            "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
        }
        scaler = {
            "kind": "HorizontalPodAutoscaler",
            "apiVersion": "autoscaling/v2",
            "metadata": {"name": "x"},
            "spec": {"scaleTargetRef": {"kind": "A", "name": "a"}, "maxReplicas": 2, "metrics": [metric]},
            "status": {},
        }
        assert it.write(scaler, plural="horizontalpodautoscalers.autoscaling") == ""
        metric["resource"]["target"]["averageUtilization"] = 51
        assert "denied request" in it.write(scaler, plural="horizontalpodautoscalers.autoscaling")


async def test_handlers_ask_before_every_kind_of_write(tmp_path: Path) -> None:
    """The whole path: what is denied is not stored, and the error is the policy's."""
    pods = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}
    maps = as_documents(CONFIG_MAPS)
    async with bed(tmp_path) as it:
        client = it.api.client
        await it.create(CONFIG_MAPS, "x", namespace="default", data={"a": "1"})
        await it.policy(
            "request.operation != 'DELETE' || oldObject.data.a != '1'",
            "request.operation != 'UPDATE' || object.data.a == oldObject.data.a || !has(request.options.kind)",
            "request.operation != 'CREATE' || object.metadata.uid != '' && object.metadata.name.startsWith('made-')",
            rules=[pods],
        )
        await it.binding()
        for write in (
            client.create(maps, {"metadata": {"name": "y"}}, namespace="default"),
            client.patch(maps, "x", {"data": {"a": "2"}}, namespace="default", patch_type=PatchType.MERGE),
            client.delete(maps, "x", namespace="default"),
        ):
            with pytest.raises(Invalid) as caught:
                await write
            assert "ValidatingAdmissionPolicy 'p' with binding 'b' denied request" in caught.value.message
        listed = await client.list(maps, namespace="default")
        assert [each["data"] for each in listed.items if each["metadata"]["name"] in "xy"] == [{"a": "1"}]
        made = await client.create(maps, {"metadata": {"generateName": "made-"}}, namespace="default")
        assert made["metadata"]["name"].startswith("made-")
