"""The targets of proxied requests: which address, port and path of a node or pod.

Only a node's kubelet port and addresses of pods can be reached. Errors have upstream's messages.

Upstream: pkg/registry/core/pod/strategy.go, pkg/registry/core/node/strategy.go,
pkg/registry/core/service/storage/storage.go, pkg/kubelet/client/kubelet_client.go, pkg/proxy/util/utils.go
"""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import quote, urlencode

from pykubelet.api.errors import BadRequest, InternalError, NotFound, ServiceUnavailable
from pykubelet.api.field_errors import FieldError, forbidden, invalid
from pykubelet.api.serializer import Document
from pykubelet.apiserver.errors import invalid as invalid_kind
from pykubelet.apiserver.handlers.options import integer

Query = Sequence[tuple[str, str]]

KUBELET_PORT = 10250
_BROADCAST = IPv4Address("255.255.255.255")
# Addresses before names, which one machine may not resolve.
_ADDRESS_TYPES = ("InternalIP", "ExternalIP", "Hostname", "InternalDNS", "ExternalDNS")
_LOG_NUMBERS = {"tailLines": 0, "limitBytes": 1, "sinceSeconds": 1}
# Characters that Go does not escape in a path.
_PLAIN = "/$&+,:;=@~!*'()"


@dataclass(frozen=True, slots=True)
class ProxyTarget:
    """Where to connect, whether as to a node (with the server's certificate), and the path to request."""

    host: str
    port: int
    path: str
    scheme: str = "https"
    is_node: bool = True

    @property
    def authority(self) -> str:
        """The host and the port, as a URL has them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def log_target(pod: Document, node: Document | None, query: Query) -> ProxyTarget | None:
    """The log of a container on its node; None while the pod has no node, because its log is empty."""
    numbers = _log_numbers(query, pod["metadata"]["name"])
    container = _container(pod, _first(query, "container"))
    if not pod["spec"].get("nodeName"):
        return None
    parameters = [(name, "true") for name in ("follow", "previous", "timestamps") if _is_true(query, name)]
    parameters += [(name, str(number)) for name, number in numbers.items()]
    parameters += [(name, value) for name, value in query if name == "sinceTime" and value]
    stream = _first(query, "stream")
    parameters += [("stream", stream)] if stream and stream != "All" else []
    return _on_node(pod, node, ("containerLogs", container), parameters)


def stream_target(pod: Document, node: Document | None, subresource: str, query: Query) -> ProxyTarget:
    """The target of `exec`, `attach` or `portforward` on the pod's node."""
    container = "" if subresource == "portforward" else _container(pod, _first(query, "container"))
    if not pod["spec"].get("nodeName"):
        raise BadRequest(f"pod {pod['metadata']['name']} does not have a host assigned")
    if subresource == "portforward":
        return _on_node(pod, node, ("portForward",), [("port", value) for name, value in query if name == "ports"])
    streams = [(wire, "1") for ours, wire in _STREAMS.items() if _is_true(query, ours)]
    commands = [(name, value) for name, value in query if name == "command"]
    return _on_node(pod, node, (subresource, container), streams + commands)


# The kubelet's names for the API's parameters.
_STREAMS = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}


def connect_options(subresource: str, plural: str, query: Query, path: str) -> Document:
    """The options of a connection as an object, which admission looks at."""
    if subresource == "proxy":
        shown = {"path": path} if path else {}
        return {"kind": f"{plural.removesuffix('s').capitalize()}ProxyOptions", "apiVersion": "v1", **shown}
    if subresource == "portforward":
        ports = [int(value) for name, value in query if name == "ports" and value.isdecimal()]
        return {"kind": "PodPortForwardOptions", "apiVersion": "v1", **({"ports": ports} if ports else {})}
    options: Document = {"kind": f"Pod{subresource.capitalize()}Options", "apiVersion": "v1"}
    options |= {name: True for name in _STREAMS if _is_true(query, name)}
    if container := _first(query, "container"):
        options["container"] = container
    commands = [value for name, value in query if name == "command"]
    return {**options, "command": commands} if commands and subresource == "exec" else options


def node_target(node: Document, name: str, path: str, raw_query: str) -> ProxyTarget:
    """A path of the kubelet's API; `name` may include its port and no other."""
    _, _, port = split_name(name, "node")
    host, own_port = node_address(node)
    if port not in ("", str(own_port)):
        raise BadRequest(f"only port {own_port} of node {node['metadata']['name']} can be reached")
    return ProxyTarget(host, own_port, _with_query(path, raw_query))


def pod_target(pod: Document, name: str, path: str, raw_query: str) -> ProxyTarget:
    """A path on a pod's named port, or its first port."""
    scheme, _, port = split_name(name, "pod")
    listed = [found["containerPort"] for one in pod["spec"]["containers"] for found in one.get("ports", ())]
    default = listed[0] if listed else (443 if scheme == "https" else 80)
    address = _pod_address(pod.get("status", {}).get("podIP", ""))
    number = _port(port) if port else int(default)
    return ProxyTarget(address, number, _with_query(path, raw_query), scheme=scheme or "http", is_node=False)


def service_target(service: Document, endpoints: Document | None, name: str, path: str, raw_query: str) -> ProxyTarget:
    """A path on a pod behind a service, by the name or number of the port."""
    scheme, service_name, port = split_name(name, "service")
    if port.isdecimal():
        names = [row.get("name", "") for row in service["spec"].get("ports", ()) if row["port"] == int(port)]
        if not names:
            raise ServiceUnavailable(f'no service port {port} found for service "{service_name}"')
        port = names[0]
    for subset in (endpoints or {}).get("subsets", ()):
        for row in subset.get("ports", ()):
            if row.get("name", "") == port and subset.get("addresses"):
                address = _pod_address(subset["addresses"][0]["ip"])
                whole = _with_query(path, raw_query)
                return ProxyTarget(address, row["port"], whole, scheme=scheme or "http", is_node=False)
    raise ServiceUnavailable(f'no endpoints available for service "{name}"')


def is_proxyable(text: str, *, at_loopback: bool) -> bool:
    """Whether this is an address that may be proxied to: not one that every machine takes for itself or its link.

    IPv4 addresses inside IPv6 ones count as what they contain. Loopback is allowed with `at_loopback` only.
    """
    try:
        address = ip_address(text)
    except ValueError:
        return False
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    if address.is_loopback:
        return at_loopback
    # Reserved in IPv6: deprecated forms with IPv4 addresses inside. Pods may have reserved IPv4 addresses.
    is_odd = address == _BROADCAST or (address.version == 6 and address.is_reserved)
    return not (is_odd or address.is_link_local or address.is_multicast or address.is_unspecified)


def split_name(text: str, what: str) -> tuple[str, str, str]:
    """Splits `name`, `name:port` or `scheme:name:port`."""
    parts = text.split(":")
    scheme, name, port = {1: ("", *parts, ""), 2: ("", *parts), 3: (*parts,)}.get(len(parts), ("?", "", ""))
    if scheme not in ("", "http", "https") or not name:
        raise BadRequest(f'invalid {what} request "{text}"')
    return scheme, name, port


def node_address(node: Document) -> tuple[str, int]:
    """The address of the node's kubelet, from the node's status."""
    status = node.get("status", {})
    by_type: dict[str, str] = {}
    for row in status.get("addresses", ()):
        by_type.setdefault(row["type"], row["address"])
    port = status.get("daemonEndpoints", {}).get("kubeletEndpoint", {}).get("Port", 0)
    for kind in _ADDRESS_TYPES:
        if kind in by_type:
            return by_type[kind], port if port > 0 else KUBELET_PORT
    raise InternalError(f"no preferred addresses found; known addresses: {list(by_type)}")


def _on_node(pod: Document, node: Document | None, where: tuple[str, ...], query: Query) -> ProxyTarget:
    if node is None:
        name = pod["spec"]["nodeName"]
        raise NotFound(f'nodes "{name}" not found', details={"name": name, "kind": "nodes"})
    host, port = node_address(node)
    metadata = pod["metadata"]
    first, *rest = where
    parts = (first, metadata["namespace"], metadata["name"], *rest)
    return ProxyTarget(host, port, _with_query("/" + "/".join(parts), urlencode(query)))


def _container(pod: Document, name: str) -> str:
    spec, pod_name = pod["spec"], pod["metadata"]["name"]
    kinds = ("initContainers", "containers", "ephemeralContainers")
    names = [str(container["name"]) for kind in kinds for container in spec.get(kind) or ()]
    if name:
        if name not in names:
            raise BadRequest(f"container {name} is not valid for pod {pod_name}")
        return name
    if len(spec["containers"]) > 1:
        raise BadRequest(f"a container name must be specified for pod {pod_name}, choose one of: [{' '.join(names)}]")
    return str(spec["containers"][0]["name"])


def _log_numbers(query: Query, pod_name: str) -> dict[str, int]:
    parameters = dict(reversed(query))
    found = {name: integer(parameters, name) for name in _LOG_NUMBERS if parameters.get(name)}
    errors: list[FieldError] = []
    for name, least in _LOG_NUMBERS.items():
        if name == "sinceSeconds" and name in found and parameters.get("sinceTime"):
            errors.append(forbidden("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
        elif found.get(name, least) < least:
            problem = "must be greater than 0" if least else "must be greater than or equal to 0"
            errors.append(invalid(name, found[name], problem))
    if errors:
        raise invalid_kind("PodLogOptions", "", pod_name, errors)
    return found


def _pod_address(text: str) -> str:
    """The pod's address; only addresses that a pod can have, so that the machine's own services stay unreachable."""
    if not is_proxyable(text, at_loopback=False):
        raise BadRequest("address not allowed")
    return text


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise BadRequest(f'invalid port "{text[:40]}"')
    return int(text)


def _with_query(path: str, raw_query: str) -> str:
    """The request target. The path was decoded, so it is escaped again."""
    escaped = quote(path, safe=_PLAIN)
    return f"{escaped}?{raw_query}" if raw_query else escaped


def _first(query: Query, name: str) -> str:
    return next((value for key, value in query if key == name), "")


def _is_true(query: Query, name: str) -> bool:
    """Whether a boolean parameter is true: present, and its first value neither `0` nor `false`."""
    return next((value.lower() not in ("0", "false") for key, value in query if key == name), False)
