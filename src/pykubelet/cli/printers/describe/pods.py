"""Describes pods and pod templates: containers, environment, volumes.

Upstream: staging/src/k8s.io/kubectl/pkg/describe/describe.go
"""

import re
from collections.abc import Mapping, Sequence

from pykubelet.api.labels import selector_from_document
from pykubelet.api.quantity import QuantityError, parse_quantity
from pykubelet.api.serializer import Document
from pykubelet.cli.printers.describe.report import (
    NONE,
    UNSET,
    DescribedObject,
    Report,
    controller,
    go_bool,
    part,
    title_bool,
    when,
)

_INNER, _DEEPER = 2, 3
"""The indentation of the fields of a container or volume, and of what is below them."""
_KEYED = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]")
_OF_NODE = frozenset({"limits.cpu", "limits.memory"})
_ENDED = frozenset({"Failed", "Succeeded"})


def add_environment(report: Report, container: Document, pod: Document | None) -> None:
    """Add the environment of a container; field references are resolved if the pod is given."""
    sources = container.get("envFrom") or ()
    if sources:
        report.line("Environment Variables from:", _INNER)
    for source in sources:
        kind, reference = _source(source)
        prefix = f" with prefix '{source['prefix']}'" if source.get("prefix") else ""
        optional = go_bool(reference.get("optional"))
        report.line(f"{reference.get('name', '')}\t{kind}{prefix}\tOptional: {optional}", _DEEPER)
    variables = container.get("env") or ()
    report.line("Environment:" + ("" if variables else f"\t{NONE}"), _INNER)
    for variable in variables:
        if variable.get("valueFrom"):
            report.field(variable["name"], _origin(variable["valueFrom"], container, pod), _DEEPER)
            continue
        first, *rest = str(variable.get("value", "")).split("\n")
        report.field(variable["name"], first, _DEEPER)
        for line in rest:
            report.line(f"\t{line}", _DEEPER)


def _source(source: Document) -> tuple[str, Document]:
    if source.get("configMapRef"):
        return "ConfigMap", source["configMapRef"]
    return "Secret", source.get("secretRef") or {}


def _origin(source: Document, container: Document, pod: Document | None) -> str:
    if field := source.get("fieldRef"):
        value = field_value(pod, field["fieldPath"]) if pod is not None else ""
        return f"{value} ({field.get('apiVersion', 'v1')}:{field['fieldPath']})"
    if amount := source.get("resourceFieldRef"):
        value = _resource_value(container, amount)
        if value == "0" and amount["resource"] in _OF_NODE:
            value = "node allocatable"
        return f"{value} ({amount['resource']})"
    if key := source.get("secretKeyRef"):
        return f"<set to the key '{key['key']}' in secret '{key['name']}'>\tOptional: {go_bool(key.get('optional'))}"
    key = source.get("configMapKeyRef") or {"key": "", "name": ""}
    return f"<set to the key '{key['key']}' of config map '{key['name']}'>\tOptional: {go_bool(key.get('optional'))}"


def field_value(pod: Document, path: str) -> str:
    """The value of a pod field that a variable refers to."""
    keyed = _KEYED.fullmatch(path)
    if keyed:
        return str((pod["metadata"].get(keyed[1]) or {}).get(keyed[2], ""))
    if path == "status.podIPs":
        return ",".join(one["ip"] for one in (pod.get("status") or {}).get("podIPs") or ())
    value: object = pod
    for step in path.split("."):
        value = value.get(step, "") if isinstance(value, dict) else ""
    return str(value)


def _resource_value(container: Document, amount: Document) -> str:
    which, _, name = str(amount["resource"]).partition(".")
    given = ((container.get("resources") or {}).get(which) or {}).get(name, "0")
    divisor = str(amount.get("divisor") or "0")
    try:
        total = parse_quantity(str(given)).milli_value()
        unit = parse_quantity(divisor).milli_value() or 1000
    except QuantityError:
        return ""
    return str(-(-total // unit))


def add_containers(
    report: Report,
    title: str,
    containers: Sequence[Document],
    *,
    statuses: Sequence[Document] = (),
    pod: Document | None = None,
    in_template: bool = False,
) -> None:
    """Add a list of containers; `pod` resolves field references in their environment."""
    margin = "  " if in_template else ""
    report.line(f"{margin}{title}:" + ("" if containers else f" {NONE}"))
    known = {status["name"]: status for status in statuses}
    for container in containers:
        report.line(f"{' ' if in_template else ''}{container['name']}:", 1)
        status = known.get(container["name"])
        _add_image(report, container, status)
        _add_words(report, "Command", container.get("command") or ())
        _add_words(report, "Args", container.get("args") or ())
        if status is not None:
            _add_status(report, status)
        add_resources(report, container.get("resources") or {}, _INNER)
        for name in ("Liveness", "Readiness", "Startup"):
            if probe := container.get(f"{name.lower()}Probe"):
                report.field(name, probe_text(probe), _INNER)
        add_environment(report, container, pod)
        _add_mounts(report, container)


def _add_image(report: Report, container: Document, status: Document | None) -> None:
    if status is not None:
        report.field("Container ID", status.get("containerID", ""), _INNER)
    report.field("Image", container.get("image", ""), _INNER)
    if status is not None:
        report.field("Image ID", status.get("imageID", ""), _INNER)
    ports = container.get("ports") or ()
    for title, key in (("Port", "containerPort"), ("Host Port", "hostPort")):
        numbers = ", ".join(f"{port.get(key, 0)}/{port.get('protocol', 'TCP')}" for port in ports)
        report.field(f"{title}s" if "," in numbers else title, numbers or NONE, _INNER)
    profile = (container.get("securityContext") or {}).get("seccompProfile") or {}
    report.some("SeccompProfile", profile.get("type"), _INNER)
    report.some("LocalhostProfile", profile.get("localhostProfile"), _DEEPER)


def _add_words(report: Report, title: str, words: Sequence[str]) -> None:
    if words:
        report.line(f"{title}:", _INNER)
    for word in words:
        for line in word.split("\n"):
            report.line(line, _DEEPER)


def _add_status(report: Report, status: Document) -> None:
    _add_state(report, "State", status.get("state") or {})
    last = status.get("lastState") or {}
    if last.get("terminated"):
        _add_state(report, "Last State", last)
    report.field("Ready", title_bool(status.get("ready")), _INNER)
    report.field("Restart Count", status.get("restartCount", 0), _INNER)


def _add_state(report: Report, name: str, state: Document) -> None:
    if state.get("running"):
        report.field(name, "Running", _INNER)
        report.field("Started", _time(state["running"], "startedAt"), _DEEPER)
    elif state.get("terminated"):
        ended = state["terminated"]
        report.field(name, "Terminated", _INNER)
        report.some("Reason", ended.get("reason"), _DEEPER)
        report.some("Message", ended.get("message"), _DEEPER)
        report.field("Exit Code", ended.get("exitCode", 0), _DEEPER)
        report.some("Signal", ended.get("signal"), _DEEPER)
        report.field("Started", _time(ended, "startedAt"), _DEEPER)
        report.field("Finished", _time(ended, "finishedAt"), _DEEPER)
    else:
        report.field(name, "Waiting", _INNER)
        report.some("Reason", (state.get("waiting") or {}).get("reason"), _DEEPER)


def _time(state: Document, key: str) -> str:
    # Go prints its zero time where there is none.
    return when(state.get(key) or "0001-01-01T00:00:00Z")


def add_resources(report: Report, resources: Mapping[str, Document], level: int) -> None:
    for title in ("Limits", "Requests"):
        amounts = resources.get(title.lower()) or {}
        if amounts:
            report.line(f"{title}:", level)
        for name, amount in sorted(amounts.items()):
            report.field(name, amount, level + 1)


def probe_text(probe: Document) -> str:
    """A probe in one line."""
    times = (
        f"delay={probe.get('initialDelaySeconds', 0)}s timeout={probe.get('timeoutSeconds', 0)}s "
        f"period={probe.get('periodSeconds', 0)}s #success={probe.get('successThreshold', 0)} "
        f"#failure={probe.get('failureThreshold', 0)}"
    )
    if run := probe.get("exec"):
        return f"exec [{' '.join(run.get('command') or ())}] {times}"
    if get := probe.get("httpGet"):
        scheme, place = str(get.get("scheme", "")).lower(), f"{get.get('host', '')}:{get.get('port', '')}"
        path = str(get.get("path", ""))
        return f"http-get {scheme}://{place}{'' if path.startswith('/') or not path else '/'}{path} {times}"
    if connect := probe.get("tcpSocket"):
        return f"tcp-socket {connect.get('host', '')}:{connect.get('port', '')} {times}"
    if call := probe.get("grpc"):
        return f"grpc <pod>:{call.get('port', 0)} {call.get('service') or ''} {times}"
    return f"unknown {times}"


def _add_mounts(report: Report, container: Document) -> None:
    mounts = container.get("volumeMounts") or ()
    report.line("Mounts:" + ("" if mounts else f"\t{NONE}"), _INNER)
    for mount in sorted(mounts, key=lambda one: str(one["mountPath"])):
        flags = ["ro" if mount.get("readOnly") else "rw"]
        flags += [f'path="{mount["subPath"]}"'] if mount.get("subPath") else []
        report.line(f"{mount['mountPath']} from {mount['name']} ({','.join(flags)})", _DEEPER)
    devices = container.get("volumeDevices") or ()
    if devices:
        report.line("Devices:", _INNER)
    for device in sorted(devices, key=lambda one: str(one["devicePath"])):
        report.line(f"{device['devicePath']} from {device['name']}", _DEEPER)


def add_volumes(report: Report, volumes: Sequence[Document], *, in_template: bool = False) -> None:
    """Add the volumes of a pod with their sources."""
    margin = "  " if in_template else ""
    if not volumes:
        report.line(f"{margin}Volumes:\t{NONE}")
        return
    report.line(f"{margin}Volumes:")
    for volume in volumes:
        report.line(f"{' ' if in_template else ''}{volume['name']}:", 1)
        kind = next((kind for kind in _VOLUMES if kind in volume), None)
        if kind is None:
            report.line("<unknown>", 1)
            continue
        title, fields = _VOLUMES[kind]
        source = volume[kind] or {}
        report.field("Type", title, _INNER)
        for name, key, default in fields:
            value = source.get(key, default)
            report.field(name, go_bool(value) if default is False else value, _INNER)
        if kind == "downwardAPI":
            _add_downward_items(report, source)
        elif kind == "projected":
            _add_projections(report, source)
        elif kind == "csi":
            report.labels("    VolumeAttributes", source.get("volumeAttributes"))


def _add_downward_items(report: Report, source: Document) -> None:
    report.line("Items:", _INNER)
    for item in source.get("items") or ():
        origin = (item.get("fieldRef") or {}).get("fieldPath") or (item.get("resourceFieldRef") or {}).get("resource")
        report.line(f"{origin} -> {item['path']}", _DEEPER)


def _add_projections(report: Report, source: Document) -> None:
    for one in source.get("sources") or ():
        if secret := one.get("secret"):
            report.field("SecretName", secret.get("name", ""), _INNER)
            report.field("Optional", go_bool(secret.get("optional")), _INNER)
        elif "downwardAPI" in one:
            report.field("DownwardAPI", "true", _INNER)
        elif config_map := one.get("configMap"):
            report.field("ConfigMapName", config_map.get("name", ""), _INNER)
            report.field("Optional", go_bool(config_map.get("optional")), _INNER)
        elif token := one.get("serviceAccountToken"):
            report.field("TokenExpirationSeconds", token.get("expirationSeconds", 0), _INNER)


_VOLUMES: Mapping[str, tuple[str, tuple[tuple[str, str, str | bool], ...]]] = {
    "hostPath": ("HostPath (bare host directory volume)", (("Path", "path", ""), ("HostPathType", "type", NONE))),
    "emptyDir": (
        "EmptyDir (a temporary directory that shares a pod's lifetime)",
        (("Medium", "medium", ""), ("SizeLimit", "sizeLimit", UNSET)),
    ),
    "secret": (
        "Secret (a volume populated by a Secret)",
        (("SecretName", "secretName", ""), ("Optional", "optional", False)),
    ),
    "configMap": (
        "ConfigMap (a volume populated by a ConfigMap)",
        (("Name", "name", ""), ("Optional", "optional", False)),
    ),
    "persistentVolumeClaim": (
        "PersistentVolumeClaim (a reference to a PersistentVolumeClaim in the same namespace)",
        (("ClaimName", "claimName", ""), ("ReadOnly", "readOnly", False)),
    ),
    "downwardAPI": ("DownwardAPI (a volume populated by information about the pod)", ()),
    "projected": ("Projected (a volume that contains injected data from multiple sources)", ()),
    "nfs": (
        "NFS (an NFS mount that lasts the lifetime of a pod)",
        (("Server", "server", ""), ("Path", "path", ""), ("ReadOnly", "readOnly", False)),
    ),
    "csi": (
        "CSI (a Container Storage Interface (CSI) volume source)",
        (("Driver", "driver", ""), ("FSType", "fsType", ""), ("ReadOnly", "readOnly", False)),
    ),
}
"""The type of each volume source and its fields: title, key and default; a boolean default marks a boolean."""


def describe_pod(report: Report, subject: DescribedObject) -> None:
    _add_identity(report, subject)
    _add_pod_status(report, subject)
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


def _add_identity(report: Report, subject: DescribedObject) -> None:
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


def _add_pod_status(report: Report, subject: DescribedObject) -> None:
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
    """The tolerations of a pod, each in one line."""
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
    """The number of an owner's pods in each phase."""
    mine = [(pod.get("status") or {}).get("phase") for pod in owned(pods, owner_uid)]
    shown = (("Running", "Running"), ("Pending", "Waiting"), ("Succeeded", "Succeeded"), ("Failed", "Failed"))
    return " / ".join(f"{mine.count(phase)} {word}" for phase, word in shown)


def owned(documents: Sequence[Document], uid: str) -> list[Document]:
    """The objects whose controller has this UID."""
    return [
        one
        for one in documents
        for owner in one["metadata"].get("ownerReferences") or ()
        if owner.get("controller") and owner["uid"] == uid
    ]
