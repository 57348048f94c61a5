"""JSON patches (RFC 6902), with the limits and leniency of kube-apiserver.

The `jsonpatch` library applies each operation. Where upstream accepts more than the RFC, the operation is rewritten
first: an index may count from the end, `replace` may create a key, a missing value is null, text before the first slash
of a path is ignored. The whole document can only be tested or replaced. Inputs are never changed.

Upstream: vendor/gopkg.in/evanphx/json-patch.v4/patch.go, staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go
"""

import re
from collections.abc import Callable
from typing import Any, Final

import jsonpatch
import jsonpointer
import msgspec

from pykubelet.api.go_print import ABSENT, json_equal
from pykubelet.api.patch.errors import MalformedPatchError, PatchError, TooManyOperationsError

MAX_OPERATIONS: Final = 10_000
MAX_COPIED_BYTES: Final = 3 * 1024 * 1024
"""Limit on the JSON text that the `copy` operations of one patch add: a short patch must not create a huge document."""

# No list has an index of so many digits, and Python refuses to convert thousands of them.
_MAX_INDEX_DIGITS: Final = 20
_INDEX: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)

Operation = dict[str, Any]
Container = dict[str, Any] | list[Any]


def apply_json(original: Any, patch: Any) -> Any:
    """Applies all operations in order to an object or list.

    Raises `MalformedPatchError` if the patch is not a list of objects, `TooManyOperationsError` if it is too long, and
    `PatchError` if an operation does not apply. Failed patches have no effect.
    """
    if type(patch) is not list or not all(type(operation) is dict for operation in patch):
        raise MalformedPatchError("error decoding patch: a JSON patch is a list of operations")
    if len(patch) > MAX_OPERATIONS:
        raise TooManyOperationsError(
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(patch)}"
        )
    patching = _Patching(original)
    for operation in patch:
        patching.carry_out(operation)
    return patching.document


class _Patching:
    """A document during a patch. Containers are copied once, before their first change."""

    def __init__(self, document: Any) -> None:
        self.document = document
        # By id; the reference prevents reuse of the id.
        self._own: dict[int, Container] = {}
        self._copied_bytes = 0
        self._kinds: dict[Any, Callable[[Operation], None]] = {
            "add": self._add,
            "remove": self._remove,
            "replace": self._replace,
            "move": self._move,
            "copy": self._copy,
            "test": self._test,
        }

    def carry_out(self, operation: Operation) -> None:
        kind = operation.get("op")
        if not isinstance(kind, str) or kind not in self._kinds:
            raise PatchError(f"Unexpected kind: {kind if isinstance(kind, str) else 'unknown'}")
        try:
            self._kinds[kind](operation)
        except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException) as error:
            raise PatchError(f"{kind} operation does not apply: {error}") from error

    def _add(self, operation: Operation) -> None:
        self._put(_member(operation, "path"), operation.get("value"))

    def _remove(self, operation: Operation) -> None:
        container, key = self._locate(_member(operation, "path"))
        _step("remove", container, key)

    def _replace(self, operation: Operation) -> None:
        path, value = _member(operation, "path"), operation.get("value")
        if path:
            container, key = self._locate(path)
            is_new = type(container) is dict and key not in container
            _step("add" if is_new else "replace", container, key, value)
        elif type(value) in (dict, list):
            self.document = value

    def _move(self, operation: Operation) -> None:
        container, key = self._locate(_member(operation, "from"))
        value = _get(container, key)
        _step("remove", container, key)
        self._put(_member(operation, "path"), None if value is ABSENT else value)

    def _copy(self, operation: Operation) -> None:
        container, key = self._locate(_member(operation, "from"), changing=False)
        value = _get(container, key)
        if value is ABSENT and type(container) is list:
            raise PatchError(f"Unable to access invalid index: {key}")
        if value is ABSENT or value is None:
            value = None
        else:
            self._copied_bytes += len(msgspec.json.encode(value))
        if self._copied_bytes > MAX_COPIED_BYTES:
            raise PatchError(
                f"Unable to complete the copy, the accumulated size increase of copy is {self._copied_bytes}, "
                f"exceeding the limit {MAX_COPIED_BYTES}"
            )
        self._put(_member(operation, "path"), value)

    def _test(self, operation: Operation) -> None:
        path, value = _member(operation, "path"), operation.get("value", ABSENT)
        found = self.document
        if path:
            container, key = self._locate(path, changing=False)
            found = _get(container, key)
            if found is ABSENT and type(container) is dict:
                found = None
        if value is ABSENT or not json_equal(found, value):
            raise PatchError(f"testing value {path} failed: test failed")

    def _put(self, path: str, value: Any) -> None:
        container, key = self._locate(path, room=1)
        _step("add", container, key, value)

    def _locate(self, path: str, *, changing: bool = True, room: int = 0) -> tuple[Container, str]:
        """Returns the container that a path points into, and the key or index in it.

        With `changing`, all containers on the path are copied. `room` is 1 where an index may point past the last item.
        """
        _, *parts = path.split("/")
        if not parts:
            raise _missing(path)
        *parents, last = (jsonpointer.unescape(part) for part in parts)
        container = self._entered(self.document, path, changing=changing)
        if changing:
            self.document = container
        for part in parents:
            key = _index(container, part)
            inner = self._entered(_get(container, key), path, changing=changing)
            if changing and type(container) is list:
                container[int(key)] = inner
            elif changing and type(container) is dict:
                container[key] = inner
            container = inner
        return container, _index(container, last, room)

    def _entered(self, value: Any, path: str, *, changing: bool) -> Any:
        """Returns the value if it is a container; with `changing`, our own copy."""
        if type(value) not in (dict, list):
            raise _missing(path)
        if not changing or id(value) in self._own:
            return value
        copied: Container = value.copy()
        self._own[id(copied)] = copied
        return copied


def _member(operation: Operation, name: str) -> str:
    value = operation.get(name)
    if not isinstance(value, str):
        raise PatchError(f"operation missing {name} field")
    return value


def _missing(path: str) -> PatchError:
    return PatchError(f'doc is missing path: "{path}"')


def _index(container: Any, part: str, room: int = 0) -> str:
    """Converts a path segment to the RFC's form: list indexes count from the start."""
    if type(container) is dict or not _INDEX.fullmatch(part):
        return part
    if len(part) > _MAX_INDEX_DIGITS:
        raise PatchError(f"Unable to access invalid index: {part}")
    index = int(part)
    if index < 0:
        index += len(container) + room
    if not 0 <= index < len(container) + room:
        raise PatchError(f"Unable to access invalid index: {part}")
    return str(index)


def _get(container: Any, key: str) -> Any:
    """Returns the value at a key or index, or ABSENT."""
    if type(container) is dict:
        return container.get(key, ABSENT)
    return container[int(key)] if key.isdecimal() else ABSENT


def _step(kind: str, container: Any, key: str, value: Any = None) -> None:
    """Applies one RFC operation to a container that we own."""
    operation = {"op": kind, "path": f"/{jsonpointer.escape(key)}", "value": value}
    jsonpatch.JsonPatch([operation]).apply(container, in_place=True)
