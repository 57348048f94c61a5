"""The rules of a schema, compiled: each expression, and what to say if it does not hold.

In: a schema. Out: a tree of the same shape with programs in it, where there are rules.

Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/compilation.go
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from pykubelet.api.wire import Document
from pykubelet.apiserver.custom.cel.faults import ExpressionError
from pykubelet.apiserver.custom.cel.program import InstantiationError, Program, compile_expression
from pykubelet.apiserver.custom.cel.schema_types import schema_type
from pykubelet.apiserver.custom.cel.types import BOOL, STRING, Type, optional_of
from pykubelet.apiserver.custom.field_paths import FieldPathError, shown_field_path
from pykubelet.apiserver.custom.schema import Schema

OLD_SELF = "oldSelf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule; either it has a program or there is a complaint about it."""

    stated: Document
    program: Program | None = None
    complaint: str = ""
    message_program: Program | None = None
    message_complaint: str = ""
    field: str = ""
    """Which field inside it is about, as complaints show it."""

    @property
    def uses_old_self(self) -> bool:
        """Whether it is about a change."""
        return self.program is not None and OLD_SELF in self.program.names

    @property
    def has_optional_old_self(self) -> bool:
        """Whether it is also about values that were not there before."""
        return bool(self.stated.get("optionalOldSelf"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleNode:
    """The rules of one schema, and those further inside."""

    schema: Schema
    is_resource: bool
    rules: tuple[Rule, ...]
    complaint: str = ""
    """Why rules here could not be compiled at all."""
    items: "RuleNode | None" = None
    additional: "RuleNode | None" = None
    properties: Mapping[str, "RuleNode"]


@lru_cache(maxsize=256)
def resource_rules(schema: Schema) -> RuleNode | None:
    """The rules of a whole resource, compiled once for each schema."""
    return compile_rules(schema, is_resource=True)


def compile_rules(schema: Schema | None, *, is_resource: bool) -> RuleNode | None:
    """The rules of a schema; None if it has none."""
    if schema is None or not schema.has_rules:
        return None
    inner = {key: compile_rules(each, is_resource=each.embedded) for key, each in schema.properties.items()}
    items, additional = schema.items, schema.additional_schema
    type_ = schema_type(schema, is_resource=is_resource) if schema.rules else None
    return RuleNode(
        schema=schema,
        is_resource=is_resource,
        rules=tuple(_with_field(compile_rule(stated, type_), schema) for stated in schema.rules) if type_ else (),
        complaint="failed to convert to declType for CEL validation rules" if schema.rules and not type_ else "",
        items=compile_rules(items, is_resource=items is not None and items.embedded),
        additional=compile_rules(additional, is_resource=additional is not None and additional.embedded),
        properties={key: each for key, each in inner.items() if each is not None},
    )


def _with_field(rule: Rule, schema: Schema) -> Rule:
    path = rule.stated.get("fieldPath", "")
    try:
        return replace(rule, field=shown_field_path(path, schema, _inside)) if path else rule
    except FieldPathError:
        return rule


def _inside(schema: Schema) -> tuple[Mapping[str, Schema], Schema | bool | None]:
    return schema.properties, schema.additional


def compile_rule(stated: Document, type_: Type) -> Rule:
    """One rule about values of a type."""
    text, message = stated.get("rule", ""), stated.get("messageExpression", "")
    if not text.strip():
        return Rule(stated=stated)
    variables = {"self": type_, OLD_SELF: optional_of(type_) if stated.get("optionalOldSelf") else type_}
    try:
        program = compile_expression(text, variables)
    except ExpressionError as error:
        return Rule(stated=stated, complaint=f"compilation failed: {error}")
    except InstantiationError as error:
        return Rule(stated=stated, complaint=f"program instantiation failed: {error}")
    if program.result != BOOL:
        return Rule(stated=stated, complaint="cel expression must evaluate to a bool")
    if not message:
        return Rule(stated=stated, program=program)
    try:
        message_program = compile_expression(message, variables)
    except ExpressionError as error:
        complaint = f"messageExpression compilation failed: {error}"
        return Rule(stated=stated, program=program, message_complaint=complaint)
    except InstantiationError as error:
        complaint = f"messageExpression instantiation failed: {error}"
        return Rule(stated=stated, program=program, message_complaint=complaint)
    if message_program.result != STRING:
        complaint = "messageExpression must evaluate to a string"
        return Rule(stated=stated, program=program, message_complaint=complaint)
    return Rule(stated=stated, program=program, message_program=message_program)
