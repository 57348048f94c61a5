"""What a program was told on its command line."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


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
class NodeSettings:
    """How a node runs. Without a way to an API server it runs static pods only."""

    node_name: str
    root_dir: Path
    """Where the volumes and logs of pods are."""
    runtime: str = "process"
    cri_socket: str = ""
    kubeconfig: Path | None = None
    manifests: Path | None = None
    manifest_url: str = ""
    manifest_url_headers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Sent with each request for `manifest_url`; never shown."""
    port: int = 10250
    cluster_domain: str = "cluster.local"
    max_pods: int = 110
    parallel_pulls: int = 32
    """So many images at once: one that hangs must not hold up others."""
    allow_references: bool = False
    """Whether static pods may use config maps and secrets, as where node and API server are one machine."""
