"""The chains, sets and map elements of Services, as values.

Each IP family has a table of its own, since their addresses never mix. Maps find the chain of a Service port by
address, protocol and port. The chain of a port without session affinity picks a random index of the port's map of
endpoints, so that a changed endpoint changes one element and the chain keeps its length, whatever the number of
endpoints; upstream writes them all into the rule again. With session affinity, each endpoint has a chain and a set of
its clients, as upstream's.

Packets are marked for masquerading where the answer would otherwise take another way: clients outside the cluster, and
endpoints that reach themselves.

Upstream: pkg/proxy/nftables/proxier.go, pkg/proxy/nftables/README.md
"""

import re
from base64 import b32encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple

from pykubelet.proxy.serviceport import IPFamily, ServicePort, ServicePortName
from pykubelet.proxy.topology import Backends, Target

TABLE = "pykubelet-proxy"
MASQUERADE_MARK = 0x4000
"""kube-proxy's bit, which other programs know to leave alone."""
AFFINITY = "affinity-"
"""The prefix of sets of clients, which outlive a restart of the proxy."""
CLUSTER_IPS, NODE_PORT_IPS, HAIRPINS = "cluster-ips", "nodeport-ips", "hairpin-connections"
SERVICE_IPS, SERVICE_NODE_PORTS, FIREWALL_IPS = "service-ips", "service-nodeports", "firewall-ips"
NO_ENDPOINT_SERVICES, NO_ENDPOINT_NODE_PORTS = "no-endpoint-services", "no-endpoint-nodeports"
OF_TYPE = "map { typeof"
"""How the declaration of a map begins whose types are those of expressions."""
CONTEXT = "parser-context"
"""A chain without rules, by which a transaction can have nft forget the protocol of the line before."""
_MARK = f"mark set mark or {MASQUERADE_MARK:#x}"
_REJECT = "goto reject-chain"
_DROP = "drop"
# nftables allows 255 characters; ours begin with at most 24 of their own.
_NAME_LENGTH = 220
_UNSAFE = re.compile(r"[^A-Za-z0-9/._-]")
Element = tuple[str, str]
"""A set or map, and a key in it."""

BASE_CHAINS = {
    "filter-prerouting-pre-dnat": "type filter hook prerouting priority -110",
    "filter-output-pre-dnat": "type filter hook output priority -110",
    "filter-input": "type filter hook input priority 0",
    "filter-forward": "type filter hook forward priority 0",
    "filter-output": "type filter hook output priority 0",
    "nat-prerouting": "type nat hook prerouting priority -100",
    "nat-output": "type nat hook output priority -100",
    "nat-postrouting": "type nat hook postrouting priority 100",
}
"""The chains that the kernel calls, with kube-proxy's hooks and priorities."""


@dataclass(slots=True)
class Ruleset:
    """Chains with their rules, sets and maps with their declarations, and elements with their values ("": a set's)."""

    chains: dict[str, tuple[str, ...]] = field(default_factory=dict)
    sets: dict[str, str] = field(default_factory=dict)
    elements: dict[Element, str] = field(default_factory=dict)


def frame(
    family: IPFamily,
    cluster_cidrs: Sequence[str] = (),
    *,
    service_cidrs: Sequence[str] = (),
    masquerade_all: bool = False,
) -> Ruleset:
    """What a table contains whatever the Services: the way of a packet to the maps that the Services fill.

    Clients outside `cluster_cidrs` (the addresses of pods) are masqueraded; if it is empty, pods are not told apart, and
    with `masquerade_all` everybody is. Packets to addresses of `service_cidrs` that no Service has are dropped, instead of
    leaving the cluster.
    """
    place = f"{family} daddr . meta l4proto . th dport"
    node_port = f"{family} daddr @{NODE_PORT_IPS} meta l4proto . th dport vmap"
    pods = _from_pods(family, cluster_cidrs, "!=")
    clients = "" if masquerade_all else f"{pods} "
    outside = (f"{family} daddr @{CLUSTER_IPS} {clients}{_MARK}",) if pods or masquerade_all else ()
    unused = [each for each in service_cidrs if (":" in each) == (family is IPFamily.IPV6)]
    itself = f"{family} saddr . {family} daddr . meta l4proto . th dport"
    check, new = "service-endpoints-check", "ct state new jump"
    chains = {
        "filter-prerouting-pre-dnat": (f"{new} firewall-check",),
        "filter-output-pre-dnat": (f"{new} firewall-check",),
        "filter-input": (f"{new} nodeport-endpoints-check", f"{new} {check}"),
        "filter-forward": (f"{new} {check}", f"{new} cluster-ips-check"),
        "filter-output": (f"{new} {check}", f"{new} cluster-ips-check"),
        "nat-prerouting": ("jump services",),
        "nat-output": ("jump services",),
        "nat-postrouting": ("jump masquerading",),
        "services": (*outside, f"{place} vmap @{SERVICE_IPS}", f"{node_port} @{SERVICE_NODE_PORTS}"),
        "masquerading": (
            # The bit is taken off again: a packet may pass here twice, as in a tunnel.
            f"mark and {MASQUERADE_MARK:#x} != 0 mark set mark xor {MASQUERADE_MARK:#x} masquerade fully-random",
            f"ct status dnat {itself} @{HAIRPINS} masquerade fully-random",
        ),
        "firewall-check": (f"{place} vmap @{FIREWALL_IPS}",),
        check: (f"{place} vmap @{NO_ENDPOINT_SERVICES}",),
        "nodeport-endpoints-check": (f"{node_port} @{NO_ENDPOINT_NODE_PORTS}",),
        "cluster-ips-check": (
            f"{family} daddr @{CLUSTER_IPS} reject",
            *((f"{family} daddr {{ {', '.join(unused)} }} drop",) if unused else ()),
        ),
        "reject-chain": ("reject",),
        CONTEXT: (),
    }
    return Ruleset(chains, _frame_sets(family))


def _frame_sets(family: IPFamily) -> dict[str, str]:
    """The sets and maps that the Services fill."""
    address = _address_type(family)
    to_verdict = f"map {{ type {address} . inet_proto . inet_service : verdict ; }}"
    port_to_verdict = "map { type inet_proto . inet_service : verdict ; }"
    return {
        CLUSTER_IPS: f"set {{ type {address} ; }}",
        NODE_PORT_IPS: f"set {{ type {address} ; }}",
        HAIRPINS: f"set {{ type {address} . {address} . inet_proto . inet_service ; }}",
        SERVICE_IPS: to_verdict,
        FIREWALL_IPS: to_verdict,
        NO_ENDPOINT_SERVICES: to_verdict,
        SERVICE_NODE_PORTS: port_to_verdict,
        NO_ENDPOINT_NODE_PORTS: port_to_verdict,
    }


class _Chains(NamedTuple):
    """The names of what belongs to a Service port."""

    base: str

    @property
    def cluster(self) -> str:
        return f"service-{self.base}"

    @property
    def local(self) -> str:
        return f"local-{self.base}"

    @property
    def external(self) -> str:
        return f"external-{self.base}"

    @property
    def firewall(self) -> str:
        return f"firewall-{self.base}"


def cluster_endpoints(name: ServicePortName) -> str:
    """The map of the endpoints that traffic of the policy Cluster uses, by index."""
    return f"cluster-endpoints-{_unique(name)}"


def local_endpoints(name: ServicePortName) -> str:
    """The map of the endpoints that traffic of the policy Local uses, by index."""
    return f"local-endpoints-{_unique(name)}"


def endpoint_value(target: Target) -> str:
    """An endpoint as the value of a map."""
    return f"{target[0]} . {target[1]}"


def port_rules(
    name: ServicePortName,
    port: ServicePort,
    backends: Backends,
    family: IPFamily,
    cluster_cidrs: Sequence[str] = (),
) -> Ruleset:
    """What a Service port adds to the table; without session affinity its size does not depend on the endpoints.

    The elements of the maps of endpoints are not included: they change one by one. Nor are hairpins.
    """
    chains, made = _Chains(_unique(name)), Ruleset()
    _add_policies(made, chains, name, port, backends, family)
    has_external = len(backends.local) > 0 if port.external_local else backends.has_any
    if port.is_external and backends.has_any:
        made.chains[chains.external] = _external_rules(chains, port, family, cluster_cidrs, has_external)
    _add_addresses(made, chains, name, port, backends, has_external)
    if port.load_balancer_ips and port.source_ranges:
        _add_firewall(made, chains, name, port, family)
    return made


def _add_policies(
    made: Ruleset, chains: _Chains, name: ServicePortName, port: ServicePort, backends: Backends, family: IPFamily
) -> None:
    """The chains that choose an endpoint."""
    pools = (
        (chains.cluster, cluster_endpoints(name), backends.cluster),
        (chains.local, local_endpoints(name), backends.local),
    )
    used: dict[Target, None] = {}
    for chain, endpoints, pool in pools:
        if not pool:
            continue
        if port.affinity_seconds:
            used |= dict.fromkeys(pool)
            made.chains[chain] = _affinity_rules(name, port, list(pool), family)
        else:
            # Only an expression can say that the key is an index. The protocol has to be that of the rule below.
            made.sets[endpoints] = f"{OF_TYPE} numgen random mod 1 : {family} daddr . {name.protocol} dport ; }}"
            choice = f"numgen random mod {len(pool)} map @{endpoints}"
            made.chains[chain] = (f"meta l4proto {name.protocol} dnat {family} to {choice}",)
    for target in used:
        clients, own = _affinity_names(name, port, target)
        made.sets[clients] = (
            f"set {{ type {_address_type(family)} ; flags dynamic,timeout ; timeout {port.affinity_seconds}s ; }}"
        )
        dnat = f"meta l4proto {name.protocol} dnat {family} to {_shown(target)}"
        made.chains[own] = (f"update @{clients} {{ {family} saddr }}", dnat)


def _affinity_rules(
    name: ServicePortName, port: ServicePort, targets: Sequence[Target], family: IPFamily
) -> tuple[str, ...]:
    """A client goes where it went last, a new one anywhere."""
    named = [_affinity_names(name, port, target) for target in targets]
    known = [f"{family} saddr @{clients} goto {own}" for clients, own in named]
    choices = ", ".join(f"{index} : goto {own}" for index, (_, own) in enumerate(named))
    return (*known, f"numgen random mod {len(named)} vmap {{ {choices} }}")


def _external_rules(
    chains: _Chains, port: ServicePort, family: IPFamily, cluster_cidrs: Sequence[str], has_external: bool
) -> tuple[str, ...]:
    if not port.external_local:
        return (_MARK, f"goto {chains.cluster}")
    # Pods and this machine use all endpoints: they are in the cluster, and the policy is about clients outside it.
    pods = _from_pods(family, cluster_cidrs)
    return (
        *((f"{pods} goto {chains.cluster}",) if pods else ()),
        f"fib saddr type local {_MARK}",
        f"fib saddr type local goto {chains.cluster}",
        *((f"goto {chains.local}",) if has_external else ()),
    )


def _add_addresses(
    made: Ruleset,
    chains: _Chains,
    name: ServicePortName,
    port: ServicePort,
    backends: Backends,
    has_external: bool,
) -> None:
    """The elements by which packets find the chains; without a usable endpoint they are rejected or dropped.

    Upstream drops where only this node has no endpoint: a load balancer that is about to notice should not see errors.
    """
    made.elements[CLUSTER_IPS, port.cluster_ip] = ""
    refusal = _DROP if backends.has_any else _REJECT
    place = f"{name.protocol} . {port.port}"
    has_internal = len(backends.local) > 0 if port.internal_local else backends.has_any
    if has_internal:
        chain = chains.local if port.internal_local else chains.cluster
        made.elements[SERVICE_IPS, f"{port.cluster_ip} . {place}"] = f"goto {chain}"
    else:
        made.elements[NO_ENDPOINT_SERVICES, f"{port.cluster_ip} . {place}"] = refusal
    outside = [(SERVICE_IPS, NO_ENDPOINT_SERVICES, f"{each} . {place}") for each in _external_addresses(port)]
    if port.node_port:
        outside.append((SERVICE_NODE_PORTS, NO_ENDPOINT_NODE_PORTS, f"{name.protocol} . {port.node_port}"))
    for services, without, key in outside:
        if backends.has_any:
            made.elements[services, key] = f"goto {chains.external}"
        if not has_external:
            made.elements[without, key] = refusal


def _add_firewall(made: Ruleset, chains: _Chains, name: ServicePortName, port: ServicePort, family: IPFamily) -> None:
    sources = ", ".join(port.source_ranges)
    made.chains[chains.firewall] = (f"{family} saddr != {{ {sources} }} drop",)
    for each in port.load_balancer_ips:
        made.elements[FIREWALL_IPS, f"{each} . {name.protocol} . {port.port}"] = f"goto {chains.firewall}"


def hairpin(name: ServicePortName, target: Target) -> Element:
    """The element by which an endpoint of this node that reaches itself is masqueraded."""
    address, port = target
    return HAIRPINS, f"{address} . {address} . {name.protocol} . {port}"


def _external_addresses(port: ServicePort) -> Iterable[str]:
    return dict.fromkeys((*port.external_ips, *port.load_balancer_ips))


def _from_pods(family: IPFamily, cluster_cidrs: Sequence[str], comparison: str = "") -> str:
    """The match of clients that are pods; empty if pods of this family are not told apart."""
    ours = [each for each in cluster_cidrs if (":" in each) == (family is IPFamily.IPV6)]
    return f"{family} saddr {comparison} {{ {', '.join(ours)} }}".replace("  ", " ") if ours else ""


def _address_type(family: IPFamily) -> str:
    return "ipv4_addr" if family is IPFamily.IPV4 else "ipv6_addr"


def _affinity_names(name: ServicePortName, port: ServicePort, target: Target) -> tuple[str, str]:
    """The set of an endpoint's clients, and its chain. The timeout of a set cannot change, so it is part of its name."""
    own = _hashed(f"{_path(name)}__{target[0]}/{target[1]}")
    return f"{AFFINITY}{port.affinity_seconds}-{own}", f"endpoint-{own}"


def _shown(target: Target) -> str:
    address, port = target
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _unique(name: ServicePortName) -> str:
    return _hashed(_path(name))


def _path(name: ServicePortName) -> str:
    return f"{name.namespace}/{name.service}/{name.protocol}/{name.port}"


def _hashed(path: str) -> str:
    """A name that nftables accepts, readable and unique: a hash and as much of the path as fits."""
    code = b32encode(sha256(path.encode()).digest())[:8].decode()
    return f"{code}-{_UNSAFE.sub('.', path)}"[:_NAME_LENGTH]
