"""Strict decoding: finds unknown fields and wrong types in a document, with their paths.

The document is also normalised in place to the form Structs accept, as Go's decoder would: numeric quantities become
text, base64 loses its line breaks, null elements become the empty value of their type. A null field counts as absent.

Upstream: staging/src/k8s.io/apimachinery/pkg/runtime/serializer/json/json.go,
staging/src/k8s.io/apimachinery/pkg/util/intstr/intstr.go, staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/time.go
"""

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from pykubelet.api.quantity import QuantityError, parse_quantity
from pykubelet.api.schema import Definition, Field, definitions, did_you_mean
from pykubelet.api.times import MICRO_TIME_FIELDS, has_micro_form, parse_time
from pykubelet.api.yaml.read import Path

# Checking stops here: a text with more errors is not a manifest.
MAX_FINDINGS = 100
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_INT32 = range(-(2**31), 2**31)
_INT64 = range(-(2**63), 2**63)
# Fields that Go holds in 64 bits; the schema table has no column for the format.
_WIDE_INTEGERS = (
    "activeDeadlineSeconds capacity deletionGracePeriodSeconds expirationSeconds fsGroup generation gid "
    "gracePeriodSeconds maxItems maxLength maxProperties minItems minLength minProperties observedGeneration "
    "remainingItemCount revision runAsGroup runAsUser seconds sizeBytes startingDeadlineSeconds supplementalGroups "
    "terminationGracePeriodSeconds tolerationSeconds uid"
)
WIDE_INTEGERS = frozenset(_WIDE_INTEGERS.split())
_LONGEST_SHOWN = 40

_EXPECTED: Final = {
    "string": "a string",
    "integer": "an integer",
    "boolean": "true or false",
    "number": "a number",
    "array": "a list",
    "map": "an object",
    "ref": "an object",
    "bytes": "base64 text",
    "time": "an RFC 3339 time",
    "quantity": "a quantity",
    "int-or-string": "an integer or a string",
}

_PLAIN_TYPES: Final = {"string": (str,), "boolean": (bool,), "number": (int, float)}
_EMPTY_SCALARS: Final = {"string": "", "bytes": "", "quantity": "0", "integer": 0}


class StrictDecodingError(NamedTuple):
    """One error; `at_key` blames the key instead of the value."""

    path: Path
    message: str
    at_key: bool = False


# The path to a value, last step first: cheap to extend, converted only when an error is reported.
_Trail = tuple["_Trail | None", str | int]


def check_object(document: dict[str, Any], definition: str, *, secret: bool = False) -> list[StrictDecodingError]:
    """Checks a document against a definition. With `secret`, errors never quote a value."""
    check = _StrictCheck(secret=secret)
    check.object(document, definitions()[definition], None)
    return check.findings


def check_metadata(document: dict[str, Any], definition: str) -> list[StrictDecodingError]:
    """Checks only the metadata of a document whose kind is unknown."""
    check = _StrictCheck(secret=False)
    top = Definition({"metadata": Field("ref", definition)})
    check.object({"metadata": document.get("metadata")}, top, None)
    return check.findings


def describe_value(value: Any, *, secret: bool = False) -> str:
    """Describes a value, for errors that say what was found instead of the expected type."""
    match value:
        case None:
            return "null"
        case dict():
            return "an object"
        case list():
            return "a list"
        case bool():
            return "a boolean" if secret else f"the boolean {str(value).lower()}"
        case int() | float():
            return "a number" if secret else f"the number {value}"
        case _ if secret:
            return "a string"
        case _:
            text = str(value)
            shown = text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "..."
            return f'the string "{shown}"'


class _StrictCheck:
    """One pass over a document; each method returns the normalised value."""

    def __init__(self, *, secret: bool) -> None:
        self.findings: list[StrictDecodingError] = []
        self._secret = secret
        self._definitions = definitions()
        self._checks: dict[str, Callable[[Any, Field, _Trail], Any]] = {
            **dict.fromkeys(_PLAIN_TYPES, self._plain),
            "integer": self._integer,
            "array": self._collection,
            "map": self._collection,
            "ref": self._ref,
            "bytes": self._bytes,
            "time": self._time,
            "quantity": self._quantity,
            "int-or-string": self._int_or_string,
            "any": lambda value, _field, _trail: value,
        }

    def object(self, value: dict[str, Any], definition: Definition, trail: _Trail | None) -> None:
        """Checks every field of an object."""
        fields, checks = definition.fields, self._checks
        for key, item in value.items():
            field = fields.get(key)
            if field is None:
                self._unknown((trail, key), fields)
            elif item is not None and not (type(item) is str and field.type == "string"):
                # Replacing the value of an existing key is safe during iteration.
                value[key] = checks[field.type](item, field, (trail, key))

    def _unknown(self, trail: _Trail, fields: dict[str, Field]) -> None:
        # Searching the nearest name is slow, so it stops with the errors.
        if len(self.findings) < MAX_FINDINGS:
            hint = did_you_mean(str(trail[1]), fields)
            self.findings.append(StrictDecodingError(_path(trail), f"unknown field{hint}", at_key=True))

    def _report(self, trail: _Trail, message: str) -> None:
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(StrictDecodingError(_path(trail), message))

    def _refuse(self, value: Any, field: Field, trail: _Trail) -> Any:
        self._report(trail, f"expected {_EXPECTED[field.type]}, found {describe_value(value, secret=self._secret)}")
        return value

    def _plain(self, value: Any, field: Field, trail: _Trail) -> Any:
        return value if type(value) in _PLAIN_TYPES[field.type] else self._refuse(value, field, trail)

    def _integer(self, value: Any, field: Field, trail: _Trail) -> Any:
        if type(value) is int and value in (_INT64 if _field_name(trail) in WIDE_INTEGERS else _INT32):
            return value
        return self._refuse(value, field, trail)

    def _int_or_string(self, value: Any, field: Field, trail: _Trail) -> Any:
        if type(value) is str or (type(value) is int and value in _INT32):
            return value
        return self._refuse(value, field, trail)

    def _bytes(self, value: Any, field: Field, trail: _Trail) -> Any:
        if type(value) is not str:
            return self._refuse(value, field, trail)
        packed = value.replace("\n", "").replace("\r", "")
        if len(packed) % 4 or not _BASE64.fullmatch(packed):
            self._report(trail, "expected base64 text, found text that is not")
        return packed

    def _time(self, value: Any, field: Field, trail: _Trail) -> Any:
        if type(value) is not str:
            return self._refuse(value, field, trail)
        try:
            parse_time(value)
        except ValueError:
            return self._refuse(value, field, trail)
        if trail[1] in MICRO_TIME_FIELDS and not has_micro_form(value):
            return self._refuse(value, field, trail)
        return value

    def _quantity(self, value: Any, field: Field, trail: _Trail) -> Any:
        if type(value) not in (str, int, float):
            return self._refuse(value, field, trail)
        text = value.strip() if type(value) is str else str(value)
        try:
            parse_quantity(text)
        except QuantityError as error:
            self._report(trail, f"expected a quantity, found {describe_value(value, secret=self._secret)}: {error}")
        return text

    def _ref(self, value: Any, field: Field, trail: _Trail) -> Any:
        if type(value) is not dict:
            return self._refuse(value, field, trail)
        self.object(value, self._definitions[field.ref], trail)
        return value

    def _collection(self, value: Any, field: Field, trail: _Trail) -> Any:
        if type(value) is not (list if field.type == "array" else dict):
            return self._refuse(value, field, trail)
        items = field.items
        assert items is not None
        check = self._checks[items.type]
        texts = items.type == "string"
        for key, item in enumerate(value) if isinstance(value, list) else value.items():
            if not (texts and type(item) is str):
                value[key] = _empty(items) if item is None else check(item, items, (trail, key))
        return value


def _field_name(trail: _Trail) -> str | int:
    """Returns the name of the field, also for an item of its list."""
    outer, step = trail
    return outer[1] if isinstance(step, int) and outer is not None else step


def _path(trail: _Trail | None) -> Path:
    steps: list[str | int] = []
    while trail is not None:
        trail, step = trail
        steps.append(step)
    return tuple(reversed(steps))


def _empty(field: Field) -> Any:
    """Returns the Go zero value that a null in a list or map decodes to."""
    match field.type:
        case "ref":
            return {}
        case "array":
            return []
        case kind:
            return _EMPTY_SCALARS.get(kind)
