"""What a program was told on its command line."""

from dataclasses import dataclass
from pathlib import Path


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
