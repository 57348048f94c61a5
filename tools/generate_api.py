"""Writes `src/pykubelet/api/generated` from the published schemas of Kubernetes 1.34.

Run it with the development environment: `python tools/generate_api.py`. It reads

* the JSON schemas that the `kubernetes-validate` package carries: names, types, required fields, merge keys;
* `field_shapes.txt` beside this file: what a schema does not say. `pointer` fields tell "absent" from "empty",
  `value` fields are structs or times that are always present, `always` fields are written even when empty.

and writes one module of frozen Structs per API group and `schema.json`, the compact field table used for strict
decoding, strategic merge patches and the form in which a server writes documents back.
"""

import json
import keyword
import re
import sys
from importlib import resources
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TARGET = HERE.parent / "src/pykubelet/api/generated"
VERSION = "v1.34.0"

# The kinds that get a Struct: those that the node or the controllers read or write.
STRUCT_KINDS = [
    "admissionregistration.v1.ValidatingAdmissionPolicy",
    "core.v1.Pod",
    "core.v1.PodTemplate",
    "core.v1.Node",
    "core.v1.Namespace",
    "core.v1.Secret",
    "core.v1.ConfigMap",
    "core.v1.Event",
    "core.v1.ServiceAccount",
    "core.v1.Service",
    "core.v1.Binding",
    "core.v1.PersistentVolume",
    "core.v1.PersistentVolumeClaim",
    "core.v1.Endpoints",
    "core.v1.ReplicationController",
    "apps.v1.ReplicaSet",
    "apps.v1.Deployment",
    "apps.v1.DaemonSet",
    "apps.v1.StatefulSet",
    "apps.v1.ControllerRevision",
    "batch.v1.Job",
    "batch.v1.CronJob",
    "certificates.v1.CertificateSigningRequest",
    "coordination.v1.Lease",
    "policy.v1.Eviction",
    "policy.v1.PodDisruptionBudget",
    "discovery.v1.EndpointSlice",
    "autoscaling.v1.Scale",
    "autoscaling.v2.HorizontalPodAutoscaler",
    "scheduling.v1.PriorityClass",
    "networking.v1.Ingress",
    "networking.v1.IngressClass",
    "networking.v1.ServiceCIDR",
    "networking.v1.IPAddress",
    "node.v1.RuntimeClass",
    "storage.v1.StorageClass",
    "authentication.v1.TokenReview",
    "authentication.v1.TokenRequest",
    "authorization.v1.SubjectAccessReview",
    "meta.v1.Status",
    "meta.v1.DeleteOptions",
    "meta.v1.ListMeta",
    "meta.v1.LabelSelector",
    "meta.v1.OwnerReference",
]

# The kinds whose fields are known for strict decoding and patches: those above, and others that a cluster stores.
SCHEMA_KINDS = (
    *STRUCT_KINDS,
    *[
        "core.v1.ComponentStatus",
        "core.v1.ResourceQuota",
        "core.v1.LimitRange",
        "events.v1.Event",
        "rbac.v1.Role",
        "rbac.v1.RoleBinding",
        "rbac.v1.ClusterRole",
        "rbac.v1.ClusterRoleBinding",
        "networking.v1.NetworkPolicy",
        "storage.v1.CSIDriver",
        "storage.v1.CSINode",
        "storage.v1.CSIStorageCapacity",
        "storage.v1.VolumeAttachment",
        "storage.v1.VolumeAttributesClass",
        "flowcontrol.v1.FlowSchema",
        "flowcontrol.v1.PriorityLevelConfiguration",
        "resource.v1.DeviceClass",
        "resource.v1.ResourceClaim",
        "resource.v1.ResourceClaimTemplate",
        "resource.v1.ResourceSlice",
        "autoscaling.v1.HorizontalPodAutoscaler",
        "authorization.v1.SelfSubjectAccessReview",
        "authorization.v1.SelfSubjectRulesReview",
        "authorization.v1.LocalSubjectAccessReview",
        "authentication.v1.SelfSubjectReview",
        "apiextensions.v1.CustomResourceDefinition",
        "admissionregistration.v1.ValidatingAdmissionPolicyBinding",
        "admissionregistration.v1.MutatingWebhookConfiguration",
        "admissionregistration.v1.ValidatingWebhookConfiguration",
    ],
)

SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
EMPTY = {"str": '""', "int": "0", "float": "0.0", "bool": "False"}
SPECIAL = {
    "meta.v1.Time": "time",
    "meta.v1.MicroTime": "time",
    "resource.Quantity": "quantity",
    "intstr.IntOrString": "int-or-string",
    "runtime.RawExtension": "any",
    "meta.v1.FieldsV1": "any",
    "apiextensions.v1.JSON": "any",
    "apiextensions.v1.JSONSchemaPropsOrArray": "any",
    "apiextensions.v1.JSONSchemaPropsOrBool": "any",
    "apiextensions.v1.JSONSchemaPropsOrStringArray": "any",
}
# managedFields would be most of a pod's memory, and no code here reads them.
LEFT_OUT = {("meta.v1.ObjectMeta", "managedFields")}
REDACTED = {
    "core.v1.Secret": ("data", "string_data"),
    "authentication.v1.TokenReviewSpec": ("token",),
    "authentication.v1.TokenRequestStatus": ("token",),
}

Spec = dict[str, Any]
Definitions = dict[str, dict[str, Any]]


def short_name(full: str) -> str:
    """io.k8s.api.core.v1.Pod -> core.v1.Pod."""
    parts = full.removeprefix("#/$defs/").split(".")
    return ".".join(parts[-3:]) if re.fullmatch(r"v\d\w*", parts[-2]) else ".".join(parts[-2:])


def read_definitions() -> Definitions:
    folder = resources.files("kubernetes_validate") / "kubernetes-json-schema" / f"{VERSION}-local"
    raw = json.loads((folder / "_definitions.json").read_text())["$defs"]
    return {short_name(name): body for name, body in raw.items()}


def read_shapes() -> dict[str, dict[str, str]]:
    shapes: dict[str, dict[str, str]] = {}
    for line in (HERE / "field_shapes.txt").read_text().splitlines():
        if line.startswith("#") or not line:
            continue
        name, _, rest = line.partition(": ")
        fields = shapes.setdefault(name, {})
        for group in rest.split("; "):
            shape, _, members = group.partition("=")
            fields.update(dict.fromkeys(members.split(","), shape))
    return shapes


def field_spec(prop: Spec) -> Spec:
    """A property of a schema in the compact form of schema.json."""
    spec: Spec = {}
    kinds = prop.get("type", [])
    kind = next((k for k in ([kinds] if isinstance(kinds, str) else kinds) if k != "null"), None)
    if "$ref" in prop:
        name = short_name(prop["$ref"])
        spec = {"type": SPECIAL[name]} if name in SPECIAL else {"type": "ref", "ref": name}
    elif kind == "array":
        spec = {"type": "array", "items": field_spec(prop["items"])}
    elif kind == "object":
        inner = prop.get("additionalProperties")
        spec = {"type": "map", "items": field_spec(inner)} if inner else {"type": "any"}
    elif kind in SCALARS:
        spec = {"type": "bytes" if prop.get("format") == "byte" else kind}
    else:
        spec = {"type": "any"}
    if strategy := prop.get("x-kubernetes-patch-strategy"):
        spec["strategy"] = strategy.split(",")
    if key := prop.get("x-kubernetes-patch-merge-key"):
        spec["key"] = key
    if keys := prop.get("x-kubernetes-list-map-keys"):
        spec["map_keys"] = keys
    if list_type := prop.get("x-kubernetes-list-type") or prop.get("x-kubernetes-map-type"):
        spec["list_type"] = list_type
    return spec


def refs_of(spec: Spec) -> list[str]:
    if spec["type"] == "ref":
        return [spec["ref"]]
    return refs_of(spec["items"]) if "items" in spec else []


def closure(definitions: Definitions, roots: tuple[str, ...] | list[str]) -> dict[str, dict[str, Spec]]:
    found: dict[str, dict[str, Spec]] = {}
    todo = list(roots)
    while todo:
        name = todo.pop()
        if name in found:
            continue
        properties = definitions[name].get("properties", {})
        fields = {wire: field_spec(prop) for wire, prop in properties.items() if (name, wire) not in LEFT_OUT}
        found[name] = fields
        todo += [ref for spec in fields.values() for ref in refs_of(spec)]
    return found


def python_name(wire: str) -> str:
    """hostIP -> host_ip, podIPs -> pod_ips, continue -> continue_."""
    name = re.sub(r"[A-Z]{2,}s?(?=[A-Z]|$)", lambda m: "_" + m.group().lower(), wire)
    name = re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower().lstrip("_").replace("$", "").replace("-", "_")
    return name + "_" if keyword.iskeyword(name) else name


def camel(name: str) -> str:
    """The name that msgspec's rename="camel" derives from a Python name."""
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)


class Module:
    """One generated module: the Structs of one API group, in an order in which each is defined before its use."""

    def __init__(self, group: str, definitions: Definitions, shapes: dict[str, dict[str, str]]) -> None:
        self.group, self.definitions, self.shapes = group, definitions, shapes
        self.imports: dict[str, set[str]] = {}

    def type_of(self, spec: Spec) -> str:
        match spec["type"]:
            case "ref":
                group, name = spec["ref"].split(".")[0], spec["ref"].split(".")[-1]
                if group != self.group:
                    self.imports.setdefault(group, set()).add(name)
                return str(name)
            case "array":
                return f"tuple[{self.type_of(spec['items'])}, ...]"
            case "map":
                return f"Mapping[str, {self.type_of(spec['items'])}]"
            case "any":
                return "Any"
            case "bytes":
                return "bytes"
            case "time" | "quantity":
                return "str"
            case "int-or-string":
                return "int | str"
            case kind:
                return SCALARS[kind]

    def field_line(self, owner: str, wire: str, spec: Spec) -> str:
        name, kind = python_name(wire), self.type_of(spec)
        shape = self.shapes.get(owner, {}).get(wire, "")
        default = factory = ""
        if gvk := self.definitions[owner].get("x-kubernetes-group-version-kind", []):
            values = gvk[0]
            if wire == "kind":
                factory = f'lambda: "{values["kind"]}"'
            elif wire == "apiVersion":
                version = f"{values['group']}/{values['version']}".lstrip("/")
                factory = f'lambda: "{version}"'
        if factory:
            pass
        elif spec["type"] in ("array", "map"):
            default = "()" if spec["type"] == "array" else "{}"
        elif spec["type"] == "time":
            kind = "str | None"
            default, factory = ("", "NoneType") if shape == "value" else ("None", "")
        elif (spec["type"] == "ref" and shape == "value") or (shape == "always" and kind in EMPTY):
            factory = kind
        elif shape == "pointer" or kind not in EMPTY:
            kind, default = (kind if kind == "Any" else f"{kind} | None"), "None"
        else:
            default = EMPTY[kind]
        named = f'name="{wire}"' if camel(name) != wire else ""
        if not named and default:
            return f"    {name}: {kind} = {default}"
        value = f"default_factory={factory}" if factory else f"default={default}"
        return f"    {name}: {kind} = field({', '.join(filter(None, (value, named)))})"

    def class_text(self, name: str, fields: dict[str, Spec]) -> str:
        options = 'frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"'
        group, _, class_name = name.rpartition(".")
        lines = [f"class {class_name}(Struct, {options}):", f'    """{class_name} of {group}."""', ""]
        lines += [self.field_line(name, wire, spec) for wire, spec in fields.items()]
        if name in REDACTED:
            hidden = ", ".join(f'"{field}"' for field in REDACTED[name])
            self.imports.setdefault("", set()).add("redacted")
            lines += ["", "    def __repr__(self) -> str:", f"        return redacted(self, {hidden})"]
        return "\n".join(lines)

    def text(self, classes: dict[str, dict[str, Spec]]) -> str:
        bodies = [self.class_text(name, classes[name]) for name in in_order(classes)]
        head = [
            f'"""Structs of the API group {self.group}; written by tools/generate_api.py, not by hand."""',
            "",
            "from collections.abc import Mapping" if any("Mapping[" in b for b in bodies) else "",
            "from types import NoneType" if any("NoneType" in b for b in bodies) else "",
            "from typing import Any" if any(re.search(r"\bAny\b", b) for b in bodies) else "",
            "",
            "from msgspec import Struct, field" if any("field(" in b for b in bodies) else "from msgspec import Struct",
            "",
        ]
        for group in sorted(self.imports):
            module = f"pykubelet.api.generated.{group}" if group else "pykubelet.api.serializer"
            head.append(f"from {module} import {', '.join(sorted(self.imports[group]))}")
        return re.sub(r"\n{3,}", "\n\n", "\n".join(head)) + "\n\n\n" + "\n\n\n".join(bodies) + "\n"


def in_order(classes: dict[str, dict[str, Spec]]) -> list[str]:
    """Names such that every class comes after the classes its fields mention."""
    done: list[str] = []

    def visit(name: str) -> None:
        if name in done or name not in classes:
            return
        for spec in classes[name].values():
            for ref in refs_of(spec):
                visit(ref)
        done.append(name)

    for name in sorted(classes):
        visit(name)
    return done


def schema_text(definitions: Definitions, shapes: dict[str, dict[str, str]]) -> str:
    lines = []
    found = closure(definitions, list(SCHEMA_KINDS))
    for name, plain_fields in sorted(found.items()):
        known = shapes.get(name, {})
        fields = {wire: spec | ({"shape": known[wire]} if wire in known else {}) for wire, spec in plain_fields.items()}
        body: Spec = {"fields": fields, "required": definitions[name].get("required", [])}
        if name in SCHEMA_KINDS and (gvk := definitions[name].get("x-kubernetes-group-version-kind", [])):
            body["kind"] = gvk[0]["kind"]
            body["apiVersion"] = f"{gvk[0]['group']}/{gvk[0]['version']}".lstrip("/")
        lines.append(f"{json.dumps(name)}: {json.dumps(body, sort_keys=True, separators=(',', ':'))}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def generated_files() -> dict[Path, str]:
    definitions, shapes = read_definitions(), read_shapes()
    groups: dict[str, dict[str, dict[str, Spec]]] = {}
    for name, fields in closure(definitions, STRUCT_KINDS).items():
        groups.setdefault(name.split(".")[0], {})[name] = fields
    files = {TARGET / f"{group}.py": Module(group, definitions, shapes).text(found) for group, found in groups.items()}
    files[TARGET / "__init__.py"] = '"""Written by tools/generate_api.py: Structs per API group and schema.json."""\n'
    files[TARGET / "schema.json"] = schema_text(definitions, shapes)
    return files


def main(arguments: list[str]) -> int:
    """Write the files; with --check only list those that are stale."""
    stale = {path: text for path, text in generated_files().items() if not path.exists() or path.read_text() != text}
    for path, text in stale.items():
        if "--check" in arguments:
            print(f"{path.relative_to(HERE.parent)} is stale: run tools/generate_api.py")
        else:
            path.write_text(text)
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
