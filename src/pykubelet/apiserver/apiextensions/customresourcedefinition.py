"""The strategy of CustomResourceDefinitions: defaults, preparation, deletion with cleanup finalizer.

Validation is imported when the first definition is written, not when the server starts.

Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/strategy.go,
staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/etcd.go,
staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/defaults.go
"""

from pykubelet.api.errors import BadRequest
from pykubelet.api.field_errors import FieldError
from pykubelet.api.normal_form import normal_form, without_null_fields
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document, copied
from pykubelet.api.strict import check_object
from pykubelet.apiserver.apiextensions.formats import format_change_warnings, format_warnings
from pykubelet.apiserver.apiextensions.status import CrdCondition, with_condition
from pykubelet.kinds.kind import Kind, Strategy, Warnings
from pykubelet.kinds.metadata import metadata_update_errors

COLLECTION = "customresourcedefinitions.apiextensions.k8s.io"
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_DEFINITION = "apiextensions.v1.CustomResourceDefinition"
_SCHEMA = "apiextensions.v1.JSONSchemaProps"
_HTTPS = 443
# What is stored must also be encoded as protobuf, and Python allows about 1,000 calls, three for a level.
_DEEPEST = 150
_NEW_STATUS: Document = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}}
_DELETION_PENDING = CrdCondition(
    "Terminating",
    "True",
    "InstanceDeletionPending",
    "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
)


def _default(document: Document) -> Document:
    try:
        document = without_null_fields(document, _DEFINITION)
    except RecursionError:
        raise _too_deep() from None
    spec = document.get("spec") or {}
    names = dict(spec.get("names") or {})
    kind = names.get("kind", "")
    if kind and not names.get("singular"):
        names["singular"] = kind.lower()
    if kind and not names.get("listKind"):
        names["listKind"] = f"{kind}List"
    try:
        versions = [_with_plain_schema(version) for version in spec.get("versions") or ()]
    except RecursionError:
        raise _too_deep() from None
    filled = {**spec, "names": names, "conversion": _with_port(spec.get("conversion") or {"strategy": "None"})}
    return {**document, "spec": {**filled, "versions": versions} if "versions" in spec else filled}


def _too_deep() -> BadRequest:
    return BadRequest("the schema of a version is nested too deeply")


def _with_port(conversion: Document) -> Document:
    service = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service")
    if service is None or service.get("port") is not None:
        return conversion
    webhook = conversion["webhook"]
    client = {**webhook["clientConfig"], "service": {**service, "port": _HTTPS}}
    return {**conversion, "webhook": {**webhook, "clientConfig": client}}


def _with_plain_schema(version: Document) -> Document:
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema is None:
        return version
    return {**version, "schema": {"openAPIV3Schema": _plain(schema)}}


def _plain(schema: Document, depth: int = 0) -> Document:
    """Decodes the schemas in `items` and `additionalProperties`, whose type the generic decoder does not know."""
    if depth > _DEEPEST:
        raise _too_deep()
    plain, depth = dict(schema), depth + 1
    for key in ("items", "additionalProperties"):
        if isinstance(inner := schema.get(key), dict):
            plain[key] = _plain(_read(inner, key), depth)
        elif isinstance(inner, str | int | float) and not isinstance(inner, bool):
            raise BadRequest(f"json: cannot unmarshal {key} of a schema into Go value of type v1.JSONSchemaProps")
    for key in ("properties", "patternProperties", "definitions"):
        if isinstance(inner := schema.get(key), dict):
            plain[key] = {name: _plain(each, depth) for name, each in inner.items()}
    for key in ("allOf", "anyOf", "oneOf"):
        if isinstance(inner := schema.get(key), list):
            plain[key] = [_plain(each, depth) for each in inner]
    if isinstance(inner := schema.get("not"), dict):
        plain["not"] = _plain(inner, depth)
    return plain


def _read(schema: Document, key: str) -> Document:
    # Strict decoding normalises in place, so it gets a copy.
    own = copied(schema)
    wrong = next((finding for finding in check_object(own, _SCHEMA) if not finding.at_key), None)
    if wrong is not None:
        where = ".".join(map(str, (key, *wrong.path)))
        raise BadRequest(f"json: cannot unmarshal {where} of a schema: {wrong.message}")
    return normal_form(own, _SCHEMA)


def _with_stored_version(document: Document) -> Document:
    """Adds the storage version to status.storedVersions."""
    status = document["status"]
    stored = status.get("storedVersions") or []
    for version in document.get("spec", {}).get("versions") or ():
        if version.get("storage"):
            if version.get("name") not in stored:
                stored = [*stored, version.get("name")]
            break
    return {**document, "status": {**status, "storedVersions": stored or None}}


def _prepare_create(document: Document) -> Document:
    metadata = {**document.get("metadata", {}), "generation": 1}
    return _with_stored_version({**document, "metadata": metadata, "status": _NEW_STATUS})


def _prepare_update(new: Document, old: Document) -> Document:
    generation = old["metadata"].get("generation", 1)
    if new.get("spec") != old.get("spec"):
        generation += 1
    metadata = {**new.get("metadata", {}), "generation": generation}
    return _with_stored_version({**new, "metadata": metadata, "status": old.get("status") or _NEW_STATUS})


# Imported when the first definition is written, not at the start of every server.
def _validate_create(document: Document) -> list[FieldError]:
    from pykubelet.apiserver.apiextensions.validation.customresourcedefinition import definition_errors

    return definition_errors(document)


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    from pykubelet.apiserver.apiextensions.validation.customresourcedefinition import definition_update_errors

    return definition_update_errors(new, old)


def _validate_status(new: Document, old: Document) -> list[FieldError]:
    from pykubelet.apiserver.apiextensions.validation.customresourcedefinition import status_errors

    return [*metadata_update_errors(new["metadata"], old["metadata"]), *status_errors(new.get("status", {}))]


def _prepare_delete(document: Document) -> Document:
    """Keeps the definition until the finalizer has deleted its objects."""
    metadata = document["metadata"]
    finalizers = metadata.get("finalizers", [])
    if CLEANUP not in finalizers:
        document = {**document, "metadata": {**metadata, "finalizers": [*finalizers, CLEANUP]}}
    return with_condition(document, _DELETION_PENDING, metadata.get("deletionTimestamp", ""))


KIND = Kind(
    resource=Resource(
        "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
    ),
    definition=_DEFINITION,
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    subresources=("status",),
    strategy=Strategy(
        default=_default,
        prepare_create=_prepare_create,
        validate_create=_validate_create,
        prepare_update=_prepare_update,
        validate_update=_validate_update,
        prepare_status=lambda new, old: {**new, "spec": old["spec"]},
        validate_status=_validate_status,
        prepare_delete=_prepare_delete,
        warnings=Warnings(create=format_warnings, update=format_change_warnings),
        allows_unconditional_update=False,
    ),
)
