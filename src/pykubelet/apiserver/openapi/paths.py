"""The operations of OpenAPI documents: which paths a resource has, and what each takes and gives.

In: `Served` rows. Out: `paths` of a document, in the dialect of version 2 or 3. Clients look here for the kind of a path,
and for the query parameters that tell them what the server can do (`dryRun`, `fieldValidation`).

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/installer.go.
"""

from collections.abc import Iterable
from typing import Literal

from pykubelet.api.wire import Document
from pykubelet.apiserver.served import Served

Dialect = Literal["v2", "v3"]

PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
_JSON_TYPES = ("application/json", "application/yaml")
_METHODS = {"get": "get", "list": "get", "create": "post", "update": "put", "patch": "patch", "delete": "delete"}
_METHODS["deletecollection"] = "delete"
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


def paths_of(all_served: Iterable[Served], references: dict[str, str], dialect: Dialect) -> Document:
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


def _places(served: Served) -> Iterable[tuple[str, list[str]]]:
    """The collection, the object, and the subresources that are written as the object itself."""
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


def _operation(served: Served, verb: str, reference: str, dialect: Dialect) -> Document:
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
