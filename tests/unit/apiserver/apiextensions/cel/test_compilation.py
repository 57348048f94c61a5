"""Validation rules of definitions that are created or changed: invalid rules are refused."""

from typing import Any

import pytest

from pykubelet.apiserver.apiextensions.validation.customresourcedefinition import (
    definition_errors,
    definition_update_errors,
)
from widgets import definition, version

_AT = "spec.validation.openAPIV3Schema.properties[spec]"
_RULES = f"{_AT}.x-kubernetes-validations[0]"


def _errors(spec: dict[str, Any]) -> list[str]:
    stated = {"type": "object", "properties": {"spec": {"type": "object", **spec}}}
    return [str(error) for error in definition_errors(definition(version(schema={"openAPIV3Schema": stated})))]


def _ruled(properties: dict[str, Any] | None = None, **rule: Any) -> dict[str, Any]:
    return {"properties": properties or {"n": {"type": "integer"}}, "x-kubernetes-validations": [rule]}


def _shown(rule: str, message: str = "") -> str:
    return (
        f'{{"Rule":"{rule}","Message":"","MessageExpression":"{message}","Reason":null,"FieldPath":"",'
        '"OptionalOldSelf":null}'
    )


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        (_ruled(rule="self.n == 1"), []),
        (
            _ruled(rule="self.m == 1"),
            [
                (
                    f"{_RULES}.rule: Invalid value: {_shown('self.m == 1')}: compilation failed: "
                    "ERROR: <input>:1:5: undefined field 'm'\n | self.m == 1\n | ....^"
                )
            ],
        ),
        (
            _ruled(rule="self.n"),
            [f"{_RULES}.rule: Invalid value: {_shown('self.n')}: cel expression must evaluate to a bool"],
        ),
        (
            _ruled(rule="self.n == 1", messageExpression="self.n"),
            [
                (
                    f"{_RULES}.messageExpression: Invalid value: {_shown('self.n == 1', 'self.n')}: "
                    "messageExpression must evaluate to a string"
                )
            ],
        ),
        (
            _ruled(rule="true", messageExpression="x"),
            [
                (
                    f"{_RULES}.messageExpression: Invalid value: {_shown('true', 'x')}: messageExpression compilation "
                    "failed: ERROR: <input>:1:1: undeclared reference to 'x' (in container '')\n | x\n | ^"
                )
            ],
        ),
        (
            _ruled({"s": {"type": "string"}}, rule="self.s.find('(') == ''"),
            [
                (
                    f"""{_RULES}.rule: Invalid value: {_shown("self.s.find('(') == ''")}: program instantiation failed: """
                    "error parsing regexp: missing closing ): `(`"
                )
            ],
        ),
        (
            _ruled({"s": {"type": "string"}}, rule="true", messageExpression="self.s.find('(')"),
            [
                (
                    f"""{_RULES}.messageExpression: Invalid value: {_shown("true", "self.s.find('(')")}: messageExpression """
                    "instantiation failed: error parsing regexp: missing closing ): `(`"
                )
            ],
        ),
        (
            _ruled(rule="true", optionalOldSelf=True),
            [f"{_RULES}.optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule"],
        ),
        (_ruled(rule="oldSelf.hasValue()", optionalOldSelf=True), []),
        (
            _ruled(rule="true", fieldPath=".nope"),
            [f'{_RULES}.fieldPath: Invalid value: ".nope": must be a valid path'],
        ),
        (_ruled(rule="true", fieldPath=".n"), []),
        (
            _ruled(
                {"m": {"type": "object", "additionalProperties": {"type": "string"}}},
                rule="true",
                fieldPath=".m['a.b']",
            ),
            [],
        ),
        (
            _ruled({"n": {"type": "integer"}}, rule="true", fieldPath="n"),
            [f'{_RULES}.fieldPath: Invalid value: "n": must be a valid path'],
        ),
    ],
    ids=lambda value: str(value)[:70],
)
def test_invalid_rule_of_a_definition_is_refused(spec: dict[str, Any], wanted: list[str]) -> None:
    """The error names the field of the rule; valid rules give no error."""
    assert _errors(spec) == wanted


def test_transition_rules_need_correlatable_items() -> None:
    """Items of a plain list have no old value to compare with; values of a map do."""
    rule = [{"rule": "self == oldSelf"}]
    inner = {"type": "string", "x-kubernetes-validations": rule}
    wanted = (
        f'{_AT}.properties[l].items.x-kubernetes-validations[0].rule: Invalid value: "self == oldSelf": oldSelf cannot '
        f"be used on the uncorrelatable portion of the schema within {_AT}.properties[l]"
    )
    assert _errors({"properties": {"l": {"type": "array", "items": inner}}}) == [wanted]
    assert _errors({"properties": {"m": {"type": "object", "additionalProperties": inner}}}) == []


def test_rules_need_values_whose_schema_is_known() -> None:
    """A rule on a value without a type does not compile, nor does one that reads such a value."""
    kept = {"x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-validations": [{"rule": "true"}]}
    assert _errors({"properties": {"x": kept}}) == [
        (
            f"{_AT}.properties[x].x-kubernetes-validations: Internal error: internal error: failed to construct type "
            "information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations"
        )
    ]
    hidden = {"x": {"x-kubernetes-preserve-unknown-fields": True}}
    assert "undefined field 'x'" in _errors(_ruled(hidden, rule="has(self.x)"))[0]


def test_defaults_must_satisfy_the_rules() -> None:
    """This includes rules with optionalOldSelf, for which a default has no old value."""
    number = {"type": "integer", "default": 5, "x-kubernetes-validations": [{"rule": "self > 9", "message": "small"}]}
    assert _errors({"properties": {"n": number}}) == [f'{_AT}.properties[n].default: Invalid value: "integer": small']
    starts = {"rule": "oldSelf.hasValue() || self > 9", "message": "starts small", "optionalOldSelf": True}
    assert _errors({"properties": {"n": {**number, "x-kubernetes-validations": [starts]}}}) == [
        f'{_AT}.properties[n].default: Invalid value: "integer": starts small'
    ]
    assert _errors({"properties": {"n": {**number, "default": 10}}}) == []


def test_rules_of_a_changed_definition_are_checked_too() -> None:
    """An update may add a rule."""
    old = definition()
    stated = {"type": "object", "x-kubernetes-validations": [{"rule": "1"}]}
    new = definition(version(schema={"openAPIV3Schema": stated}))
    errors = definition_update_errors(new, old)
    assert [error.detail for error in errors if "x-kubernetes" in error.field] == [
        "cel expression must evaluate to a bool"
    ]
