"""Patches as they arrive: read, applied to an object, and what strict readers say about them.

In: a content type and a body; then a live object. Out: the patched object, its types right; BadRequest, Invalid,
TooLarge in upstream's words if the patch is none, does not apply, or does not lead to an object of the kind.

Upstream: k8s.io/apiserver/pkg/endpoints/handlers/patch.go (jsonPatcher, smpPatcher)
"""

from dataclasses import dataclass
from typing import Any

from pykubelet.api.errors import BadRequest, Invalid, TooLarge
from pykubelet.api.patch import (
    MalformedPatchError,
    PatchError,
    TooManyOperationsError,
    apply_json,
    apply_merge,
    apply_strategic,
)
from pykubelet.api.patch.json_values import go_text
from pykubelet.api.validation import field_errors
from pykubelet.api.wire import Document, encode
from pykubelet.apiserver.failures import invalid, unprocessable
from pykubelet.apiserver.requests.bodies import Expected, other_kind, parse_json, type_problems
from pykubelet.apiserver.requests.decode_words import conversion_error, fatal_error
from pykubelet.apiserver.requests.query import IGNORE, STRICT

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
_OPERATION_FIELDS = frozenset({"op", "path", "from", "value"})
_TEXT_FIELDS = ("op", "path", "from")
_GO_NAMES = {dict: "object", list: "array", str: "string", bool: "bool", type(None): "null"}


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch that could be read, and what is odd about it."""

    kind: str
    content: Any
    expected: Expected
    problems: tuple[str, ...] = ()

    def applied_to(self, live: Document) -> tuple[Document, list[str]]:
        """The patched object, and what strict decoding says about patch and object."""
        document = self._apply(live)
        if not isinstance(document, dict):
            raise self._no_object(document, "json: cannot unmarshal it into an object")
        if self.kind == STRATEGIC_PATCH:
            # Upstream patches an object of the kind, whatever the patch says of it.
            document = {**document, "kind": self.expected.kind, "apiVersion": self.expected.api_version}
        kind, api_version = document.get("kind"), document.get("apiVersion")
        if not self.expected.definition and isinstance(kind, str) and kind not in ("", self.expected.kind):
            raise other_kind(document, kind, self.expected)
        if (kind, api_version) != (self.expected.kind, self.expected.api_version):
            raise self._no_object(
                document,
                f"no kind {field_errors.go_quote(str(kind))} is registered for version {field_errors.go_quote(str(api_version))}",
            )
        if not isinstance(document.get("metadata"), dict):
            document = {**document, "metadata": {}}
        words = conversion_error if self.kind == STRATEGIC_PATCH else fatal_error
        # What the patch did not touch is the very same value, and was checked before it was stored.
        touched = {name: value for name, value in document.items() if name not in live or value is not live[name]}
        fatal, unknown = type_problems(touched, self.expected, words)
        if fatal:
            raise self._no_object(document, fatal)
        return {**document, **touched}, [*self.problems, *unknown]

    def warnings(self, problems: list[str], document: Document, validation: str) -> tuple[str, ...]:
        """What the sender is warned of; Invalid if it asked for strictness."""
        if not problems or validation == IGNORE:
            return ()
        if validation == STRICT:
            raise self._no_object(document, f"strict decoding error: {', '.join(problems)}")
        return tuple(problems)

    def _apply(self, live: Document) -> Any:
        try:
            if self.kind == JSON_PATCH:
                return apply_json(live, self.content)
            if self.kind == MERGE_PATCH:
                return apply_merge(live, self.content)
            return apply_strategic(live, self.content, self.expected.definition)
        except TooManyOperationsError as error:
            raise TooLarge(f"Request entity too large: {error}") from error
        except MalformedPatchError as error:
            raise BadRequest(str(error)) from error
        except PatchError as error:
            raise unprocessable() if self.kind == JSON_PATCH else BadRequest(str(error)) from error

    def _no_object(self, document: Any, why: str) -> Invalid:
        """The patch leads to no object of the kind."""
        shown = go_text(self.content) if self.kind == STRATEGIC_PATCH else encode(document).decode()
        return invalid("", "", "", [field_errors.invalid("patch", shown, why)])


def read_patch(kind: str, body: bytes, expected: Expected) -> Patch:
    """The patch of a body."""
    # Upstream says what it is about to do for two of the three.
    doing = "" if kind == STRATEGIC_PATCH else "error decoding patch: "
    try:
        content, duplicates = parse_json(body)
    except ValueError as error:
        raise BadRequest(f"{doing}{error}") from error
    problems = [f'duplicate field "{path}"' for path in duplicates]
    if content is None:
        content = [] if kind == JSON_PATCH else {}
    if kind == JSON_PATCH:
        problems = [f"json patch {problem}" for problem in (*_operations_problems(content, doing), *problems)]
    elif not isinstance(content, dict):
        raise BadRequest(
            f"{doing}json: cannot unmarshal {json_name(content)} into Go value of type map[string]interface {{}}"
        )
    return Patch(kind, content, expected, tuple(problems))


def _operations_problems(content: Any, doing: str) -> list[str]:
    """What a strict reader says about a JSON patch; BadRequest if it is none."""
    if not isinstance(content, list):
        raise BadRequest(
            f"{doing}json: cannot unmarshal {json_name(content)} into Go value of type []handlers.jsonPatchOp"
        )
    problems: list[str] = []
    for index, operation in enumerate(content):
        if not isinstance(operation, dict):
            what = f"json: cannot unmarshal {json_name(operation)} into Go value of type handlers.jsonPatchOp"
            raise BadRequest(f"{doing}{what}")
        for name in _TEXT_FIELDS:
            if not isinstance(operation.get(name, ""), str):
                field = f"Go struct field jsonPatchOp.{name} of type string"
                raise BadRequest(f"{doing}json: cannot unmarshal {json_name(operation[name])} into {field}")
        problems += [f'unknown field "[{index}].{name}"' for name in operation if name not in _OPERATION_FIELDS]
    return problems


def json_name(value: Any) -> str:
    """What Go calls a value of JSON."""
    return _GO_NAMES.get(type(value), "number")
