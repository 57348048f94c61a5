"""The DNS configuration of pods."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.generated.core import PodDNSConfig, PodDNSConfigOption
from pykubelet.runtimes.dns import ClusterDns, Resolver, exceeded_limits, parse_resolver, pod_resolver, resolv_conf
from pykubelet.testing import build

MACHINE = Resolver(("192.0.2.1", "192.0.2.2"), ("example.test",), ("timeout:2",))
CLUSTER = ClusterDns(servers=("10.0.0.10",), domain="cluster.local")
IN_CLUSTER = Resolver(
    ("10.0.0.10",),
    ("default.svc.cluster.local", "svc.cluster.local", "cluster.local", "example.test"),
    ("ndots:5",),
)


@pytest.mark.parametrize(
    ("policy", "host_network", "cluster", "expected"),
    [
        ("ClusterFirst", False, CLUSTER, IN_CLUSTER),
        ("", False, CLUSTER, IN_CLUSTER),
        ("ClusterFirst", True, CLUSTER, MACHINE),
        ("ClusterFirstWithHostNet", True, CLUSTER, IN_CLUSTER),
        ("ClusterFirst", False, ClusterDns(), MACHINE),
        ("Default", False, CLUSTER, MACHINE),
        ("None", False, CLUSTER, Resolver()),
    ],
)
def test_policy_of_a_pod_decides(policy: str, host_network: bool, cluster: ClusterDns, expected: Resolver) -> None:
    """Cluster DNS if there is one; the node's resolver for pods in the host network."""
    pod = build.pod(dns_policy=policy, host_network=host_network)
    assert pod_resolver(pod, cluster, MACHINE) == expected


def test_cluster_without_a_domain_adds_no_names() -> None:
    """Only its servers are used."""
    found = pod_resolver(build.pod(dns_policy="ClusterFirst"), ClusterDns(servers=("10.0.0.10",)), MACHINE)
    assert (found.servers, found.searches) == (("10.0.0.10",), ("example.test",))


def test_config_of_a_pod_is_added() -> None:
    """Duplicates are dropped, and the pod's options take precedence."""
    more = PodDNSConfig(
        nameservers=("192.0.2.1", "192.0.2.9"),
        searches=("example.test", "other.test"),
        options=(PodDNSConfigOption(name="timeout", value="7"), PodDNSConfigOption(name="edns0")),
    )
    found = pod_resolver(build.pod(dns_policy="Default", dns_config=more), CLUSTER, MACHINE)
    assert found == Resolver(
        ("192.0.2.1", "192.0.2.2", "192.0.2.9"), ("example.test", "other.test"), ("timeout:7", "edns0")
    )


@settings(max_examples=50)
@given(
    servers=st.lists(st.ip_addresses().map(str), max_size=6).map(tuple),
    searches=st.lists(st.text("abc.", min_size=1, max_size=300), max_size=50).map(tuple),
)
def test_pod_never_has_more_than_resolvers_put_up_with(servers: tuple[str, ...], searches: tuple[str, ...]) -> None:
    """Three servers, 32 domains of at most 253 characters each, 2048 in total; the first ones win."""
    pod = build.pod(dns_policy="None", dns_config=PodDNSConfig(nameservers=servers, searches=searches))
    found = pod_resolver(pod, CLUSTER, MACHINE)
    assert len(found.servers) <= 3
    assert len(found.searches) <= 32
    assert len(" ".join(found.searches)) <= 2048
    assert all(len(search) <= 253 for search in found.searches)
    assert found.servers == tuple(dict.fromkeys(servers))[:3]


def test_domains_that_are_too_many_characters_together_are_left_out_from_the_end() -> None:
    """Nine domains of 250 characters exceed 2048."""
    searches = tuple(f"{number}" * 250 for number in range(9))
    pod = build.pod(dns_policy="None", dns_config=PodDNSConfig(searches=searches))
    assert pod_resolver(pod, CLUSTER, MACHINE).searches == searches[:8]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Resolver()),
        ("nameserver 192.0.2.1\n# nameserver 192.0.2.9\nnameserver 192.0.2.2 \n", Resolver(("192.0.2.1", "192.0.2.2"))),
        ("search one.test\nsearch two.test. . three.test\n", Resolver((), ("two.test", "three.test"))),
        ("options ndots:1 rotate\noptions ndots:3", Resolver((), (), ("ndots:3", "rotate"))),
        ("nameserver\nsortlist 192.0.2.0\n\n", Resolver()),
    ],
    ids=["nothing", "servers add up", "last search counts", "last of an option counts", "what is none is passed over"],
)
def test_file_is_read_as_resolvers_read_it(text: str, expected: Resolver) -> None:
    """Covers the lines of a resolv.conf."""
    assert parse_resolver(text) == expected


def test_what_is_left_out_is_told_with_what_is_used() -> None:
    """The texts are upstream's; nothing is said of settings that fit, or of duplicates."""
    assert exceeded_limits(build.pod(dns_policy="ClusterFirst"), CLUSTER, MACHINE) == []
    servers = ("192.0.2.7", "192.0.2.8", "192.0.2.9", "10.0.0.10")
    more = PodDNSConfig(nameservers=servers, searches=tuple(f"n{number}.test" for number in range(32)))
    messages = exceeded_limits(build.pod(dns_policy="ClusterFirst", dns_config=more), CLUSTER, MACHINE)
    assert messages[0] == (
        "Nameserver limits were exceeded, some nameservers have been omitted, "
        "the applied nameserver line is: 10.0.0.10 192.0.2.7 192.0.2.8"
    )
    used = " ".join((*IN_CLUSTER.searches, *(f"n{number}.test" for number in range(28))))
    assert messages[1] == (
        f"Search Line limits were exceeded, some search paths have been omitted, the applied search line is: {used}"
    )
    fits = PodDNSConfig(nameservers=("192.0.2.7", "192.0.2.8", "10.0.0.10"))
    assert exceeded_limits(build.pod(dns_policy="ClusterFirst", dns_config=fits), CLUSTER, MACHINE) == []


@given(
    servers=st.lists(st.ip_addresses().map(str), max_size=3).map(tuple),
    searches=st.lists(st.from_regex(r"[a-z]{1,9}(\.[a-z]{1,9})?", fullmatch=True), max_size=3).map(tuple),
    options=st.sampled_from([(), ("ndots:5",), ("edns0", "timeout:3")]),
)
def test_file_of_a_pod_is_read_as_it_was_meant(
    servers: tuple[str, ...], searches: tuple[str, ...], options: tuple[str, ...]
) -> None:
    """Writing a resolv.conf and parsing it gives the same resolver."""
    resolver = Resolver(servers, searches, options)
    assert parse_resolver(resolv_conf(resolver)) == resolver
