"""Probes of containers: whether they live, are ready, have started."""

from pykubelet.agent.probes.http_door import ProbeHttp
from pykubelet.agent.probes.manager import ProbeManager
from pykubelet.agent.probes.prober import Prober
from pykubelet.agent.probes.simulated import SimulatedDoors
from pykubelet.agent.probes.sockets import SocketDoor, Sockets

__all__ = ["ProbeHttp", "ProbeManager", "Prober", "SimulatedDoors", "SocketDoor", "Sockets"]
