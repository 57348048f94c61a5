"""What a node must know of its machine.

Upstream: github.com/google/cadvisor/info/v1 (MachineInfo, VersionInfo)
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What a machine has and is. `huge_pages` is the bytes in pages of each size."""

    cores: int = 0
    memory_bytes: int = 0
    swap_bytes: int = 0
    storage_bytes: int = 0
    huge_pages: Mapping[int, int] = field(default_factory=dict)
    machine_id: str = ""
    system_uuid: str = ""
    boot_id: str = ""
    kernel_version: str = ""
    os_image: str = ""
    operating_system: str = "linux"
    architecture: str = ""
    ip: str = ""
    """The address that others reach the machine by, as far as it knows."""


class MachineFacts(Protocol):
    """Knows the machine."""

    def read(self) -> Machine:
        """As it is now. May block for a moment; called in a thread."""
