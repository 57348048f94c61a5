"""What can go wrong with a patch, as one family of exceptions.

Messages are those of Kubernetes, since clients print them. Every error is a `PatchError`, which is a `ValueError`: the
fault lies in the patch or in the document, never in the moment.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/mergepatch/errors.go, strategicpatch/errors.go.
"""

from typing import Any

from pykubelet.api.go_print import go_text, go_type_name


class PatchError(ValueError):
    """The patch cannot be made or applied."""


class MalformedDocumentError(PatchError):
    """The text to be patched is not JSON, or not JSON that can be patched."""


class MalformedPatchError(PatchError):
    """The patch itself is not of the right form, whatever it is applied to."""


class UnknownFieldError(PatchError):
    """A map or list stands at a field that the definition does not have, so nobody can say how to merge it."""


class TooManyOperationsError(PatchError):
    """A JSON patch has more operations than the API server accepts."""


class ConflictError(PatchError):
    """A three-way patch would undo a change that somebody else made."""


def wrong_type(expected: type, value: Any) -> PatchError:
    return PatchError(f"expected a {go_type_name(expected)}, but received a {go_type_name(type(value))}")


def no_merge_key(item: dict[str, Any], merge_key: str) -> PatchError:
    return PatchError(f"map: {go_text(item)} does not contain declared merge key: {merge_key}")


def unknown_directive(directive: Any, patch: dict[str, Any]) -> MalformedPatchError:
    shown = directive
    if directive is None:
        shown = go_type_name(type(None))
    elif type(directive) is not str:
        shown = f"%!s({go_type_name(type(directive))}={go_text(directive)})"
    return MalformedPatchError(f"unknown patch type: {shown} in map: {go_text(patch)}")
