"""Match conditions: CEL expressions that must all be true for a webhook or policy to be asked.

Upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions/matcher.go
"""

from collections.abc import Sequence
from typing import Any

from pykubelet.api.cel.admission import AdmissionExpression, compile_condition
from pykubelet.api.cel.values import CelError
from pykubelet.api.field_errors import aggregate_messages
from pykubelet.api.serializer import Document
from pykubelet.apiserver.admission.plugin.cel.condition import MATCH_CONDITIONS_STEPS, evaluate


class MatchConditionError(Exception):
    """A condition cannot be evaluated, and the failure policy is Fail."""


def compile_conditions(stated: Sequence[Document]) -> tuple[AdmissionExpression, ...]:
    """Compiles the matchConditions of a webhook or policy."""
    return tuple(compile_condition(condition["expression"]) for condition in stated)


def conditions_match(conditions: Sequence[AdmissionExpression], values: tuple[Any, ...], *, fails: bool) -> bool:
    """Whether all conditions are true; raises MatchConditionError if one fails, none is false, and `fails`.

    `values` are those of `admission_values`; `fails` is whether the failure policy is Fail.
    """
    steps, failures = MATCH_CONDITIONS_STEPS, []
    for condition in conditions:
        result, steps = evaluate(condition, values, steps)
        if result is False:
            return False
        if isinstance(result, CelError):
            failures.append(result.message)
        if steps < 0:
            failures = failures[-1:]
            break
    if failures and fails:
        raise MatchConditionError(aggregate_messages(failures))
    return not failures
