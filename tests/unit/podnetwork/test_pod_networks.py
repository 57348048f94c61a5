"""Which addresses a new pod may get, and the table of the pods of a folder."""

from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pykubelet.podnetwork.masquerade import Masquerade, rules
from pykubelet.podnetwork.network_operations import free_addresses

RANGE = IPv4Network("10.244.0.0/29")
ADDRESSES = [str(address) for address in RANGE]


@given(st.sets(st.sampled_from(ADDRESSES)), st.sampled_from(["", "10.245.0.9", *ADDRESSES]))
def test_each_free_address_is_offered_once_beginning_after_the_last(taken: set[str], last: str) -> None:
    offered = list(free_addresses(RANGE, taken, last))
    assert sorted(offered) == [address for address in ADDRESSES[2:-1] if address not in taken]
    if last in ADDRESSES:
        # How far each is behind the last one, around the range.
        distances = [(int(IPv4Address(one)) - int(IPv4Address(last)) - 1) % RANGE.num_addresses for one in offered]
        assert distances == sorted(distances)


def test_rules_replace_those_of_an_earlier_agent_in_one_transaction() -> None:
    lines = rules("pykubelet-1", "10.244.0.0/24", "10.244.0.0/16").splitlines()
    assert lines[:3] == ["add table ip pykubelet-1", "delete table ip pykubelet-1", "table ip pykubelet-1 {"]
    assert "    ip saddr 10.244.0.0/24 ip daddr != 10.244.0.0/16 masquerade" in lines


def test_table_of_a_folder_has_one_name(tmp_path: Path) -> None:
    """Whatever path leads to it: another name would leave the table of an earlier agent with its host ports."""
    folder = tmp_path / "networks"
    (tmp_path / "link").symlink_to(tmp_path)
    names = {Masquerade(path, "").table for path in (folder, tmp_path / "link/networks", tmp_path / "x/../networks")}
    assert names == {Masquerade(folder, "").table}
    assert Masquerade(tmp_path / "other", "").table not in names
