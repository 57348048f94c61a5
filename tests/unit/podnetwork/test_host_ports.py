"""Which elements of the node's table host ports are."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.podnetwork.host_ports import HostPortError, HostPorts, PortMapping, port_mapping

MAPPINGS = st.lists(
    st.builds(
        PortMapping,
        protocol=st.sampled_from(["TCP", "UDP", "SCTP"]),
        host_ip=st.sampled_from(["", "127.0.0.1", "192.0.2.1"]),
        host_port=st.integers(1, 4),
        container_port=st.integers(1, 65535),
    ),
    max_size=3,
)
_COMMAND = re.compile(r"(add|delete) element ip t (\S+) \{ ([^:}]+?)(?: : ([^}]+?))? \}")


class Kernel:
    """A table that refuses what the kernel refuses: a delete of what is not there, and another value for a key."""

    def __init__(self) -> None:
        self.elements: dict[tuple[str, str], str] = {}

    def run(self, commands: str) -> None:
        assert [*filter(None, _COMMAND.sub("", commands).split("\n"))] == []
        for verb, place, key, value in _COMMAND.findall(commands):
            if verb == "add":
                assert self.elements.setdefault((place, key), value) == value
            else:
                del self.elements[place, key]


@given(st.lists(st.tuples(st.sampled_from("abc"), MAPPINGS)))
def test_kernel_has_the_ports_of_the_pods_that_are_there(changes: list[tuple[str, list[PortMapping]]]) -> None:
    """Whatever pods come and go; the same as if all were added to an empty table. One transaction is about one pod."""
    ports, kernel, there = HostPorts("t"), Kernel(), dict[str, list[PortMapping]]()
    for name, mappings in changes:
        address = f"10.0.0.{ord(name)}"
        if name in there:
            del there[name]
            kernel.run(ports.removal(name))
            ports.forget(name)
            assert ports.removal(name) == ""
            continue
        taken = {(one.protocol, one.host_ip, one.host_port) for each in there.values() for one in each}
        wanted = [(one.protocol, one.host_ip, one.host_port) for one in mappings]
        if taken & {*wanted}:
            with pytest.raises(HostPortError, match="another pod of this node has the hostPort"):
                ports.add(name, address, mappings)
        else:
            there[name] = mappings
            kernel.run(ports.add(name, address, mappings))
        anew = Kernel()
        anew.run(ports.everything())
        assert anew.elements == kernel.elements


def test_port_of_one_address_has_a_map_of_its_own() -> None:
    """The set lets the pod reach itself."""
    mappings = (port_mapping("TCP", "0.0.0.0", 80, 8080), port_mapping("UDP", "192.0.2.1", 53, 5353))
    assert HostPorts("t").add("pod", "10.0.0.2", mappings).splitlines() == [
        "add element ip t host-ports { tcp . 80 : 10.0.0.2 . 8080 }",
        "add element ip t host-address-ports { 192.0.2.1 . udp . 53 : 10.0.0.2 . 5353 }",
        "add element ip t hairpins { 10.0.0.2 . 10.0.0.2 }",
    ]
    assert HostPorts("t").add("pod", "10.0.0.2", ()) == ""


def test_first_mapping_of_a_port_counts() -> None:
    """The API takes `TCP/80` and `TCP/0.0.0.0/80` for different ports, and looks at sidecars on their own."""
    ports = HostPorts("t")
    mappings = (port_mapping("TCP", "", 80, 8080), port_mapping("TCP", "0.0.0.0", 80, 9090))
    assert ports.add("pod", "10.0.0.2", mappings).splitlines() == [
        "add element ip t host-ports { tcp . 80 : 10.0.0.2 . 8080 }",
        "add element ip t hairpins { 10.0.0.2 . 10.0.0.2 }",
    ]
    ports.forget("pod")
    assert ports.everything() == ""


def test_table_that_is_made_anew_has_no_ports_of_a_pod_that_is_going() -> None:
    """Otherwise they would come back after their removal, and lead to an address that no pod has. No other pod gets them."""
    ports, mappings = HostPorts("t"), (port_mapping("TCP", "", 80, 8080),)
    added = ports.add("a", "10.0.0.2", mappings)
    assert ports.removal("a") != ""
    assert ports.everything() == ""
    with pytest.raises(HostPortError):
        ports.add("b", "10.0.0.3", mappings)
    # A cancelled removal is repeated.
    assert ports.removal("a") != ""
    ports.forget("a")
    assert ports.add("a", "10.0.0.2", mappings) == added == ports.everything()


@pytest.mark.parametrize(
    ("host_ip", "is_on_loopback"), [("", True), ("127.0.0.1", True), ("192.0.2.1", False), ("::", True)]
)
def test_loopback_is_opened_only_where_it_is_needed(host_ip: str, is_on_loopback: bool) -> None:
    assert port_mapping("TCP", host_ip, 80, 80).is_on_loopback is is_on_loopback


def test_address_of_another_family_is_refused() -> None:
    with pytest.raises(
        HostPortError, match="hostPort 80 at hostIP fd00::1: the networks of pods have IPv4 addresses only"
    ):
        port_mapping("TCP", "fd00::1", 80, 80)


@pytest.mark.parametrize("host_ip", ["localhost", "10.0.0.1/24", "1.2.3.4 : 0.0.0.0 } }"])
def test_text_that_is_no_address_is_refused(host_ip: str) -> None:
    """Upstream's validation accepts any."""
    with pytest.raises(HostPortError, match=r"hostPort 80: hostIP '.*' is not an IP address"):
        port_mapping("TCP", host_ip, 80, 80)
