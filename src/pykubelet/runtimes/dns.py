"""Computes the resolv.conf of a pod from its DNS policy, the cluster's DNS and the host's.

Upstream: pkg/kubelet/network/dns/dns.go
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pykubelet.api.generated.core import Pod, PodDNSConfigOption

RESOLV_CONF = Path("/etc/resolv.conf")
# The address of systemd's stub resolver, which pods cannot reach.
_STUB = "127.0.0.53"
_SYSTEMD_RESOLV_CONF = Path("/run/systemd/resolve/resolv.conf")
# Limits of resolvers: upstream's MaxDNSNameservers and its neighbours.
_MAX_SERVERS = 3
_MAX_SEARCHES = 32
_MAX_SEARCH_TEXT = 2048
_MAX_SEARCH = 253
_CLUSTER_OPTIONS = ("ndots:5",)


@dataclass(frozen=True, slots=True)
class Resolver:
    """The content of a resolv.conf."""

    servers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDns:
    """The DNS servers of the cluster (possibly none) and its domain."""

    servers: tuple[str, ...] = ()
    domain: str = ""


NO_CLUSTER_DNS = ClusterDns()


def read_resolver() -> Resolver:
    """The host's resolver for pods, empty if it has none. Blocks briefly."""
    found = read_resolv_conf()
    return _resolver(_SYSTEMD_RESOLV_CONF) if found.servers == (_STUB,) and _SYSTEMD_RESOLV_CONF.exists() else found


def read_resolv_conf() -> Resolver:
    """What the host's own programs use, empty if there is no file. Blocks briefly."""
    return _resolver(RESOLV_CONF)


def _resolver(path: Path) -> Resolver:
    try:
        return parse_resolver(path.read_text(errors="replace"))
    except FileNotFoundError:
        return Resolver()


def resolv_conf(resolver: Resolver) -> str:
    """The text of a resolv.conf."""
    lines = [f"nameserver {server}" for server in resolver.servers]
    lines += [f"search {' '.join(resolver.searches)}"] if resolver.searches else []
    lines += [f"options {' '.join(resolver.options)}"] if resolver.options else []
    return "".join(f"{line}\n" for line in lines)


def parse_resolver(text: str) -> Resolver:
    """Parses a resolv.conf: servers accumulate; the last `search` line and the last value of an option count."""
    servers: list[str] = []
    searches: tuple[str, ...] = ()
    options: dict[str, str] = {}
    for line in text.splitlines():
        match line.split():
            case ["nameserver", server, *_]:
                servers.append(server)
            case ["search", *domains]:
                searches = tuple(domain.removesuffix(".") for domain in domains if domain != ".")
            case ["options", *given]:
                options |= {option.partition(":")[0]: option for option in given}
    return Resolver(tuple(servers), searches, tuple(options.values()))


def pod_resolver(pod: Pod, cluster: ClusterDns, host: Resolver) -> Resolver:
    """The resolver of a pod's containers. Without cluster DNS servers, pods get the host's resolver."""
    found = _unlimited(pod, cluster, host)
    return replace(found, servers=found.servers[:_MAX_SERVERS], searches=_fitting(found.searches))


def exceeded_limits(pod: Pod, cluster: ClusterDns, host: Resolver) -> list[str]:
    """What a pod's resolver leaves out, for users."""
    asked, found = _unlimited(pod, cluster, host), pod_resolver(pod, cluster, host)
    messages = []
    if asked.servers != found.servers:
        messages.append(
            "Nameserver limits were exceeded, some nameservers have been omitted, "
            f"the applied nameserver line is: {' '.join(found.servers)}"
        )
    if asked.searches != found.searches:
        messages.append(
            "Search Line limits were exceeded, some search paths have been omitted, "
            f"the applied search line is: {' '.join(found.searches)}"
        )
    return messages


def _unlimited(pod: Pod, cluster: ClusterDns, host: Resolver) -> Resolver:
    """The resolver that the pod asks for, whatever resolvers support."""
    policy = pod.spec.dns_policy
    if policy == "None":
        found = Resolver()
    elif policy == "Default" or (policy == "ClusterFirst" and pod.spec.host_network) or not cluster.servers:
        found = host
    else:
        found = Resolver(cluster.servers, _cluster_searches(pod, cluster.domain, host.searches), _CLUSTER_OPTIONS)
    if (more := pod.spec.dns_config) is not None:
        found = Resolver(
            _unique((*found.servers, *more.nameservers)),
            _unique((*found.searches, *more.searches)),
            _merged(found.options, more.options),
        )
    return found


def _cluster_searches(pod: Pod, domain: str, host: Sequence[str]) -> tuple[str, ...]:
    if not domain:
        return tuple(host)
    return _unique((f"{pod.metadata.namespace}.svc.{domain}", f"svc.{domain}", domain, *host))


def _unique(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


def _merged(options: Iterable[str], more: Iterable[PodDNSConfigOption]) -> tuple[str, ...]:
    values = {name: value for name, _, value in (option.partition(":") for option in options)}
    values |= {option.name: option.value or "" for option in more}
    return tuple(f"{name}:{value}" if value else name for name, value in values.items())


def _fitting(searches: Sequence[str]) -> tuple[str, ...]:
    """The search domains within the limits of resolvers."""
    fitting = [search for search in searches[:_MAX_SEARCHES] if len(search) <= _MAX_SEARCH]
    while len(" ".join(fitting)) > _MAX_SEARCH_TEXT:
        fitting.pop()
    return tuple(fitting)
