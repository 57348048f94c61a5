"""Reads the machine's facts from Linux: cores, memory, storage, IDs, versions and addresses.

A fact that cannot be read is empty or zero; a missing capacity keeps the node from being ready.

Upstream: pkg/kubelet/cadvisor/cadvisor_linux.go, pkg/kubelet/nodestatus/setters.go
"""

import os
import platform
import queue
import re
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pykubelet.podnetwork.node_address import is_ours, node_address


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineInfo:
    """The capacity and identity of a machine. `huge_pages` is in bytes by page size."""

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
    """The address by which others reach the machine, if known."""


class MachineInfoReader(Protocol):
    """Reads the facts of a machine; tests use a fixed one."""

    def read(self) -> MachineInfo:
        """The current facts. May block briefly; called in a thread."""


# Go's names of architectures.
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386", "loongarch64": "loong64"}
# The resolver retries a silent name server for ten seconds and more.
_PATIENCE_SECONDS = 1.0


class LinuxMachine:
    """Reads /proc, /sys and /etc below `root`; storage is that of the file system with `data_dir`."""

    def __init__(self, *, name: str, data_dir: Path, root: Path = Path("/")) -> None:
        self._name, self._data_dir, self._root = name, data_dir, root
        self._ip = ""

    def read(self) -> MachineInfo:
        memory = dict(re.findall(r"^(\w+):\s+(\d+) kB$", self._text("proc/meminfo"), re.MULTILINE))
        machine_id = self._first_text("etc/machine-id", "var/lib/dbus/machine-id")
        architecture = platform.machine()
        return MachineInfo(
            cores=os.cpu_count() or 0,
            memory_bytes=int(memory.get("MemTotal", 0)) * 1024,
            swap_bytes=int(memory.get("SwapTotal", 0)) * 1024,
            storage_bytes=_storage_bytes(self._data_dir),
            huge_pages=self._huge_pages(),
            machine_id=machine_id,
            system_uuid=self._first_text("sys/class/dmi/id/product_uuid", "proc/device-tree/vm,uuid") or machine_id,
            boot_id=self._text("proc/sys/kernel/random/boot_id"),
            kernel_version=platform.release(),
            os_image=_pretty_name(self._first_text("etc/os-release", "usr/lib/os-release")),
            architecture=_ARCHITECTURES.get(architecture, architecture),
            ip=self._address(),
        )

    def _address(self) -> str:
        # A name may take long to resolve, and an address that is still ours is good enough.
        if not (self._ip and is_ours(self._ip)):
            self._ip = node_ip(self._name)
        return self._ip

    def _huge_pages(self) -> Mapping[int, int]:
        pages = {}
        for folder in sorted(self._root.glob("sys/kernel/mm/hugepages/hugepages-*kB")):
            size = int(folder.name.removeprefix("hugepages-").removesuffix("kB")) * 1024
            count = self._text(f"sys/kernel/mm/hugepages/{folder.name}/nr_hugepages")
            pages[size] = size * int(count) if count.isdecimal() else 0
        return pages

    def _first_text(self, *paths: str) -> str:
        return next(filter(None, map(self._text, paths)), "")

    def _text(self, path: str) -> str:
        try:
            return (self._root / path).read_text(errors="replace").strip("\0\n ")
        except OSError:
            return ""


def node_ip(name: str) -> str:
    """The machine's address: what its name resolves to, if that is its own, or that which pods reach."""
    usable = sorted(filter(is_ours, _resolved(name) if name else ()), key=lambda address: ":" in address)
    return next(iter(usable), "") or node_address()


def _resolved(name: str) -> list[str]:
    """The addresses of a name, if resolved soon; a lookup cannot be cancelled, so a slow one is abandoned."""
    answers: queue.SimpleQueue[list[str]] = queue.SimpleQueue()

    def look_up() -> None:
        try:
            answers.put([str(entry[4][0]) for entry in socket.getaddrinfo(name, None, type=socket.SOCK_DGRAM)])
        except (OSError, UnicodeError):
            answers.put([])

    threading.Thread(target=look_up, name=f"look up {name}", daemon=True).start()
    try:
        return answers.get(timeout=_PATIENCE_SECONDS)
    except queue.Empty:
        return []


def _storage_bytes(path: Path) -> int:
    try:
        found = os.statvfs(path)
    except OSError:
        return 0
    return found.f_blocks * found.f_frsize


def _pretty_name(os_release: str) -> str:
    match = re.search(r"^PRETTY_NAME=(.*)$", os_release, re.MULTILINE)
    return match[1].strip("\"'") if match else "Linux"
