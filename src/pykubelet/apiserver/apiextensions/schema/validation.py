"""Validates values against a structural schema: types, limits, patterns, formats, alternatives.

On update, unchanged parts that were already invalid pass (ratcheting), so that a schema may become stricter. Errors
have the API server's texts.

Upstream: vendor/k8s.io/kube-openapi/pkg/validation/validate/validator.go,
vendor/k8s.io/kube-openapi/pkg/validation/errors/schema.go,
staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/validation/validation.go,
staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/validation/ratcheting.go
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pykubelet.api.cel.formats import has_format
from pykubelet.api.field_errors import (
    ErrorType,
    FieldError,
    go_json,
    go_quote,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from pykubelet.apiserver.apiextensions.schema.structural import NestedValueValidation, Structural, ValueValidation
from pykubelet.kinds.go_values import go_float

NO_PATH = "<nil>"
"""Go's text for an error without a field."""
_LARGEST_EXACT, _EPSILON = 2.0**53 - 1, 1e-9
"""Upstream's limits of quotients that count as integers."""


class SchemaError(NamedTuple):
    """One violation of a schema; violations with equal messages are reported once."""

    code: str
    at: str
    message: str
    value: Any = None
    allowed: Any = None


def wrong_type(at: str, wanted: str, found: str) -> SchemaError:
    return SchemaError("type", at, f"{at} in body must be of type {wanted}: {go_quote(found)}", found)


def not_in_enum(at: str, value: Any, allowed: Sequence[Any]) -> SchemaError:
    shown = " ".join(each if isinstance(each, str) else go_json(each) for each in allowed)
    return SchemaError("enum", at, f"{at} in body should be one of [{shown}]", value, allowed)


def broken_rule(at: str, value: Any, rule: str) -> SchemaError:
    return SchemaError("rule", at, f"{at} in body {rule}", value)


def too_large(code: str, at: str, value: Any, limit: int, rule: str) -> SchemaError:
    """The value exceeds a limit; code `long` for strings, `many` for items and properties."""
    return SchemaError(code, at, f"{at} in body {rule}", value, limit)


def broken_junctor(at: str, text: str) -> SchemaError:
    """Too few or too many alternatives hold."""
    return SchemaError("junctor", at, f"{go_quote(at)} {text}")


def _field_error(finding: SchemaError, path: str) -> FieldError:
    """Converts a violation to a field error under a path (empty for the object itself)."""
    if finding.code == "junctor":
        return invalid(path or NO_PATH, "", finding.message)
    inner = finding.at.removeprefix(".")
    at = f"{path}.{inner}" if path and inner else path or inner or NO_PATH
    match finding.code:
        case "required":
            return required(at)
        case "enum":
            allowed = [each if isinstance(each, str) else go_json(each) for each in finding.allowed]
            return not_supported(at, finding.value, allowed)
        case "long":
            return too_long(at, finding.allowed)
        case "many":
            return too_many(at, finding.value, finding.allowed)
        case "type":
            return FieldError(ErrorType.TYPE_INVALID, at, finding.value, finding.message)
        case _:
            return invalid(at, "" if finding.value is None else _plain(finding.value), finding.message)


def _plain(value: Any) -> Any:
    """Formats whole numbers without a fraction."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


ABSENT: Final = object()
"""No old value exists, or none that corresponds to the new one."""
_NULL = "null"
_TYPES = {bool: "boolean", str: "string", int: "integer", float: "number", list: "array", dict: "object"}
_NUMBER_FORMATS = {int: "int64", float: "float64"}
_NOT_RATCHETED = frozenset({"apiVersion", "kind"})


@dataclass(slots=True)
class _Result:
    """Violations by message, and the number of passed checks, which selects the best-matching alternative."""

    findings: dict[str, SchemaError] = field(default_factory=dict)
    matches: int = 0

    def add(self, finding: SchemaError) -> None:
        self.findings.setdefault(finding.message, finding)

    def merge(self, other: "_Result") -> None:
        self.matches += other.matches
        for message, finding in other.findings.items():
            self.findings.setdefault(message, finding)


def value_errors(value: Any, schema: Structural, *, path: str = "", old: Any = ABSENT) -> list[FieldError]:
    """Validates a value at a path against its schema."""
    return [_field_error(finding, path) for finding in _check(value, schema, "", old).findings.values()]


def _check(value: Any, schema: Structural, path: str, old: Any) -> _Result:
    result = _Result()
    if value is None:
        _check_null(schema, path, result)
    else:
        _check_type(value, schema, path, result)
        if schema.junctors is not None:
            _check_junctors(value, schema.junctors, path, old, result)
        if schema.values is not None:
            _check_values(value, schema.values, path, result)
        if type(value) is dict:
            _check_object(value, schema, path, old, result)
        elif type(value) is list:
            _check_list(value, schema, path, old, result)
        result.matches += 5
    if result.findings and old is not ABSENT and old == value:
        return _Result(matches=result.matches)
    return result


def _check_null(schema: Structural, path: str, result: _Result) -> None:
    if schema.types and not schema.nullable:
        result.add(wrong_type(path, ",".join(schema.types), _NULL))
    else:
        result.matches += 1
    if schema.values and schema.values.enum:
        result.add(not_in_enum(path, None, schema.values.enum))


def _check_type(value: Any, schema: Structural, path: str, result: _Result) -> None:
    types = schema.types
    found = _TYPES[type(value)]
    fits = not types or found in types
    if not fits:
        is_whole = found == "number" and "integer" in types and value.is_integer()
        fits = is_whole or (found == "integer" and "number" in types)
    if not fits and schema.values is not None and (format := schema.values.format):
        if type(value) not in (str, list):
            result.add(wrong_type(path, format, _NUMBER_FORMATS.get(type(value), "")))
            return
        # A format implies the type, so only the format is checked.
        fits = not {"integer", "number"}.intersection(types)
    if fits:
        result.matches += 1
    else:
        result.add(wrong_type(path, ",".join(types), found))


def _check_values(value: Any, values: ValueValidation, path: str, result: _Result) -> None:
    match value:
        case str():
            _check_text(value, values, path, result)
        case bool():
            pass
        case int() | float():
            for finding in _number_findings(value, values, path):
                result.add(finding)
        case _:
            _check_size(value, values, path, result)
    if values.enum and not any(_equals(value, each) for each in values.enum):
        result.add(not_in_enum(path, value, values.enum))


def _equals(value: Any, allowed: Any) -> bool:
    return bool(value == allowed) and isinstance(value, bool) == isinstance(allowed, bool)


def _check_text(text: str, values: ValueValidation, path: str, result: _Result) -> None:
    bounds = values.bounds
    if len(text) > bounds.get("maxLength", len(text)):
        limit = int(bounds["maxLength"])
        result.add(too_large("long", path, text, limit, f"should be at most {limit} chars long"))
    elif len(text) < bounds.get("minLength", 0):
        result.add(broken_rule(path, text, f"should be at least {bounds['minLength']} chars long"))
    elif values.pattern is not None and not values.pattern.matches(text):
        result.add(broken_rule(path, text, f"should match '{values.pattern_text}'"))
    if values.format and not has_format(values.format, text):
        result.add(wrong_type(path, values.format, text))


def _number_findings(value: float, values: ValueValidation, path: str) -> Iterable[SchemaError]:
    bounds = values.bounds
    if (factor := _bound(bounds.get("multipleOf"), value)) is not None:
        if factor <= 0:
            text = f"factor MultipleOf declared for {path} must be positive: {_shown(factor)}"
            yield SchemaError("rule", path, text, factor)
        elif not _is_multiple(value, factor):
            yield broken_rule(path, value, f"should be a multiple of {_shown(factor)}")
    if (least := _bound(bounds.get("minimum"), value)) is not None:
        if values.exclusive_minimum and value <= least:
            yield broken_rule(path, value, f"should be greater than {_shown(least)}")
        elif value < least:
            yield broken_rule(path, value, f"should be greater than or equal to {_shown(least)}")
    if (most := _bound(bounds.get("maximum"), value)) is not None:
        if values.exclusive_maximum and value >= most:
            yield broken_rule(path, value, f"should be less than {_shown(most)}")
        elif value > most:
            yield broken_rule(path, value, f"should be less than or equal to {_shown(most)}")


def _is_multiple(value: float, factor: float) -> bool:
    """Whether a value is a multiple; that of a fraction may be a little too large, as upstream allows."""
    if isinstance(value, int) and isinstance(factor, int):
        return value % factor == 0
    quotient = value / factor if factor >= 1 else 1 / factor * value
    if not abs(quotient) <= _LARGEST_EXACT:
        return False
    whole = int(quotient)
    return quotient == whole or (whole > 0 and (quotient - whole) / (quotient + whole) < _EPSILON)


def _bound(bound: float | None, value: float) -> float | None:
    """Converts a bound for comparison: an integer if the value is one, as upstream does."""
    return int(bound) if bound is not None and type(value) is int else bound


def _shown(number: float) -> str:
    return go_float(number) if type(number) is float else str(number)


def _check_size(value: Any, values: ValueValidation, path: str, result: _Result) -> None:
    what = "items" if type(value) is list else "properties"
    name = what.capitalize()
    least, most = values.bounds.get(f"min{name}"), values.bounds.get(f"max{name}")
    if least is not None and len(value) < least:
        result.add(broken_rule(path, len(value), f"should have at least {least} {what}"))
    if most is not None and len(value) > most:
        result.add(too_large("many", path, len(value), most, f"should have at most {most} {what}"))


def _check_list(value: list[Any], schema: Structural, path: str, old: Any, result: _Result) -> None:
    if schema.items is None:
        return
    is_known = schema.list_type == "map" and isinstance(old, list)
    before = {_keys(item, schema): item for item in old} if is_known else {}
    for index, item in enumerate(value):
        old_item = before.get(_keys(item, schema), ABSENT) if before else ABSENT
        result.merge(_check(item, schema.items, f"{path}[{index}]", old_item))


def _keys(item: Any, schema: Structural) -> str:
    return repr([item.get(key) for key in schema.map_keys]) if isinstance(item, dict) else ""


def _check_object(value: dict[str, Any], schema: Structural, path: str, old: Any, result: _Result) -> None:
    if schema.additional is not None:
        _check_other_keys(value, schema, path, old, result)
    for key, known in schema.properties.items():
        if key in value:
            at = f"{path}.{key}" if path else key
            before = ABSENT if not path and key in _NOT_RATCHETED else _old_field(old, key)
            result.merge(_check(value[key], known, at, before))
    for key in schema.required:
        if key not in value:
            result.add(SchemaError("required", f"{path}.{key}", f"{path}.{key} in body is required"))


def _check_other_keys(value: dict[str, Any], schema: Structural, path: str, old: Any, result: _Result) -> None:
    additional = schema.additional_schema
    for key, item in value.items():
        if key in schema.properties:
            continue
        if additional is not None:
            result.merge(_check(item, additional, f"{path}.{key}", _old_field(old, key)))
        elif schema.additional is False:
            result.add(SchemaError("rule", path, f"{path}.{key} in body is a forbidden property", key))


def _old_field(old: Any, key: str) -> Any:
    return old.get(key, ABSENT) if isinstance(old, dict) else ABSENT


def _check_junctors(value: Any, junctors: NestedValueValidation, path: str, old: Any, result: _Result) -> None:
    if junctors.any_of:
        tried = [_check(value, each, path, old) for each in junctors.any_of]
        passed = next((each for each in tried if not each.findings), None)
        if passed is None:
            result.add(broken_junctor(path, "must validate at least one schema (anyOf)"))
        result.merge(passed or _nearest(tried))
    if junctors.one_of:
        tried = [_check(value, each, path, old) for each in junctors.one_of]
        passes = [each for each in tried if not each.findings]
        if len(passes) == 1:
            result.merge(passes[0])
        else:
            found = f"Found {len(passes)} valid alternatives" if passes else "Found none valid"
            result.add(broken_junctor(path, f"must validate one and only one schema (oneOf). {found}"))
            if not passes:
                result.merge(_nearest(tried))
    if junctors.all_of:
        tried = [_check(value, each, path, old) for each in junctors.all_of]
        for each in tried:
            result.merge(each)
        failed = sum(bool(each.findings) for each in tried)
        if failed:
            none = ". None validated" if failed == len(tried) else ""
            result.add(broken_junctor(path, f"must validate all the schemas (allOf){none}"))
    if junctors.negated is not None and not _check(value, junctors.negated, path, old).findings:
        result.add(broken_junctor(path, "must not validate the schema (not)"))
    result.matches += 1


def _nearest(results: list[_Result]) -> _Result:
    return max(results, key=lambda each: each.matches)
