"""Describes nodes, services, config maps, secrets, namespaces, and other kinds by their fields.

Other modules of this package describe pods and workloads. Of a secret only sizes are shown, unlike upstream also of a
service account token. Columns are aligned as Go's text/tabwriter does.

Upstream: staging/src/k8s.io/kubectl/pkg/describe/describe.go
"""

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pykubelet.api.pod_resources import container_sums
from pykubelet.api.quantity import Quantity, add, parse_quantity
from pykubelet.api.serializer import Document
from pykubelet.cli.printers.describe.pods import describe_pod
from pykubelet.cli.printers.describe.report import (
    NONE,
    UNSET,
    DescribedObject,
    Report,
    go_bool,
    pairs,
    part,
    when,
)
from pykubelet.cli.printers.describe.workloads import (
    describe_cron_job,
    describe_daemon_set,
    describe_deployment,
    describe_job,
    describe_replica_set,
    describe_stateful_set,
)
from pykubelet.cli.printers.terminal import escape_terminal

_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^A-Za-z0-9]+")
_ACRONYMS = frozenset({"API", "URL", "UID", "OSB", "GUID"})
_SHOWN_FIRST = frozenset({"name", "namespace", "labels", "annotations", "managedFields"})
_ROLE = "node-role.kubernetes.io/"
_OLD_ROLE = "kubernetes.io/role"
_SYSTEM = (
    ("Machine ID", "machineID"),
    ("System UUID", "systemUUID"),
    ("Boot ID", "bootID"),
    ("Kernel Version", "kernelVersion"),
    ("OS Image", "osImage"),
    ("Operating System", "operatingSystem"),
    ("Architecture", "architecture"),
    ("Container Runtime Version", "containerRuntimeVersion"),
    ("Kubelet Version", "kubeletVersion"),
    ("Kube-Proxy Version", "kubeProxyVersion"),
)
_STANDARD = ("cpu", "memory", "ephemeral-storage")
Amounts = Mapping[str, Quantity]
_TIMES = ("lastHeartbeatTime", "lastTransitionTime")
_ZERO = parse_quantity("0")
_MOST_ENDPOINTS = 3
_PADDING = 2


def describe_generic(report: Report, subject: DescribedObject) -> None:
    """Describe an object of a kind without its own describer."""
    metadata = subject.metadata
    report.identity(metadata)
    rest = {key: value for key, value in metadata.items() if key not in _SHOWN_FIRST}
    _add_fields(report, {**subject.object, "metadata": rest}, 0)


def _add_fields(report: Report, fields: Document, level: int) -> None:
    for name, value in sorted(fields.items()):
        label = words_of(name)
        if isinstance(value, dict):
            report.line(f"{label}:", level)
            _add_fields(report, value, level + 1)
        elif isinstance(value, list):
            report.line(f"{label}:", level)
            for item in value:
                if isinstance(item, dict):
                    _add_fields(report, item, level + 1)
                else:
                    report.line(_text(item), level + 1)
        else:
            report.field(label, _text(value), level)


def words_of(field: str) -> str:
    """A field name in words: `leaseDurationSeconds` is `Lease Duration Seconds`."""
    parts = (part for part in _PARTS.findall(field) if part != "_")
    return " ".join(part.upper() if part.upper() in _ACRONYMS else part[:1].upper() + part[1:] for part in parts)


def _text(value: Any) -> str:
    if value is None:
        return "<nil>"
    return go_bool(value) if isinstance(value, bool) else str(value)


def describe_node(report: Report, subject: DescribedObject) -> None:
    spec, status, metadata = subject.spec, subject.status, subject.metadata
    report.field("Name", metadata["name"])
    report.field("Roles", ",".join(_roles(metadata.get("labels") or {})) or NONE)
    report.labels("Labels", metadata.get("labels"))
    report.annotations("Annotations", metadata.get("annotations"))
    report.field("CreationTimestamp", when(metadata["creationTimestamp"]))
    report.entries("Taints", [_taint(one) for one in sorted(spec.get("taints") or (), key=_taint_order)])
    report.field("Unschedulable", go_bool(spec.get("unschedulable")))
    _add_lease(report, subject)
    _add_conditions(report, status.get("conditions") or ())
    report.line("Addresses:")
    for address in status.get("addresses") or ():
        report.field(address["type"], address["address"], 1)
    for title in ("Capacity", "Allocatable"):
        amounts = status.get(title.lower()) or {}
        if amounts:
            report.line(f"{title}:")
        for name, amount in sorted(amounts.items()):
            report.field(name, amount, 1)
    report.line("System Info:")
    for name, key in _SYSTEM:
        report.field(name, part(status, "nodeInfo").get(key, ""), 1)
    report.some("PodCIDR", spec.get("podCIDR"))
    report.some("PodCIDRs", ",".join(spec.get("podCIDRs") or ()))
    report.some("ProviderID", spec.get("providerID"))
    if subject.related.get("pods") is None:
        report.field("Pods", "not authorized")
    else:
        _add_pods(report, subject)


def _roles(labels: Mapping[str, str]) -> list[str]:
    roles = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE)} | {labels.get(_OLD_ROLE, "")}
    return sorted(roles - {""})


def _taint(taint: Document) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint.get('effect', '')}"


def _taint_order(taint: Document) -> str:
    return f"{taint.get('effect', '')},{taint['key']}"


def _add_lease(report: Report, subject: DescribedObject) -> None:
    leases = subject.others("leases")
    if not leases:
        report.field("Lease", "Failed to get lease: it is not there, or may not be seen")
        return
    spec = part(leases[0], "spec")
    report.line("Lease:")
    report.field("HolderIdentity", spec.get("holderIdentity", UNSET), 1)
    for name, key in (("AcquireTime", "acquireTime"), ("RenewTime", "renewTime")):
        report.field(name, when(spec[key]) if spec.get(key) else UNSET, 1)


def _add_conditions(report: Report, conditions: Sequence[Document]) -> None:
    if not conditions:
        return
    report.line("Conditions:")
    report.columns("Type\tStatus\tLastHeartbeatTime\tLastTransitionTime\tReason\tMessage")
    for one in conditions:
        times = " \t".join(when(one.get(key) or "0001-01-01T00:00:00Z") for key in _TIMES)
        words = f"{one.get('reason', '')} \t{one.get('message', '')}"
        report.line(f"{one['type']} \t{one['status']} \t{times} \t{words}", 1)


def _add_pods(report: Report, subject: DescribedObject) -> None:
    pods = subject.others("pods")
    status = subject.status
    room = {
        name: parse_quantity(str(text))
        for name, text in (status.get("allocatable") or status.get("capacity") or {}).items()
    }
    report.field("Non-terminated Pods", f"({len(pods)} in total)")
    report.columns("Namespace\tName\t\tCPU Requests\tCPU Limits\tMemory Requests\tMemory Limits\tAge")
    totals: dict[str, dict[str, Quantity]] = {"requests": {}, "limits": {}}
    for pod in pods:
        taken = {which: _taken(pod, which) for which in totals}
        for which, amounts in taken.items():
            for name, amount in amounts.items():
                known = totals[which].get(name)
                totals[which][name] = add(known, amount) if known is not None else amount
        cells = [_share(taken[which], name, room) for name in ("cpu", "memory") for which in ("requests", "limits")]
        metadata = pod["metadata"]
        age = subject.since(metadata.get("creationTimestamp"))
        report.line("\t".join([metadata.get("namespace", ""), metadata["name"], "", *cells, age]), 1)
    report.line("Allocated resources:")
    report.line("(Total limits may be over 100 percent, i.e., overcommitted.)", 1)
    report.columns("Resource\tRequests\tLimits")
    huge = sorted(name for name in room if name.startswith("hugepages-"))
    for name in (*_STANDARD, *huge):
        report.line("\t".join([name, *(_share(totals[which], name, room) for which in totals)]), 1)
    for name in sorted(set(room) - {*_STANDARD, *huge, "pods"}):
        report.line("\t".join([name, *(str(totals[which].get(name, _ZERO)) for which in totals)]), 1)


def _taken(pod: Document, which: str) -> Amounts:
    """The requests or limits of a pod with its overhead."""
    taken = dict(container_sums(pod["spec"], which))
    for name, text in (pod["spec"].get("overhead") or {}).items():
        if which == "requests" or name in taken:
            overhead = parse_quantity(str(text))
            taken[name] = add(taken[name], overhead) if name in taken else overhead
    return taken


def _share(taken: Amounts, name: str, room: Amounts) -> str:
    amount, whole = taken.get(name, _ZERO), room.get(name, _ZERO)
    part_of = amount.milli_value() * 100 // whole.milli_value() if whole.milli_value() else 0
    return f"{amount} ({part_of}%)"


def describe_service(report: Report, subject: DescribedObject) -> None:
    spec = subject.spec
    report.identity(subject.metadata)
    report.field("Selector", pairs(spec.get("selector")))
    report.field("Type", spec.get("type", ""))
    report.some("IP Family Policy", spec.get("ipFamilyPolicy"))
    report.field("IP Families", ",".join(spec.get("ipFamilies") or ()) or NONE)
    report.field("IP", spec.get("clusterIP", ""))
    report.field("IPs", ",".join(spec.get("clusterIPs") or ()) or NONE)
    report.some("External IPs", ",".join(spec.get("externalIPs") or ()))
    report.some("Desired LoadBalancer IP", spec.get("loadBalancerIP"))
    report.some("External Name", spec.get("externalName"))
    ingress = part(subject.status, "loadBalancer").get("ingress") or ()
    report.some("LoadBalancer Ingress", ", ".join(one.get("ip") or one.get("hostname", "") for one in ingress))
    for port in spec.get("ports") or ():
        _add_port(report, port, subject.others("endpointslices"))
    report.field("Session Affinity", spec.get("sessionAffinity", ""))
    report.some("External Traffic Policy", spec.get("externalTrafficPolicy"))
    report.some("Internal Traffic Policy", spec.get("internalTrafficPolicy"))
    report.some("HealthCheck NodePort", spec.get("healthCheckNodePort"))
    report.some("LoadBalancer Source Ranges", ",".join(spec.get("loadBalancerSourceRanges") or ()))


def _add_port(report: Report, port: Document, slices: Sequence[Document]) -> None:
    name, protocol = port.get("name") or "<unset>", port.get("protocol", "TCP")
    report.field("Port", f"{name}\t{port['port']}/{protocol}")
    report.field("TargetPort", f"{port.get('targetPort', 0)}/{protocol}")
    if port.get("nodePort"):
        report.field("NodePort", f"{name}\t{port['nodePort']}/{protocol}")
    report.field("Endpoints", _endpoints(port, slices))


def _endpoints(port: Document, slices: Sequence[Document]) -> str:
    found = [
        _address(endpoint["addresses"][0], target["port"])
        for one in slices
        for target in one.get("ports") or ()
        if (target.get("name") or "") == (port.get("name") or "")
        for endpoint in one.get("endpoints") or ()
        if (endpoint.get("conditions") or {}).get("ready") is not False
    ]
    shown = ",".join(found[:_MOST_ENDPOINTS])
    return f"{shown} + {len(found) - _MOST_ENDPOINTS} more..." if len(found) > _MOST_ENDPOINTS else shown


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def describe_config_map(report: Report, subject: DescribedObject) -> None:
    report.identity(subject.metadata)
    report.title("Data")
    for key, value in sorted((subject.object.get("data") or {}).items()):
        for line in (f"{key}:", "----", *str(value).split("\n"), ""):
            # A tab in a value must not start a column.
            report.line(line.replace("\t", "    "))
    report.title("BinaryData")
    for key, value in sorted((subject.object.get("binaryData") or {}).items()):
        report.line(f"{key}: {_size(value)} bytes")
    report.line()


def describe_secret(report: Report, subject: DescribedObject) -> None:
    """Describe a secret, without its values."""
    report.identity(subject.metadata)
    report.line()
    report.field("Type", subject.object.get("type", ""))
    report.title("Data")
    for key, value in sorted((subject.object.get("data") or {}).items()):
        report.field(key, f"{_size(value)} bytes")


def describe_namespace(report: Report, subject: DescribedObject) -> None:
    report.field("Name", subject.metadata["name"])
    report.labels("Labels", subject.metadata.get("labels"))
    report.annotations("Annotations", subject.metadata.get("annotations"))
    report.field("Status", subject.status.get("phase", ""))
    conditions = subject.status.get("conditions") or ()
    if conditions:
        report.line("Conditions:")
        report.columns("Type\tLastTransitionTime\tReason\tMessage")
    for one in conditions:
        words = f"{one.get('lastTransitionTime', '')}\t{one.get('reason', '')}\t{one.get('message', '')}"
        report.line(f"{one['type']}\t{words}", 1)
    quotas = subject.others("resourcequotas")
    report.line()
    report.line("Resource Quotas" if quotas else "No resource quota.")
    for quota in quotas:
        report.line(f"Name:\t{quota['metadata']['name']}", 1)
        report.line("Resource\tUsed\tHard", 1)
        report.line("--------\t---\t---", 1)
        status = part(quota, "status")
        for name, hard in sorted((status.get("hard") or {}).items()):
            report.line(f"{name}\t{(status.get('used') or {}).get(name, '')}\t{hard}", 1)
    limits = subject.others("limitranges")
    report.line()
    report.line("Limit Ranges" if limits else "No LimitRange resource.")
    for one in limits:
        report.line(f"Name:\t{one['metadata']['name']}", 1)


def _size(encoded: object) -> int:
    try:
        return len(base64.b64decode(str(encoded)))
    except binascii.Error:
        return 0


def aligned(text: str) -> str:
    """The text with spaces instead of tabs, so that columns are aligned."""
    lines = [line.split("\t") for line in text.split("\n")]
    widths: list[list[int]] = [[] for _ in lines]
    _measure(lines, widths, 0, len(lines))
    return "\n".join(
        "".join(cell.ljust(width) for cell, width in zip(cells, found, strict=False)) + cells[-1]
        for cells, found in zip(lines, widths, strict=True)
    )


def _measure(lines: list[list[str]], widths: list[list[int]], start: int, end: int) -> None:
    """Measure the next column of consecutive lines, then the columns to its right."""
    column = len(widths[start]) if start < end else 0
    at = start
    while at < end:
        if len(lines[at]) - 1 <= column:
            at += 1
            continue
        first = at
        while at < end and len(lines[at]) - 1 > column:
            at += 1
        width = max(len(lines[index][column]) for index in range(first, at)) + _PADDING
        for index in range(first, at):
            widths[index].append(width)
        _measure(lines, widths, first, at)


_DESCRIBERS: dict[tuple[str, str], Callable[[Report, DescribedObject], None]] = {
    ("v1", "Pod"): describe_pod,
    ("v1", "Node"): describe_node,
    ("v1", "Service"): describe_service,
    ("v1", "ConfigMap"): describe_config_map,
    ("v1", "Secret"): describe_secret,
    ("v1", "Namespace"): describe_namespace,
    ("apps/v1", "Deployment"): describe_deployment,
    ("apps/v1", "ReplicaSet"): describe_replica_set,
    ("apps/v1", "StatefulSet"): describe_stateful_set,
    ("apps/v1", "DaemonSet"): describe_daemon_set,
    ("batch/v1", "Job"): describe_job,
    ("batch/v1", "CronJob"): describe_cron_job,
}


def description(subject: DescribedObject) -> str:
    """Describe an object; control characters are escaped."""
    report, kind = Report(), (subject.object.get("apiVersion", ""), subject.object.get("kind", ""))
    describe = _DESCRIBERS.get(kind, describe_generic)
    describe(report, subject)
    if describe not in {describe_secret, describe_namespace}:
        report.events(subject)
    return escape_terminal(aligned(report.text))
