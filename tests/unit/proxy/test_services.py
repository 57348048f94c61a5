"""The commands for nft: what each policy makes of a Service, and how little one change takes."""

from typing import Any

import pytest

from proxy_rig import IP, as_service, as_slice, endpoint, endpoint_slice, service, tables
from pykubelet.api.serializer import Document
from pykubelet.proxy.nftables.services import ServiceTables
from pykubelet.proxy.nftables.table import KernelTable, Table
from pykubelet.proxy.serviceport import IPFamily

ONE, TWO, AWAY = "10.1.0.1", "10.1.0.2", endpoint("10.1.1.1", node="node-2")
NODE_PORT: dict[str, Any] = {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]}
CLUSTER, LOCAL, EXTERNAL = "goto service", "goto local", "goto external"
REJECT = "goto reject-chain"


def ruled(*objects: Document) -> tuple[ServiceTables, Table]:
    """Tables in the kernel, with these objects."""
    made = tables()
    table = made.tables[IPFamily.IPV4]
    table.full(KernelTable())
    put(made, *objects)
    return made, table


def put(made: ServiceTables, *objects: Document) -> None:
    for one in objects:
        if one["kind"] == "Service":
            made.put_service(as_service(one))
        else:
            made.put_slice(as_slice(one))
    made.update_tables()


def verdicts(commands: list[str]) -> dict[str, str]:
    """The verdict for each map that a Service is in, without the unique part of a chain's name."""
    found = {}
    for line in commands:
        words = line.split()
        if words[:2] == ["add", "element"] and " : " in line and "endpoints" not in words[4].partition("-e")[0]:
            verdict = line.partition(" : ")[2].removesuffix(" }")
            found[words[4]] = verdict if verdict in ("drop", REJECT) else verdict.partition("-")[0]
    return {name: verdict for name, verdict in found.items() if not name.startswith(("cluster-endp", "local-endp"))}


INTERNAL: dict[str, tuple[Document, list[Any], dict[str, str]]] = {
    "no endpoints": ({}, [], {"no-endpoint-services": REJECT}),
    "endpoints": ({}, [ONE], {"service-ips": CLUSTER}),
    "endpoints elsewhere": ({}, [AWAY], {"service-ips": CLUSTER}),
    "Local": ({"internalTrafficPolicy": "Local"}, [ONE, AWAY], {"service-ips": LOCAL}),
    "Local, endpoints elsewhere": ({"internalTrafficPolicy": "Local"}, [AWAY], {"no-endpoint-services": "drop"}),
    "Local, no endpoints": ({"internalTrafficPolicy": "Local"}, [], {"no-endpoint-services": REJECT}),
    "node port": (NODE_PORT, [ONE], {"service-ips": CLUSTER, "service-nodeports": EXTERNAL}),
    "node port, no endpoints": (
        NODE_PORT,
        [],
        {"no-endpoint-services": REJECT, "no-endpoint-nodeports": REJECT},
    ),
    "external Local": (
        {**NODE_PORT, "externalTrafficPolicy": "Local"},
        [ONE],
        {"service-ips": CLUSTER, "service-nodeports": EXTERNAL},
    ),
    "external Local, endpoints elsewhere": (
        {**NODE_PORT, "externalTrafficPolicy": "Local"},
        [AWAY],
        {"service-ips": CLUSTER, "service-nodeports": EXTERNAL, "no-endpoint-nodeports": "drop"},
    ),
    "both Local, endpoints elsewhere": (
        {**NODE_PORT, "externalTrafficPolicy": "Local", "internalTrafficPolicy": "Local"},
        [AWAY],
        {"no-endpoint-services": "drop", "service-nodeports": EXTERNAL, "no-endpoint-nodeports": "drop"},
    ),
}


@pytest.mark.parametrize(("spec", "endpoints", "expected"), INTERNAL.values(), ids=INTERNAL)
def test_policies_lead_to_verdicts(spec: Document, endpoints: list[Any], expected: dict[str, str]) -> None:
    """As upstream: rejected if nothing serves anywhere, dropped if something serves on another node."""
    _, table = ruled(service(**spec), endpoint_slice(*endpoints))
    assert verdicts(table.partial()) == expected


def test_commands_for_one_endpoint_do_not_grow_with_their_number() -> None:
    """A thousand endpoints: one more, one less and one in the middle less take the same few short commands."""
    first = [f"10.1.{number // 250}.{1 + number % 250}" for number in range(1000)]
    made, table = ruled(service(), endpoint_slice(*first))
    assert table.partial() != []
    for changed in ([*first, "10.9.0.1"], first, first[:500] + first[501:]):
        put(made, endpoint_slice(*changed))
        commands = table.partial()
        assert len(commands) <= 6
        assert sum(map(len, commands)) < 1000
        assert not any("10.1.2." in line and line.count("10.1.") > 4 for line in commands)


def test_nothing_changes_without_a_change() -> None:
    made, table = ruled(service(), endpoint_slice(ONE))
    table.partial()
    put(made, service(), endpoint_slice(ONE), {**service(), "status": {"loadBalancer": {}}})
    assert table.partial() == []


def test_shared_endpoint_stays_a_hairpin_until_its_last_service_goes() -> None:
    """Two Services select one pod: the element that masquerades its own connections is there once."""
    made, table = ruled(service(), endpoint_slice(ONE), service("other", "10.96.0.11"), endpoint_slice(ONE, of="other"))
    assert sum("hairpin" in line for line in table.partial()) == 1
    made.remove_service(as_service(service()))
    made.update_tables()
    assert not any("hairpin" in line for line in table.partial())
    made.remove_service(as_service(service("other")))
    made.update_tables()
    assert [line for line in table.partial() if "hairpin" in line] == [
        f"delete element ip pykubelet-proxy hairpin-connections {{ {ONE} . {ONE} . tcp . 8080 }}"
    ]


def test_conflicting_external_address_belongs_to_one_service_at_a_time() -> None:
    """The first Service keeps an address that a second one claims too, and the second gets it when the first goes."""
    first, second = service(externalIPs=["203.0.113.1"]), service("other", "10.96.0.11", externalIPs=["203.0.113.1"])
    made, table = ruled(first, endpoint_slice(ONE), second, endpoint_slice(TWO, of="other"))
    chain = next(line for line in table.partial() if "service-ips" in line and "203.0.113.1" in line)
    assert "shop/web/tcp" in chain.partition("203.0.113.1")[2].partition(",")[0]
    made.remove_service(as_service(first))
    made.update_tables()
    moved = [line for line in table.partial() if "203.0.113.1" in line and line.startswith("add")]
    assert "shop/other/tcp" in moved[0]


def test_stale_chain_is_emptied_first_and_deleted_later() -> None:
    """Kernels before 6.2 refuse to delete a chain together with the element that led to it."""
    made, table = ruled(service(), endpoint_slice(ONE))
    table.partial()
    made.remove_service(as_service(service()))
    made.update_tables()
    commands = table.partial()
    assert any(line.startswith("flush chain") for line in commands)
    assert not any(line.startswith("delete chain") for line in commands)
    assert table.delete_stale_chains() == []
    assert len(table.delete_stale_chains()) == 1
    assert not table.has_stale_chains


def test_stale_chain_that_is_wanted_again_is_kept() -> None:
    made, table = ruled(service(), endpoint_slice(ONE))
    table.partial()
    for change in (made.remove_service, made.put_service):
        change(as_service(service()))
        made.update_tables()
        table.partial()
        assert table.delete_stale_chains() == []
    assert table.delete_stale_chains() == []


def test_udp_frontends_name_what_serves() -> None:
    """A node port counts only while something serves: its connections may be another program's."""
    spec: dict[str, Any] = {"type": "NodePort", "ports": [{"port": 53, "protocol": "UDP", "nodePort": 30053}]}
    ports = [{"name": "", "port": 5353, "protocol": "UDP"}]
    made, _ = ruled()
    made.put_node(["192.0.2.1"])
    put(made, service(**spec), endpoint_slice(ONE, ports=ports))
    assert set(made.udp_frontends(made.udp_ports())) == {(IP, 53), ("192.0.2.1", 30053)}
    put(made, endpoint_slice(endpoint(ONE, ready=False, serving=False), ports=ports))
    assert set(made.udp_frontends(made.udp_ports())) == {(IP, 53)}
