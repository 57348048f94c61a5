"""Writes `src/pykubelet/kinds/generated/columns.json`: the columns of `kubectl get` for each kind.

Run it with the root of a Kubernetes 1.34 source tree: `python tools/generate_columns.py kubernetes/`. Names, types,
priorities and order come from pkg/printers/internalversion/printers.go, descriptions from there or from the
documentation of the field that a column shows. Texts that several columns share are written once.
"""

import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TARGET = HERE.parent / "src/pykubelet/kinds/generated/columns.json"

PRINTERS: dict[str, str] = {
    "pod": "pods",
    "podTemplate": "podtemplates",
    "podDisruptionBudget": "poddisruptionbudgets.policy",
    "replicationController": "replicationcontrollers",
    "replicaSet": "replicasets.apps",
    "daemonSet": "daemonsets.apps",
    "job": "jobs.batch",
    "cronJob": "cronjobs.batch",
    "service": "services",
    "ingress": "ingresses.networking.k8s.io",
    "ingressClass": "ingressclasses.networking.k8s.io",
    "statefulSet": "statefulsets.apps",
    "endpoint": "endpoints",
    "node": "nodes",
    "event": "events",
    "namespace": "namespaces",
    "secret": "secrets",
    "serviceAccount": "serviceaccounts",
    "persistentVolume": "persistentvolumes",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "componentStatus": "componentstatuses",
    "deployment": "deployments.apps",
    "horizontalPodAutoscaler": "horizontalpodautoscalers.autoscaling",
    "configMap": "configmaps",
    "networkPolicy": "networkpolicies.networking.k8s.io",
    "roleBindings": "rolebindings.rbac.authorization.k8s.io",
    "clusterRoleBindings": "clusterrolebindings.rbac.authorization.k8s.io",
    "certificateSigningRequest": "certificatesigningrequests.certificates.k8s.io",
    "lease": "leases.coordination.k8s.io",
    "storageClass": "storageclasses.storage.k8s.io",
    "csiDriver": "csidrivers.storage.k8s.io",
    "csiNode": "csinodes.storage.k8s.io",
    "csiStorageCapacity": "csistoragecapacities.storage.k8s.io",
    "volumeAttachment": "volumeattachments.storage.k8s.io",
    "volumeAttributesClass": "volumeattributesclasses.storage.k8s.io",
    "serviceCIDR": "servicecidrs.networking.k8s.io",
    "ipAddress": "ipaddresses.networking.k8s.io",
    "flowSchema": "flowschemas.flowcontrol.apiserver.k8s.io",
    "priorityLevel": "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
    "deviceClass": "deviceclasses.resource.k8s.io",
    "resourceClaim": "resourceclaims.resource.k8s.io",
    "resourceClaimTemplate": "resourceclaimtemplates.resource.k8s.io",
    "nodeResourceSlice": "resourceslices.resource.k8s.io",
    "controllerRevision": "controllerrevisions.apps",
    "resourceQuota": "resourcequotas",
    "priorityClass": "priorityclasses.scheduling.k8s.io",
    "runtimeClass": "runtimeclasses.node.k8s.io",
    "endpointSlice": "endpointslices.discovery.k8s.io",
    "scale": "scale",
    "validatingAdmissionPolicy": "validatingadmissionpolicies.admissionregistration.k8s.io",
    "validatingAdmissionPolicyBinding": "validatingadmissionpolicybindings.admissionregistration.k8s.io",
    "mutatingWebhook": "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingWebhook": "validatingwebhookconfigurations.admissionregistration.k8s.io",
}
ALIASES = {"events": "events.events.k8s.io"}
DEFAULT_COLUMNS = (("Name", "string", "name", "name"), ("Created At", "date", "", "creationTimestamp"))

BLOCK = re.compile(
    r"^\t(\w+?)(?:ColumnDefiniti\w+)? :?= (?:append\(\w+, )?\[\]metav1\.TableColumnDefinition\{\n(.*?)^\t\}(?:\.\.\.\))?$",
    re.DOTALL | re.MULTILINE,
)
COLUMN = re.compile(r"\{Name: (?P<name>\"[^\"]*\"), (?P<rest>.*)\},?")
OPTION = re.compile(r"(Type|Format): \"(\w+)\"")
PRIORITY = re.compile(r"Priority: (\d+)")
DOCUMENTED = re.compile(r"Description: (\w+)\.(\w+)\{\}(?:\.(\w+))?\.SwaggerDoc\(\)\[\"(\w+)\"\]")
SAID = re.compile(r"Description: (\"(?:[^\"\\]|\\.)*\")")
IMPORT = re.compile(r'(\w+) "(k8s\.io/(?:api|apimachinery)/[^"]+)"')
MAP = re.compile(r"^var map_(\w+) = map\[string\]string\{\n(.*?)^\}$", re.DOTALL | re.MULTILINE)
ENTRY = re.compile(r"^\t(\"\w*\"):\s+(\"(?:[^\"\\]|\\.)*\"),$", re.MULTILINE)


@cache
def docs_in(path: Path) -> dict[str, dict[str, str]]:
    return {
        kind: {json.loads(field): json.loads(text) for field, text in ENTRY.findall(body)}
        for kind, body in MAP.findall(path.read_text())
    }


class Source:
    """The files of a source tree that define columns."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.printers = (root / "pkg/printers/internalversion/printers.go").read_text()
        self.packages: dict[str, str] = dict(IMPORT.findall(self.printers))

    def docs(self, package: str) -> dict[str, dict[str, str]]:
        """The field documentation of a package's types."""
        return docs_in(self.root / "staging/src" / self.packages[package] / "types_swagger_doc_generated.go")

    def description(self, rest: str) -> str:
        """The description of a column, given directly or taken from a field's documentation."""
        if said := SAID.search(rest):
            return str(json.loads(said[1]))
        found = DOCUMENTED.search(rest)
        assert found is not None, rest
        package, kind, inner, field = found.groups()
        # For an event's involved object the source names the field instead of the type.
        kind = {"InvolvedObject": "ObjectReference"}.get(inner, kind)
        return self.docs(package).get(kind, {}).get(field, "")


def main(root: Path) -> None:
    source = Source(root)
    texts: list[str] = []

    def numbered(text: str) -> int:
        if text not in texts:
            texts.append(text)
        return texts.index(text)

    columns: dict[str, list[list[Any]]] = {}
    for printer, body in BLOCK.findall(source.printers):
        if printer not in PRINTERS:
            continue
        rows = columns.setdefault(PRINTERS[printer], [])
        for name, rest in COLUMN.findall(body):
            options = dict(OPTION.findall(rest))
            priority = PRIORITY.search(rest)
            rows.append(
                [
                    json.loads(name),
                    options["Type"],
                    options.get("Format", ""),
                    numbered(source.description(rest)),
                    int(priority[1]) if priority else 0,
                ]
            )
    for known, alias in ALIASES.items():
        columns[alias] = columns[known]
    meta = source.docs("metav1")["ObjectMeta"]
    columns[""] = [[name, kind, form, numbered(meta[field]), 0] for name, kind, form, field in DEFAULT_COLUMNS]
    assert {*columns} >= {*PRINTERS.values()}, {*PRINTERS.values()} - {*columns}
    lines = [f" {json.dumps(name)}: {json.dumps(rows)}" for name, rows in sorted(columns.items())]
    shown = [f" {json.dumps(text)}" for text in texts]
    TARGET.write_text('{"texts": [\n' + ",\n".join(shown) + '\n],\n"columns": {\n' + ",\n".join(lines) + "\n}}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
