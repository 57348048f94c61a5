"""Probes of containers: whether they live, are ready, have started."""

from pykubelet.agent.probes.http_door import ProbeHttp
from pykubelet.agent.probes.manager import ProbeManager
from pykubelet.agent.probes.prober import Prober

__all__ = ["ProbeHttp", "ProbeManager", "Prober"]
