"""Chooses and opens the network of process pods: one of its own for each, or the machine's.

Networks of an ordinary user's pods are kept by a holder.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from pykubelet.aio.log import get_logger
from pykubelet.aio.tasks import running, with_ready_event
from pykubelet.app.program import make_private_folder
from pykubelet.app.settings import CannotStart, NodeSettings
from pykubelet.httpserver.dialer import Dialer
from pykubelet.httpserver.listener import is_loopback
from pykubelet.kubelet.nodestatus.machine import node_ip
from pykubelet.podnetwork.availability import machine_problem, program_problem, user_problem
from pykubelet.podnetwork.egress import ensure_egress
from pykubelet.podnetwork.holder_client import HolderClient, HolderUnavailable
from pykubelet.podnetwork.pod_side import HolderSide, PodSidePlace

AUTO, OWN, HOST = "auto", "own", "host"
COSTS = "replicas share ports, and a probe may reach another pod"
"""What it costs if pods share the machine's network."""


class PodNetworkChoice(NamedTuple):
    """The range of the pods' addresses, empty for the machine's network, and why that was not a choice of the settings."""

    pod_cidr: str
    problem: str = ""


def expects_own_networks(settings: NodeSettings) -> bool:
    """Whether process pods get networks of their own unless the machine turns out to refuse them."""
    if settings.pod_network == OWN:
        return not user_problem()
    return settings.pod_network != HOST and not (user_problem() or program_problem())


def address_for_pods(settings: NodeSettings) -> str:
    """The address of a node whose pods have networks of their own: to them, loopback is not this machine.

    Only an API server in the same process finds a node's API that listens elsewhere than at the node's address.
    """
    may_differ = settings.with_server and is_loopback(settings.address)
    return (node_ip(settings.node_name) if may_differ else "") or settings.address


async def choose_pod_network(settings: NodeSettings) -> PodNetworkChoice:
    """Choose by the settings and what is possible here; CannotStart if they insist on what is not."""
    if settings.pod_network == HOST:
        return PodNetworkChoice("")
    is_required = settings.pod_network == OWN
    # Required without nft, pods reach this machine and each other only, which a log line says.
    problem = user_problem() or ("" if is_required else program_problem())
    problem = problem or await machine_problem(settings.root_dir.absolute() / "process" / "networks")
    if problem and is_required:
        raise CannotStart(f"{problem}: use --pod-network host")
    return PodNetworkChoice("" if problem else settings.pod_cidr, problem)


log = get_logger(__name__)

STATE = "process"
"""The state folder of the process runtime in the node's root folder."""
SERVICE_RANGE = "10.96.0.0/12"
"""Where addresses of Services usually are; a range that contains that of `up`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNetwork:
    """Where pods of this node are, and how the node's own servers and clients get there."""

    holder: HolderClient | None = None
    """The process that keeps the networks of pods; None if they are in the machine's network."""
    has_own: bool = False
    """Whether new pods get networks there."""
    problem: str = ""
    """Why pods have no networks of their own although they should; empty if they have."""
    egress_problem: str = ""
    """Why pods with networks of their own do not reach other machines; empty if they do."""
    dialer: Dialer = field(default_factory=Dialer)
    side: PodSidePlace = field(default_factory=PodSidePlace)


MACHINE_NETWORK = NodeNetwork()
"""The machine's network."""


@asynccontextmanager
async def open_node_network(
    settings: NodeSettings, *, runs_processes: bool, service_cidr: str = SERVICE_RANGE
) -> AsyncIterator[NodeNetwork]:
    """Open the network of pods while the context lasts; CannotStart if a network that was asked for is impossible.

    Only pods that are processes can be in the network of a holder. Addresses of Services are in `service_cidr`.
    """
    if os.geteuid() == 0 or not runs_processes:
        yield MACHINE_NETWORK
        return
    root = settings.root_dir.absolute() / STATE
    holder = HolderClient(root, pod_cidr=settings.pod_cidr, service_cidr=service_cidr)
    side = HolderSide(holder, (settings.pod_cidr, service_cidr))
    if settings.pod_network == HOST:
        # Pods that have a network of their own keep it.
        if not await holder.connect():
            yield MACHINE_NETWORK
            return
    else:
        make_private_folder(settings.root_dir, 0o750)
        try:
            await holder.open()
        except (OSError, TimeoutError) as error:
            problem = f"this machine does not permit an ordinary user to create networks: {_reason(error)}"
            if settings.pod_network == OWN:
                raise CannotStart(f"{problem}: use --pod-network host") from error
            yield NodeNetwork(problem=problem)
            return
    has_own, problem = settings.pod_network != HOST, ""
    if has_own:
        problem = await _ensure_egress(holder)
        holder.listen_to_restarts(partial(_ensure_egress, holder))
    try:
        async with running({"holder of pod networks": with_ready_event(holder.run)}):
            yield NodeNetwork(
                egress_problem=problem,
                holder=holder,
                has_own=has_own,
                dialer=Dialer(side.open_socket),
                side=side,
            )
    finally:
        holder.close()


async def _ensure_egress(holder: HolderClient) -> str:
    if problem := await ensure_egress(holder):
        log.warning("pods do not reach other machines", cause=problem)
    return problem


def _reason(error: Exception) -> str:
    if isinstance(error, HolderUnavailable):
        return error.strerror or ""
    return str(error) or type(error).__name__
