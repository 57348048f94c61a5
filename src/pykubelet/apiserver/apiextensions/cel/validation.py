"""Evaluates the CEL rules of a schema on an object.

All rules of a request share one step budget, so that no rule can block the server. Unchanged values that already
violated a rule pass (ratcheting), except for transition rules. Errors have the API server's texts.

Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pykubelet.api.cel.interpreter import CelProgram
from pykubelet.api.cel.values import MISSING, CelError, Optional
from pykubelet.api.field_errors import ErrorType, FieldError, duplicate, forbidden, invalid, required
from pykubelet.api.serializer import Document
from pykubelet.apiserver.apiextensions.cel.compilation import OLD_SELF, CompiledRule, RuleNode
from pykubelet.apiserver.apiextensions.cel.unstructured import from_document
from pykubelet.apiserver.apiextensions.schema.listtype import is_unchanged, item_key, items_by_key
from pykubelet.apiserver.apiextensions.schema.structural import Structural
from pykubelet.apiserver.apiextensions.schema.validation import NO_PATH

# About half a second on a slow machine; upstream's budget is about one second.
STEPS = 1_000_000
_OUT_OF_BUDGET = "due to running out of cost budget, no further validation rules will be run"
_NO_OVERLOAD = "call arguments did not match a supported operator, function or macro signature"
_MAX_MESSAGE = 5 * 1024
_NOT_RATCHETED = frozenset({"apiVersion", "kind"})


class _SpentError(Exception):
    """The step budget is exhausted."""


class _Before:
    """A value with its old value; compares them on first use."""

    def __init__(self, new: Any, old: Any, schema: Structural) -> None:
        self._new = new
        self._old = old
        self._schema = schema

    @cached_property
    def is_same(self) -> bool:
        return is_unchanged(self._new, self._old, self._schema)


@dataclass(frozen=True, slots=True)
class _RulePath:
    """The position: its path, the old value for transition rules, and the values to compare for ratcheting."""

    path: str
    old: Any = None
    current: _Before | None = None
    nearest: _Before | None = None

    @property
    def is_unchanged(self) -> bool:
        known = self.current or self.nearest
        return known is not None and known.is_same


def rule_errors(
    node: RuleNode | None, new: Any, old: Any, *, path: str = "", ratchets: bool = True
) -> list[FieldError]:
    """Returns the violated rules; `old` is the old value or None."""
    return _checked(node, new, old, path=path, ratchets=ratchets).errors


def rule_warnings(node: RuleNode | None, new: Any, old: Any) -> list[str]:
    """Returns the violated rules that pass because the old value violated them too."""
    return list(map(str, _checked(node, new, old).passed))


def _checked(node: RuleNode | None, new: Any, old: Any, *, path: str = "", ratchets: bool = True) -> "_RuleCheck":
    check = _RuleCheck()
    if node is not None:
        before = _Before(new, old, node.schema) if old is not None and ratchets else None
        with suppress(_SpentError):
            check.value(node, new, _RulePath(path, old, before))
    return check


class _RuleCheck:
    """One pass over an object: errors so far and remaining steps."""

    def __init__(self) -> None:
        self.errors: list[FieldError] = []
        self.passed: list[FieldError] = []
        """Violations that pass because the value is unchanged."""
        self._steps = STEPS

    def value(self, node: RuleNode, value: Any, place: _RulePath) -> None:
        """Evaluates the rules of a value and its descendants."""
        if value is None:
            return
        if node.rules or node.error:
            self._rules(node, value, place)
        if isinstance(value, list):
            self._list(node, value, place)
        elif isinstance(value, dict):
            for inner, key, at in _fields(node, value, place.path):
                self.value(inner, value[key], _inside(place, node.schema, value, key, at))

    def _list(self, node: RuleNode, values: list[Any], place: _RulePath) -> None:
        if node.items is None:
            return
        before = items_by_key(place.old, node.schema)
        for index, item in enumerate(values):
            old = before.get(item_key(item, node.schema)) if before else None
            current = None
            if place.current is not None and old is not None:
                current = _Before(item, old, node.items.schema)
            nearest = place.current or place.nearest
            self.value(node.items, item, _RulePath(f"{place.path}[{index}]", old, current, nearest))

    def _rules(self, node: RuleNode, value: Any, place: _RulePath) -> None:
        shown = _type_name(node.schema)
        at = place.path or NO_PATH
        if node.error:
            self.errors.append(invalid(at, shown, f"rule compiler initialization error: {node.error}"))
            return
        if self._steps <= 0:
            self._give_up(at, shown, f"validation failed {_OUT_OF_BUDGET}")
        own = _cel_value(value, node)
        for rule in node.rules:
            if rule.error:
                self.errors.append(invalid(at, shown, f"rule compile error: {rule.error}"))
            elif rule.program is not None:
                old = _old_value(rule, node, place.old)
                # A transition rule needs an old value.
                if old is not MISSING or not rule.uses_old_self:
                    self._rule(rule, rule.program, (own, old), shown, place)

    def _rule(
        self, rule: CompiledRule, program: CelProgram, values: tuple[Any, Any], shown: str, place: _RulePath
    ) -> None:
        at = place.path or NO_PATH
        result, self._steps = _run(program, values, self._steps)
        if self._steps < 0:
            self._give_up(at, shown, f"validation failed {_OUT_OF_BUDGET}")
        if isinstance(result, CelError):
            self.errors.append(invalid(at, shown, _failure(rule, result.message)))
        elif result is not True:
            where = ".".join(filter(None, (place.path, rule.field))) or NO_PATH
            error = _rule_error(rule, where, shown, self._message(rule, values, shown, where))
            is_passed = place.is_unchanged and not rule.uses_old_self
            (self.passed if is_passed else self.errors).append(error)

    def _message(self, rule: CompiledRule, values: tuple[Any, Any], shown: str, at: str) -> str:
        # The message expression can use oldSelf only if the rule does.
        if rule.message_program is not None and (rule.uses_old_self or OLD_SELF not in rule.message_program.names):
            result, self._steps = _run(rule.message_program, values, self._steps)
            if self._steps < 0:
                self._give_up(at, shown, f"messageExpression evaluation failed {_OUT_OF_BUDGET}")
            text = result.strip() if isinstance(result, str) else ""
            if text and "\n" not in text and len(text.encode(errors="replace")) <= _MAX_MESSAGE:
                return text
        stated: str = rule.stated.get("message", "").strip()
        return stated or f"failed rule: {_name(rule)}"

    def _give_up(self, at: str, shown: str, detail: str) -> None:
        self.errors.append(invalid(at, shown, detail))
        raise _SpentError


def _old_value(rule: CompiledRule, node: RuleNode, old: Any) -> Any:
    """Returns the old value for a rule; MISSING if the rule does not use it or there is none."""
    if not rule.uses_old_self:
        return MISSING
    value = MISSING if old is None else _cel_value(old, node)
    # With optionalOldSelf, a transition rule applies to new values too.
    if rule.stated.get("optionalOldSelf") and not isinstance(value, CelError):
        return Optional(value)
    return value


def _cel_value(value: Any, node: RuleNode) -> Any:
    try:
        return from_document(value, node.schema, is_resource=node.is_resource)
    except CelError as error:
        return error


def _run(program: CelProgram, values: tuple[Any, Any], steps: int) -> tuple[Any, int]:
    wrong = next((value for value in values if isinstance(value, CelError)), None)
    return (wrong, steps) if wrong is not None else program.run(values, steps)


def _fields(node: RuleNode, value: Document, path: str) -> Iterator[tuple[RuleNode, str, str]]:
    """Yields the fields that have rules, with their paths."""
    if node.additional is not None:
        for key in value:
            yield node.additional, key, f"{path}[{key}]"
    for key in value:
        inner = node.properties.get(key)
        if inner is not None:
            yield inner, key, f"{path}.{key}" if path else key


def _inside(place: _RulePath, schema: Structural, value: Document, key: str, at: str) -> _RulePath:
    was = place.old.get(key) if isinstance(place.old, dict) else None
    if place.current is None:
        return _RulePath(at, was, None, place.nearest)
    if place.nearest is None and key in _NOT_RATCHETED:
        return _RulePath(at, was)
    known = schema.field(key)
    is_known = known is not None and isinstance(place.old, dict) and key in place.old
    current = _Before(value[key], was, known) if is_known and known is not None else None
    return _RulePath(at, was, current, place.current)


def _type_name(schema: Structural) -> str:
    return schema.types[0] if len(schema.types) == 1 else ""


def _name(rule: CompiledRule) -> str:
    name: str = rule.stated.get("message", "").strip() or rule.stated["rule"].strip()
    return name


def _failure(rule: CompiledRule, message: str) -> str:
    if message.startswith("no such overload"):
        return f"'{message}': {_NO_OVERLOAD} for rule: {_name(rule)}"
    return f"{message} evaluating rule: {_name(rule)}"


def _rule_error(rule: CompiledRule, at: str, shown: str, detail: str) -> FieldError:
    match rule.stated.get("reason"):
        case ErrorType.FORBIDDEN:
            return forbidden(at, detail)
        case ErrorType.REQUIRED:
            return required(at, detail)
        case ErrorType.DUPLICATE:
            return duplicate(at, shown)
        case _:
            return invalid(at, shown, detail)
