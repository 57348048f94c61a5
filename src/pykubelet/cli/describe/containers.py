"""Containers of a pod or a template: what they are, how they are.

Upstream: describeContainers in kubectl/pkg/describe/describe.go.
"""

from collections.abc import Mapping, Sequence

from pykubelet.api.wire import Document
from pykubelet.cli.describe.environment import add_environment
from pykubelet.cli.describe.report import NONE, Report, when, yes_no

_IN_CONTAINER = 2


def add_containers(
    report: Report,
    title: str,
    containers: Sequence[Document],
    *,
    statuses: Sequence[Document] = (),
    pod: Document | None = None,
    in_template: bool = False,
) -> None:
    """All of a list; with `pod`, values of its fields in the environment."""
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
        add_resources(report, container.get("resources") or {}, _IN_CONTAINER)
        for name in ("Liveness", "Readiness", "Startup"):
            if probe := container.get(f"{name.lower()}Probe"):
                report.field(name, probe_text(probe), _IN_CONTAINER)
        add_environment(report, container, pod)
        _add_mounts(report, container)


def _add_image(report: Report, container: Document, status: Document | None) -> None:
    if status is not None:
        report.field("Container ID", status.get("containerID", ""), _IN_CONTAINER)
    report.field("Image", container.get("image", ""), _IN_CONTAINER)
    if status is not None:
        report.field("Image ID", status.get("imageID", ""), _IN_CONTAINER)
    ports = container.get("ports") or ()
    for title, key in (("Port", "containerPort"), ("Host Port", "hostPort")):
        numbers = ", ".join(f"{port.get(key, 0)}/{port.get('protocol', 'TCP')}" for port in ports)
        report.field(f"{title}s" if "," in numbers else title, numbers or NONE, _IN_CONTAINER)
    profile = (container.get("securityContext") or {}).get("seccompProfile") or {}
    report.some("SeccompProfile", profile.get("type"), _IN_CONTAINER)
    report.some("LocalhostProfile", profile.get("localhostProfile"), 3)


def _add_words(report: Report, title: str, words: Sequence[str]) -> None:
    if words:
        report.line(f"{title}:", _IN_CONTAINER)
    for word in words:
        for line in word.split("\n"):
            report.line(line, 3)


def _add_status(report: Report, status: Document) -> None:
    _add_state(report, "State", status.get("state") or {})
    last = status.get("lastState") or {}
    if last.get("terminated"):
        _add_state(report, "Last State", last)
    report.field("Ready", yes_no(status.get("ready")), _IN_CONTAINER)
    report.field("Restart Count", status.get("restartCount", 0), _IN_CONTAINER)


def _add_state(report: Report, name: str, state: Document) -> None:
    if state.get("running"):
        report.field(name, "Running", _IN_CONTAINER)
        report.field("Started", _time(state["running"], "startedAt"), 3)
    elif state.get("terminated"):
        ended = state["terminated"]
        report.field(name, "Terminated", _IN_CONTAINER)
        report.some("Reason", ended.get("reason"), 3)
        report.some("Message", ended.get("message"), 3)
        report.field("Exit Code", ended.get("exitCode", 0), 3)
        report.some("Signal", ended.get("signal"), 3)
        report.field("Started", _time(ended, "startedAt"), 3)
        report.field("Finished", _time(ended, "finishedAt"), 3)
    else:
        report.field(name, "Waiting", _IN_CONTAINER)
        report.some("Reason", (state.get("waiting") or {}).get("reason"), 3)


def _time(state: Document, key: str) -> str:
    # Go shows the first moment of its calendar where there is no time.
    return when(state.get(key) or "0001-01-01T00:00:00Z")


def add_resources(report: Report, resources: Mapping[str, Document], level: int) -> None:
    """Limits and requests."""
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
    report.line("Mounts:" + ("" if mounts else f"\t{NONE}"), _IN_CONTAINER)
    for mount in sorted(mounts, key=lambda one: str(one["mountPath"])):
        flags = ["ro" if mount.get("readOnly") else "rw"]
        flags += [f'path="{mount["subPath"]}"'] if mount.get("subPath") else []
        report.line(f"{mount['mountPath']} from {mount['name']} ({','.join(flags)})", 3)
    devices = container.get("volumeDevices") or ()
    if devices:
        report.line("Devices:", _IN_CONTAINER)
    for device in sorted(devices, key=lambda one: str(one["devicePath"])):
        report.line(f"{device['devicePath']} from {device['name']}", 3)
