"""What a program was told on its command line."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pykubelet.kubelet.eviction.thresholds import DEFAULT_EVICTION_HARD


class CannotStart(Exception):
    """Something the user can put right is in the way; the message says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServerSettings:
    """How the API server runs. Paths that are None are not used."""

    data_dir: Path
    bind: str = "127.0.0.1"
    port: int = 6443
    """0: any free port."""
    external_host: str = ""
    """How clients call this machine, with or without a port; empty: by the address of its network."""
    token_file: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    client_ca: Path | None = None
    event_ttl_seconds: float = 3600.0
    encryption_key: Path | None = None
    audit: bool = True
    service_account_admission: bool = False
    """Whether pods get their service account's token mounted, as kube-apiserver does by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSettings:
    """How the page is served: on this port of loopback, or another one if it is taken; 0: any free one."""

    port: int = 0
    open_browser: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """How a node runs. Without a way to an API server it runs static pods only."""

    node_name: str
    root_dir: Path
    """Where the volumes and logs of pods are."""
    runtime: str = "process"
    cri_socket: str = ""
    cgroup_root: str = "/"
    """Below this cgroup are those of pods, where a CRI runtime runs them."""
    kubeconfig: Path | None = None
    bootstrap_kubeconfig: Path | None = None
    """With what to ask for a client certificate if `kubeconfig` has none that is valid; it is written then."""
    rotate_certificates: bool = True
    """Whether the node renews its client certificate."""
    rotate_server_certificates: bool = False
    """Whether the node's own API has its certificate from the API server; else the node makes one for itself."""
    only_named_objects: bool = False
    """Config maps and secrets are followed one by one: all that the user of a node may do."""
    manifests: tuple[Path, ...] = ()
    """Files, or folders of files."""
    manifest_url: str = ""
    manifest_url_headers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Sent with each request for `manifest_url`; never shown."""
    bind: str = ""
    """Where the node's own API listens; empty: on loopback if the API server is there, else on the node's address."""
    port: int = 10250
    """0: any free port."""
    client_ca: Path | None = None
    """Who is let in by a certificate of this authority; None: of that of the API server."""
    address: str = ""
    """The node's address; empty: that of the machine."""
    cluster_domain: str = "cluster.local"
    cluster_dns: tuple[str, ...] = ()
    """The addresses of the cluster's name servers; none: pods ask those of the machine."""
    max_pods: int = 110
    pod_max_pids: int = 4096
    """So many processes a container may have, with CRI all of a pod together; less than 1: as many as the machine takes."""
    seccomp_default: bool = True
    """Whether containers that say nothing of seccomp have the profile of a CRI runtime; else they have none."""
    eviction_hard: Mapping[str, str] = field(default_factory=lambda: DEFAULT_EVICTION_HARD)
    """With less than this left the node is under pressure, by signal, as in `{"memory.available": "100Mi"}`."""
    shutdown_grace_seconds: int = 0
    """How long pods get to end when the node is told to stop; 0: they go on without it."""
    shutdown_grace_seconds_critical: int = 0
    """The last part of that, for critical pods."""
    parallel_pulls: int = 32
    """So many images at once: one that hangs must not hold up others."""
    page: PageSettings | None = None
    with_server: bool = False
    """Node and API server are one machine: static pods may use its config maps and secrets, and what else is in the
    manifests is applied to it by somebody else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """How a cluster of one machine runs."""

    data_dir: Path
    port: int = 6443
    """Of the API; 0: any free port."""
    node_name: str
    runtime: str = "auto"
    manifests: tuple[Path, ...] = ()
    """Files, or folders of files."""
    page: PageSettings | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllersSettings:
    """Which controllers run, and for whom."""

    kubeconfig: Path
    names: tuple[str, ...] = ()
    """None: all."""
    leader_elect: bool = True
    """Work only while holding the lease."""
