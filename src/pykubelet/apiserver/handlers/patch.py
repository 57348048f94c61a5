"""Change an object by a patch: JSON patch, merge patch, strategic merge patch, or server-side apply.

Upstream: k8s.io/apiserver/pkg/endpoints/handlers/patch.go

Server-side apply: the object that a manager wants, merged into the live one field by field.

Upstream: k8s.io/apiserver/pkg/endpoints/handlers/patch.go (applyPatcher)

Patches as they arrive: read, applied to an object, and what strict readers say about them.

In: a content type and a body; then a live object. Out: the patched object, its types right; BadRequest, Invalid,
TooLarge in upstream's words if the patch is none, does not apply, or does not lead to an object of the kind.

Upstream: k8s.io/apiserver/pkg/endpoints/handlers/patch.go (jsonPatcher, smpPatcher)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pykubelet.api import field_errors
from pykubelet.api.errors import BadRequest, Invalid, TooLarge
from pykubelet.api.go_print import go_text
from pykubelet.api.patch.errors import MalformedPatchError, PatchError, TooManyOperationsError
from pykubelet.api.patch.json_merge_patch import apply_merge
from pykubelet.api.patch.json_patch import apply_json
from pykubelet.api.patch.strategic_patch import apply_strategic
from pykubelet.api.serializer import Document, encode
from pykubelet.api.yaml.read import read_stream
from pykubelet.apiserver.errors import conflict, invalid, not_found, unknown_format, unknown_patch_type, unprocessable
from pykubelet.apiserver.fieldmanager.fieldmanager import apply
from pykubelet.apiserver.handlers.options import APPLY_PATCH, IGNORE, STRICT, write_options
from pykubelet.apiserver.handlers.update import Update, update_object
from pykubelet.apiserver.handlers.write import RequestScope, WriteRequest, expected_of, now_text
from pykubelet.apiserver.request import ApiRequest, ApiResponse
from pykubelet.apiserver.serializer.decode_errors import conversion_error, fatal_error
from pykubelet.apiserver.serializer.decoder import (
    ExpectedKind,
    check_types,
    decode_in_thread,
    other_kind,
    parse_json,
    type_problems,
)
from pykubelet.kinds.kind import Kind

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
    expected: ExpectedKind
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


def read_patch(kind: str, body: bytes, expected: ExpectedKind) -> Patch:
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


def applied(means: RequestScope, writing: WriteRequest) -> Update:
    """The function from the live object to the one with the body's fields; BadRequest if the body is none."""
    document = applied_configuration(writing)
    served, options = writing.served, writing.options

    def wanted(live: Document | None) -> Document:
        merged = apply(
            live,
            document,
            definition=means.schemas.of(served),
            manager=options.field_manager,
            api_version=served.resource.api_version,
            subresource=writing.call.subresource,
            now=now_text(means.clock.now()),
            force=options.force,
        )
        if live is None and (uid := merged["metadata"].get("uid")):
            why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise conflict(served.resource, writing.call.name, why)
        # Merging looks at the shape of values, not at what texts say: a quantity, a time.
        check_types(merged, expected_of(served))
        return served.strategy.default(merged)

    return wanted


def applied_configuration(writing: WriteRequest) -> Document:
    """What is applied, as the sender wrote it; fields it does not name are left to others."""
    documents, errors = read_stream(writing.call.body)
    if errors:
        raise BadRequest(f"error decoding YAML: error converting YAML to JSON: {errors[0].upstream}")
    # An empty text is an object without fields.
    document = documents[0].value if documents and documents[0].value is not None else {}
    if not isinstance(document, dict):
        shown = json_name(document)
        raise BadRequest(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: "
            f"json: cannot unmarshal {shown} into Go value of type map[string]interface {{}}"
        )
    repeated = documents[0].duplicates() if documents and writing.options.field_validation == STRICT else ()
    if repeated:
        # Upstream's warning of it has a line break, which no header can hold: less than strictness does not show it.
        lines = "".join(f'\n  line {at.line}: key "{path[-1]}" already set in map' for path, at, _ in repeated)
        raise BadRequest(f"error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:{lines}")
    if not isinstance(document.get("metadata"), dict):
        document["metadata"] = {}
    return document


_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)
# Nobody knows how to merge the lists of a kind that has no Go type.
_CUSTOM_TYPES = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)


async def patch(means: RequestScope, call: ApiRequest) -> ApiResponse:
    """Apply the patch of the body; server-side apply creates an object that is not there."""
    kind = patch_type(call)
    writing = WriteRequest(call, write_options(call.query, "PatchOptions", patch_type=kind))
    if kind == APPLY_PATCH:
        wanted = await decode_in_thread(call, applied, means, writing)
        return await update_object(means, writing, wanted, may_create=not call.subresource)
    given = await decode_in_thread(call, read_patch, kind, call.body, expected_of(call.served))
    return await update_object(means, writing, _patched(means, writing, given))


def patch_type(call: ApiRequest) -> str:
    """The content type of a patch; UnsupportedMediaType if it is none that the resource takes."""
    kind = call.content_type.partition(";")[0].strip()
    if call.served.definition:
        if kind not in _TYPES:
            raise unknown_patch_type()
    elif kind not in _CUSTOM_TYPES:
        raise unknown_format(*_CUSTOM_TYPES)
    return kind


def _patched(means: RequestScope, writing: WriteRequest, patch: Patch) -> Update:
    served = writing.served
    finish = completed(writing, patch, served)

    def wanted(live: Document | None) -> Document:
        if live is None:
            raise not_found(served.resource, writing.call.name)
        return writing.recorded(means, finish(live), live)

    return wanted


def completed(writing: WriteRequest, patch: Patch, served: Kind) -> Callable[[Document], Document]:
    """The function from a live object to the patched one, checked and with defaults."""

    def patched(live: Document) -> Document:
        document, problems = patch.applied_to(live)
        problems += [f'unknown field "{path}"' for path in served.strategy.unknown(document)]
        writing.warn(*patch.warnings(problems, document, writing.options.field_validation))
        default_patched = served.strategy.default_patched
        return served.strategy.default(document) if default_patched is None else default_patched(document, live)

    return patched
