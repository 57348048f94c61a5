"""Builds the OpenAPI documents: one for v2; an index and a document per group and version for v3.

Clients read the kind of a path here, and the query parameters that the server supports (`dryRun`, `fieldValidation`).

Upstream: vendor/k8s.io/kube-openapi/pkg/builder/openapi.go, vendor/k8s.io/kube-openapi/pkg/builder3/openapi.go,
staging/src/k8s.io/apiserver/pkg/endpoints/installer.go,
staging/src/k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder/builder.go
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from pykubelet.api.serializer import Document, encode
from pykubelet.kinds.kind import Kind

Dialect = Literal["v2", "v3"]

PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
_JSON_TYPES = ("application/json", "application/yaml")
_METHODS = {"get": "get", "list": "get", "create": "post", "update": "put", "patch": "patch"}
_METHODS |= {"delete": "delete", "deletecollection": "delete"}
_ACTIONS = {"create": "post", "update": "put"}

_BOOLEAN, _INTEGER, _STRING = "boolean", "integer", "string"
_PRETTY = {"pretty": _STRING}
_WRITE = {"dryRun": _STRING, "fieldManager": _STRING, "fieldValidation": _STRING}
_SELECT = {
    "allowWatchBookmarks": _BOOLEAN,
    "continue": _STRING,
    "fieldSelector": _STRING,
    "labelSelector": _STRING,
    "limit": _INTEGER,
    "resourceVersion": _STRING,
    "resourceVersionMatch": _STRING,
    "sendInitialEvents": _BOOLEAN,
    "timeoutSeconds": _INTEGER,
    "watch": _BOOLEAN,
}
_REMOVE = {
    "dryRun": _STRING,
    "gracePeriodSeconds": _INTEGER,
    "orphanDependents": _BOOLEAN,
    "propagationPolicy": _STRING,
}
_PARAMETERS: dict[str, dict[str, str]] = {
    "get": _PRETTY,
    "list": _PRETTY | _SELECT,
    "create": _PRETTY | _WRITE,
    "update": _PRETTY | _WRITE,
    "patch": _PRETTY | _WRITE | {"force": _BOOLEAN},
    "delete": _PRETTY | _REMOVE,
    "deletecollection": _PRETTY | _SELECT | _REMOVE,
}


def paths_of(all_served: Iterable[Kind], references: dict[str, str], dialect: Dialect) -> Document:
    """The paths of resources; `references` has the name of each kind's schema, by `group/version/Kind`."""
    paths: Document = {}
    for served in all_served:
        reference = references.get(f"{served.resource.api_version}/{served.resource.kind}", "")
        for path, verbs in _places(served):
            operations = {_METHODS[verb]: _operation(served, verb, reference, dialect) for verb in verbs}
            if operations:
                names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
                parameters = [_parameter(name, _STRING, "path", dialect) for name in names]
                paths[path] = operations | ({"parameters": parameters} if parameters else {})
    return paths


def _places(served: Kind) -> Iterable[tuple[str, list[str]]]:
    """The paths of the collection, the object, and the subresources that have the object's own kind."""
    resource = served.resource
    root = resource.path(namespace="{namespace}")
    verbs = set(served.verbs)
    yield root, [verb for verb in ("list", "create", "deletecollection") if verb in verbs]
    one: list[str] = [verb for verb in ("get", "update", "patch", "delete") if verb in verbs]
    yield f"{root}/{{name}}", one
    if "status" in served.subresources:
        yield f"{root}/{{name}}/status", [verb for verb in one if verb != "delete"]
    if resource.namespaced and "list" in verbs:
        yield resource.path(), ["list"]


def _operation(served: Kind, verb: str, reference: str, dialect: Dialect) -> Document:
    resource = served.resource
    schema: Document = {"$ref": reference} if reference else {"type": "object"}
    parameters = [_parameter(name, kind, "query", dialect) for name, kind in _PARAMETERS[verb].items()]
    consumes = PATCH_TYPES if verb == "patch" else _JSON_TYPES
    operation: Document = {
        "operationId": f"{verb}_{resource.group or 'core'}_{resource.version}_{resource.plural}".replace(".", "_"),
        "x-kubernetes-action": _ACTIONS.get(verb, verb),
        "x-kubernetes-group-version-kind": {
            "group": resource.group,
            "version": resource.version,
            "kind": resource.kind,
        },
    }
    has_body = verb in ("create", "update", "patch")
    body_schema: Document = {"type": "object"} if verb == "patch" else schema
    if dialect == "v2":
        operation |= {"produces": list(_JSON_TYPES), "responses": {"200": {"description": "OK", "schema": schema}}}
        if has_body:
            operation["consumes"] = list(consumes)
            parameters.append({"name": "body", "in": "body", "required": True, "schema": body_schema})
    else:
        contents = {kind: {"schema": schema} for kind in _JSON_TYPES}
        operation["responses"] = {"200": {"description": "OK", "content": contents}}
        if has_body:
            operation["requestBody"] = {
                "required": True,
                "content": {kind: {"schema": body_schema} for kind in consumes},
            }
    return operation | {"parameters": parameters}


def _parameter(name: str, kind: str, place: str, dialect: Dialect) -> Document:
    parameter: Document = {"name": name, "in": place}
    if place == "path":
        parameter["required"] = True
    return parameter | ({"type": kind} if dialect == "v2" else {"schema": {"type": kind}})


Definitions = Mapping[str, Document]

_INFO = {"title": "Kubernetes", "version": "v1.34"}
_KINDS = "x-kubernetes-group-version-kind"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_LIST_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
_PREFIX = {"v2": "#/definitions/", "v3": "#/components/schemas/"}
_INT_OR_STRING = {"oneOf": [{"type": "integer"}, {"type": "string"}]}
# Version 2 cannot express these; clients of version 3 validate with them.
_BROADER: dict[str, Document] = {
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"format": "int-or-string", **_INT_OR_STRING},
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
}


def v2_document(all_served: Sequence[Kind], definitions: Definitions) -> Document:
    schemas = dict(definitions) | _custom_schemas(all_served)
    return {
        "swagger": "2.0",
        "info": _INFO,
        "paths": paths_of(all_served, _references(schemas, "v2"), "v2"),
        "definitions": {name: _for_v2(schema) for name, schema in schemas.items()},
    }


def v3_document(served: Sequence[Kind], definitions: Definitions) -> Document:
    """The document of one group and version: its kinds and all types they use."""
    every = dict(definitions) | _custom_schemas(served)
    wanted = {(one.resource.group, one.resource.version) for one in served}
    needed = [
        name
        for name, schema in every.items()
        if any((kind["group"], kind["version"]) in wanted for kind in schema.get(_KINDS, ()))
    ]
    chosen = _closure(needed, every)
    return {
        "openapi": "3.0.0",
        "info": _INFO,
        "paths": paths_of(served, _references(chosen, "v3"), "v3"),
        "components": {"schemas": {name: _for_v3(name, chosen[name]) for name in sorted(chosen)}},
    }


def v3_index(all_served: Iterable[Kind], fingerprint: str) -> Document:
    """The paths of the v3 documents, each with a hash of its content."""
    by_path: dict[str, list[Any]] = {}
    for served in all_served:
        by_path.setdefault(group_path(served), []).append([served.resource.plural, served.structural])
    return {
        "paths": {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={_digest([fingerprint, path, rows])}"}
            for path, rows in sorted(by_path.items())
        }
    }


def group_path(served: Kind) -> str:
    """The path `api/v1` or `apis/GROUP/VERSION`."""
    resource = served.resource
    return f"apis/{resource.group}/{resource.version}" if resource.group else f"api/{resource.version}"


def _digest(value: Any) -> str:
    return hashlib.sha256(encode(value)).hexdigest().upper()


def _references(schemas: Definitions, dialect: Dialect) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, schema in schemas.items():
        for kind in schema.get(_KINDS, ()):
            api_version = f"{kind['group']}/{kind['version']}" if kind["group"] else kind["version"]
            found[f"{api_version}/{kind['kind']}"] = _PREFIX[dialect] + name
    return found


def _closure(names: list[str], schemas: Definitions) -> dict[str, Document]:
    chosen: dict[str, Document] = {}
    while names:
        name = names.pop()
        if name not in chosen and name in schemas:
            chosen[name] = schemas[name]
            names += _referenced(schemas[name])
    return chosen


def _referenced(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"].rpartition("/")[2]] if isinstance(value.get("$ref"), str) else []
        return own + [name for item in value.values() for name in _referenced(item)]
    if isinstance(value, list):
        return [name for item in value for name in _referenced(item)]
    return []


def _for_v3(name: str, schema: Document) -> Document:
    broader = _BROADER.get(name)
    if broader is not None:
        return {"description": schema.get("description", ""), **broader}
    return dict(_v3_schema(schema))


def _v3_schema(value: Any) -> Any:
    """Adjusts references; one with a description is wrapped, because its siblings would be ignored."""
    if isinstance(value, list):
        return [_v3_schema(item) for item in value]
    if not isinstance(value, dict):
        return value
    out = {key: _v3_schema(item) for key, item in value.items()}
    reference = out.get("$ref")
    if isinstance(reference, str):
        out["$ref"] = _PREFIX["v3"] + reference.rpartition("/")[2]
        if len(out) > 1:
            out["allOf"] = [{"$ref": out.pop("$ref")}]
    return out


# Keywords of version 3 that version 2 does not have or defines differently.
_ONLY_V3 = frozenset({"oneOf", "anyOf", "not", "nullable"})


def _for_v2(value: Any) -> Any:
    if isinstance(value, list):
        return [_for_v2(item) for item in value]
    if not isinstance(value, dict):
        return value
    out = {key: _for_v2(item) for key, item in value.items() if key not in _ONLY_V3}
    if value.get("x-kubernetes-preserve-unknown-fields") is True or value.get("nullable") is True:
        # Old clients would reject values that these allow.
        out = {key: item for key, item in out.items() if key not in ("properties", "required", "items", "type")}
    return out


def _custom_schemas(all_served: Iterable[Kind]) -> dict[str, Document]:
    schemas: dict[str, Document] = {}
    for served in all_served:
        if served.structural is not None:
            schemas |= _custom_schema(served, served.structural)
    return schemas


def _custom_schema(served: Kind, structural: Document) -> dict[str, Document]:
    """The schemas of a custom kind and its list, with the fields of every object."""
    resource = served.resource
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    name = ".".join((*reversed(resource.group.split(".")), resource.version, resource.kind))
    type_fields: Document = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
    properties = {**structural.get("properties", {}), **type_fields, "metadata": {"$ref": f"#/definitions/{_META}"}}
    items = {"type": "array", "items": {"$ref": f"#/definitions/{name}"}}
    return {
        name: {**structural, "type": "object", "properties": properties, _KINDS: [kind]},
        f"{name}List": {
            "type": "object",
            "required": ["items"],
            "properties": {**type_fields, "metadata": {"$ref": f"#/definitions/{_LIST_META}"}, "items": items},
            _KINDS: [{**kind, "kind": f"{resource.kind}List"}],
        },
    }
