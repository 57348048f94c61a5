"""Ports as people write them."""

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
def test_numbers_are_taken_as_they_are(local: int, remote: int) -> None:
    """Local and remote, one for both, or any free one."""
    assert parse_port_forwarding(f"{local}:{remote}", POD) == PortForwarding(local, remote)
    assert parse_port_forwarding(str(remote), POD) == PortForwarding(remote, remote)
    assert parse_port_forwarding(f":{remote}", POD) == PortForwarding(0, remote)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1:https", PortForwarding(1, 8443)), ("https", PortForwarding(8443, 8443)), ("2:side", PortForwarding(2, 7000))],
)
def test_names_are_those_of_the_pod(text: str, expected: PortForwarding) -> None:
    """Of any of its containers."""
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
def test_port_of_a_service_is_that_of_its_pods(text: str, expected: PortForwarding) -> None:
    """By number or name, to a number or a name."""
    assert parse_port_forwarding(text, POD, SERVICE) == expected


def test_headless_service_has_no_ports_of_its_own() -> None:
    """Whoever finds its pods finds them at the same port."""
    assert parse_port_forwarding("1:80", POD, HEADLESS) == PortForwarding(1, 80)


@pytest.mark.parametrize("text", ["", "a:80", "70000:80", "80:70000", "1:0", "1:2:3", "-1:80", "80:nobody", "80:٣"])
def test_words_that_are_no_ports_are_refused(text: str) -> None:
    """With a reason."""
    with pytest.raises(InvalidPort):
        parse_port_forwarding(text, POD)


def test_unknown_port_of_a_service_is_refused() -> None:
    """It has others."""
    with pytest.raises(InvalidPort, match="does not have a port 81"):
        parse_port_forwarding("81", POD, SERVICE)
