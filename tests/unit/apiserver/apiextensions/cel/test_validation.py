"""Validation rules of a definition, as the strategy of its custom resource applies them to objects."""

from typing import Any

import pytest

from pykubelet.apiserver.apiextensions.cel import validation
from pykubelet.apiserver.apiextensions.controller import served_rows
from pykubelet.apiserver.apiextensions.status import with_accepted_names
from pykubelet.kinds.kind import Strategy
from widgets import NOW, definition, version, widget

_INTEGER = {"type": "integer"}
_STRING = {"type": "string"}


def _strategy(spec: dict[str, Any], **root: Any) -> Strategy:
    stated = {"type": "object", "properties": {"spec": {"type": "object", **spec}, **root.pop("fields", {})}, **root}
    row = version(schema={"openAPIV3Schema": stated}, subresources={"status": {}})
    return served_rows(with_accepted_names(definition(row), [], NOW))[0].strategy


def _rule(text: str, **more: Any) -> list[dict[str, Any]]:
    return [{"rule": text, **more}]


def _with(rules: list[dict[str, Any]], **properties: Any) -> dict[str, Any]:
    return {"properties": properties, "x-kubernetes-validations": rules}


def _created(strategy: Strategy, **spec: Any) -> list[str]:
    return [str(error) for error in strategy.validate_create(widget(**spec))]


def _updated(strategy: Strategy, new: dict[str, Any], old: dict[str, Any]) -> list[str]:
    return [str(error) for error in strategy.validate_update(widget(**new), widget(**old))]


_REPLICAS = {"minReplicas": _INTEGER, "replicas": _INTEGER}
_LE = "self.minReplicas <= self.replicas"


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        ({}, f'spec: Invalid value: "object": failed rule: {_LE}'),
        ({"message": " too few "}, 'spec: Invalid value: "object": too few'),
        ({"messageExpression": "'want ' + string(self.minReplicas)"}, 'spec: Invalid value: "object": want 5'),
        ({"message": "m", "messageExpression": "' '"}, 'spec: Invalid value: "object": m'),
        ({"message": "m", "messageExpression": "'a\\nb'"}, 'spec: Invalid value: "object": m'),
        ({"message": "m", "messageExpression": "string(1 / 0)"}, 'spec: Invalid value: "object": m'),
        ({"message": "m", "reason": "FieldValueForbidden"}, "spec: Forbidden: m"),
        ({"message": "m", "reason": "FieldValueRequired"}, "spec: Required value: m"),
        ({"message": "m", "reason": "FieldValueDuplicate"}, 'spec: Duplicate value: "object"'),
        ({"message": "m", "reason": "FieldValueInvalid"}, 'spec: Invalid value: "object": m'),
        ({"message": "m", "fieldPath": ".replicas"}, 'spec.replicas: Invalid value: "object": m'),
    ],
    ids=lambda value: str(value)[:60],
)
def test_failed_rule_is_reported_as_the_rule_states(rule: dict[str, Any], wanted: str) -> None:
    """The error has the rule's message, reason and field path; without a message it shows the rule."""
    strategy = _strategy(_with(_rule(_LE, **rule), **_REPLICAS))
    assert _created(strategy, minReplicas=5, replicas=1) == [wanted]
    assert _created(strategy, minReplicas=1, replicas=1) == []


def test_rules_apply_at_any_depth() -> None:
    """The error names the field of the value that the rule is about."""
    item = {"type": "string", "x-kubernetes-validations": _rule("self.size() > 1", message="short")}
    number = {"type": "integer", "x-kubernetes-validations": _rule("self > 0", message="small")}
    strategy = _strategy(
        {
            "properties": {
                "list": {"type": "array", "items": item},
                "map": {"type": "object", "additionalProperties": number},
                "port": {"x-kubernetes-int-or-string": True, "x-kubernetes-validations": _rule("type(self) == int")},
            }
        }
    )
    assert _created(strategy, list=["ab", "a"], map={"x": 1, "y.z": 0}, port="p") == [
        'spec.list[1]: Invalid value: "string": short',
        'spec.map[y.z]: Invalid value: "integer": small',
        'spec.port: Invalid value: "": failed rule: type(self) == int',
    ]


def test_root_rules_see_kind_and_name_of_an_object() -> None:
    """Errors about the whole object name no field."""
    rule = "self.metadata.name == 'w' && self.kind == 'Widget' && has(self.spec) && self.metadata.name == 'x'"
    strategy = _strategy({}, **{"x-kubernetes-validations": _rule(rule)})
    assert _created(strategy) == [f'<nil>: Invalid value: "object": failed rule: {rule}']


def test_embedded_resources_see_their_own_name() -> None:
    """Their kind, apiVersion and name are not those of the outer object."""
    embedded = {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
        "x-kubernetes-validations": _rule("self.metadata.name.startsWith('a') && self.apiVersion == 'v1'"),
    }
    strategy = _strategy({"properties": {"template": embedded}})
    inner = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}, "unknown": 1}
    assert len(_created(strategy, template=inner)) == 1
    assert _created(strategy, template={**inner, "metadata": {"name": "a"}}) == []


@pytest.mark.parametrize(
    ("rule", "spec", "wanted"),
    [
        ("self.l[3] == 'a'", {"l": ["a"]}, "index out of bounds: 3 evaluating rule: self.l[3] == 'a'"),
        ("self.s == 'a'", {}, "no such key: s evaluating rule: self.s == 'a'"),
        ("1 / self.n == 1", {"n": 0}, "division by zero evaluating rule: 1 / self.n == 1"),
        (
            "self.x + 1 == 2",
            {"x": "a"},
            (
                "'no such overload': call arguments did not match a supported operator, function or macro signature "
                "for rule: self.x + 1 == 2"
            ),
        ),
    ],
)
def test_rule_that_cannot_be_evaluated_fails(rule: str, spec: dict[str, Any], wanted: str) -> None:
    """The error gives the reason."""
    fields = {"l": {"type": "array", "items": _STRING}, "s": _STRING, "n": _INTEGER}
    strategy = _strategy(_with(_rule(rule), x={"x-kubernetes-int-or-string": True}, **fields))
    assert _created(strategy, **spec) == [f'spec: Invalid value: "object": {wanted}']


_SEEN = [
    ("has(self.none) || has(self.unknown)", False),
    ("self.at < timestamp('2025-01-01T00:00:00Z') && self.day.getFullYear() == 2024", True),
    ("self.wait == duration('90s') && self.raw == b'hi'", True),
    ("self.half + 0.5 == 2.0 && self.whole == 2.0 && type(self.whole) == double", True),
    ("self.a__dash__b == 1 && self.__namespace__ == 'n' && self.namespace == 'n' && self.c__dot__d == 2", True),
    ("self.map['x'] == 'y' && 'x' in self.map && self.map.all(k, self.map[k] == 'y')", True),
    ("self.set == ['b', 'a'] && self.set + ['c', 'a'] == ['c', 'b', 'a']", True),
    ("self.list == ['a', 'b'] && self.list != ['b', 'a']", True),
    ("self.keyed == [self.keyed[1], self.keyed[0]] && self.keyed.exists(e, e.k == 'x' && e.v == 1)", True),
    ("(self.keyed + [self.keyed[1]]).size() == 2 && [self.keyed[1]] + self.keyed != self.keyed", True),
    ("self.nulls.size() == 2 && dyn(self.nulls[1]) == null", True),
    ("self == self && self.keyed[0] != self.keyed[1]", True),
    ("self.port == 80 && self.name == 'http'", True),
]


@pytest.mark.parametrize(("rule", "holds"), _SEEN, ids=[rule for rule, _ in _SEEN])
def test_values_have_the_types_of_the_schema(rule: str, holds: bool) -> None:
    """Times, durations, bytes and doubles are typed; sets and maps have their own equality; null fields are absent."""
    item = {"type": "object", "properties": {"k": _STRING, "v": _INTEGER}, "required": ["k"]}
    either = {"x-kubernetes-int-or-string": True}
    keyed = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": item}
    fields = {
        "none": {"type": "string", "nullable": True},
        "at": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "wait": {"type": "string", "format": "duration"},
        "raw": {"type": "string", "format": "byte"},
        "half": {"type": "number"},
        "whole": {"type": "number"},
        "a-b": _INTEGER,
        "c.d": _INTEGER,
        "namespace": _STRING,
        "unknown": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "map": {"type": "object", "additionalProperties": _STRING},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": _STRING},
        "list": {"type": "array", "items": _STRING},
        "keyed": keyed,
        "nulls": {"type": "array", "items": {"type": "string", "nullable": True}},
    }
    values = {
        "none": None, "at": "2024-05-05T00:00:00Z", "day": "2024-02-03", "wait": "1m30s", "raw": "aGk=", "half": 1.5,
        "whole": 2, "a-b": 1, "c.d": 2, "namespace": "n", "map": {"x": "y"}, "set": ["a", "b"], "list": ["a", "b"],
        "keyed": [{"k": "x", "v": 1}, {"k": "y", "v": 2}], "nulls": ["a", None],
        "port": 80, "name": "http",
    }  # fmt: skip
    strategy = _strategy(_with(_rule(rule), **fields, port=either, name=either))
    assert (_created(strategy, **values) == []) is holds


def test_transition_rules_need_an_old_value() -> None:
    """They are skipped on creation, unless optionalOldSelf is set."""
    strategy = _strategy(_with(_rule("self.n >= oldSelf.n", message="shrinks"), n=_INTEGER))
    assert _created(strategy, n=1) == []
    assert _updated(strategy, {"n": 1}, {"n": 2}) == ['spec: Invalid value: "object": shrinks']
    assert _updated(strategy, {"n": 3}, {"n": 2}) == []
    optional = _rule("oldSelf.hasValue() || self.n == 1", optionalOldSelf=True, message="starts at 1")
    strategy = _strategy(_with(optional, n=_INTEGER))
    assert _created(strategy, n=2) == ['spec: Invalid value: "object": starts at 1']
    assert _updated(strategy, {"n": 2}, {"n": 1}) == []


def test_items_with_keys_are_compared_with_their_old_values() -> None:
    """Their position does not matter; new items have no old value."""
    rule = _rule("self.v == oldSelf.v", message="is immutable")
    item = {"type": "object", "properties": {"k": _STRING, "v": _INTEGER}, "required": ["k"]}
    keyed = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    strategy = _strategy({"properties": {"l": {**keyed, "items": {**item, "x-kubernetes-validations": rule}}}})
    old = {"l": [{"k": "a", "v": 1}, {"k": "b", "v": 2}]}
    new = {"l": [{"k": "c", "v": 3}, {"k": "b", "v": 9}, {"k": "a", "v": 1}]}
    assert _updated(strategy, new, old) == ['spec.l[1]: Invalid value: "object": is immutable']


def test_unchanged_values_may_keep_violating_a_rule() -> None:
    """A rule can be added later: an update of other fields passes with warnings, a changed value is refused."""
    name = {"type": "string", "x-kubernetes-validations": _rule("self == 'good'", message="is bad")}
    plain = {"type": "array", "items": name}
    strategy = _strategy({"properties": {"name": name, "list": plain, "n": _INTEGER}})
    old = {"name": "bad", "list": ["bad"], "n": 1}
    new = {**old, "n": 2}
    assert _updated(strategy, new, old) == []
    assert strategy.warnings.update(widget(**new), widget(**old)) == [
        'spec.name: Invalid value: "string": is bad',
        'spec.list[0]: Invalid value: "string": is bad',
    ]
    assert strategy.warnings.status(widget(**new), widget(**old)) != []
    assert _strategy({}).warnings.update(widget(), widget()) == []
    assert _updated(strategy, {**old, "name": "worse"}, old) == ['spec.name: Invalid value: "string": is bad']
    assert _updated(strategy, {**old, "list": ["bad", "good"]}, old) == [
        'spec.list[0]: Invalid value: "string": is bad'
    ]


def test_status_is_checked_by_the_same_rules() -> None:
    """A rule may compare status and spec."""
    status = {"type": "object", "properties": {"ready": _INTEGER}}
    rule = _rule("!has(self.status) || self.status.ready <= self.spec.n", message="too many")
    strategy = _strategy(
        {"properties": {"n": _INTEGER}}, fields={"status": status}, **{"x-kubernetes-validations": rule}
    )
    old = widget(n=1)
    errors = strategy.validate_status({**old, "status": {"ready": 2}}, old)
    assert [str(error) for error in errors] == ['<nil>: Invalid value: "object": too many']
    assert strategy.validate_status({**old, "status": {"ready": 1}}, old) == []


def test_rules_are_not_checked_when_the_schema_is_violated() -> None:
    """They could only report the same error in other words."""
    strategy = _strategy(_with(_rule("self.n > 5"), n=_INTEGER))
    assert _created(strategy, n="x") == [
        'spec.n: Invalid value: "string": spec.n in body must be of type integer: "string"',
        (
            "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
            "correct the existing errors to complete validation"
        ),
    ]


def test_value_of_the_wrong_type_that_was_there_before_fails_the_rule() -> None:
    """The value may stay, but a rule that reads it cannot be evaluated."""
    strategy = _strategy(_with(_rule("self.n > 5", message="m"), n=_INTEGER, s=_STRING))
    errors = _updated(strategy, {"n": "x", "s": "new"}, {"n": "x"})
    assert errors == ['spec: Invalid value: "object": invalid data, expected int evaluating rule: m']


def test_rules_of_a_request_share_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the budget is spent, no further rule is evaluated and the object is refused."""
    monkeypatch.setattr(validation, "STEPS", 100)
    spent = "validation failed due to running out of cost budget, no further validation rules will be run"
    rules = [*_rule("self.l.all(x, self.l.all(y, x == y))"), *_rule("false")]
    strategy = _strategy(_with(rules, l={"type": "array", "items": _INTEGER}))
    assert _created(strategy, l=[1] * 50) == [f'spec: Invalid value: "object": {spent}']
    costly = _rule("false", messageExpression="self.l.map(x, string(x)).join(',')")
    strategy = _strategy(_with(costly, l={"type": "array", "items": _INTEGER}))
    assert _created(strategy, l=[1] * 50) == [
        f'spec: Invalid value: "object": messageExpression evaluation {spent[11:]}'
    ]


def test_stored_rule_that_does_not_compile_refuses_objects() -> None:
    """The server accepted the rule once, but cannot decide whether an object satisfies it."""
    strategy = _strategy(_with([*_rule("self.nope"), *_rule(" "), *_rule("self.find('(') == ''")]))
    errors = _created(strategy)
    assert [each.partition("ERROR")[0] for each in errors] == [
        'spec: Invalid value: "object": rule compile error: compilation failed: ',
        'spec: Invalid value: "object": rule compile error: compilation failed: ',
    ]
    unseen = {"x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-validations": _rule("true")}
    assert _created(_strategy({"properties": {"x": unseen}}), x={}) == [
        (
            'spec.x: Invalid value: "": rule compiler initialization error: '
            "failed to convert to declType for CEL validation rules"
        )
    ]


def test_kind_and_api_version_are_checked_even_if_they_did_not_change() -> None:
    """Both objects are converted to one version, which hides a change of these fields."""
    kind = {"type": "string", "x-kubernetes-validations": _rule("self == 'x'", message="wrong kind")}
    strategy = _strategy({}, fields={"kind": kind})
    assert _updated(strategy, {}, {}) == ['kind: Invalid value: "string": wrong kind']


def test_old_value_of_the_wrong_type_fails_rules_about_itself() -> None:
    """A null value is not checked."""
    number = {"type": "integer", "nullable": True, "x-kubernetes-validations": _rule("self > 1", message="m")}
    strategy = _strategy({"properties": {"n": number, "s": _STRING}})
    wanted = 'spec.n: Invalid value: "integer": invalid data, expected int evaluating rule: m'
    assert _updated(strategy, {"n": "x", "s": "new"}, {"n": "x"}) == [wanted]
    assert _created(strategy, n=None) == []


def test_old_value_matters_only_to_rules_that_use_it() -> None:
    """A wrong old value can be repaired; a message sees oldSelf only if its rule uses it."""
    number = {"type": "integer", "x-kubernetes-validations": _rule("self > 1", messageExpression="string(oldSelf)")}
    strategy = _strategy({"properties": {"n": number}})
    assert _updated(strategy, {"n": 2}, {"n": "x"}) == []
    assert _created(strategy, n=1) == ['spec.n: Invalid value: "integer": failed rule: self > 1']
    about = _rule("self > oldSelf", message="m", messageExpression="'was ' + string(oldSelf)")
    strategy = _strategy({"properties": {"n": {"type": "integer", "x-kubernetes-validations": about}}})
    assert _updated(strategy, {"n": 1}, {"n": 3}) == ['spec.n: Invalid value: "integer": was 3']
    assert _updated(strategy, {"n": 1}, {"n": "x"}) == [
        'spec.n: Invalid value: "integer": invalid data, expected int evaluating rule: m'
    ]


def test_nothing_is_evaluated_without_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even the first rule fails with the budget error."""
    monkeypatch.setattr(validation, "STEPS", 0)
    (error,) = _created(_strategy(_with(_rule("true"))))
    assert "running out of cost budget" in error


def test_error_omits_a_field_path_that_no_longer_exists() -> None:
    """The error is then about the value itself."""
    strategy = _strategy(_with(_rule("false", message="m", fieldPath=".gone")))
    assert _created(strategy) == ['spec: Invalid value: "object": m']
