"""A node checked against the CIS benchmark: items pass, fail, or do not apply."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pykubelet.app.node_record import CisFacts, CisFile, FileFacts, NodeRecord, ServerFacts
from pykubelet.cli.actions.check import CisResult, findings, has_failed

NOW = datetime(2026, 1, 2, tzinfo=UTC)
NODE = 1000
RECORD = NodeRecord(
    node_name="machine",
    runtime="containerd",
    address="127.0.0.1",
    port=10250,
    kubeconfig="/etc/node.kubeconfig",
    has_client_authority=True,
    asks_api_server=True,
    idle_seconds=14400.0,
    event_burst=25,
    pod_max_pids=4096,
    limits_pids=True,
    seccomp_default=True,
)
SERVER = ServerFacts(anonymous_code=401, valid_until=NOW + timedelta(days=300))
FILES = {part: FileFacts(path=f"/x/{part.name.lower()}", mode=0o600, uid=0, gid=0) for part in CisFile}
GOOD = CisFacts(
    record=RECORD,
    files=FILES,
    server=SERVER,
    owner=(NODE, NODE),
    hostname="Machine",
    service_text="[Service]\nIPAddressDeny = any\n",
    now=NOW,
)
FILE_ITEMS = {
    CisFile.SERVICE: ("4.1.1", "4.1.2"),
    CisFile.KUBECONFIG: ("4.1.5", "4.1.6"),
    CisFile.CLIENT_AUTHORITY: ("4.1.7", "4.1.8"),
    CisFile.SETTINGS: ("4.1.9", "4.1.10"),
}


def verdicts(facts: CisFacts) -> dict[str, CisResult]:
    return {finding.id: finding.verdict for finding in findings(facts)}


def with_record(**changes: Any) -> CisFacts:
    return replace(GOOD, record=replace(RECORD, **changes))


def with_server(**changes: Any) -> CisFacts:
    return replace(GOOD, server=replace(SERVER, **changes))


def test_compliant_node_passes() -> None:
    """Every applicable item passes, and every finding shows what was seen."""
    found = findings(GOOD)
    assert [finding.id for finding in found] == [
        *(f"4.1.{number}" for number in range(1, 11)),
        *(f"4.2.{number}" for number in range(1, 16)),
    ]
    assert not has_failed(found)
    assert [one.id for one in found if one.verdict is CisResult.NOT_APPLICABLE] == ["4.1.3", "4.1.4", "4.2.6"]
    assert all(finding.seen and not finding.advice for finding in found)


@pytest.mark.parametrize(
    ("facts", "failed"),
    [
        (with_server(anonymous_code=200), ["4.2.1"]),
        (with_record(asks_api_server=False), ["4.2.2"]),
        (with_record(has_client_authority=False), ["4.2.3"]),
        (with_record(idle_seconds=0.0), ["4.2.5"]),
        (with_record(node_name="another"), ["4.2.7"]),
        (with_record(event_burst=0), ["4.2.8"]),
        (replace(GOOD, files={**FILES, CisFile.KEY: replace(FILES[CisFile.KEY], mode=0o640)}), ["4.2.9"]),
        (with_record(rotate_certificates=False), ["4.2.10"]),
        (with_server(valid_until=NOW + timedelta(days=10)), ["4.2.11"]),
        (with_server(weak_cipher="AES128-SHA of TLSv1.2"), ["4.2.12"]),
        (with_record(pod_max_pids=-1), ["4.2.13"]),
        (with_record(limits_pids=False), ["4.2.13"]),
        (with_record(seccomp_default=False), ["4.2.14"]),
        (replace(GOOD, service_text="[Service]\n"), ["4.2.15"]),
        (replace(GOOD, server=None), ["4.2.1", "4.2.2", "4.2.3", "4.2.5", "4.2.9", "4.2.11", "4.2.12"]),
    ],
)
def test_each_wrong_fact_fails_only_its_items_with_advice(facts: CisFacts, failed: list[str]) -> None:
    """A node that does not answer does not count as safe."""
    found = [finding for finding in findings(facts) if finding.verdict is CisResult.BAD]
    assert [finding.id for finding in found] == failed
    assert all(finding.advice for finding in found)
    assert has_failed(found)


@given(st.sampled_from(sorted(FILE_ITEMS)), st.integers(0, 0o777), st.integers(0, 2000), st.integers(0, 2000))
def test_files_need_strict_modes_and_owners(part: CisFile, mode: int, uid: int, gid: int) -> None:
    """Files are owned by root or the node's user and private to them, except a CA, which anyone may read."""
    facts = replace(GOOD, files={**FILES, part: FileFacts(path="/x", mode=mode, uid=uid, gid=gid)})
    by_mode, by_owner = FILE_ITEMS[part]
    most = 0o644 if part is CisFile.CLIENT_AUTHORITY else 0o600
    found = verdicts(facts)
    assert (found[by_mode] is CisResult.GOOD) == (mode | most == most)
    assert (found[by_owner] is CisResult.GOOD) == ({uid, gid} <= {0, NODE})


@pytest.mark.parametrize(
    ("facts", "items"),
    [
        (replace(GOOD, files={}), ["4.1.1", "4.1.2", "4.1.5", "4.1.7", "4.1.9", "4.2.15"]),
        (replace(with_record(port=0), server=None), ["4.2.1", "4.2.2", "4.2.3", "4.2.9", "4.2.11", "4.2.12"]),
        (with_record(kubeconfig=""), ["4.2.10"]),
        (with_record(runtime="process"), ["4.2.14"]),
        (with_record(runtime="sim"), ["4.2.13", "4.2.14"]),
    ],
    ids=["no files", "no API", "one process", "processes", "simulation"],
)
def test_missing_facts_make_items_not_applicable(facts: CisFacts, items: list[str]) -> None:
    found = verdicts(facts)
    assert {found[item] for item in items} == {CisResult.NOT_APPLICABLE}
