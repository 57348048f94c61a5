"""Validates CustomResourceDefinitions: names, versions, conversion and API approval.

Errors come in the API server's order.

Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go
"""

from collections.abc import Iterator
from urllib.parse import urlsplit

from pykubelet.api.field_errors import FieldError, TypedString, forbidden, go_quote, invalid, not_supported, required
from pykubelet.api.names import dns1035_label_errors, dns1123_subdomain_errors
from pykubelet.api.serializer import Document
from pykubelet.apiserver.apiextensions.status import is_true
from pykubelet.apiserver.apiextensions.validation.per_version import (
    columns_errors,
    display_versions,
    is_shared,
    per_version,
    selectable_errors,
    shared_values,
    subresources_errors,
    validation_errors,
    warning_errors,
)
from pykubelet.kinds.metadata import generic_metadata_errors, immutable_errors, metadata_update_errors

_APPROVED = "api-approved.kubernetes.io"
_PROTECTED = ("k8s.io", "kubernetes.io")
_DISCUSSION = "see https://github.com/kubernetes/enhancements/pull/1111"
_MIXED_CASE = "may have mixed case, but should otherwise match: "


def definition_errors(definition: Document) -> list[FieldError]:
    spec, status = definition.get("spec", {}), definition.get("status", {})
    wanted = f"{spec.get('names', {}).get('plural', '')}.{spec.get('group', '')}"

    def name_errors(name: str) -> list[str]:
        errors = dns1123_subdomain_errors(name)
        return errors if name == wanted else [*errors, 'must be spec.names.plural+"."+spec.group']

    return [
        *generic_metadata_errors(definition.get("metadata", {}), name_rule=name_errors, namespaced=False),
        *_spec_errors(spec),
        *status_errors(status),
        *_stored_version_errors(status.get("storedVersions"), spec),
        *_approval_errors(definition, None),
        *_preserve_errors(spec, {}),
    ]


def definition_update_errors(new: Document, old: Document) -> list[FieldError]:
    spec, before = new.get("spec", {}), old.get("spec", {})
    names, names_before = spec.get("names", {}), before.get("names", {})
    errors = [*metadata_update_errors(new.get("metadata", {}), old.get("metadata", {})), *_spec_errors(spec)]
    if is_true(old, "Established"):
        scope = TypedString(spec.get("scope", ""))
        errors += immutable_errors(spec.get("scope", ""), before.get("scope", ""), "spec.scope", shown=scope)
        errors += immutable_errors(names.get("kind", ""), names_before.get("kind", ""), "spec.names.kind")
    errors += immutable_errors(spec.get("group", ""), before.get("group", ""), "spec.group")
    errors += immutable_errors(names.get("plural", ""), names_before.get("plural", ""), "spec.names.plural")
    status = new.get("status", {})
    return [
        *errors,
        *status_errors(status),
        *_stored_version_errors(status.get("storedVersions"), spec),
        *_approval_errors(new, old),
        *_preserve_errors(spec, before),
    ]


def status_errors(status: Document) -> list[FieldError]:
    return list(_names_errors(status.get("acceptedNames", {}), "status.acceptedNames"))


def _spec_errors(spec: Document) -> Iterator[FieldError]:
    yield from _group_errors(spec.get("group", ""))
    scope = spec.get("scope", "")
    if not scope:
        yield required("spec.scope")
    elif scope not in {"Cluster", "Namespaced"}:
        yield not_supported("spec.scope", scope, ["Cluster", "Namespaced"])
    versions = spec.get("versions") or []
    for index, version in enumerate(versions):
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            yield required(f"spec.versions[{index}].schema.openAPIV3Schema")
    for index in range(len(versions)):
        yield from _version_errors(spec, index)
    names = [version.get("name", "") for version in versions]
    if len(set(names)) != len(names):
        yield invalid("spec.versions", display_versions(spec), "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        detail = "must have exactly one version marked as storage version"
        yield invalid("spec.versions", display_versions(spec), detail)
    for key in ("plural", "singular", "kind", "listKind"):
        if not spec.get("names", {}).get(key):
            yield required(f"spec.names.{key}")
    yield from _names_errors(spec.get("names", {}), "spec.names")
    yield from _shared_errors(spec)
    yield from _conversion_errors(spec)


def _group_errors(group: str) -> Iterator[FieldError]:
    if not group:
        yield required("spec.group")
    elif errors := dns1123_subdomain_errors(group):
        yield invalid("spec.group", group, ",".join(errors))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")


def _version_errors(spec: Document, index: int) -> Iterator[FieldError]:
    """Validates the fields of one version that differ between versions."""
    version, path = spec["versions"][index], f"spec.versions[{index}]"
    if errors := dns1035_label_errors(version.get("name", "")):
        yield invalid(f"{path}.name", version.get("name", ""), ",".join(errors))
    yield from warning_errors(version, path)
    has_status = (version.get("subresources") or {}).get("status") is not None
    if (found := per_version(spec, "schema", index)) and found[0].get("openAPIV3Schema"):
        yield from validation_errors(found[0]["openAPIV3Schema"], f"{found[1]}.openAPIV3Schema", has_status=has_status)
    if found := per_version(spec, "subresources", index):
        yield from subresources_errors(*found)
    if found := per_version(spec, "additionalPrinterColumns", index):
        yield from columns_errors(*found)
    if found := per_version(spec, "selectableFields", index):
        schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        yield from selectable_errors(found[0], schema, found[1])


def _shared_errors(spec: Document) -> Iterator[FieldError]:
    versions = spec.get("versions") or []
    has_status = any((version.get("subresources") or {}).get("status") is not None for version in versions)
    for schema, path in shared_values(spec, "schema"):
        if stated := schema.get("openAPIV3Schema"):
            yield from validation_errors(stated, f"{path}.openAPIV3Schema", has_status=has_status)
    for subresources, path in shared_values(spec, "subresources"):
        yield from subresources_errors(subresources, path)
    for columns, path in shared_values(spec, "additionalPrinterColumns"):
        yield from columns_errors(columns, path)
    for fields, path in shared_values(spec, "selectableFields"):
        if is_shared(spec, "schema"):
            schema = (versions[0].get("schema") or {}).get("openAPIV3Schema") or {}
            yield from selectable_errors(fields, schema, path)
        else:
            yield invalid(path, "", "may only be set when validations.schema is included")


def _names_errors(names: Document, path: str) -> Iterator[FieldError]:
    for key in ("plural", "singular"):
        if names.get(key) and (errors := dns1035_label_errors(names[key])):
            yield invalid(f"{path}.{key}", names[key], ",".join(errors))
    for key in ("kind", "listKind"):
        if names.get(key) and (errors := dns1035_label_errors(names[key].lower())):
            yield invalid(f"{path}.{key}", names[key], f"{_MIXED_CASE}{','.join(errors)}")
    yield from _each_name_errors(names, "shortNames", path)
    if names.get("kind") and names["kind"] == names.get("listKind"):
        yield invalid(f"{path}.listKind", names["listKind"], "kind and listKind may not be the same")
    yield from _each_name_errors(names, "categories", path)


def _each_name_errors(names: Document, key: str, path: str) -> Iterator[FieldError]:
    for index, name in enumerate(names.get(key) or ()):
        if errors := dns1035_label_errors(name):
            yield invalid(f"{path}.{key}[{index}]", name, ",".join(errors))


def _conversion_errors(spec: Document) -> Iterator[FieldError]:
    conversion = spec.get("conversion")
    if conversion is None:
        return
    strategy, webhook = conversion.get("strategy", ""), conversion.get("webhook")
    at = "spec.conversion"
    if not strategy:
        yield required(f"{at}.strategy")
    elif strategy not in {"None", "Webhook"}:
        yield not_supported(f"{at}.strategy", strategy, ["None", "Webhook"])
    elif strategy == "None" and webhook is not None:
        detail = "should not be set when strategy is not set to Webhook"
        for key, shown in (("clientConfig", "webhookClientConfig"), ("conversionReviewVersions",) * 2):
            if webhook.get(key):
                yield forbidden(f"{at}.{shown}", detail)
    elif strategy == "Webhook" and len(spec.get("versions") or ()) > 1:
        # A single version is never converted; with several, objects could be stored that cannot be converted.
        yield invalid(f"{at}.strategy", TypedString(strategy), "conversion webhooks are not supported by this server")


def _stored_version_errors(stored: list[str] | None, spec: Document) -> Iterator[FieldError]:
    at = "status.storedVersions"
    if not stored:
        yield invalid(at, stored, "must have at least one stored version")
        return
    versions = spec.get("versions") or []
    stored_names = set(stored)
    for version in versions:
        if version.get("storage") and version.get("name") not in stored_names:
            yield invalid(at, stored, f"must have the storage version {version.get('name', '')}")
    known = {version.get("name") for version in versions}
    for index, name in enumerate(stored):
        if name not in known:
            detail = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions "
                f"until a storage migration ensures no data remains persisted in {name} and removes {name} from "
                "status.storedVersions"
            )
            yield invalid(f"{at}[{index}]", name, detail)


def _approval_errors(new: Document, old: Document | None) -> Iterator[FieldError]:
    """Protects Kubernetes' own API groups: they need an approval annotation."""
    group = new.get("spec", {}).get("group", "")
    if not any(group == name or group.endswith(f".{name}") for name in _PROTECTED):
        return
    state = _approval(new)
    if old is not None and _approval(old) == state:
        return
    at = f"metadata.annotations[{_APPROVED}]"
    detail = f"protected groups must have approval annotation {go_quote(_APPROVED)}"
    if state == "missing":
        yield required(at, f"{detail}, {_DISCUSSION}")
    elif state == "invalid":
        why = f'{detail} with either a URL or a reason starting with "unapproved", {_DISCUSSION}'
        yield invalid(at, new["metadata"]["annotations"][_APPROVED], why)


def _approval(definition: Document) -> str:
    annotation = (definition.get("metadata", {}).get("annotations") or {}).get(_APPROVED, "")
    if not annotation:
        return "missing"
    if annotation.startswith("unapproved"):
        return "bypassed"
    try:
        parts = urlsplit(annotation)
    except ValueError:
        return "invalid"
    return "approved" if parts.scheme and parts.netloc else "invalid"


def _preserve_errors(spec: Document, before: Document) -> Iterator[FieldError]:
    if spec.get("preserveUnknownFields") and not before.get("preserveUnknownFields"):
        detail = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        )
        yield invalid("spec.preserveUnknownFields", True, detail)
