"""The hostname and hosts file of a pod, with cases of kubelet_pods_test.go."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.generated.core import HostAlias, Pod
from pykubelet.api.names import dns1123_subdomain_errors
from pykubelet.kubelet.kubelet_pods import HostNames, host_names, host_network_hosts_file, hosts_file, kernel_hostname
from pykubelet.kubelet.volumemanager.errors import ContainerConfigError
from pykubelet.testing.build import pod
from volume_pods import pod_with

ALIASES = (HostAlias(ip="123.45.67.89", hostnames=("foo", "bar", "baz")), HostAlias(ip="1.1.1.1", hostnames=("x",)))
LOCAL = """\
# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""
ALIAS_LINES = """
# Entries added by HostAliases.
123.45.67.89\tfoo\tbar\tbaz
1.1.1.1\tx
"""


def test_hosts_file_names_the_pod_at_each_of_its_addresses() -> None:
    """With the domain if the pod has one, followed by the host aliases."""
    assert hosts_file(HostNames("web"), ["10.0.0.1", "fd00::1"], ()) == LOCAL + "10.0.0.1\tweb\nfd00::1\tweb\n"
    named = LOCAL + "10.0.0.1\tweb.sub.ns.svc.cluster.local\tweb\n"
    assert hosts_file(HostNames("web", "sub.ns.svc.cluster.local"), ["10.0.0.1"], ALIASES) == named + ALIAS_LINES


def test_hosts_file_of_the_host_network_is_the_nodes_own() -> None:
    """A first line marks it as managed by Kubernetes."""
    expected = "# Kubernetes-managed hosts file (host network).\n127.0.0.1\tnode\n"
    assert host_network_hosts_file("127.0.0.1\tnode\n", ()) == expected
    assert host_network_hosts_file("127.0.0.1\tnode\n", ALIASES) == expected + ALIAS_LINES


def test_host_is_named_by_the_spec_or_the_pod() -> None:
    """A subdomain gives the pod a domain in the cluster."""
    assert host_names(pod_with(), "cluster.local") == HostNames("web")
    named = pod_with(hostname="front", subdomain="sub")
    assert host_names(named, "cluster.local") == HostNames("front", "sub.default.svc.cluster.local")


@pytest.mark.parametrize(
    ("named", "field"), [(pod_with(hostname="a.b"), "Hostname"), (pod_with(subdomain="a.b"), "Subdomain")]
)
def test_name_in_the_spec_must_be_a_label(named: Pod, field: str) -> None:
    """Upstream's error begins with the field."""
    with pytest.raises(ContainerConfigError, match=rf'^pod {field} "a\.b" is not a valid DNS label: '):
        host_names(named, "cluster.local")


def test_long_name_is_cut_and_never_ends_in_a_dash() -> None:
    """The limit is 63 characters, and trailing dashes are removed."""
    assert host_names(pod("a" * 64), "cluster.local").hostname == "a" * 63
    assert host_names(pod("a" * 61 + "--b"), "cluster.local").hostname == "a" * 61


def test_name_that_would_be_nothing_is_refused() -> None:
    """The API server validates names, so it can only come from another source."""
    with pytest.raises(ContainerConfigError, match=r'^hostname for pod "-+" was invalid: "-+"$'):
        host_names(pod("-" * 70), "cluster.local")


def test_kernel_hostname_is_the_fqdn_when_the_pod_wants_it() -> None:
    """More than 64 characters are an error."""
    assert kernel_hostname(HostNames("web", "d.e"), as_fqdn=False) == "web"
    assert kernel_hostname(HostNames("web"), as_fqdn=True) == "web"
    assert kernel_hostname(HostNames("web", "d" * 60), as_fqdn=True) == "web." + "d" * 60
    with pytest.raises(
        ContainerConfigError, match=r"is too long \(64 characters is the max, 65 characters requested\)$"
    ):
        kernel_hostname(HostNames("web", "d" * 61), as_fqdn=True)


@settings(max_examples=100)
@given(
    st.from_regex(r"\A[a-z0-9]([-a-z0-9.]{0,80}[a-z0-9])?\Z").filter(lambda name: not dns1123_subdomain_errors(name))
)
def test_hostname_fits_and_ends_well(name: str) -> None:
    """For any valid pod name."""
    hostname = host_names(pod(name), "cluster.local").hostname
    assert name.startswith(hostname)
    assert 0 < len(hostname) <= 63
    assert hostname[-1] not in "-."
