"""Writes a network configuration for containerd's pods on a machine that has none.

Pods get addresses of the node's range on routed links (CNI plugin ptp), as process pods do, and host ports (portmap). The
configuration of another program is never touched: if there is one, ours is removed. Packets to pods of other nodes keep
their sender, so masquerading is not left to the plugin.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pykubelet.aio.log import get_logger
from pykubelet.api.serializer import DecodeError, Document, decode_document
from pykubelet.podnetwork.masquerade import Masquerade

log = get_logger(__name__)

FILE = "10-pykubelet.conflist"
"""The name by which our configuration is recognised."""
_FOLDER, _PROGRAMS = "/etc/cni/net.d", ("/opt/cni/bin", "/usr/lib/cni")
_ENDINGS = (".conf", ".conflist", ".json")
_PLUGINS = ("ptp", "host-local", "portmap")


@dataclass(frozen=True, slots=True, kw_only=True)
class CniNetwork:
    """The network of a node's pods: its range, that of the cluster, and the node's own folder for leases."""

    pod_cidr: str
    cluster_cidr: str
    folder: Path


@dataclass(frozen=True, slots=True)
class CniFolders:
    """Where a runtime looks for configurations and plugins."""

    configurations: Path
    programs: Sequence[Path]


def cni_folders(config: str) -> CniFolders:
    """The folders in containerd's configuration (JSON), as its verbose status has it; CNI's usual ones by default."""
    found: Document = {}
    try:
        found = decode_document(config).get("cni") or {}
    except (DecodeError, AttributeError):
        log.debug("configuration of the container runtime not understood")
    programs = found.get("binDirs") or [found["binDir"]] if found.get("binDirs") or found.get("binDir") else _PROGRAMS
    return CniFolders(Path(found.get("confDir") or _FOLDER), tuple(map(Path, programs)))


def network_config(network: CniNetwork) -> str:
    """The configuration, which depends only on the network."""
    addresses = {
        "type": "host-local",
        "dataDir": str(network.folder),
        "ranges": [[{"subnet": network.pod_cidr}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    plugins = [
        {"type": "ptp", "ipMasq": False, "ipam": addresses},
        {"type": "portmap", "snat": True, "capabilities": {"portMappings": True}},
    ]
    return json.dumps({"cniVersion": "1.0.0", "name": "pykubelet", "plugins": plugins}, indent=2) + "\n"


async def ensure_network(network: CniNetwork, config: str) -> bool:
    """Write our configuration if the machine has no other one; returns whether pods are in our network.

    `config` is containerd's configuration. A log line says what is missing.
    """
    folders = cni_folders(config)
    try:
        is_ours = await asyncio.to_thread(_write, network, folders)
    except OSError as error:
        log.warning("network configuration of pods not written", path=error.filename, cause=error.strerror)
        return False
    masquerade = Masquerade(network.folder, network.pod_cidr, cluster_cidr=network.cluster_cidr)
    if is_ours and (problem := await masquerade.apply()):
        log.warning("pods do not reach addresses outside of the cluster", cause=problem)
    return is_ours


def _write(network: CniNetwork, folders: CniFolders) -> bool:
    path, text = folders.configurations / FILE, network_config(network)
    others = _others(folders.configurations)
    if others:
        if path.exists():
            log.info("network configuration of pods left to another program", found=", ".join(others))
            path.unlink()
        return False
    missing = [name for name in _PLUGINS if not any((place / name).exists() for place in folders.programs)]
    if missing:
        log.warning("pods get no network: CNI plugins are not installed", missing=", ".join(missing))
        return False
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        # The runtime watches the folder, and must not read half of a file; it ignores names without an ending of its own.
        unfinished = path.with_name(f".{FILE}.new")
        unfinished.write_text(text)
        unfinished.replace(path)
        log.info("network configuration of pods written", path=path, range=network.pod_cidr)
    return True


def _others(folder: Path) -> list[str]:
    """The names of the configurations of other programs."""
    try:
        names = sorted(entry.name for entry in folder.iterdir())
    except FileNotFoundError:
        return []
    return [name for name in names if name.endswith(_ENDINGS) and name != FILE]
