"""What the machine is short of: measured, judged, told as conditions, relieved by evicting pods."""

from pykubelet.agent.pressure.disk_sizes import PodPaths
from pykubelet.agent.pressure.evictor import Evictor
from pykubelet.agent.pressure.linux_signals import LinuxSignals
from pykubelet.agent.pressure.pod_meter import PodMeter
from pykubelet.agent.pressure.thresholds import (
    DEFAULT_THRESHOLDS,
    Observation,
    Threshold,
    kept_free,
    parse_thresholds,
)
from pykubelet.agent.pressure.watch import PressureWatch, SignalReader

__all__ = [
    "DEFAULT_THRESHOLDS",
    "Evictor",
    "LinuxSignals",
    "Observation",
    "PodMeter",
    "PodPaths",
    "PressureWatch",
    "SignalReader",
    "Threshold",
    "kept_free",
    "parse_thresholds",
]
