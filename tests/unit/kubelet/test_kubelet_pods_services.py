"""Environment variables of services, with cases of envvars_test.go."""

from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.generated.core import Service
from pykubelet.kubelet.kubelet_pods import service_variables
from volume_pods import service

TCP = {"port": 8080, "protocol": "TCP"}


def test_service_has_variables_for_host_port_and_links() -> None:
    """All variables of a service with two named ports."""
    found = service_variables(
        [service("foo-bar", "1.2.3.4", {"port": 8080, "name": "p"}, {"port": 8081, "name": "q-r", "protocol": "UDP"})],
        "default",
        links=True,
    )
    assert found == {
        "FOO_BAR_SERVICE_HOST": "1.2.3.4",
        "FOO_BAR_SERVICE_PORT": "8080",
        "FOO_BAR_SERVICE_PORT_P": "8080",
        "FOO_BAR_SERVICE_PORT_Q_R": "8081",
        "FOO_BAR_PORT": "tcp://1.2.3.4:8080",
        "FOO_BAR_PORT_8080_TCP": "tcp://1.2.3.4:8080",
        "FOO_BAR_PORT_8080_TCP_PROTO": "tcp",
        "FOO_BAR_PORT_8080_TCP_PORT": "8080",
        "FOO_BAR_PORT_8080_TCP_ADDR": "1.2.3.4",
        "FOO_BAR_PORT_8081_UDP": "udp://1.2.3.4:8081",
        "FOO_BAR_PORT_8081_UDP_PROTO": "udp",
        "FOO_BAR_PORT_8081_UDP_PORT": "8081",
        "FOO_BAR_PORT_8081_UDP_ADDR": "1.2.3.4",
    }


def test_address_of_version_six_stands_in_brackets() -> None:
    """Only within a URL, not as a host."""
    found = service_variables([service("six", "fd00::1", TCP)], "default", links=True)
    assert found["SIX_PORT"] == "tcp://[fd00::1]:8080"
    assert found["SIX_SERVICE_HOST"] == "fd00::1"


def test_service_without_address_or_port_is_left_out() -> None:
    """Headless services have no variables; a service without ports has only its host."""
    services = [service("headless", "None", TCP), service("none", "", TCP), service("bare", "1.2.3.4")]
    assert service_variables(services, "default", links=True) == {"BARE_SERVICE_HOST": "1.2.3.4"}


def test_own_service_called_kubernetes_hides_the_api_server() -> None:
    """The order of the services does not matter."""
    master = service("kubernetes", "10.0.0.1", TCP)
    own = service("kubernetes", "10.0.0.9", TCP, namespace="shop")
    for services in ([master, own], [own, master]):
        assert service_variables(services, "shop", links=True)["KUBERNETES_SERVICE_HOST"] == "10.0.0.9"
        assert service_variables(services, "shop", links=False)["KUBERNETES_SERVICE_HOST"] == "10.0.0.1"


@settings(max_examples=50)
@given(st.permutations([service(name, f"10.0.0.{i}", TCP) for i, name in enumerate(("a", "b", "kubernetes"), 1)]))
def test_order_of_services_does_not_matter(services: list[Service]) -> None:
    """A container gets the same environment every time."""
    found = service_variables(services, "default", links=True)
    assert list(found) == list(service_variables(reversed(services), "default", links=True))
