"""Pods and templates of pods.

Upstream: describePod and DescribePodTemplate in kubectl/pkg/describe/describe.go.
"""

from collections.abc import Sequence

from pykubelet.api.selector import selector_from_document
from pykubelet.api.wire import Document
from pykubelet.cli.describe.containers import add_containers, add_resources
from pykubelet.cli.describe.events import add_events
from pykubelet.cli.describe.report import NONE, UNSET, Report, controller, when
from pykubelet.cli.describe.subject import Subject, part
from pykubelet.cli.describe.volumes import add_volumes

_ENDED = frozenset({"Failed", "Succeeded"})


def describe_pod(subject: Subject) -> str:
    """A pod."""
    report = Report()
    _add_identity(report, subject)
    _add_status(report, subject)
    spec, status = subject.spec, subject.status
    if spec.get("resources"):
        report.line("Resources:")
        add_resources(report, spec["resources"], 1)
    pod = subject.object
    if spec.get("initContainers"):
        statuses = status.get("initContainerStatuses") or ()
        add_containers(report, "Init Containers", spec["initContainers"], statuses=statuses, pod=pod)
    statuses = status.get("containerStatuses") or ()
    add_containers(report, "Containers", spec.get("containers") or (), statuses=statuses, pod=pod)
    if spec.get("ephemeralContainers"):
        statuses = status.get("ephemeralContainerStatuses") or ()
        add_containers(report, "Ephemeral Containers", spec["ephemeralContainers"], statuses=statuses, pod=pod)
    _add_conditions(report, spec, status)
    add_volumes(report, spec.get("volumes") or ())
    report.field("QoS Class", status.get("qosClass", ""))
    report.labels("Node-Selectors", spec.get("nodeSelector"))
    report.entries("Tolerations", tolerations(spec))
    _add_spread(report, spec, "")
    add_events(report, subject)
    return report.text


def _add_identity(report: Report, subject: Subject) -> None:
    spec, metadata = subject.spec, subject.metadata
    report.field("Name", metadata["name"])
    report.field("Namespace", metadata.get("namespace", ""))
    if spec.get("priority") is not None:
        report.field("Priority", spec["priority"])
    report.some("Priority Class Name", spec.get("priorityClassName"))
    report.some("Runtime Class Name", spec.get("runtimeClassName"))
    report.some("Service Account", spec.get("serviceAccountName"))
    node = spec.get("nodeName")
    report.field("Node", f"{node}/{subject.status.get('hostIP', '')}" if node else NONE)
    if subject.status.get("startTime"):
        report.field("Start Time", when(subject.status["startTime"]))
    report.labels("Labels", metadata.get("labels"))
    report.annotations("Annotations", metadata.get("annotations"))


def _add_status(report: Report, subject: Subject) -> None:
    metadata, status = subject.metadata, subject.status
    phase = status.get("phase", "")
    if metadata.get("deletionTimestamp") and phase not in _ENDED:
        report.field("Status", f"Terminating (lasts {subject.since(metadata['deletionTimestamp'])})")
        report.field("Termination Grace Period", f"{metadata.get('deletionGracePeriodSeconds', 0)}s")
    else:
        report.field("Status", phase)
    report.some("Reason", status.get("reason"))
    report.some("Message", status.get("message"))
    profile = part(part(subject.spec, "securityContext"), "seccompProfile")
    report.some("SeccompProfile", profile.get("type"))
    report.some("LocalhostProfile", profile.get("localhostProfile"))
    report.field("IP", status.get("podIP", ""))
    addresses = status.get("podIPs") or ()
    report.line("IPs:" if addresses else f"IPs:\t{NONE}")
    for address in addresses:
        report.field("IP", address["ip"], 1)
    report.some("Controlled By", controller(metadata))
    report.some("NominatedNodeName", status.get("nominatedNodeName"))


def _add_conditions(report: Report, spec: Document, status: Document) -> None:
    conditions = status.get("conditions") or ()
    gates = spec.get("readinessGates") or ()
    if gates:
        report.line("Readiness Gates:")
        report.line("Type\tStatus", 1)
        known = {one["type"]: one["status"] for one in conditions}
        for gate in gates:
            report.line(f"{gate['conditionType']} \t{known.get(gate['conditionType'], NONE)} ", 1)
    if conditions:
        report.line("Conditions:")
        report.line("Type\tStatus", 1)
    for one in conditions:
        report.line(f"{one['type']} \t{one['status']} ", 1)


def tolerations(spec: Document) -> list[str]:
    """What a pod puts up with, each in a few signs."""
    given = sorted(spec.get("tolerations") or (), key=lambda one: str(one.get("key", "")))
    return [_toleration(one) for one in given]


def _toleration(one: Document) -> str:
    text = str(one.get("key", ""))
    text += f"={one['value']}" if one.get("value") else ""
    text += f":{one['effect']}" if one.get("effect") else ""
    if one.get("operator") == "Exists" and not one.get("value"):
        text += " op=Exists" if text else "op=Exists"
    return text + (f" for {one['tolerationSeconds']}s" if one.get("tolerationSeconds") is not None else "")


def _add_spread(report: Report, spec: Document, margin: str) -> None:
    rules = sorted(spec.get("topologySpreadConstraints") or (), key=lambda one: str(one["topologyKey"]))
    if rules:
        report.entries(f"{margin}Topology Spread Constraints", [_spread(rule) for rule in rules])


def _spread(rule: Document) -> str:
    text = f"{rule['topologyKey']}:{rule['whenUnsatisfiable']} when max skew {rule['maxSkew']} is exceeded"
    selector = rule.get("labelSelector")
    return text + (f" for selector {selector_from_document(selector)}" if selector is not None else "")


def add_template(report: Report, template: Document | None) -> None:
    """The template of a workload's pods."""
    report.line("Pod Template:")
    if template is None:
        report.line(UNSET, 1)
        return
    metadata, spec = part(template, "metadata"), part(template, "spec")
    report.labels("  Labels", metadata.get("labels"))
    if metadata.get("annotations"):
        report.annotations("  Annotations", metadata["annotations"])
    report.some("  Service Account", spec.get("serviceAccountName"))
    if spec.get("initContainers"):
        add_containers(report, "Init Containers", spec["initContainers"], in_template=True)
    add_containers(report, "Containers", spec.get("containers") or (), in_template=True)
    add_volumes(report, spec.get("volumes") or (), in_template=True)
    _add_spread(report, spec, "  ")
    report.some("  Priority Class Name", spec.get("priorityClassName"))
    report.labels("  Node-Selectors", spec.get("nodeSelector"))
    report.entries("  Tolerations", tolerations(spec))


def phases(pods: Sequence[Document], owner_uid: str) -> str:
    """How many pods of an owner are in which phase."""
    mine = [
        (pod.get("status") or {}).get("phase")
        for pod in pods
        if any(
            one.get("controller") and one["uid"] == owner_uid for one in pod["metadata"].get("ownerReferences") or ()
        )
    ]
    shown = (("Running", "Running"), ("Pending", "Waiting"), ("Succeeded", "Succeeded"), ("Failed", "Failed"))
    return " / ".join(f"{mine.count(phase)} {word}" for phase, word in shown)
