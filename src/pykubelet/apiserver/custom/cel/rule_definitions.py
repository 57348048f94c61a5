"""Whether the rules of a definition can be evaluated at all.

In: a schema that was found valid otherwise. Out: complaints.

Upstream: ValidateCustomResourceDefinitionOpenAPISchema in
staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go
"""

from collections.abc import Iterator

from pykubelet.api.validation.field_errors import FieldError, internal_error, invalid
from pykubelet.api.wire import Document
from pykubelet.apiserver.custom.cel.rules import Rule, compile_rule
from pykubelet.apiserver.custom.cel.schema_types import schema_type
from pykubelet.apiserver.custom.schema import VALIDATIONS, Schema

_NO_TYPE = (
    "internal error: failed to construct type information for x-kubernetes-validations rules: "
    "unable to convert structural schema to CEL declarations"
)
# As the fields are called in Go, which complaints show.
_SHOWN = {"Rule": "rule", "Message": "message", "MessageExpression": "messageExpression"}


def rule_definition_errors(schema: Schema, path: str) -> list[FieldError]:
    """What is wrong with the rules of a schema, here and further inside."""
    return list(_errors(schema, path, is_resource=True, uncorrelated=""))


def _errors(schema: Schema, path: str, *, is_resource: bool, uncorrelated: str) -> Iterator[FieldError]:
    if not schema.has_rules:
        return
    if (additional := schema.additional_schema) is not None:
        at = f"{path}.additionalProperties"
        yield from _errors(additional, at, is_resource=additional.embedded, uncorrelated=uncorrelated)
    for name, each in schema.properties.items():
        at = f"{path}.properties[{name}]"
        yield from _errors(each, at, is_resource=each.embedded, uncorrelated=uncorrelated)
    if (items := schema.items) is not None:
        # Which item was which before is known by keys alone.
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


def _rule_errors(rule: Rule, path: str, uncorrelated: str) -> Iterator[FieldError]:
    if rule.complaint:
        yield invalid(f"{path}.rule", _shown(rule.stated), rule.complaint)
    if rule.message_complaint:
        yield invalid(f"{path}.messageExpression", _shown(rule.stated), rule.message_complaint)
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
