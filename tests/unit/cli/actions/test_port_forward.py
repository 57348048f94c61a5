"""Port arguments of port-forward."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.cli.actions.port_forward import InvalidPort, PortForwarding, parse_port_forwarding

POD = {
    "metadata": {"name": "web"},
    "spec": {
        "containers": [{"ports": [{"containerPort": 9000}, {"containerPort": 8443, "name": "https"}]}, {}],
        "initContainers": [{"ports": [{"containerPort": 7000, "name": "side"}]}],
    },
}
SERVICE = {
    "metadata": {"name": "web"},
    "spec": {
        "clusterIP": "10.0.0.1",
        "ports": [
            {"port": 80, "targetPort": 8080, "name": "plain"},
            {"port": 443, "targetPort": "https"},
            {"port": 90},
        ],
    },
}
HEADLESS = {**SERVICE, "spec": {**SERVICE["spec"], "clusterIP": "None"}}  # type: ignore[dict-item]
PORTS = st.integers(1, 65535)


@given(PORTS, PORTS)
def test_port_numbers_are_parsed(local: int, remote: int) -> None:
    """Local and remote port, one number for both, or a remote port with any free local port."""
    assert parse_port_forwarding(f"{local}:{remote}", POD) == PortForwarding(local, remote)
    assert parse_port_forwarding(str(remote), POD) == PortForwarding(remote, remote)
    assert parse_port_forwarding(f":{remote}", POD) == PortForwarding(0, remote)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1:https", PortForwarding(1, 8443)), ("https", PortForwarding(8443, 8443)), ("2:side", PortForwarding(2, 7000))],
)
def test_port_names_are_resolved_in_all_containers_of_the_pod(text: str, expected: PortForwarding) -> None:
    assert parse_port_forwarding(text, POD) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1:80", PortForwarding(1, 8080)),
        ("80", PortForwarding(80, 8080)),
        ("2:plain", PortForwarding(2, 8080)),
        ("3:443", PortForwarding(3, 8443)),
        (":90", PortForwarding(0, 90)),
    ],
)
def test_service_port_is_translated_to_its_target_port(text: str, expected: PortForwarding) -> None:
    """Service port and target port may each be a number or a name."""
    assert parse_port_forwarding(text, POD, SERVICE) == expected


def test_port_of_a_headless_service_is_not_translated() -> None:
    """Clients of a headless service connect to its pods directly, at the same port."""
    assert parse_port_forwarding("1:80", POD, HEADLESS) == PortForwarding(1, 80)


@pytest.mark.parametrize("text", ["", "a:80", "70000:80", "80:70000", "1:0", "1:2:3", "-1:80", "80:nobody", "80:٣"])
def test_invalid_ports_are_rejected(text: str) -> None:
    with pytest.raises(InvalidPort):
        parse_port_forwarding(text, POD)


def test_unknown_port_of_a_service_is_refused() -> None:
    with pytest.raises(InvalidPort, match="does not have a port 81"):
        parse_port_forwarding("81", POD, SERVICE)
