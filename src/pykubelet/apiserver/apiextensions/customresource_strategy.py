"""The strategy of custom objects: preparation, validation and warnings by their definition's schema.

CEL is imported only when a schema has rules, because few have and the interpreter is large.

Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/strategy.go,
staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/status_strategy.go,
staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/validator.go
"""

from collections.abc import Callable, Mapping, Sequence

from pykubelet.api.errors import Forbidden
from pykubelet.api.field_errors import ErrorType, FieldError, go_quote, invalid
from pykubelet.api.names import qualified_name_errors
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.apiserver.apiextensions.customresource import CustomKind
from pykubelet.apiserver.apiextensions.schema.listtype import list_type_errors
from pykubelet.apiserver.apiextensions.schema.objectmeta import embedded_errors
from pykubelet.apiserver.apiextensions.schema.validation import ABSENT, NO_PATH, value_errors
from pykubelet.apiserver.tables.jsonpath import JsonPathError, find
from pykubelet.kinds.go_values import printed
from pykubelet.kinds.kind import Strategy, Warnings
from pykubelet.kinds.metadata import generic_metadata_errors, metadata_update_errors

_BLOCKING = frozenset(
    {ErrorType.NOT_SUPPORTED, ErrorType.REQUIRED, ErrorType.TOO_LONG, ErrorType.TOO_MANY, ErrorType.TYPE_INVALID}
)
_RULES_NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
_IDENTITY = frozenset({"apiVersion", "kind", "metadata"})


def custom_strategy(
    kind: CustomKind, resource: Resource, *, has_status: bool, selectable: Sequence[str], is_terminating: bool
) -> Strategy:
    """Creates the strategy of one version of a custom resource."""
    rules = _Rules(kind, resource, has_status=has_status)

    def refuse(document: Document) -> Document:
        name = document.get("metadata", {}).get("name", "")
        raise Forbidden(
            f'{resource.group_resource} "{name}" is forbidden: '
            "create not allowed while custom resource definition is terminating",
            details={"name": name, "group": resource.group, "kind": resource.plural},
        )

    return Strategy(
        default=kind.defaulted,
        prepare_create=refuse if is_terminating else rules.prepare_create,
        validate_create=rules.validate_create,
        prepare_update=rules.prepare_update,
        validate_update=rules.validate_update,
        prepare_status=_prepare_status,
        validate_status=rules.validate_status,
        warnings=Warnings(create=finalizer_warnings, update=rules.change_warnings, status=rules.rule_warnings),
        fields=_selectable_fields(selectable, namespaced=resource.namespaced),
        unknown=kind.unknown_fields,
        allows_unconditional_update=False,
    )


class _Rules:
    """Preparation and validation of one version of a custom resource."""

    def __init__(self, kind: CustomKind, resource: Resource, *, has_status: bool) -> None:
        self._kind = kind
        self._resource = resource
        self._has_status = has_status

    def prepare_create(self, document: Document) -> Document:
        kept = {key: value for key, value in document.items() if key != "status" or not self._has_status}
        return {**kept, "metadata": {**document.get("metadata", {}), "generation": 1}}

    def prepare_update(self, new: Document, old: Document) -> Document:
        if self._has_status:
            new = _with_status_of(new, old)
        generation = old.get("metadata", {}).get("generation", 1)
        if _content(new) != _content(old):
            generation += 1
        return {**new, "metadata": {**new.get("metadata", {}), "generation": generation}}

    def validate_create(self, document: Document) -> list[FieldError]:
        schema = self._kind.schema
        errors = [
            *generic_metadata_errors(document.get("metadata", {}), namespaced=self._resource.namespaced),
            *value_errors(document, schema),
            *self._scale_errors(document),
            *embedded_errors(document, schema),
            *list_type_errors(document, schema),
        ]
        return errors + self._rule_errors(errors, document, None)

    def validate_update(self, new: Document, old: Document) -> list[FieldError]:
        schema = self._kind.schema
        errors = [
            *metadata_update_errors(new.get("metadata", {}), old.get("metadata", {})),
            *value_errors(new, schema, old=old),
            *self._scale_errors(new),
            *embedded_errors(new, schema),
            *self._new_list_errors(new, old),
        ]
        return errors + self._rule_errors(errors, new, old)

    def validate_status(self, new: Document, old: Document) -> list[FieldError]:
        errors = metadata_update_errors(new.get("metadata", {}), old.get("metadata", {}))
        status_schema = self._kind.schema.properties.get("status")
        if status_schema is not None and "status" in new:
            errors += value_errors(new["status"], status_schema, path="status", old=old.get("status", ABSENT))
        if self._kind.scale is not None:
            errors += self._kind.scale.status_errors(new)
        errors += self._new_list_errors(new, old)
        return errors + self._rule_errors(errors, new, old)

    def _rule_errors(self, found: list[FieldError], new: Document, old: Document | None) -> list[FieldError]:
        """Evaluates the CEL rules, if the object is otherwise valid."""
        if not self._kind.schema.has_rules:
            return []
        if any(error.type in _BLOCKING for error in found):
            return [invalid(NO_PATH, None, _RULES_NOT_CHECKED)]
        # Few definitions have rules, and the interpreter is large.
        from pykubelet.apiserver.apiextensions.cel.compilation import resource_rules
        from pykubelet.apiserver.apiextensions.cel.validation import rule_errors

        return rule_errors(resource_rules(self._kind.schema), new, old)

    def change_warnings(self, new: Document, old: Document) -> list[str]:
        return [*finalizer_change_warnings(new, old), *self.rule_warnings(new, old)]

    def rule_warnings(self, new: Document, old: Document) -> list[str]:
        """Warns about CEL rules that an update breaks as the old object did."""
        if not self._kind.schema.has_rules:
            return []
        from pykubelet.apiserver.apiextensions.cel.compilation import resource_rules
        from pykubelet.apiserver.apiextensions.cel.validation import rule_warnings

        return rule_warnings(resource_rules(self._kind.schema), new, old)

    def _scale_errors(self, document: Document) -> list[FieldError]:
        scale = self._kind.scale
        return [] if scale is None else [*scale.spec_errors(document), *scale.status_errors(document)]

    def _new_list_errors(self, new: Document, old: Document) -> list[FieldError]:
        """Validates list sets and list maps, unless the old object already had duplicates."""
        errors = list_type_errors(new, self._kind.schema)
        return [] if errors and list_type_errors(old, self._kind.schema) else errors


def _prepare_status(new: Document, old: Document) -> Document:
    """Keeps everything but the status; field managers come from the new object."""
    metadata = dict(old.get("metadata", {}))
    metadata.pop("managedFields", None)
    if managed := new.get("metadata", {}).get("managedFields"):
        metadata["managedFields"] = managed
    return _with_status_of({**old, "metadata": metadata}, new)


def _with_status_of(document: Document, other: Document) -> Document:
    kept = {key: value for key, value in document.items() if key != "status"}
    return {**kept, "status": other["status"]} if "status" in other else kept


def _content(document: Document) -> Document:
    return {key: value for key, value in document.items() if key not in _IDENTITY}


def _selectable_fields(paths: Sequence[str], *, namespaced: bool) -> Callable[[Document], Mapping[str, str]]:
    def fields(document: Document) -> Mapping[str, str]:
        metadata = document.get("metadata", {})
        found = {"metadata.name": metadata.get("name", "")}
        if namespaced:
            found["metadata.namespace"] = metadata.get("namespace", "")
        for path in paths:
            found[path.removeprefix(".")] = _field_text(path, document)
        return found

    return fields


def _field_text(path: str, document: Document) -> str:
    try:
        values = find(path, document)
    except JsonPathError:
        return ""
    return printed(values[0]) if values and values[0] is not None else ""


_STANDARD = frozenset({"orphan", "foregroundDeletion", "kubernetes"})
_AVOIDS = "to avoid accidental conflicts with other finalizer writers"


def finalizer_warnings(document: Document) -> list[str]:
    """Warns about finalizers of a new object whose names lack a domain."""
    return _warnings(_finalizers(document))


def finalizer_change_warnings(new: Document, old: Document) -> list[str]:
    """Warns about such finalizers that an update adds."""
    return _warnings(_finalizers(new) - _finalizers(old))


def _finalizers(document: Document) -> set[str]:
    return set(document["metadata"].get("finalizers", ()))


def _warnings(finalizers: set[str]) -> list[str]:
    warnings: list[str] = []
    for name in sorted(finalizers):
        at = f"metadata.finalizers: {go_quote(name)}:"
        warnings += [f"{at} {why}" for why in qualified_name_errors(name)]
        if "/" not in name and name not in _STANDARD:
            path = " including a path (/)" if "." in name else ""
            warnings.append(f"{at} prefer a domain-qualified finalizer name{path} {_AVOIDS}")
    return warnings
