"""The environment of a container, and where its values come from.

Upstream: describeContainerEnvVars and describeContainerEnvFrom in kubectl/pkg/describe/describe.go.
"""

import re

from pykubelet.api.quantity import QuantityError, parse_quantity
from pykubelet.api.wire import Document
from pykubelet.cli.describe.report import NONE, Report, go_bool

_IN_CONTAINER, _DEEPER = 2, 3
_KEYED = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]")
_OF_NODE = frozenset({"limits.cpu", "limits.memory"})


def add_environment(report: Report, container: Document, pod: Document | None) -> None:
    """Its variables; values that are fields of the pod are told if it is known."""
    sources = container.get("envFrom") or ()
    if sources:
        report.line("Environment Variables from:", _IN_CONTAINER)
    for source in sources:
        kind, reference = _source(source)
        prefix = f" with prefix '{source['prefix']}'" if source.get("prefix") else ""
        optional = go_bool(reference.get("optional"))
        report.line(f"{reference.get('name', '')}\t{kind}{prefix}\tOptional: {optional}", _DEEPER)
    variables = container.get("env") or ()
    report.line("Environment:" + ("" if variables else f"\t{NONE}"), _IN_CONTAINER)
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
    """The value of a field that a variable may have."""
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
