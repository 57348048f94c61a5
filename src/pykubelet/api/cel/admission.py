"""The variables of admission's CEL expressions, and their compilation with upstream's errors.

Upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/cel/compile.go
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pykubelet.api.cel.interpreter import CelProgram, InstantiationError, compile_expression
from pykubelet.api.cel.types import (
    BOOL,
    DYN,
    INT,
    OBJECTS,
    STRING,
    TIMESTAMP,
    Type,
    list_of,
    map_of,
    object_type,
    runtime_name,
)
from pykubelet.api.cel.values import ExpressionError

COMPILATION_FAILED = "compilation failed: "
# The word is reserved; the checker looks for the escaped name.
_NAMESPACE_FIELD = "__namespace__"
_TEXTS, _LABELS = list_of(STRING), map_of(STRING, STRING)


def _texts(*names: str) -> dict[str, Type]:
    return dict.fromkeys(names, STRING)


_KIND = object_type("kubernetes.GroupVersionKind", _texts("group", "version", "kind"))
_RESOURCE = object_type("kubernetes.GroupVersionResource", _texts("group", "version", "resource"))
_USER = object_type(
    "kubernetes.UserInfo", {**_texts("username", "uid"), "groups": _TEXTS, "extra": map_of(STRING, _TEXTS)}
)
_REQUEST = object_type(
    "kubernetes.AdmissionRequest",
    {
        "kind": _KIND,
        "resource": _RESOURCE,
        "requestKind": _KIND,
        "requestResource": _RESOURCE,
        **_texts("subResource", "requestSubResource", "name", _NAMESPACE_FIELD, "operation"),
        "userInfo": _USER,
        "dryRun": BOOL,
        "options": DYN,
    },
)
_NAMESPACE_METADATA = {
    **_texts("name", "generateName", _NAMESPACE_FIELD, "UID", "resourceVersion"),
    "labels": _LABELS,
    "annotations": _LABELS,
    **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), TIMESTAMP),
    **dict.fromkeys(("deletionGracePeriodSeconds", "generation"), INT),
    "finalizers": _TEXTS,
}
_NAMESPACE_CONDITION = {**_texts("status", "type", "message", "reason"), "lastTransitionTime": TIMESTAMP}
_NAMESPACE = object_type(
    "kubernetes.Namespace",
    {
        "metadata": object_type("kubernetes.NamespaceMetadata", _NAMESPACE_METADATA),
        "spec": object_type("kubernetes.NamespaceSpec", {"finalizers": _TEXTS}),
        "status": object_type(
            "kubernetes.NamespaceStatus",
            {
                "conditions": list_of(object_type("kubernetes.NamespaceCondition", _NAMESPACE_CONDITION)),
                "phase": STRING,
            },
        ),
    },
)
ADMISSION_VARIABLES: Mapping[str, Type] = {
    "object": DYN,
    "oldObject": DYN,
    "namespaceObject": _NAMESPACE,
    "request": _REQUEST,
    "authorizer": OBJECTS["kubernetes.authorization.Authorizer"],
    "authorizer.requestResource": OBJECTS["kubernetes.authorization.ResourceCheck"],
}
"""The variables of every expression of admission, in the order in which values are passed."""


@dataclass(frozen=True, slots=True)
class AdmissionExpression:
    """An expression: its program, or the error of its compilation."""

    text: str
    program: CelProgram | None = None
    error: str = ""


def compile_admission(text: str, variables: Mapping[str, Type], *results: Type) -> AdmissionExpression:
    """Compiles an expression whose result has one of these types, or any if there are none."""
    try:
        program = compile_expression(text, variables)
    except ExpressionError as error:
        return AdmissionExpression(text, error=f"{COMPILATION_FAILED}{error}")
    except InstantiationError as error:
        return AdmissionExpression(text, error=f"program instantiation failed: {error}")
    if results and program.result not in results:
        names = list(map(runtime_name, results))
        wanted = names[0] if len(names) == 1 else f"one of [{' '.join(names)}]"
        return AdmissionExpression(text, error=f"must evaluate to {wanted} but got {runtime_name(program.result)}")
    return AdmissionExpression(text, program)


def compile_condition(text: str, variables: Mapping[str, Type] = ADMISSION_VARIABLES) -> AdmissionExpression:
    """Compiles a match condition."""
    return compile_admission(text, variables, BOOL)
