"""FlowSchema: which requests belong to which priority level, and the schemas that every cluster has.

Upstream: pkg/registry/flowcontrol/flowschema/strategy.go, pkg/apis/flowcontrol/v1/defaults.go,
pkg/apis/flowcontrol/validation/validation.go, staging/src/k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap/default.go
"""

from collections.abc import Sequence
from typing import Any

from pykubelet.api.field_errors import (
    FieldError,
    each_invalid,
    forbidden,
    invalid,
    items_errors,
    not_supported,
    required,
)
from pykubelet.api.names import dns1123_label_errors, dns1123_subdomain_errors
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.columns import NONE, at, created, name_of
from pykubelet.kinds.kind import Kind, Strategy, keep_spec, keep_status, without_status
from pykubelet.kinds.metadata import metadata_errors
from pykubelet.kinds.priority_level_configuration import conditions_errors
from pykubelet.kinds.rules import OneOf

_MAX_PRECEDENCE = 10_000
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
_SUBJECTS = {"Group": "group", "ServiceAccount": "serviceAccount", "User": "user"}
"""The kinds of subjects, each with its field."""
_METHODS = OneOf(("ByNamespace", "ByUser"))
_EVERY = ["*"]
_ALL_RESOURCES = {"verbs": _EVERY, "apiGroups": _EVERY, "resources": _EVERY, "namespaces": _EVERY, "clusterScope": True}
_EVERYTHING = {"resourceRules": [_ALL_RESOURCES], "nonResourceRules": [{"verbs": _EVERY, "nonResourceURLs": _EVERY}]}
_ANYBODY = ("system:unauthenticated", "system:authenticated")


def _groups(*names: str) -> list[Document]:
    return [{"kind": "Group", "group": {"name": name}} for name in names]


def _user(name: str) -> Document:
    return {"kind": "User", "user": {"name": name}}


_KUBE_SYSTEM = {"kind": "ServiceAccount", "serviceAccount": {"namespace": "kube-system", "name": "*"}}
_NODES = _groups("system:nodes")
_LEASES = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "namespaces": _EVERY}


def _schema(level: str, precedence: int, method: str, subjects: Sequence[Document], rules: Document) -> Document:
    spec: Document = {"matchingPrecedence": precedence, "priorityLevelConfiguration": {"name": level}}
    if method:
        spec["distinguisherMethod"] = {"type": method}
    return {**spec, "rules": [{"subjects": [*subjects], **rules}]}


MANDATORY_FLOW_SCHEMAS: dict[str, Document] = {
    "exempt": _schema("exempt", 1, "", _groups("system:masters"), _EVERYTHING),
    "catch-all": _schema("catch-all", _MAX_PRECEDENCE, "ByUser", _groups(*_ANYBODY), _EVERYTHING),
}
"""Their specs cannot be changed."""
_CONTROLLERS, _SCHEDULER = _user("system:kube-controller-manager"), _user("system:kube-scheduler")
_ELECTION_RULE = {"verbs": ["get", "create", "update"], **_LEASES}
_NODE_RULE = {
    "verbs": _EVERY,
    "apiGroups": [""],
    "resources": ["nodes", "nodes/status"],
    "namespaces": _EVERY,
    "clusterScope": True,
}
_PROBES = {"nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}]}
SUGGESTED_FLOW_SCHEMAS: dict[str, Document] = {
    "probes": _schema("exempt", 2, "", _groups(*_ANYBODY), _PROBES),
    "system-leader-election": _schema(
        "leader-election",
        100,
        "ByUser",
        [_CONTROLLERS, _SCHEDULER, _KUBE_SYSTEM],
        {"resourceRules": [_ELECTION_RULE]},
    ),
    "system-node-high": _schema(
        "node-high", 400, "ByUser", _NODES, {"resourceRules": [_NODE_RULE, {"verbs": _EVERY, **_LEASES}]}
    ),
    "system-nodes": _schema("system", 500, "ByUser", _NODES, _EVERYTHING),
    "kube-controller-manager": _schema("workload-high", 800, "ByNamespace", [_CONTROLLERS], _EVERYTHING),
    "kube-scheduler": _schema("workload-high", 800, "ByNamespace", [_SCHEDULER], _EVERYTHING),
    "kube-system-service-accounts": _schema("workload-high", 900, "ByNamespace", [_KUBE_SYSTEM], _EVERYTHING),
    "service-accounts": _schema("workload-low", 9000, "ByUser", _groups("system:serviceaccounts"), _EVERYTHING),
    "global-default": _schema("global-default", 9900, "ByUser", _groups(*_ANYBODY), _EVERYTHING),
}


def _default(document: Document) -> Document:
    normal = normal_form(document, "flowcontrol.v1.FlowSchema")
    spec = normal["spec"]
    return {**normal, "spec": {**spec, "matchingPrecedence": spec["matchingPrecedence"] or 1000}}


def _validate(document: Document, _old: Document | None = None) -> list[FieldError]:
    name, spec = document["metadata"].get("name", ""), document["spec"]
    errors = metadata_errors(document["metadata"], namespaced=False) + _spec_errors(name, spec)
    fixed = MANDATORY_FLOW_SCHEMAS.get(name)
    if fixed is not None and normal_form(fixed, "flowcontrol.v1.FlowSchemaSpec") != spec:
        errors.append(invalid("spec", spec, f"spec of '{name}' must equal the fixed value"))
    return errors + conditions_errors(document)


def _spec_errors(name: str, spec: Document) -> list[FieldError]:
    precedence, level = spec["matchingPrecedence"], spec["priorityLevelConfiguration"]["name"]
    path, errors = "spec.matchingPrecedence", list[FieldError]()
    if precedence <= 0:
        errors.append(invalid(path, precedence, "must be a positive value"))
    if precedence > _MAX_PRECEDENCE:
        errors.append(invalid(path, precedence, f"must not be greater than {_MAX_PRECEDENCE}"))
    if precedence == 1 and name != "exempt":
        errors.append(invalid(path, precedence, "only the schema named 'exempt' may have matchingPrecedence 1"))
    errors += _METHODS.errors(spec.get("distinguisherMethod", {}).get("type"), "spec.distinguisherMethod.type")
    path = "spec.priorityLevelConfiguration.name"
    named = each_invalid(path, level, dns1123_subdomain_errors(level))
    errors += named if level else [required(path, "must reference a priority level")]
    return errors + items_errors(spec.get("rules", ()), _rule_errors, "spec.rules")


def _rule_errors(rule: Document, path: str) -> list[FieldError]:
    errors = items_errors(rule.get("subjects") or (), _subject_errors, f"{path}.subjects")
    if not rule.get("subjects"):
        errors = [required(f"{path}.subjects", "subjects must contain at least one value")]
    resources, others = rule.get("resourceRules", ()), rule.get("nonResourceRules", ())
    if not resources and not others:
        errors.append(required(path, "at least one of resourceRules and nonResourceRules has to be non-empty"))
    errors += items_errors(resources, _resource_rule_errors, f"{path}.resourceRules")
    return errors + items_errors(others, _non_resource_rule_errors, f"{path}.nonResourceRules")


def _subject_errors(subject: Document, path: str) -> list[FieldError]:
    kind = subject["kind"]
    if kind not in _SUBJECTS:
        return [not_supported(f"{path}.kind", kind, tuple(_SUBJECTS))]
    field = _SUBJECTS[kind]
    value, place = subject.get(field), f"{path}.{field}"
    if value is None:
        errors = [required(place, f"{field} is required when subject kind is '{kind}'")]
    elif kind == "ServiceAccount":
        errors = _service_account_errors(value, place)
    else:
        errors = [] if value["name"] else [required(f"{place}.name")]
    # In upstream's order.
    for other in ("ServiceAccount", "User", "Group"):
        if other != kind and (name := _SUBJECTS[other]) in subject:
            errors.append(forbidden(f"{path}.{name}", f"{name} is forbidden when subject kind is not '{other}'"))
    return errors


def _service_account_errors(account: Document, path: str) -> list[FieldError]:
    name, namespace = account["name"], account["namespace"]
    errors = [] if name else [required(f"{path}.name")]
    if name and name != "*":
        errors += each_invalid(f"{path}.name", name, dns1123_subdomain_errors(name))
    path = f"{path}.namespace"
    named = each_invalid(path, namespace, dns1123_label_errors(namespace))
    return errors + (named if namespace else [required(path, "must specify namespace for service account")])


def _verbs_errors(verbs: Sequence[str], path: str) -> list[FieldError]:
    if not verbs:
        return [required(path, "verbs must contain at least one value")]
    if "*" in verbs:
        return [] if len(verbs) == 1 else [invalid(path, verbs, "if '*' is present, must not specify other verbs")]
    return [] if {*verbs} <= {*_VERBS} else [not_supported(path, verbs, _VERBS)]


def _names_errors(values: Sequence[str], path: str, missing: str, others: str) -> list[FieldError]:
    if not values:
        return [required(path, f"resource rules must supply at least one {missing}")]
    if "*" in values and len(values) > 1:
        return [invalid(path, values, f"if '*' is present, must not specify other {others}")]
    return []


def _resource_rule_errors(rule: Document, path: str) -> list[FieldError]:
    errors = _verbs_errors(rule.get("verbs") or (), f"{path}.verbs")
    errors += _names_errors(rule.get("apiGroups") or (), f"{path}.apiGroups", "api group", "api groups")
    errors += _names_errors(rule.get("resources") or (), f"{path}.resources", "resource", "resources")
    namespaces, place = rule.get("namespaces") or (), f"{path}.namespaces"
    if not namespaces and not rule.get("clusterScope"):
        detail = "resource rules that are not cluster scoped must supply at least one namespace"
        errors.append(required(place, detail))
    elif "*" in namespaces:
        if len(namespaces) > 1:
            errors.append(invalid(place, namespaces, "if '*' is present, must not specify other namespaces"))
    else:
        errors += items_errors(namespaces, _namespace_errors, place)
    return errors


def _namespace_errors(name: str, path: str) -> list[FieldError]:
    start = "each member of this list must be '*' or a DNS-1123 label; "
    return each_invalid(path, name, [start + detail for detail in dns1123_label_errors(name)])


def _non_resource_rule_errors(rule: Document, path: str) -> list[FieldError]:
    errors = _verbs_errors(rule.get("verbs") or (), f"{path}.verbs")
    urls, place = rule.get("nonResourceURLs") or (), f"{path}.nonResourceURLs"
    if not urls:
        return [*errors, required(place, "nonResourceURLs must contain at least one value")]
    if "*" in urls:
        wrong = [invalid(place, urls, "if '*' is present, must not specify other non-resource URLs")]
        return errors + (wrong if len(urls) > 1 else [])
    return errors + items_errors(urls, _url_errors, place)


def _url_errors(url: str, path: str) -> list[FieldError]:
    if not url:
        detail = "must not be empty"
    elif not url.startswith("/"):
        detail = "must start with slash"
    elif " " in url:
        detail = "must not contain white-space"
    elif "//" in url:
        detail = "must not contain double slash"
    elif url.count("*") > 1 or ("*" in url and not url.endswith("/*")):
        detail = "wildcard can only do suffix matching"
    else:
        return []
    return [invalid(path, url, detail)]


def _validate_status(new: Document, _old: Document) -> list[FieldError]:
    return conditions_errors(new)


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, priority level, matching precedence, distinguisher method, age, missing priority level."""
    spec = at(document, "spec")
    conditions = at(document, "status").get("conditions", ())
    return [
        name_of(document),
        at(spec, "priorityLevelConfiguration").get("name", ""),
        spec.get("matchingPrecedence", 0),
        at(spec, "distinguisherMethod").get("type", NONE),
        created(document, age),
        next((one.get("status", "") for one in conditions if one.get("type") == "Dangling"), "?"),
    ]


KIND = Kind(
    resource=Resource("flowcontrol.apiserver.k8s.io", "v1", "flowschemas", "FlowSchema", namespaced=False),
    definition="flowcontrol.v1.FlowSchema",
    subresources=("status",),
    strategy=Strategy(
        default=_default,
        prepare_create=without_status("flowcontrol.v1.FlowSchemaStatus"),
        validate_create=_validate,
        prepare_update=keep_status,
        validate_update=_validate,
        prepare_status=keep_spec,
        validate_status=_validate_status,
    ),
    cells=_cells,
)
