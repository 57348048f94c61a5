"""Evaluates one ValidatingAdmissionPolicy on one write: what it decides, and its audit annotations.

The expressions of a policy share a step budget per binding, and each has a limit of its own. Variables are evaluated
when they are first used, and once.

Upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/validating/validator.go,
staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/validating/plugin.go,
staging/src/k8s.io/apiserver/pkg/cel/lazy/lazy.go
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pykubelet.api.cel.admission import AdmissionExpression
from pykubelet.api.cel.composition import PolicyCompiler
from pykubelet.api.cel.values import MISSING, CelError, add_kind, kind_of
from pykubelet.api.serializer import Document
from pykubelet.apiserver.admission.plugin.cel.condition import OUT_OF_BUDGET
from pykubelet.apiserver.admission.plugin.webhook.matchconditions import MatchConditionError, conditions_match

POLICY_STEPS = 1_000_000
"""The budget of a binding, that of a custom resource's rules; match conditions have a quarter more."""
EXPRESSION_STEPS = POLICY_STEPS // 10
"""What one expression may take, in upstream's proportion."""
_OVER_LIMIT = "operation cancelled: actual cost limit exceeded"
_MAX_MESSAGE_BYTES = 5 * 1024


class OverBudgetError(Exception):
    """The budget of the binding is exhausted; nothing more is evaluated."""


@dataclass(slots=True)
class StepBudget:
    """The steps that remain for the expressions of one binding."""

    left: int = POLICY_STEPS

    def run(self, expression: AdmissionExpression, values: Sequence[Any]) -> Any:
        """Returns the result or a CelError; raises OverBudgetError."""
        if expression.program is None:
            return CelError(f"compilation error: {expression.error}")
        result, left = expression.program.run(values, EXPRESSION_STEPS)
        self.left -= EXPRESSION_STEPS - max(left, 0)
        if self.left < 0:
            raise OverBudgetError
        return CelError(_OVER_LIMIT) if left < 0 else result


class LazyVariables:
    """The value of `variables`: a map whose values are evaluated at first use."""

    def __init__(self, expressions: Mapping[str, AdmissionExpression], budget: StepBudget) -> None:
        self._expressions, self._budget = expressions, budget
        self._found: dict[str, Any] = {}
        self.values: Sequence[Any] = ()
        """What the expressions of the variables see, this map among them."""

    def find(self, name: Any) -> Any:
        """Returns the value of a variable, evaluated once; raises CelError if that fails."""
        if name not in self._expressions:
            return MISSING
        if name not in self._found:
            self._found[name] = self._evaluated(name, self._expressions[name])
        value = self._found[name]
        if isinstance(value, CelError):
            raise value
        return value

    def _evaluated(self, name: str, expression: AdmissionExpression) -> Any:
        if expression.program is None:
            return CelError(f'composited variable "{name}" fails to compile: {expression.error}')
        result = self._budget.run(expression, self.values)
        if isinstance(result, CelError):
            return CelError(f'composited variable "{name}" fails to evaluate: {result.message}')
        return result

    def __iter__(self) -> Iterator[str]:
        return iter(self._expressions)

    def __len__(self) -> int:
        return len(self._expressions)

    def equals(self, other: Any, _frame: Any) -> bool:
        """Whether it is the same map."""
        return self is other


add_kind(LazyVariables, "map")


class PolicyInput(NamedTuple):
    """What a policy sees: the values of ADMISSION_VARIABLES, without and with the namespace, and the parameter."""

    for_conditions: tuple[Any, ...]
    values: tuple[Any, ...]
    params: Document | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """One validation that failed or could not be evaluated."""

    message: str
    reason: str = ""
    index: int = 0
    """The position of the validation."""


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """The refusals of a policy, the values of its audit annotations, and the errors of those that failed."""

    refusals: tuple[Refusal, ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    annotation_errors: tuple[str, ...] = ()


class _Validation(NamedTuple):
    stated: Document
    expression: AdmissionExpression
    message: AdmissionExpression | None


class PolicyEvaluator:
    """The compiled expressions of a policy, evaluated on one write at a time."""

    def __init__(self, spec: Document) -> None:
        self._has_params = "paramKind" in spec
        self._fails = spec.get("failurePolicy", "Fail") != "Ignore"
        compiler = PolicyCompiler(has_params=self._has_params)
        self._conditions = [compiler.condition(each["expression"].strip()) for each in spec.get("matchConditions", ())]
        self._variables = {
            each["name"]: compiler.add_variable(each["name"], each["expression"]) for each in spec.get("variables", ())
        }
        self._validations = [_compiled(each, compiler) for each in spec.get("validations", ())]
        self._annotations = [
            (each, compiler.audit_annotation(each["valueExpression"])) for each in spec.get("auditAnnotations", ())
        ]

    def validate(self, given: PolicyInput, budget: StepBudget) -> PolicyResult:
        """Evaluates the policy; what fails to evaluate refuses the write, or nothing if the failure policy is Ignore."""
        params = (given.params,) if self._has_params else ()
        try:
            if not conditions_match(self._conditions, (*given.for_conditions, *params), fails=self._fails):
                return PolicyResult()
        except MatchConditionError as error:
            return PolicyResult((Refusal(str(error)),))
        variables = LazyVariables(self._variables, budget)
        variables.values = (*given.values, *params, variables)
        try:
            refusals = tuple(self._refusals(variables, budget))
            return PolicyResult(refusals, *self._annotated(variables, budget))
        except OverBudgetError:
            return PolicyResult((Refusal(OUT_OF_BUDGET),)) if self._fails else PolicyResult()

    def _refusals(self, variables: LazyVariables, budget: StepBudget) -> Iterator[Refusal]:
        # All validations run before any message, so that messages cannot take their budget.
        results = [budget.run(each.expression, variables.values) for each in self._validations]
        for index, (each, result) in enumerate(zip(self._validations, results, strict=True)):
            if isinstance(result, CelError):
                if self._fails:
                    yield Refusal(_failure(each.expression, result), index=index)
            elif result is not True:
                message = self._message(each, variables, budget)
                yield Refusal(message, each.stated.get("reason") or "Invalid", index)

    def _message(self, validation: _Validation, variables: LazyVariables, budget: StepBudget) -> str:
        """The result of the message expression, else the message, else the expression."""
        if validation.message is not None:
            values = variables.values
            # Message expressions have no authorizer.
            result = budget.run(validation.message, (*values[:4], *values[6:]))
            text = result.strip() if isinstance(result, str) else ""
            if text and "\n" not in text and len(text.encode(errors="replace")) <= _MAX_MESSAGE_BYTES:
                return text
        stated: str = validation.stated.get("message", "").strip()
        return stated or f"failed expression: {validation.expression.text.strip()}"

    def _annotated(
        self, variables: LazyVariables, budget: StepBudget
    ) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
        found: list[tuple[str, str]] = []
        errors: list[str] = []
        for stated, expression in self._annotations:
            result = budget.run(expression, variables.values)
            if isinstance(result, CelError):
                errors += [_failure(expression, result)] if self._fails else []
            elif isinstance(result, str):
                found += [(stated["key"], text)] if (text := result.strip()) else []
            elif result is not None:
                errors.append(
                    f"valueExpression '{expression.text}' resulted in unsupported return type: "
                    f"{kind_of(type(result))}. Return type must be either string or null."
                )
        return tuple(found), tuple(errors)


def _compiled(stated: Document, compiler: PolicyCompiler) -> _Validation:
    message = stated.get("messageExpression", "")
    return _Validation(
        stated, compiler.validation(stated["expression"]), compiler.message(message) if message.strip() else None
    )


def _failure(expression: AdmissionExpression, error: CelError) -> str:
    if expression.program is None:
        return error.message
    return f"expression '{expression.text}' resulted in error: {error.message}"
