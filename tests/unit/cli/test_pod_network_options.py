"""The options of the network of process pods."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from pykubelet.aio.clock import SystemClock
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
