"""Compiles the expressions of one policy, whose variables are visible to its later expressions.

Upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/cel/composition.go
"""

from collections.abc import Mapping

from pykubelet.api.cel.admission import (
    ADMISSION_VARIABLES,
    COMPILATION_FAILED,
    AdmissionExpression,
    compile_admission,
    compile_condition,
)
from pykubelet.api.cel.types import BOOL, DYN, NULL, STRING, Type, object_type

VARIABLES = "variables"
_PARAMS = "params"
_AUTHORIZERS = ("authorizer", "authorizer.requestResource")
_COMPOSED = frozenset({"bool", "bytes", "double", "duration", "int", "null_type", "string", "timestamp", "uint"})


class PolicyCompiler:
    """Compiles the expressions of one policy. Its variables are fields of `variables`, visible to later expressions."""

    def __init__(
        self, *, has_params: bool, composes: bool = True, variables: Mapping[str, Type] = ADMISSION_VARIABLES
    ) -> None:
        self._composed: dict[str, Type] = {}
        self._plain: dict[str, Type] = {**variables, **({_PARAMS: DYN} if has_params else {})}
        composed = {VARIABLES: object_type("kubernetes.variables", self._composed)} if composes else {}
        self._variables = {**self._plain, **composed}
        self._in_messages = {name: each for name, each in self._variables.items() if name not in _AUTHORIZERS}

    def condition(self, text: str) -> AdmissionExpression:
        """Compiles a match condition, which cannot use the policy's variables."""
        return compile_condition(text, self._plain)

    def add_variable(self, name: str, text: str) -> AdmissionExpression:
        """Compiles a variable. One that does not compile has type dyn, so that its users report no second error."""
        compiled = compile_admission(text, self._variables)
        self._composed[name] = _composed(DYN if compiled.program is None else compiled.program.result)
        return compiled

    def validation(self, text: str) -> AdmissionExpression:
        return compile_admission(text, self._variables, BOOL)

    def audit_annotation(self, text: str) -> AdmissionExpression:
        return compile_admission(text, self._variables, STRING, NULL)

    def message(self, text: str) -> AdmissionExpression:
        """Compiles a message expression, which has no authorizer."""
        return compile_admission(text, self._in_messages, STRING)

    def type_error(self, text: str) -> str:
        """Why an expression does not compile; empty if it does, whatever its result."""
        compiled = compile_admission(text, self._variables)
        is_checked = compiled.error.startswith(COMPILATION_FAILED)
        return compiled.error.removeprefix(COMPILATION_FAILED) if is_checked else ""


def _composed(given: Type) -> Type:
    """The type of a variable as later expressions see it: objects are dynamic."""
    if given.kind in _COMPOSED:
        return given
    if given.kind in {"list", "map"}:
        return Type(given.kind, given.name, tuple(map(_composed, given.params)))
    return DYN
