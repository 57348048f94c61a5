"""The name of a pod's host, and its hosts file.

Upstream: GeneratePodHostNameAndDomain and managedHostsFileContent in pkg/kubelet/kubelet_pods.go
"""

from collections.abc import Sequence
from typing import NamedTuple

from pykubelet.agent.volumes.problems import ConfigProblem
from pykubelet.api.generated.core import HostAlias, Pod
from pykubelet.api.names import dns1123_label_errors

# What a label of DNS may have, and what the kernel has room for.
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


class HostNames(NamedTuple):
    """The short name of a pod's host and, if it has one, its domain."""

    hostname: str
    domain: str = ""


def host_names(pod: Pod, cluster_domain: str) -> HostNames:
    """What a pod's host is called; ConfigProblem if a name in its spec is none."""
    spec = pod.spec
    hostname = _truncated(pod, _label("Hostname", spec.hostname) or pod.metadata.name)
    subdomain = _label("Subdomain", spec.subdomain)
    return HostNames(hostname, f"{subdomain}.{pod.metadata.namespace}.svc.{cluster_domain}" if subdomain else "")


def kernel_hostname(names: HostNames, *, as_fqdn: bool) -> str:
    """What the kernel is told that the host is called; ConfigProblem if that is too long for it."""
    if not (as_fqdn and names.domain):
        return names.hostname
    fqdn = f"{names.hostname}.{names.domain}"
    if len(fqdn) > _LONGEST_NODENAME:
        raise ConfigProblem(
            f"failed to construct FQDN from pod hostname and cluster domain, FQDN {fqdn} is too long "
            f"({_LONGEST_NODENAME} characters is the max, {len(fqdn)} characters requested)"
        )
    return fqdn


def hosts_file(names: HostNames, pod_ips: Sequence[str], aliases: Sequence[HostAlias]) -> str:
    """The hosts file of a pod with a network of its own."""
    own = f"{names.hostname}.{names.domain}\t{names.hostname}" if names.domain else names.hostname
    return _HEADER + _LOCAL + "".join(f"{ip}\t{own}\n" for ip in pod_ips) + _alias_lines(aliases)


def host_network_hosts_file(node_file: str, aliases: Sequence[HostAlias]) -> str:
    """The hosts file of a pod that shares the node's network, from the node's own."""
    return _HOST_NETWORK_HEADER + node_file + _alias_lines(aliases)


def _alias_lines(aliases: Sequence[HostAlias]) -> str:
    if not aliases:
        return ""
    lines = "".join(alias.ip + "\t" + "\t".join(alias.hostnames) + "\n" for alias in aliases)
    return f"\n# Entries added by HostAliases.\n{lines}"


def _label(field: str, value: str) -> str:
    errors = dns1123_label_errors(value) if value else []
    if errors:
        raise ConfigProblem(f'pod {field} "{value}" is not a valid DNS label: {";".join(errors)}')
    return value


def _truncated(pod: Pod, hostname: str) -> str:
    if len(hostname) <= _LONGEST_HOSTNAME:
        return hostname
    # A name may end in neither, and the cut may have left one at the end.
    short = hostname[:_LONGEST_HOSTNAME].rstrip("-.")
    if not short:
        raise ConfigProblem(f'hostname for pod "{pod.metadata.name}" was invalid: "{hostname}"')
    return short
