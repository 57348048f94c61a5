"""Evaluates the CEL expressions of admission on a request.

Upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/cel/condition.go,
staging/src/k8s.io/apiserver/pkg/admission/plugin/cel/activation.go
"""

from collections.abc import Callable
from typing import Any

from pykubelet.api.cel.admission import AdmissionExpression
from pykubelet.api.cel.library.authz import AccessDecision, AccessQuestion, AuthorizerValue, ResourceCheck
from pykubelet.api.cel.values import CelError
from pykubelet.api.serializer import Document
from pykubelet.apiserver.admission.interfaces import AdmissionAttributes
from pykubelet.apiserver.request import (
    AuthorizationAttributes,
    AuthorizationDecision,
    UserInfo,
    account_groups,
    account_name,
)

MATCH_CONDITIONS_STEPS = 250_000
"""The budget of all match conditions of one webhook or policy, as upstream a quarter of a schema's."""
OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"


def evaluate(expression: AdmissionExpression, values: tuple[Any, ...], steps: int) -> tuple[Any, int]:
    """Returns the result, or a CelError with upstream's message, and the steps left: negative if they did not suffice."""
    if expression.program is None:
        return CelError(f"compilation error: {expression.error}"), steps
    result, steps = expression.program.run(values, steps)
    if steps < 0:
        return CelError(OUT_OF_BUDGET), steps
    if isinstance(result, CelError):
        result = CelError(f"expression '{expression.text}' resulted in error: {result.message}")
    return result, steps


def admission_values(
    attributes: AdmissionAttributes,
    request: Document,
    new: Document | None,
    old: Document | None,
    *,
    authorize: Callable[[AuthorizationAttributes], AuthorizationDecision],
    namespace: Document | None = None,
) -> tuple[Any, ...]:
    """The values of ADMISSION_VARIABLES; `request` is the AdmissionRequest without its objects."""

    def ask(question: AccessQuestion) -> AccessDecision:
        decision = authorize(_authorization(question, attributes.user))
        return AccessDecision(decision.allowed, decision.reason)

    resource = attributes.served.resource
    own = AccessQuestion(
        group=resource.group,
        resource=resource.plural,
        subresource=attributes.subresource,
        namespace=attributes.namespace,
        name=attributes.name,
    )
    return new, old, namespace, request, AuthorizerValue(ask), ResourceCheck(ask, own)


def _authorization(question: AccessQuestion, user: UserInfo) -> AuthorizationAttributes:
    if question.account is not None:
        namespace, name = question.account
        user = UserInfo(account_name(namespace, name), account_groups(namespace))
    return AuthorizationAttributes(
        user=user,
        verb=question.verb,
        path=question.path,
        group=question.group,
        version="" if question.path else "*",
        resource=question.resource,
        subresource=question.subresource,
        namespace=question.namespace,
        name=question.name,
        fields=question.fields,
        labels=question.labels,
    )
