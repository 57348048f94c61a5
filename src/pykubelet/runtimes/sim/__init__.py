"""A runtime in memory: containers behave as scripted, in any number, on virtual or real time."""

from pykubelet.runtimes.sim.runtime import (
    ANNOTATION,
    Behaviour,
    ContainerRun,
    ImageBehaviour,
    SimHttpClient,
    SimImages,
    SimRuntime,
)

__all__ = ["ANNOTATION", "Behaviour", "ContainerRun", "ImageBehaviour", "SimHttpClient", "SimImages", "SimRuntime"]
