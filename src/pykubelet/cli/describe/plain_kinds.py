"""Services, config maps, secrets and namespaces.

Upstream: the describers of these kinds in kubectl/pkg/describe/describe.go. On purpose otherwise: of a secret only sizes are
told, a service account's token included.
"""

import base64
import binascii
from collections.abc import Sequence

from pykubelet.api.wire import Document
from pykubelet.cli.describe.events import add_events
from pykubelet.cli.describe.report import NONE, Report, pairs
from pykubelet.cli.describe.subject import Subject, part

_MOST_ENDPOINTS = 3


def describe_service(subject: Subject) -> str:
    """A service."""
    report, spec = Report(), subject.spec
    _add_names(report, subject)
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
    add_events(report, subject)
    return report.text


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


def describe_config_map(subject: Subject) -> str:
    """A config map."""
    report = Report()
    _add_names(report, subject)
    _add_title(report, "Data")
    for key, value in sorted((subject.object.get("data") or {}).items()):
        for line in (f"{key}:", "----", *str(value).split("\n"), ""):
            # A tab in somebody's text is no column of ours.
            report.line(line.replace("\t", "    "))
    _add_title(report, "BinaryData")
    for key, value in sorted((subject.object.get("binaryData") or {}).items()):
        report.line(f"{key}: {_size(value)} bytes")
    report.line()
    add_events(report, subject)
    return report.text


def describe_secret(subject: Subject) -> str:
    """A secret; never its content."""
    report = Report()
    _add_names(report, subject)
    report.line()
    report.field("Type", subject.object.get("type", ""))
    _add_title(report, "Data")
    for key, value in sorted((subject.object.get("data") or {}).items()):
        report.field(key, f"{_size(value)} bytes")
    return report.text


def describe_namespace(subject: Subject) -> str:
    """A namespace."""
    report = Report()
    report.field("Name", subject.metadata["name"])
    report.labels("Labels", subject.metadata.get("labels"))
    report.annotations("Annotations", subject.metadata.get("annotations"))
    report.field("Status", subject.status.get("phase", ""))
    conditions = subject.status.get("conditions") or ()
    if conditions:
        report.line("Conditions:")
        report.line("Type\tLastTransitionTime\tReason\tMessage", 1)
        report.line("----\t------------------\t------\t-------", 1)
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
    return report.text


def _add_names(report: Report, subject: Subject) -> None:
    report.field("Name", subject.metadata["name"])
    report.field("Namespace", subject.metadata.get("namespace", ""))
    report.labels("Labels", subject.metadata.get("labels"))
    report.annotations("Annotations", subject.metadata.get("annotations"))


def _add_title(report: Report, title: str) -> None:
    report.line()
    report.line(title)
    report.line("====")


def _size(encoded: object) -> int:
    try:
        return len(base64.b64decode(str(encoded)))
    except binascii.Error:
        return 0
