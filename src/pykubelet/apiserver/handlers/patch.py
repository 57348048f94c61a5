"""Patches objects: JSON patch, merge patch, strategic merge patch, and server-side apply.

`patch` and `_apply` list the steps in order. Reading happens first, in a thread if the body is large. The rest is one
decision that the store runs on the newest state of the object, so a patch never has to be retried.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go
"""

from dataclasses import dataclass
from typing import Any

from pykubelet.api import field_errors
from pykubelet.api.errors import BadRequest, Invalid, TooLarge
from pykubelet.api.go_print import go_text
from pykubelet.api.patch.errors import MalformedPatchError, PatchError, TooManyOperationsError
from pykubelet.api.patch.json_merge_patch import apply_merge
from pykubelet.api.patch.json_patch import apply_json
from pykubelet.api.patch.strategic_apply import apply_strategic
from pykubelet.api.serializer import Document, encode
from pykubelet.api.yaml.read import read_stream
from pykubelet.apiserver.errors import conflict, invalid, unknown_format, unknown_patch_type, unprocessable
from pykubelet.apiserver.handlers.options import APPLY_PATCH, IGNORE, STRICT, write_options
from pykubelet.apiserver.handlers.staged_decision import NewVersion
from pykubelet.apiserver.handlers.update import ObjectUpdate
from pykubelet.apiserver.handlers.write import RequestScope, WriteRequest
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
from pykubelet.apiserver.serializer.object_size import check_size
from pykubelet.apiserver.storage.interfaces import StoreEntry

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)
# A custom resource has no Go type that says how its lists merge.
_CUSTOM_TYPES = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
_OPERATION_FIELDS = frozenset({"op", "path", "from", "value"})
_GO_NAMES = {dict: "object", list: "array", str: "string", bool: "bool", type(None): "null"}


async def patch(scope: RequestScope, request: ApiRequest) -> ApiResponse:
    """Patches one object: read, apply to the live object, default, record field owners, validate, write."""
    patch_type = patch_type_of(request)
    write = WriteRequest(scope, request, write_options(request.query, "PatchOptions", patch_type=patch_type))
    if patch_type == APPLY_PATCH:
        return await _apply(write)
    strategy = write.served.strategy
    patch = await decode_in_thread(request, read_patch, patch_type, request.body, write.expected)
    update = ObjectUpdate(write)

    def make(existing: StoreEntry | None) -> NewVersion:
        live = update.live(existing)
        new, problems = patch.applied_to(live)
        check_size(new)
        problems += [f'unknown field "{path}"' for path in strategy.unknown(new)]
        write.warn(*patch.warnings(problems, new, write.options.field_validation))
        new = strategy.default(new) if strategy.default_patched is None else strategy.default_patched(new, live)
        return NewVersion(write.record_owners(new, live), live)

    return await update.commit(make)


async def _apply(write: WriteRequest) -> ApiResponse:
    """Server-side apply: read, merge by field owners, check types, default, validate, and create or update."""
    request, served = write.request, write.served
    configuration = await decode_in_thread(request, read_configuration, write)
    update = ObjectUpdate(write)

    def make(existing: StoreEntry | None) -> NewVersion:
        live = None if existing is None and not request.subresource else update.live(existing)
        new = check_size(write.apply(live, configuration))
        if live is None and (uid := new["metadata"].get("uid")):
            why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise conflict(served.resource, request.name, why)
        # The merge checks the shape of values; this checks their texts, such as quantities and times.
        check_types(new, write.expected)
        return NewVersion(served.strategy.default(new), live)

    return await update.commit(make)


def patch_type_of(request: ApiRequest) -> str:
    """The content type of a patch; UnsupportedMediaType if the resource does not accept it."""
    patch_type = request.content_type.partition(";")[0].strip()
    if request.served.definition:
        if patch_type not in _TYPES:
            raise unknown_patch_type()
    elif patch_type not in _CUSTOM_TYPES:
        raise unknown_format(*_CUSTOM_TYPES)
    return patch_type


@dataclass(frozen=True, slots=True)
class Patch:
    """A decoded patch, and the problems that strict decoding found in it."""

    type: str
    content: Any
    expected: ExpectedKind
    problems: tuple[str, ...] = ()

    def applied_to(self, live: Document) -> tuple[Document, list[str]]:
        """The patched object, and the problems that strict decoding finds in the patch and the object."""
        document = self._apply(live)
        if not isinstance(document, dict):
            raise self._no_object(document, "json: cannot unmarshal it into an object")
        if self.type == STRATEGIC_PATCH:
            # Upstream decodes the result into the kind's Go type, so the patch cannot change kind or apiVersion.
            document = {**document, "kind": self.expected.kind, "apiVersion": self.expected.api_version}
        kind, api_version = document.get("kind"), document.get("apiVersion")
        if not self.expected.definition and isinstance(kind, str) and kind not in ("", self.expected.kind):
            raise other_kind(document, kind, self.expected)
        if (kind, api_version) != (self.expected.kind, self.expected.api_version):
            kind_text, version_text = field_errors.go_quote(str(kind)), field_errors.go_quote(str(api_version))
            raise self._no_object(document, f"no kind {kind_text} is registered for version {version_text}")
        if not isinstance(document.get("metadata"), dict):
            document = {**document, "metadata": {}}
        describe = conversion_error if self.type == STRATEGIC_PATCH else fatal_error
        # A value that the patch did not touch is the same Python object and was checked when it was stored.
        touched = {name: value for name, value in document.items() if name not in live or value is not live[name]}
        fatal, unknown = type_problems(touched, self.expected, describe)
        if fatal:
            raise self._no_object(document, fatal)
        return {**document, **touched}, [*self.problems, *unknown]

    def warnings(self, problems: list[str], document: Document, validation: str) -> tuple[str, ...]:
        """The warnings for the sender; raises Invalid if it asked for strict validation."""
        if not problems or validation == IGNORE:
            return ()
        if validation == STRICT:
            raise self._no_object(document, f"strict decoding error: {', '.join(problems)}")
        return tuple(problems)

    def _apply(self, live: Document) -> Any:
        try:
            if self.type == JSON_PATCH:
                return apply_json(live, self.content)
            if self.type == MERGE_PATCH:
                return apply_merge(live, self.content)
            return apply_strategic(live, self.content, self.expected.definition)
        except TooManyOperationsError as error:
            raise TooLarge(f"Request entity too large: {error}") from error
        except MalformedPatchError as error:
            raise BadRequest(str(error)) from error
        except PatchError as error:
            raise unprocessable() if self.type == JSON_PATCH else BadRequest(str(error)) from error

    def _no_object(self, document: Any, why: str) -> Invalid:
        """The error for a patch whose result is not an object of the kind."""
        shown = go_text(self.content) if self.type == STRATEGIC_PATCH else encode(document).decode()
        return invalid("", "", "", [field_errors.invalid("patch", shown, why)])


def read_patch(patch_type: str, body: bytes, expected: ExpectedKind) -> Patch:
    """Decodes the body of a patch request; BadRequest if it is malformed."""
    # Upstream's messages for JSON and merge patches start with this.
    prefix = "" if patch_type == STRATEGIC_PATCH else "error decoding patch: "
    try:
        content, duplicates = parse_json(body)
    except ValueError as error:
        raise BadRequest(f"{prefix}{error}") from error
    problems = [f'duplicate field "{path}"' for path in duplicates]
    if content is None:
        content = [] if patch_type == JSON_PATCH else {}
    if patch_type == JSON_PATCH:
        problems = [f"json patch {problem}" for problem in (*_operations_problems(content, prefix), *problems)]
    elif not isinstance(content, dict):
        raise BadRequest(
            f"{prefix}json: cannot unmarshal {json_name(content)} into Go value of type map[string]interface {{}}"
        )
    return Patch(patch_type, content, expected, tuple(problems))


def _operations_problems(content: Any, prefix: str) -> list[str]:
    """The unknown fields of a JSON patch's operations; BadRequest if it is not a list of operations."""
    unfit = f"{prefix}json: cannot unmarshal"
    if not isinstance(content, list):
        raise BadRequest(f"{unfit} {json_name(content)} into Go value of type []handlers.jsonPatchOp")
    problems: list[str] = []
    for index, operation in enumerate(content):
        if not isinstance(operation, dict):
            raise BadRequest(f"{unfit} {json_name(operation)} into Go value of type handlers.jsonPatchOp")
        for name in ("op", "path", "from"):
            if not isinstance(operation.get(name, ""), str):
                field = f"Go struct field jsonPatchOp.{name} of type string"
                raise BadRequest(f"{unfit} {json_name(operation[name])} into {field}")
        problems += [f'unknown field "[{index}].{name}"' for name in operation if name not in _OPERATION_FIELDS]
    return problems


def json_name(value: Any) -> str:
    """Go's name for the type of a JSON value."""
    return _GO_NAMES.get(type(value), "number")


def read_configuration(write: WriteRequest) -> Document:
    """Decodes the configuration that a client applies, with only the fields that the client wrote."""
    documents, errors = read_stream(write.request.body)
    if errors:
        raise BadRequest(f"error decoding YAML: error converting YAML to JSON: {errors[0].upstream}")
    # An empty body is an object without fields.
    document = documents[0].value if documents and documents[0].value is not None else {}
    if not isinstance(document, dict):
        raise BadRequest(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: "
            f"json: cannot unmarshal {json_name(document)} into Go value of type map[string]interface {{}}"
        )
    repeated = documents[0].duplicates() if documents and write.options.field_validation == STRICT else ()
    if repeated:
        # Upstream's warning contains a line break, which a header cannot hold, so only strict validation reports it.
        lines = "".join(f'\n  line {at.line}: key "{path[-1]}" already set in map' for path, at, _ in repeated)
        raise BadRequest(f"error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:{lines}")
    if not isinstance(document.get("metadata"), dict):
        document["metadata"] = {}
    return document
