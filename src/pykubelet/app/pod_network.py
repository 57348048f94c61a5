"""Chooses the network of process pods: one of its own for each, or the machine's."""

from typing import NamedTuple

from pykubelet.app.settings import CannotStart, NodeSettings
from pykubelet.podnetwork.availability import machine_problem, program_problem, user_problem

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
