"""The variables that tell a container where services are.

Upstream: pkg/kubelet/envvars/envvars.go, getServiceEnvVarMap in pkg/kubelet/kubelet_pods.go
"""

from collections.abc import Iterable, Iterator

from pykubelet.api.generated.core import Service

_NO_ADDRESS = frozenset({"", "None"})


def service_variables(services: Iterable[Service], namespace: str, *, links: bool) -> dict[str, str]:
    """Variables of the services that a pod of a namespace sees: its own if it wants links, and the API server."""
    seen: dict[str, Service] = {}
    for service in services:
        name, home = service.metadata.name, service.metadata.namespace
        if service.spec.cluster_ip in _NO_ADDRESS:
            continue
        if (home, name) == ("default", "kubernetes"):
            seen.setdefault(name, service)
        elif home == namespace and links:
            seen[name] = service
    return {name: value for key in sorted(seen) for name, value in _variables(seen[key])}


def _variables(service: Service) -> Iterator[tuple[str, str]]:
    name, address, ports = _variable_name(service.metadata.name), service.spec.cluster_ip, service.spec.ports
    yield f"{name}_SERVICE_HOST", address
    if not ports:
        return
    yield f"{name}_SERVICE_PORT", str(ports[0].port)
    for port in ports:
        if port.name:
            yield f"{name}_SERVICE_PORT_{_variable_name(port.name)}", str(port.port)
    host = f"[{address}]" if ":" in address else address
    for port in ports:
        protocol = port.protocol or "TCP"
        url = f"{protocol.lower()}://{host}:{port.port}"
        if port is ports[0]:
            yield f"{name}_PORT", url
        prefix = f"{name}_PORT_{port.port}_{protocol.upper()}"
        yield prefix, url
        yield f"{prefix}_PROTO", protocol.lower()
        yield f"{prefix}_PORT", str(port.port)
        yield f"{prefix}_ADDR", address


def _variable_name(name: str) -> str:
    return name.replace("-", "_").upper()
