"""Machine facts, read from this machine and from made-up files."""

import ipaddress
import os
import threading
from pathlib import Path

import pytest

from pykubelet.kubelet.nodestatus.machine import LinuxMachine, node_ip
from pykubelet.podnetwork.node_address import is_ours, is_usable

FILES = {
    "proc/meminfo": "MemTotal:       16384 kB\nMemFree:  1 kB\nSwapTotal:       1024 kB\n",
    "etc/machine-id": "abc\n",
    "proc/sys/kernel/random/boot_id": "boot\n",
    "etc/os-release": 'NAME="x"\nPRETTY_NAME="Some Linux 1"\n',
    "sys/class/dmi/id/product_uuid": "uuid\n",
    "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "3\n",
    "sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "0\n",
}


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_machine_is_read_from_its_files(tmp_path: Path) -> None:
    """Amounts are in bytes, and names have no quotes."""
    write(tmp_path, FILES)
    machine = LinuxMachine(name="", data_dir=tmp_path, root=tmp_path).read()
    assert (machine.memory_bytes, machine.swap_bytes) == (16 * 2**20, 2**20)
    assert (machine.machine_id, machine.boot_id, machine.system_uuid) == ("abc", "boot", "uuid")
    assert machine.os_image == "Some Linux 1"
    assert machine.huge_pages == {2**21: 3 * 2**21, 2**30: 0}
    assert machine.storage_bytes > 0


def test_missing_files_leave_facts_empty(tmp_path: Path) -> None:
    """Missing files are no error; amounts are zero and the OS image is `Linux`."""
    machine = LinuxMachine(name="", data_dir=tmp_path / "nowhere", root=tmp_path).read()
    assert (machine.memory_bytes, machine.storage_bytes, machine.huge_pages) == (0, 0, {})
    assert (machine.machine_id, machine.system_uuid, machine.os_image) == ("", "", "Linux")


def test_machine_id_stands_in_for_a_missing_system_uuid(tmp_path: Path) -> None:
    """Upstream does the same on machines without DMI."""
    write(tmp_path, {"var/lib/dbus/machine-id": "abc\n"})
    machine = LinuxMachine(name="", data_dir=tmp_path, root=tmp_path).read()
    assert (machine.machine_id, machine.system_uuid) == ("abc", "abc")


def test_this_machine_has_cores_memory_and_a_kernel(tmp_path: Path) -> None:
    """It reads the real files of this machine."""
    machine = LinuxMachine(name=os.uname().nodename, data_dir=tmp_path).read()
    assert machine.cores >= 1
    assert machine.memory_bytes > 2**26
    assert machine.boot_id
    assert machine.kernel_version == os.uname().release
    assert machine.architecture in {"amd64", "arm64"} or machine.architecture


@pytest.mark.parametrize("name", ["", "localhost", "name.invalid"])
def test_node_ip_is_an_address_others_can_reach(name: str) -> None:
    """It is empty on a machine without a network."""
    address = node_ip(name)
    assert not address or is_usable(address)
    assert not address or str(ipaddress.ip_address(address)) == address


def test_node_ip_stays_while_it_is_one_of_the_machine(tmp_path: Path) -> None:
    """It is the same when read twice, and addresses of other machines and loopback are not ours."""
    machine = LinuxMachine(name="", data_dir=tmp_path)
    address = machine.read().ip
    assert machine.read().ip == address
    assert not address or is_ours(address)
    assert not is_ours("192.0.2.77")
    assert not is_ours("127.0.0.1")


@pytest.mark.parametrize(
    ("address", "usable"),
    [
        ("10.0.0.1", True),
        ("fd00::1", True),
        ("127.0.0.1", False),
        ("::1", False),
        ("169.254.1.1", False),
        ("fe80::1%eth0", False),
        ("224.0.0.1", False),
        ("0.0.0.0", False),
    ],
)
def test_usable_addresses_are_those_of_an_interface(address: str, usable: bool) -> None:
    """Loopback, link-local, multicast and unspecified addresses are not usable."""
    assert is_usable(address) == usable


def test_name_server_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The address of the default route is used instead, if there is one."""
    answered = threading.Event()

    def hang(*_: object, **__: object) -> list[object]:
        answered.wait(20)
        return []

    monkeypatch.setattr("socket.getaddrinfo", hang)
    try:
        assert node_ip("some-name") == node_ip("")
    finally:
        answered.set()
