"""Nodes: what they are, what runs there and how much of them is taken.

Upstream: describeNode and describeNodeResource in kubectl/pkg/describe/describe.go.
"""

from collections.abc import Mapping, Sequence

from pykubelet.api.defaults.pod_resources import container_sums
from pykubelet.api.quantity import Quantity, add, parse_quantity
from pykubelet.api.wire import Document
from pykubelet.cli.describe.events import add_events
from pykubelet.cli.describe.report import NONE, UNSET, Report, go_bool, when
from pykubelet.cli.describe.subject import Subject, part

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


def describe_node(subject: Subject) -> str:
    """A node."""
    report, spec, status, metadata = Report(), subject.spec, subject.status, subject.metadata
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
    add_events(report, subject)
    return report.text


def _roles(labels: Mapping[str, str]) -> list[str]:
    roles = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE)} | {labels.get(_OLD_ROLE, "")}
    return sorted(roles - {""})


def _taint(taint: Document) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint.get('effect', '')}"


def _taint_order(taint: Document) -> str:
    return f"{taint.get('effect', '')},{taint['key']}"


def _add_lease(report: Report, subject: Subject) -> None:
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
    report.line("Type\tStatus\tLastHeartbeatTime\tLastTransitionTime\tReason\tMessage", 1)
    report.line("----\t------\t-----------------\t------------------\t------\t-------", 1)
    for one in conditions:
        times = " \t".join(when(one.get(key) or "0001-01-01T00:00:00Z") for key in _TIMES)
        words = f"{one.get('reason', '')} \t{one.get('message', '')}"
        report.line(f"{one['type']} \t{one['status']} \t{times} \t{words}", 1)


_TIMES = ("lastHeartbeatTime", "lastTransitionTime")


def _add_pods(report: Report, subject: Subject) -> None:
    pods = subject.others("pods")
    status = subject.status
    room = {
        name: parse_quantity(str(text))
        for name, text in (status.get("allocatable") or status.get("capacity") or {}).items()
    }
    report.field("Non-terminated Pods", f"({len(pods)} in total)")
    report.line("Namespace\tName\t\tCPU Requests\tCPU Limits\tMemory Requests\tMemory Limits\tAge", 1)
    report.line("---------\t----\t\t------------\t----------\t---------------\t-------------\t---", 1)
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
    report.line("Resource\tRequests\tLimits", 1)
    report.line("--------\t--------\t------", 1)
    huge = sorted(name for name in room if name.startswith("hugepages-"))
    for name in (*_STANDARD, *huge):
        report.line("\t".join([name, *(_share(totals[which], name, room) for which in totals)]), 1)
    for name in sorted(set(room) - {*_STANDARD, *huge, "pods"}):
        report.line("\t".join([name, *(str(totals[which].get(name, _ZERO)) for which in totals)]), 1)


_ZERO = parse_quantity("0")


def _taken(pod: Document, which: str) -> Amounts:
    """What a pod asks for, or may take, with its overhead."""
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
