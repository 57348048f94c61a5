"""The settings of each program; the command line fills them from its options."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path

from pykubelet.apiserver.admission.services import CLUSTER_IP_RANGE
from pykubelet.kubelet.eviction.thresholds import DEFAULT_EVICTION_HARD

CLUSTER_CIDR = IPv4Network("10.244.0.0/16")
"""The range of pods unless another one is chosen."""
POD_CIDR = "10.244.0.0/24"
"""The range of a node's pods if neither its settings nor a cluster name one."""


class CannotStart(Exception):
    """A program cannot start for a reason the user can fix; the message says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServerSettings:
    """The settings of an API server. Paths that are None are not used."""

    data_dir: Path
    start_empty: bool = False
    """Whether to start without objects; an existing database is kept under another name."""
    bind: str = "127.0.0.1"
    port: int = 6443
    """0 takes any free port."""
    external_host: str = ""
    """The external host name, with or without a port; empty: the machine's network address."""
    token_file: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    client_ca: Path | None = None
    event_ttl_seconds: float = 3600.0
    encryption_key: Path | None = None
    audit: bool = True
    service_cluster_ips: IPv4Network = CLUSTER_IP_RANGE
    """The range of the addresses of services."""
    service_account_admission: bool = False
    """Whether pods get their service account's token mounted, as kube-apiserver's default admission does."""
    with_node: bool = False
    """Whether controllers and a node share the process: pods then get a listener at the machine's own address.

    Mirror pods may refer to secrets, as static pods of `up` may, and what nothing acts on is answered with a warning.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSettings:
    """The port of the page on loopback; another one if it is taken, any free one if 0."""

    port: int = 0
    open_browser: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSettings:
    """The cluster that a node joins: one of `pykubelet up --bind`."""

    server: str
    """The URL of the API server."""
    token: str = field(default="", repr=False)
    """The bootstrap token; needed only until the node has its certificate."""
    ca_cert_hashes: tuple[str, ...] = ()
    """Hashes of the public key of the cluster's authority."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """The settings of a node. Without an API server it runs static pods only."""

    node_name: str
    is_default_name: bool = False
    """Whether the name is only the machine's; the folder of a node with another name is then refused."""
    cluster: str = ""
    """The UID of the namespace kube-system, which stands for the cluster; empty if unknown."""
    root_dir: Path
    """The folder of pod volumes, logs and node state."""
    runtime: str = "process"
    pod_network: str = "host"
    """`own` gives each process pod a network of its own, `host` the machine's, `auto` the former where it is possible."""
    pod_cidr: str = POD_CIDR
    """The range of the addresses of such pods."""
    node_pod_cidr: str = ""
    """That range in `spec.podCIDR` of the node; empty if the user chose none and the cluster has assigned none."""
    cluster_cidr: str = ""
    """The range of all pods of the cluster, which reach each other with their own addresses; empty: the node's range."""
    cri_socket: str = ""
    cgroup_root: str = "/"
    """The parent cgroup of pods on a CRI runtime."""
    kubeconfig: Path | None = None
    bootstrap_kubeconfig: Path | None = None
    """Requests a client certificate if `kubeconfig` has no valid one; `kubeconfig` is then written."""
    join: JoinSettings | None = None
    """The cluster to join, in place of `bootstrap_kubeconfig`."""
    rotate_certificates: bool = True
    """Whether the node renews its client certificate before it expires."""
    rotate_server_certificates: bool = False
    """Whether the API server signs the serving certificate; otherwise it is self-signed."""
    only_named_objects: bool = False
    """Watch config maps and secrets one by one: the node authorizer permits no more."""
    manifests: tuple[Path, ...] = ()
    """Manifest files, or folders of them."""
    manifest_url: str = ""
    manifest_url_headers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Headers of requests for `manifest_url`; never shown."""
    bind: str = ""
    """The node API's listening address; empty: loopback if the API server is there, else the node's address."""
    port: int = 10250
    """0 takes any free port."""
    client_ca: Path | None = None
    """The authority of client certificates; None: that of the API server."""
    address: str = ""
    """The node's address; empty: the machine's."""
    cluster_domain: str = "cluster.local"
    cluster_dns: tuple[str, ...] = ()
    """The addresses of the cluster DNS; if empty, pods use the machine's name servers."""
    max_pods: int = 110
    pod_max_pids: int = 4096
    """The maximum of processes per container, with CRI per pod; less than 1: unlimited."""
    seccomp_default: bool = True
    """Whether containers without a seccomp profile get the CRI runtime's default profile."""
    eviction_hard: Mapping[str, str] = field(default_factory=lambda: DEFAULT_EVICTION_HARD)
    """Hard eviction thresholds by signal, as in `{"memory.available": "100Mi"}`."""
    undisturbed_pressure_seconds: float | None = None
    """How long a pressure condition lasts after it was last met if no pod was evicted; None: five minutes, as after one."""
    shutdown_grace_seconds: int = 0
    """The time pods get to stop when the node shuts down; 0: they keep running."""
    shutdown_grace_seconds_critical: int = 0
    """The last part of that time, for critical pods."""
    parallel_pulls: int = 32
    """The maximum of concurrent image pulls; one that hangs must not delay the others."""
    page: PageSettings | None = None
    with_server: bool = False
    """Whether the node shares its machine with the API server.

    Static pods may then use config maps and secrets, and a controller applies the other objects of the manifests.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class IngressSettings:
    """Where the ingress controller listens."""

    bind: str = "127.0.0.1"
    http_port: int | None = None
    """0 takes any free port; None takes 80 if this user may listen on it, else 8080."""
    https_port: int | None = None
    """Likewise, 443 or 8443."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """The settings of a cluster of one machine."""

    data_dir: Path
    start_empty: bool = False
    """Whether to start without objects; an existing database is kept under another name."""
    bind: str = "127.0.0.1"
    """The listening address of the API. Nodes of other machines may join unless it is loopback."""
    port: int = 6443
    """The port of the API; 0 takes any free port."""
    service_cluster_ips: IPv4Network = CLUSTER_IP_RANGE
    """The range of the addresses of services."""
    cluster_cidr: IPv4Network = CLUSTER_CIDR
    """The range of the addresses of pods; each node gets a part of it."""
    node_name: str
    is_default_name: bool = False
    """Whether the name is only the machine's; the folder of a node with another name is then refused."""
    runtime: str = "auto"
    cri_socket: str = ""
    max_pods: int = 110
    cluster_dns: tuple[str, ...] = ()
    """The name servers of pods; if empty, the address of `kube-dns` if the service proxy runs, else those of the machine."""
    pod_network: str = "host"
    """`own` gives each process pod a network of its own, `host` the machine's, `auto` the former where it is possible."""
    pod_cidr: str = ""
    """The range of the addresses of such pods; empty: the first free part of `cluster_cidr`."""
    manifests: tuple[Path, ...] = ()
    """Manifest files, or folders of them."""
    page: PageSettings | None = None
    service_proxy: bool = False
    """Whether addresses of Services work on this machine, through nftables."""
    show_join_command: bool = False
    """Whether to print the command with which nodes join: it has a token, which must not get into a log."""
    ingress: IngressSettings | None = None
    """The ingress controller; None: there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DownSettings:
    """The folder whose programs and pods `down` ends, and whether its data goes, too."""

    data_dir: Path
    cri_socket: str = ""
    purge: bool = False
    """Whether to remove the data, too."""
    is_confirmed: bool = False
    """Whether to do so without asking."""
    confirm: Callable[[str], bool]
    """Asks the user a question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySettings:
    """The settings of the service proxy."""

    kubeconfig: Path
    node_name: str
    cluster_cidrs: tuple[str, ...] = ()
    """The addresses of pods; clients outside them are masqueraded. Empty: pods are not told apart."""
    service_cidrs: tuple[str, ...] = ()
    """The addresses of Services; packets to those that no Service has are dropped."""
    masquerade_all: bool = False
    nodeport_addresses: tuple[IPv4Network | IPv6Network, ...] = ()
    """The ranges of the machine's addresses with node ports; empty: the node's own addresses."""
    healthz_bind_address: tuple[str, int] | None = ("127.0.0.1", 10256)
    """Where `/healthz` and `/livez` are served; None: nowhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllersSettings:
    """The settings of the controllers."""

    kubeconfig: Path
    names: tuple[str, ...] = ()
    """The controllers to run; empty: all."""
    cluster_cidr: IPv4Network | None = None
    """The range of the addresses of pods, of which each node gets a part; None: nodes get none."""
    leader_elect: bool = True
    """Whether to run only while holding the leader lease."""
