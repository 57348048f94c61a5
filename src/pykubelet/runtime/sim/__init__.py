"""A runtime in memory: containers that pretend, as scripted, in any number, on virtual or real time."""

from pykubelet.runtime.sim.behaviour import ANNOTATION, Behaviour, ImageBehaviour, Run
from pykubelet.runtime.sim.http import SimHttp
from pykubelet.runtime.sim.images import SimImages
from pykubelet.runtime.sim.runtime import SimRuntime

__all__ = ["ANNOTATION", "Behaviour", "ImageBehaviour", "Run", "SimHttp", "SimImages", "SimRuntime"]
