"""Writes down what a node is run with, for who checks it: `node.json` in its folder."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from pykubelet.apiserver.auth.private_files import write_private
from pykubelet.app.cis.facts import NodeRecord
from pykubelet.app.node_door import Door
from pykubelet.app.runtimes import RuntimeParts
from pykubelet.app.settings import CannotStart, NodeSettings
from pykubelet.kube.event_correlation import SPAM_BURST
from pykubelet.nodeapi.upgrades import IDLE_SECONDS

FILE = "node.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What a node has found out about itself by the time it starts; without a door it has no API of its own."""

    door: Door | None
    runtime: RuntimeParts
    has_server: bool


def node_record(settings: NodeSettings, opened: Opened) -> NodeRecord:
    """What there is to know."""
    door, runtime = opened.door, opened.runtime
    return NodeRecord(
        node_name=settings.node_name,
        runtime=runtime.name,
        address=door.address if door is not None else "",
        port=door.port if door is not None else 0,
        kubeconfig=str(settings.kubeconfig.absolute()) if settings.kubeconfig else "",
        client_authority=str(settings.client_ca.absolute()) if settings.client_ca else "",
        has_client_authority=door is not None and door.knows_clients,
        asks_api_server=opened.has_server,
        key=str(settings.root_dir / "pki/kubelet.key"),
        rotate_certificates=settings.rotate_certificates,
        idle_seconds=IDLE_SECONDS,
        event_burst=SPAM_BURST,
        pod_max_pids=settings.pod_max_pids,
        limits_pids=runtime.limits_pids,
        seccomp_default=settings.seccomp_default,
    )


def write_record(root: Path, record: NodeRecord) -> None:
    """Write it; CannotStart if that is not possible."""
    try:
        write_private(root / FILE, msgspec.json.encode(record))
    except OSError as error:
        raise CannotStart(f"{error.filename or root / FILE}: {error.strerror}") from error
