"""What a container runs with: command, environment and mounts.

A `PodSettings` for the runtime: everything a container refers to is looked up, and what it mounts is made. Whatever is
missing is a RuntimeFailure, which the user sees as the container waiting with CreateContainerConfigError.

Upstream: GenerateRunContainerOptions in pkg/kubelet/kubelet_pods.go
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from pykubelet.agent.volumes import hosts
from pykubelet.agent.volumes.awaited import AwaitedObjects
from pykubelet.agent.volumes.container_files import make_termination_file, write_hosts_file
from pykubelet.agent.volumes.env import AnyContainer, Surroundings, environment, wanted_names
from pykubelet.agent.volumes.expansion import expand_all
from pykubelet.agent.volumes.field_ref import Addresses
from pykubelet.agent.volumes.interest import Named
from pykubelet.agent.volumes.mount_plan import (
    HOSTS_PATH,
    PlannedMount,
    ReadyVolume,
    absolute,
    plan_mounts,
    wants_hosts_file,
)
from pykubelet.agent.volumes.mounting import Mounter
from pykubelet.agent.volumes.objects import NodeFacts, PodObjects
from pykubelet.agent.volumes.pod_dirs import PodDir
from pykubelet.agent.volumes.problems import ConfigProblem
from pykubelet.agent.volumes.sub_paths import bind_sub_path
from pykubelet.agent.volumes.turns import in_thread
from pykubelet.api.generated.core import Pod, Service
from pykubelet.api.keys import PodUid
from pykubelet.runtime.protocol import Mount, RuntimeFailure
from pykubelet.runtime.start_container import ContainerSettings


class Volumes(Protocol):
    """The volumes of pods."""

    def directory(self, uid: str) -> PodDir:
        """Where the things of a pod are."""

    def volumes(self, uid: PodUid) -> Mapping[str, ReadyVolume]:
        """Those that are ready, by name."""


class Services(Protocol):
    """The services of the cluster."""

    def services(self) -> tuple[Service, ...] | None:
        """All of them; None as long as the API server has not told."""


class ContainerSetup:
    """Settings of containers on this node. Owned by one loop; the disk is worked on in threads."""

    def __init__(
        self,
        *,
        volumes: Volumes,
        objects: PodObjects,
        awaited: AwaitedObjects,
        services: Services,
        node: NodeFacts,
        mounter: Mounter,
        cluster_domain: str,
    ) -> None:
        self._volumes, self._objects, self._services, self._node = volumes, objects, services, node
        self._awaited = awaited
        self._mounter, self._cluster_domain = mounter, cluster_domain

    def hostname(self, pod: Pod) -> str:
        """The name the pod's machine has in its own eyes; RuntimeFailure if its spec makes none."""
        try:
            names = hosts.host_names(pod, self._cluster_domain)
            return hosts.kernel_hostname(names, as_fqdn=bool(pod.spec.set_hostname_as_fqdn))
        except ConfigProblem as problem:
            raise RuntimeFailure(str(problem)) from problem

    async def container(
        self, pod: Pod, container: AnyContainer, ips: Sequence[str], *, attempt: int
    ) -> ContainerSettings:
        """What a container is to run with; RuntimeFailure if something it refers to is missing.

        Makes the files it mounts, of which those for last words are one for each attempt.
        """
        try:
            variables = await self._environment(pod, container, ips)
            planned = plan_mounts(container, self._volumes.volumes(PodUid(pod.metadata.uid)), variables)
            mounts = await in_thread(self._mounts, pod, container, tuple(ips), planned, attempt)
        except (ConfigProblem, OSError) as problem:
            raise RuntimeFailure(str(problem)) from problem
        return ContainerSettings(
            command=expand_all(container.command, variables),
            args=expand_all(container.args, variables),
            environment=tuple(variables.items()),
            mounts=mounts,
        )

    async def _environment(self, pod: Pod, container: AnyContainer, ips: Sequence[str]) -> dict[str, str]:
        names, namespace, uid = wanted_names(container), pod.metadata.namespace, PodUid(pod.metadata.uid)
        wanted = [
            *(Named("configmap", namespace, name) for name in names.config_maps),
            *(Named("secret", namespace, name) for name in names.secrets),
        ]
        self._awaited.expect(uid, container.name, wanted)
        lookups = await self._objects.look_up(namespace, config_maps=names.config_maps, secrets=names.secrets)
        surroundings = Surroundings(
            lookups=lookups,
            services=self._services.services(),
            addresses=Addresses(pod_ips=tuple(ips), host_ips=self._node.host_ips()),
            allocatable=self._node.allocatable(),
        )
        variables = environment(pod, container, surroundings)
        self._awaited.expect(uid, container.name, ())
        return variables

    def _mounts(
        self,
        pod: Pod,
        container: AnyContainer,
        ips: tuple[str, ...],
        planned: tuple[PlannedMount, ...],
        attempt: int,
    ) -> tuple[Mount, ...]:
        directory = self._volumes.directory(pod.metadata.uid)
        mounts = [self._mount(directory, mount, container.name) for mount in planned]
        if wants_hosts_file(pod, container, ips):
            write_hosts_file(directory.hosts_file, self._hosts_text(pod, ips))
            mounts.append(Mount(host_path=directory.hosts_file, container_path=HOSTS_PATH))
        if container.termination_message_path:
            path = directory.termination_file(container.name, attempt)
            make_termination_file(path)
            mounts.append(Mount(host_path=path, container_path=absolute(container.termination_message_path)))
        return tuple(mounts)

    def _mount(self, directory: PodDir, planned: PlannedMount, container: str) -> Mount:
        is_whole = planned.sub_path in {"", "."}
        return Mount(
            host_path=planned.volume_path if is_whole else bind_sub_path(directory, planned, container, self._mounter),
            container_path=planned.container_path,
            read_only=planned.read_only,
            propagation=planned.propagation,
        )

    def _hosts_text(self, pod: Pod, ips: tuple[str, ...]) -> str:
        if pod.spec.host_network:
            return hosts.host_network_hosts_file(Path(HOSTS_PATH).read_text(errors="replace"), pod.spec.host_aliases)
        return hosts.hosts_file(hosts.host_names(pod, self._cluster_domain), ips, pod.spec.host_aliases)
