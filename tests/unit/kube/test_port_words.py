"""Ports as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.kube.port_words import Forwarding, UnclearPort, forwarding_of

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
    assert forwarding_of(f"{local}:{remote}", POD) == Forwarding(local, remote)
    assert forwarding_of(str(remote), POD) == Forwarding(remote, remote)
    assert forwarding_of(f":{remote}", POD) == Forwarding(0, remote)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1:https", Forwarding(1, 8443)), ("https", Forwarding(8443, 8443)), ("2:side", Forwarding(2, 7000))],
)
def test_names_are_those_of_the_pod(text: str, expected: Forwarding) -> None:
    """Of any of its containers."""
    assert forwarding_of(text, POD) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1:80", Forwarding(1, 8080)),
        ("80", Forwarding(80, 8080)),
        ("2:plain", Forwarding(2, 8080)),
        ("3:443", Forwarding(3, 8443)),
        (":90", Forwarding(0, 90)),
    ],
)
def test_port_of_a_service_is_that_of_its_pods(text: str, expected: Forwarding) -> None:
    """By number or name, to a number or a name."""
    assert forwarding_of(text, POD, SERVICE) == expected


def test_headless_service_has_no_ports_of_its_own() -> None:
    """Whoever finds its pods finds them at the same port."""
    assert forwarding_of("1:80", POD, HEADLESS) == Forwarding(1, 80)


@pytest.mark.parametrize("text", ["", "a:80", "70000:80", "80:70000", "1:0", "1:2:3", "-1:80", "80:nobody", "80:٣"])
def test_words_that_are_no_ports_are_refused(text: str) -> None:
    """With a reason."""
    with pytest.raises(UnclearPort):
        forwarding_of(text, POD)


def test_unknown_port_of_a_service_is_refused() -> None:
    """It has others."""
    with pytest.raises(UnclearPort, match="does not have a port 81"):
        forwarding_of("81", POD, SERVICE)
