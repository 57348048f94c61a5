"""Computes what a container runs with: command, environment, mounts, hostname and hosts file.

Missing references raise RuntimeFailure, which users see as CreateContainerConfigError. Variables of `envFrom` come
first, then those of `env` in order, then those of services. Other than upstream, a value that no process could receive (a
NUL byte, or invalid UTF-8) is rejected here with the name of the variable.

Upstream: pkg/kubelet/kubelet_pods.go, pkg/kubelet/envvars/envvars.go
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

from pykubelet.aio.threads import in_thread
from pykubelet.api.generated.core import (
    ConfigMapKeySelector,
    EnvFromSource,
    EnvVarSource,
    HostAlias,
    Pod,
    SecretKeySelector,
    Service,
)
from pykubelet.api.names import dns1123_label_errors
from pykubelet.api.pods import AnyContainer, PodUid, is_static_pod
from pykubelet.kubelet.expansion import (
    MAX_EXEC_CHARACTERS,
    ExpansionTooLongError,
    expand,
    expand_all,
    mapping_func_for,
)
from pykubelet.kubelet.kuberuntime.container import ContainerSettings
from pykubelet.kubelet.nodestatus.node_status import OwnNode
from pykubelet.kubelet.objectcache.pod_objects import (
    AwaitedObjects,
    ObjectLookups,
    ObjectNames,
    PodObjects,
    ServiceList,
    found,
)
from pykubelet.kubelet.volumemanager import downward_api
from pykubelet.kubelet.volumemanager.downward_api import Addresses, field_value
from pykubelet.kubelet.volumemanager.errors import ContainerConfigError
from pykubelet.kubelet.volumemanager.filesystem import Mounter
from pykubelet.kubelet.volumemanager.mounts import (
    HOSTS_PATH,
    PlannedMount,
    absolute,
    plan_mounts,
    wants_hosts_file,
)
from pykubelet.kubelet.volumemanager.pod_dirs import PodDir, make_termination_file, write_hosts_file
from pykubelet.kubelet.volumemanager.subpath import bind_sub_path
from pykubelet.kubelet.volumemanager.volume_manager import VolumeManager
from pykubelet.runtimes.dns import ClusterDns, exceeded_limits, read_resolver
from pykubelet.runtimes.protocol import Mount, RuntimeFailure

T = TypeVar("T")

_NO_ADDRESS = frozenset({"", "None"})
# The limits of a DNS label and of the kernel.
_LONGEST_HOSTNAME = 63
_LONGEST_NODENAME = 64
_HEADER = "# Kubernetes-managed hosts file.\n"
_HOST_NETWORK_HEADER = "# Kubernetes-managed hosts file (host network).\n"
_LOCAL = (
    "127.0.0.1\tlocalhost\n"
    "::1\tlocalhost ip6-localhost ip6-loopback\n"
    "fe00::0\tip6-localnet\n"
    "fe00::0\tip6-mcastprefix\n"
    "fe00::1\tip6-allnodes\n"
    "fe00::2\tip6-allrouters\n"
)


def service_variables(services: Iterable[Service], namespace: str, *, links: bool) -> dict[str, str]:
    """The service variables of a pod: of its namespace if it wants service links, and of the API server."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentSources:
    """What a container's environment is computed from, in addition to its pod."""

    lookups: ObjectLookups = field(default_factory=ObjectLookups)
    services: tuple[Service, ...] | None = ()
    """None until the API server has sent them."""
    addresses: Addresses = field(default_factory=Addresses)
    allocatable: Mapping[str, str] = field(default_factory=dict)
    """The node's allocatable resources."""


def referenced_names(container: AnyContainer) -> ObjectNames:
    """The objects that `make_environment` needs for this container."""
    sources = [variable.value_from for variable in container.env if variable.value_from and not variable.value]
    return ObjectNames(
        frozenset(source.config_map_ref.name for source in container.env_from if source.config_map_ref)
        | {source.config_map_key_ref.name for source in sources if source.config_map_key_ref},
        frozenset(source.secret_ref.name for source in container.env_from if source.secret_ref)
        | {source.secret_key_ref.name for source in sources if source.secret_key_ref},
    )


def make_environment(pod: Pod, container: AnyContainer, sources: EnvironmentSources) -> dict[str, str]:
    """The variables of a container; raises ContainerConfigError if one cannot be computed."""
    links = pod.spec.enable_service_links
    if links is None:
        raise ContainerConfigError("nil pod.spec.enableServiceLinks encountered, cannot construct envvars")
    if sources.services is None and not is_static_pod(pod):
        raise ContainerConfigError("services have not yet been read at least once, cannot construct envvars")
    services = service_variables(sources.services or (), pod.metadata.namespace, links=links)
    try:
        variables = _declared(pod, container, sources, services)
    except ContainerConfigError:
        raise
    except Exception as error:
        raise ContainerConfigError(str(error)) from error
    for name, value in variables.items():
        if "\0" in name + value:
            raise ContainerConfigError(f'environment variable "{name}" must not contain a NUL byte')
    return variables | {name: value for name, value in services.items() if name not in variables}


def _declared(
    pod: Pod, container: AnyContainer, sources: EnvironmentSources, services: Mapping[str, str]
) -> dict[str, str]:
    variables: dict[str, str] = {}
    room = MAX_EXEC_CHARACTERS
    for source in container.env_from:
        for name, value in _from_object(source, sources.lookups):
            variables[name] = value
            room = _room_after(name, value, room)
    # References see the variables defined before, not those below.
    value_of = mapping_func_for(variables, services)
    for variable in container.env:
        found: str | None = variable.value
        if variable.value:
            try:
                found = expand(variable.value, value_of)
            except ExpansionTooLongError as error:
                raise ContainerConfigError(f'environment variable "{variable.name}": {error}') from error
        elif variable.value_from:
            found = _resolved(variable.value_from, pod, container, sources)
        if found is not None:
            variables[variable.name] = found
            room = _room_after(variable.name, found, room)
    return variables


def _room_after(name: str, value: str, room: int) -> int:
    """The room left for variables; raises ContainerConfigError if there is none."""
    room -= len(name) + len(value)
    if room < 0:
        detail = f"the environment has more than {MAX_EXEC_CHARACTERS} characters"
        raise ContainerConfigError(f'environment variable "{name}": {detail}')
    return room


def _from_object(source: EnvFromSource, lookups: ObjectLookups) -> Iterator[tuple[str, str]]:
    if reference := source.config_map_ref:
        config_map = found(lookups.config_maps, reference.name, optional=bool(reference.optional))
        for key, text in config_map.data.items() if config_map else ():
            yield source.prefix + key, text
    elif secret_reference := source.secret_ref:
        secret = found(lookups.secrets, secret_reference.name, optional=bool(secret_reference.optional))
        for key, data in secret.data.items() if secret else ():
            yield source.prefix + key, _text(data, key, secret_reference.name)


def _resolved(source: EnvVarSource, pod: Pod, container: AnyContainer, sources: EnvironmentSources) -> str | None:
    """The value of a variable's source; None if it is optional and missing."""
    if source.field_ref:
        return field_value(source.field_ref, pod, sources.addresses)
    if source.resource_field_ref:
        return downward_api.variable_value(source.resource_field_ref, pod, container, sources.allocatable)
    lookups, namespace = sources.lookups, pod.metadata.namespace
    if reference := source.config_map_key_ref:
        config_map = found(lookups.config_maps, reference.name, optional=bool(reference.optional))
        return _entry(config_map.data if config_map else {}, reference, f"ConfigMap {namespace}")
    if secret_reference := source.secret_key_ref:
        secret = found(lookups.secrets, secret_reference.name, optional=bool(secret_reference.optional))
        data = _entry(secret.data if secret else {}, secret_reference, f"Secret {namespace}")
        return None if data is None else _text(data, secret_reference.key, secret_reference.name)
    if source.file_key_ref:
        raise ContainerConfigError("fileKeyRef is not supported by this node")
    return ""


def _entry(data: Mapping[str, T], reference: ConfigMapKeySelector | SecretKeySelector, whose: str) -> T | None:
    """The value of a key; None if it is optional and missing."""
    if reference.key not in data and not reference.optional:
        raise ContainerConfigError(f"couldn't find key {reference.key} in {whose}/{reference.name}")
    return data.get(reference.key)


def _text(data: bytes, key: str, secret: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ContainerConfigError(f"key {key} in Secret {secret} is not valid UTF-8, cannot be a variable") from None


class HostNames(NamedTuple):
    """The hostname of a pod and its domain, which may be empty."""

    hostname: str
    domain: str = ""


def host_names(pod: Pod, cluster_domain: str) -> HostNames:
    """The hostname and domain of a pod; raises ContainerConfigError if its spec has an invalid name."""
    spec = pod.spec
    hostname = _truncated(pod, _label("Hostname", spec.hostname) or pod.metadata.name)
    subdomain = _label("Subdomain", spec.subdomain)
    return HostNames(hostname, f"{subdomain}.{pod.metadata.namespace}.svc.{cluster_domain}" if subdomain else "")


def kernel_hostname(names: HostNames, *, as_fqdn: bool) -> str:
    """The hostname for the kernel; raises ContainerConfigError if it is too long."""
    if not (as_fqdn and names.domain):
        return names.hostname
    fqdn = f"{names.hostname}.{names.domain}"
    if len(fqdn) > _LONGEST_NODENAME:
        raise ContainerConfigError(
            f"failed to construct FQDN from pod hostname and cluster domain, FQDN {fqdn} is too long "
            f"({_LONGEST_NODENAME} characters is the max, {len(fqdn)} characters requested)"
        )
    return fqdn


def hosts_file(names: HostNames, pod_ips: Sequence[str], aliases: Sequence[HostAlias]) -> str:
    """The hosts file of a pod with its own network."""
    own = f"{names.hostname}.{names.domain}\t{names.hostname}" if names.domain else names.hostname
    return _HEADER + _LOCAL + "".join(f"{ip}\t{own}\n" for ip in pod_ips) + _alias_lines(aliases)


def host_network_hosts_file(node_file: str, aliases: Sequence[HostAlias]) -> str:
    """The hosts file of a pod in the host network, based on the node's file."""
    return _HOST_NETWORK_HEADER + node_file + _alias_lines(aliases)


def _alias_lines(aliases: Sequence[HostAlias]) -> str:
    if not aliases:
        return ""
    lines = "".join(alias.ip + "\t" + "\t".join(alias.hostnames) + "\n" for alias in aliases)
    return f"\n# Entries added by HostAliases.\n{lines}"


def _label(field: str, value: str) -> str:
    errors = dns1123_label_errors(value) if value else []
    if errors:
        raise ContainerConfigError(f'pod {field} "{value}" is not a valid DNS label: {";".join(errors)}')
    return value


def _truncated(pod: Pod, hostname: str) -> str:
    if len(hostname) <= _LONGEST_HOSTNAME:
        return hostname
    # A name may end in neither, and truncation may have left one at the end.
    short = hostname[:_LONGEST_HOSTNAME].rstrip("-.")
    if not short:
        raise ContainerConfigError(f'hostname for pod "{pod.metadata.name}" was invalid: "{hostname}"')
    return short


class RunContainerOptions:
    """Computes the options of containers. Owned by one loop; disk operations run in threads."""

    def __init__(
        self,
        *,
        volumes: VolumeManager,
        objects: PodObjects,
        awaited: AwaitedObjects,
        services: ServiceList,
        node: OwnNode,
        mounter: Mounter,
        cluster_dns: ClusterDns,
    ) -> None:
        self._volumes, self._objects, self._awaited, self._services = volumes, objects, awaited, services
        self._node, self._mounter, self._cluster_dns = node, mounter, cluster_dns

    def hostname(self, pod: Pod) -> str:
        """The hostname inside the pod; raises RuntimeFailure if its spec has an invalid name."""
        try:
            names = host_names(pod, self._cluster_dns.domain)
            return kernel_hostname(names, as_fqdn=bool(pod.spec.set_hostname_as_fqdn))
        except ContainerConfigError as problem:
            raise RuntimeFailure(str(problem)) from problem

    async def dns_warnings(self, pod: Pod) -> Sequence[str]:
        """What the pod's DNS settings ask for beyond the limits of resolvers."""
        return await in_thread(lambda: exceeded_limits(pod, self._cluster_dns, read_resolver()))

    async def container(
        self, pod: Pod, container: AnyContainer, ips: Sequence[str], *, attempt: int
    ) -> ContainerSettings:
        """The options of a container; raises RuntimeFailure if a reference is missing.

        Creates the files it mounts; the termination message file is a new one for each attempt.
        """
        try:
            variables = await self._environment(pod, container, ips)
            value_of = mapping_func_for(variables)
            command, args = expand_all(container.command, value_of), expand_all(container.args, value_of)
            planned = plan_mounts(container, self._volumes.volumes(PodUid(pod.metadata.uid)), variables)
            mounts = await in_thread(self._mounts, pod, container, tuple(ips), planned, attempt)
        except (ContainerConfigError, ExpansionTooLongError, OSError) as problem:
            raise RuntimeFailure(str(problem)) from problem
        return ContainerSettings(
            command=command,
            args=args,
            environment=tuple(variables.items()),
            mounts=mounts,
        )

    async def _environment(self, pod: Pod, container: AnyContainer, ips: Sequence[str]) -> dict[str, str]:
        names, namespace, uid = referenced_names(container), pod.metadata.namespace, PodUid(pod.metadata.uid)
        self._awaited.expect(uid, container.name, names.objects(namespace))
        sources = EnvironmentSources(
            lookups=await self._objects.look_up(namespace, names),
            services=self._services.services(),
            addresses=Addresses(pod_ips=tuple(ips), host_ips=self._node.host_ips()),
            allocatable=self._node.allocatable(),
        )
        variables = make_environment(pod, container, sources)
        self._awaited.expect(uid, container.name, ())
        return variables

    def _mounts(
        self, pod: Pod, container: AnyContainer, ips: tuple[str, ...], planned: tuple[PlannedMount, ...], attempt: int
    ) -> tuple[Mount, ...]:
        directory = self._volumes.directory(pod.metadata.uid)
        mounts = [self._mount(directory, mount, container.name) for mount in planned]
        if wants_hosts_file(pod, container, ips):
            write_hosts_file(directory.hosts_file, self._hosts_text(pod, ips))
            mounts.append(Mount(host_path=directory.hosts_file, container_path=HOSTS_PATH))
        if container.termination_message_path:
            path = directory.termination_file(container.name, attempt)
            make_termination_file(path)
            mounts.append(Mount(host_path=path, container_path=absolute(container.termination_message_path)))
        return tuple(mounts)

    def _mount(self, directory: PodDir, planned: PlannedMount, container: str) -> Mount:
        is_whole = planned.sub_path in {"", "."}
        return Mount(
            host_path=planned.volume_path if is_whole else bind_sub_path(directory, planned, container, self._mounter),
            container_path=planned.container_path,
            read_only=planned.read_only,
            propagation=planned.propagation,
        )

    def _hosts_text(self, pod: Pod, ips: tuple[str, ...]) -> str:
        if pod.spec.host_network:
            return host_network_hosts_file(Path(HOSTS_PATH).read_text(errors="replace"), pod.spec.host_aliases)
        return hosts_file(host_names(pod, self._cluster_dns.domain), ips, pod.spec.host_aliases)
