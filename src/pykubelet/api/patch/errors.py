"""Errors of patches, with Kubernetes' messages.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/mergepatch/errors.go,
staging/src/k8s.io/apimachinery/pkg/util/strategicpatch/errors.go
"""

from typing import Any

from pykubelet.api.go_print import go_text, go_type_name


class PatchError(ValueError):
    """The patch cannot be created or applied: the patch or the document is invalid."""


class MalformedDocumentError(PatchError):
    """The document to be patched is not JSON, or not patchable JSON."""


class MalformedPatchError(PatchError):
    """The patch is malformed, whatever it is applied to."""


class UnknownFieldError(PatchError):
    """A map or list has a field name that the schema lacks, so its merge strategy is unknown."""


class TooManyOperationsError(PatchError):
    """A JSON patch has more operations than the API server accepts."""


class ConflictError(PatchError):
    """A three-way patch would overwrite a concurrent change."""


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
