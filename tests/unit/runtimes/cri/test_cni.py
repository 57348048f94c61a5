"""The network configuration that a node writes for its CRI runtime, and which one it leaves alone."""

import json
from pathlib import Path

import pytest

from pykubelet.runtimes.cri import cni
from pykubelet.runtimes.cri.cni import CniFolders, CniNetwork, cni_folders, network_config


def network(folder: Path, cidr: str = "10.244.3.0/24") -> CniNetwork:
    return CniNetwork(pod_cidr=cidr, cluster_cidr="10.244.0.0/16", folder=folder / "leases")


@pytest.fixture
def folders(tmp_path: Path) -> CniFolders:
    """A machine with the plugins and no configuration."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("ptp", "host-local", "portmap"):
        (programs / name).touch()
    return CniFolders(tmp_path / "net.d", (tmp_path / "none", programs))


def test_configuration_is_written_where_none_is(folders: CniFolders, tmp_path: Path) -> None:
    assert cni._write(network(tmp_path), folders)
    (written,) = folders.configurations.iterdir()
    assert written.name == "10-pykubelet.conflist"
    plugins = json.loads(written.read_text())["plugins"]
    assert [plugin["type"] for plugin in plugins] == ["ptp", "portmap"]
    assert plugins[0]["ipam"]["ranges"] == [[{"subnet": "10.244.3.0/24"}]]
    assert plugins[0]["ipMasq"] is False


def test_changed_range_rewrites_our_configuration(folders: CniFolders, tmp_path: Path) -> None:
    assert cni._write(network(tmp_path), folders)
    path = folders.configurations / cni.FILE
    before = path.stat().st_ino
    assert cni._write(network(tmp_path), folders)
    assert path.stat().st_ino == before
    assert cni._write(network(tmp_path, "10.244.4.0/24"), folders)
    assert path.read_text() == network_config(network(tmp_path, "10.244.4.0/24"))


@pytest.mark.parametrize("name", ["10-calico.conflist", "99-bridge.conf", "a.json"])
def test_configuration_of_another_program_is_left_alone(folders: CniFolders, tmp_path: Path, name: str) -> None:
    """Ours goes when it appears, which would otherwise come first in the order of names."""
    assert cni._write(network(tmp_path), folders)
    other = folders.configurations / name
    other.write_text("theirs")
    assert not cni._write(network(tmp_path), folders)
    assert [each.name for each in folders.configurations.iterdir()] == [name]
    assert other.read_text() == "theirs"


def test_nothing_is_written_without_the_plugins(folders: CniFolders, tmp_path: Path) -> None:
    assert not cni._write(network(tmp_path), CniFolders(folders.configurations, (tmp_path / "none",)))
    assert not folders.configurations.exists()


@pytest.mark.parametrize(
    ("config", "found"),
    [
        ('{"cni": {"confDir": "/c", "binDirs": ["/b", "/d"]}}', CniFolders(Path("/c"), (Path("/b"), Path("/d")))),
        ('{"cni": {"confDir": "/c", "binDir": "/b"}}', CniFolders(Path("/c"), (Path("/b"),))),
        ("", CniFolders(Path("/etc/cni/net.d"), (Path("/opt/cni/bin"), Path("/usr/lib/cni")))),
        ("[]", CniFolders(Path("/etc/cni/net.d"), (Path("/opt/cni/bin"), Path("/usr/lib/cni")))),
    ],
)
def test_folders_are_those_of_the_runtime(config: str, found: CniFolders) -> None:
    assert cni_folders(config) == found
