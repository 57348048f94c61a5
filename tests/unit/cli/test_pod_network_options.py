"""The options of the network of process pods."""

import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from pykubelet.aio.clock import SystemClock
from pykubelet.app.pod_network import choose_pod_network, expects_own_networks
from pykubelet.app.runtimes import open_runtime
from pykubelet.app.settings import CannotStart, NodeSettings
from pykubelet.cli.up import up


@pytest.mark.parametrize("text", ["10.0.0.0/31", "10.0.0.1/24", "fd00::/64", "pods"])
def test_range_without_addresses_for_pods_is_refused(text: str) -> None:
    refused = CliRunner().invoke(up, ["--pod-cidr", text])
    assert refused.exit_code == 2
    assert "Invalid value for '--pod-cidr'" in refused.output


async def test_own_networks_are_refused_to_an_ordinary_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    settings = NodeSettings(node_name="node-1", root_dir=tmp_path, runtime="process", pod_network="own")
    with pytest.raises(CannotStart, match="only root can give pods networks of their own"):
        async with open_runtime(settings, clock=SystemClock()):
            pass


async def test_ordinary_user_gets_the_machines_network_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    settings = NodeSettings(node_name="node-1", root_dir=tmp_path, pod_network="auto")
    assert not expects_own_networks(settings)
    assert await choose_pod_network(settings) == ("", "only root can give pods networks of their own")


async def test_machine_without_nft_shares_its_network_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pods would reach this machine and each other only."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda _name, **_options: None)
    settings = NodeSettings(node_name="node-1", root_dir=tmp_path, pod_network="auto")
    assert not expects_own_networks(settings)
    assert (await choose_pod_network(settings)).problem == "nft is not installed (Debian package nftables)"


async def test_host_network_is_chosen_without_a_look_at_the_machine(tmp_path: Path) -> None:
    settings = NodeSettings(node_name="node-1", root_dir=tmp_path, pod_network="host")
    assert await choose_pod_network(settings) == ("", "")
