"""Makes the node known to the API server.

A node that exists already, by this name, is ours: what registration decides is put right in it.
Upstream: pkg/kubelet/kubelet_node_status.go (registerWithAPIServer)
"""

from typing import Protocol

from pykubelet.agent.heartbeat.changes import node_patch
from pykubelet.agent.heartbeat.reconcile import reconciled
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import AlreadyExists, ApiError, Forbidden
from pykubelet.api.generated.core import Node
from pykubelet.api.typed import NODES
from pykubelet.kube.client import Reader, Writer

log = get_logger(__name__)


class NodeClient(Reader, Writer, Protocol):
    """Reads and writes nodes and leases; every call raises ApiError."""


async def try_to_register(client: NodeClient, wanted: Node, *, reset_extended: bool = True) -> Node | None:
    """The node as the API server has it now; None if that did not work and should be tried again."""
    name = wanted.metadata.name
    try:
        return await client.create(NODES, wanted)
    except (AlreadyExists, Forbidden) as error:
        # Whoever may not create nodes may still have one.
        log.debug("node not created", node=name, cause=str(error))
    except ApiError as error:
        log.error("unable to register node", node=name, cause=str(error))
        return None
    try:
        existing = await client.get(NODES, name)
        node = reconciled(wanted, existing, reset_extended=reset_extended)
        if node is existing:
            return existing
        return await client.patch(NODES, name, node_patch(existing, node), subresource="status")
    except ApiError as error:
        log.error("unable to put the existing node right", node=name, cause=str(error))
        return None
