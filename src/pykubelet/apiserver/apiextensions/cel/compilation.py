"""Compiles the CEL rules of a schema (x-kubernetes-validations) and validates them.

The result is a tree parallel to the schema, with programs where there are rules.

Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/compilation.go,
staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from pykubelet.api.cel.interpreter import CelProgram, InstantiationError, compile_expression
from pykubelet.api.cel.types import BOOL, STRING, Type, optional_of
from pykubelet.api.cel.values import ExpressionError
from pykubelet.api.field_errors import FieldError, internal_error, invalid
from pykubelet.api.serializer import Document
from pykubelet.apiserver.apiextensions.cel.unstructured import schema_type
from pykubelet.apiserver.apiextensions.schema.structural import (
    VALIDATIONS,
    FieldPathError,
    Structural,
    display_field_path,
)

OLD_SELF = "oldSelf"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledRule:
    """One rule: a program, or the error of its compilation."""

    stated: Document
    program: CelProgram | None = None
    error: str = ""
    message_program: CelProgram | None = None
    message_error: str = ""
    field: str = ""
    """The field the rule refers to, as errors show it."""

    @property
    def uses_old_self(self) -> bool:
        """Whether it is a transition rule."""
        return self.program is not None and OLD_SELF in self.program.names


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleNode:
    """The rules of one schema node and its descendants."""

    schema: Structural
    is_resource: bool
    rules: tuple[CompiledRule, ...]
    error: str = ""
    """Why the rules of this node could not be compiled at all."""
    items: "RuleNode | None" = None
    additional: "RuleNode | None" = None
    properties: Mapping[str, "RuleNode"]


@lru_cache(maxsize=256)
def resource_rules(schema: Structural) -> RuleNode | None:
    """Compiles the rules of a resource, once per schema."""
    return compile_rules(schema, is_resource=True)


def compile_rules(schema: Structural | None, *, is_resource: bool) -> RuleNode | None:
    """Compiles the rules of a schema; None if it has none."""
    if schema is None or not schema.has_rules:
        return None
    inner = {key: compile_rules(each, is_resource=each.embedded) for key, each in schema.properties.items()}
    items, additional = schema.items, schema.additional_schema
    type_ = schema_type(schema, is_resource=is_resource) if schema.rules else None
    return RuleNode(
        schema=schema,
        is_resource=is_resource,
        rules=tuple(_with_field(compile_rule(stated, type_), schema) for stated in schema.rules) if type_ else (),
        error="failed to convert to declType for CEL validation rules" if schema.rules and not type_ else "",
        items=compile_rules(items, is_resource=items is not None and items.embedded),
        additional=compile_rules(additional, is_resource=additional is not None and additional.embedded),
        properties={key: each for key, each in inner.items() if each is not None},
    )


def _with_field(rule: CompiledRule, schema: Structural) -> CompiledRule:
    path = rule.stated.get("fieldPath", "")
    try:
        return replace(rule, field=display_field_path(path, schema, _inside)) if path else rule
    except FieldPathError:
        return rule


def _inside(schema: Structural) -> tuple[Mapping[str, Structural], Structural | bool | None]:
    return schema.properties, schema.additional


def compile_rule(stated: Document, type_: Type) -> CompiledRule:
    """Compiles one rule on values of a type."""
    text, message = stated.get("rule", ""), stated.get("messageExpression", "")
    if not text.strip():
        return CompiledRule(stated=stated)
    variables = {"self": type_, OLD_SELF: optional_of(type_) if stated.get("optionalOldSelf") else type_}
    program, problem = _compiled(text, variables)
    if program is not None and program.result != BOOL:
        problem = "cel expression must evaluate to a bool"
    if problem:
        return CompiledRule(stated=stated, error=problem)
    if not message:
        return CompiledRule(stated=stated, program=program)
    message_program, problem = _compiled(message, variables, "messageExpression ")
    if message_program is not None and message_program.result != STRING:
        message_program, problem = None, "messageExpression must evaluate to a string"
    return CompiledRule(stated=stated, program=program, message_program=message_program, message_error=problem)


def _compiled(text: str, variables: Mapping[str, Type], prefix: str = "") -> tuple[CelProgram | None, str]:
    """Returns the program of an expression, or None and why it cannot be compiled."""
    try:
        return compile_expression(text, variables), ""
    except ExpressionError as error:
        return None, f"{prefix}compilation failed: {error}"
    except InstantiationError as error:
        return None, f"{prefix or 'program '}instantiation failed: {error}"


_NO_TYPE = (
    "internal error: failed to construct type information for x-kubernetes-validations rules: "
    "unable to convert structural schema to CEL declarations"
)
# Go's field names, which messages show.
_SHOWN = {"Rule": "rule", "Message": "message", "MessageExpression": "messageExpression"}


def rule_definition_errors(schema: Structural, path: str) -> list[FieldError]:
    """Validates the rules of a schema at any depth."""
    return list(_errors(schema, path, is_resource=True, uncorrelated=""))


def _errors(schema: Structural, path: str, *, is_resource: bool, uncorrelated: str) -> Iterator[FieldError]:
    if not schema.has_rules:
        return
    if (additional := schema.additional_schema) is not None:
        at = f"{path}.additionalProperties"
        yield from _errors(additional, at, is_resource=additional.embedded, uncorrelated=uncorrelated)
    for name, each in schema.properties.items():
        at = f"{path}.properties[{name}]"
        yield from _errors(each, at, is_resource=each.embedded, uncorrelated=uncorrelated)
    if (items := schema.items) is not None:
        # Only list map items can be correlated with their old value.
        unknown = uncorrelated or ("" if schema.list_type == "map" else path)
        yield from _errors(items, f"{path}.items", is_resource=items.embedded, uncorrelated=unknown)
    if not schema.rules:
        return
    type_ = schema_type(schema, is_resource=is_resource)
    if type_ is None:
        yield internal_error(f"{path}.{VALIDATIONS}", _NO_TYPE)
        return
    for index, stated in enumerate(schema.rules):
        yield from _rule_errors(compile_rule(stated, type_), f"{path}.{VALIDATIONS}[{index}]", uncorrelated)


def _rule_errors(rule: CompiledRule, path: str, uncorrelated: str) -> Iterator[FieldError]:
    if rule.error:
        yield invalid(f"{path}.rule", _shown(rule.stated), rule.error)
    if rule.message_error:
        yield invalid(f"{path}.messageExpression", _shown(rule.stated), rule.message_error)
    if rule.uses_old_self:
        if uncorrelated:
            detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelated}"
            yield invalid(f"{path}.rule", rule.stated["rule"], detail)
    elif (optional := rule.stated.get("optionalOldSelf")) is not None:
        yield invalid(f"{path}.optionalOldSelf", optional, "may not be set if oldSelf is not used in rule")


def _shown(stated: Document) -> Document:
    return {
        **{name: stated.get(key, "") for name, key in _SHOWN.items()},
        "Reason": stated.get("reason"),
        "FieldPath": stated.get("fieldPath", ""),
        "OptionalOldSelf": stated.get("optionalOldSelf"),
    }
