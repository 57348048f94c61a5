"""The resolv.conf of containers that are processes."""

from pathlib import Path

import pytest

from process_lab import IPS, Lab, stop_everything
from pykubelet.aio.clock import SystemClock
from pykubelet.aio.ids import RandomIds
from pykubelet.api.generated.core import PodDNSConfig
from pykubelet.runtimes.dns import ClusterDns, read_resolv_conf
from pykubelet.runtimes.process.runtime import ProcessRuntime
from pykubelet.runtimes.process.shim.rootfs import NO_NAMESPACE
from pykubelet.runtimes.protocol import Mount, RuntimeFailure
from requirements import needs_mount_namespaces

CLUSTER = ClusterDns(servers=("10.96.0.10",), domain="cluster.local")
SHOW = ("/bin/cat", "/etc/resolv.conf")


def runtime(root: Path, way: str | None = None) -> ProcessRuntime:
    return ProcessRuntime(root=root, ips=IPS, clock=SystemClock(), ids=RandomIds(), way=way, cluster_dns=CLUSTER)


@needs_mount_namespaces
async def test_pods_find_the_names_of_their_cluster(tmp_path: Path) -> None:
    """With search path and ndots; pods that ask for the machine's resolver keep it; nothing changes for the machine."""
    before = read_resolv_conf()
    async with runtime(tmp_path / "state") as found:
        lab = Lab(found, tmp_path)
        lines = (await lab.output_of(*SHOW)).splitlines()
        assert lines[0] == "nameserver 10.96.0.10"
        host = read_resolv_conf().searches
        assert lines[1].split() == ["search", "default.svc.cluster.local", "svc.cluster.local", "cluster.local", *host]
        assert lines[2] == "options ndots:5"
        for spec in ({"dns_policy": "Default"}, {"dns_policy": "ClusterFirst", "host_network": True}):
            assert "10.96.0.10" not in await lab.output_of(*SHOW, pod=spec)
        assert "10.96.0.10" in await lab.output_of(
            *SHOW, pod={"host_network": True, "dns_policy": "ClusterFirstWithHostNet"}
        )
        own = {"dns_policy": "None", "dns_config": PodDNSConfig(nameservers=("192.0.2.3",), searches=("a.test",))}
        assert await lab.output_of(*SHOW, pod=own) == "nameserver 192.0.2.3\nsearch a.test\n"
        await stop_everything(found)
    assert read_resolv_conf() == before


@needs_mount_namespaces
async def test_file_that_a_container_mounts_itself_is_kept(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("nameserver 192.0.2.99\n")
    async with runtime(tmp_path / "state") as found:
        mount = Mount(host_path=str(mine), container_path="/etc/resolv.conf")
        assert await Lab(found, tmp_path).output_of(*SHOW, mounts=[mount]) == mine.read_text()


async def test_dns_settings_are_refused_where_nothing_can_be_mounted(tmp_path: Path) -> None:
    """A pod that only relies on the default uses the machine's name servers."""
    async with runtime(tmp_path / "state", NO_NAMESPACE) as found:
        lab = Lab(found, tmp_path)
        assert "10.96.0.10" not in await lab.output_of(*SHOW)
        with pytest.raises(RuntimeFailure, match="DNS settings"):
            await lab.create(*SHOW, pod={"dns_config": PodDNSConfig(nameservers=("192.0.2.3",))})
