"""How a node is: the pressures it is under, and its end."""

import asyncio

from pykubelet.agent.health import NodeHealth
from pykubelet.agent.pressure import Evictor, PodMeter, PodPaths, PressureWatch
from pykubelet.agent.shutdown import NodeShutdown
from pykubelet.agent.shutdown_plan import shutdown_periods
from pykubelet.agent.workers import PodKiller, WorkerPool, WorkerQueries
from pykubelet.api.generated.core import Pod
from pykubelet.api.keys import PodUid
from pykubelet.app.node_ground import Ground
from pykubelet.app.node_pods import NodePods
from pykubelet.app.node_storage import NodeStorage
from pykubelet.app.node_work import Stations
from pykubelet.app.settings import CannotStart
from pykubelet.runtime.file_system import read_file_system
from pykubelet.runtime.log_paths import pod_names


async def node_evictor(ground: Ground, stations: Stations, pool: WorkerPool, shutdown: NodeShutdown) -> Evictor:
    """Who measures the machine, and ends pods when it is short of something."""
    parts, root = ground.runtime, str(ground.settings.root_dir)
    watch = PressureWatch(
        reader=ground.signals,
        changed=stations.health.note_pressures,
        clock=ground.clock,
        thresholds=ground.thresholds,
        image_fs=parts.image_fs,
        node_device=(await asyncio.to_thread(read_file_system, root)).device,
    )
    places = PodPlaces(ground, stations.storage)
    return Evictor(
        watch=watch,
        meter=PodMeter(runtime=parts.runtime, usages=parts.usages, paths=places.paths),
        pods=EvictablePods(shutdown, stations.pods.queries),
        killer=PodKiller(workers=pool, recorder=ground.recorder),
        reclaimer=stations.containers.reclaimer,
        recorder=ground.recorder,
        node=ground.reference,
    )


class EvictablePods:
    """The pods that may be ended, and whether they have."""

    def __init__(self, shutdown: NodeShutdown, queries: WorkerQueries) -> None:
        self._shutdown, self._queries = shutdown, queries

    def active_pods(self) -> tuple[Pod, ...]:
        return self._shutdown.active_pods()

    def is_finished(self, uid: PodUid) -> bool:
        return self._queries.should_be_finished(uid)


class PodPlaces:
    """Where the things of a pod are that take room on the disk."""

    def __init__(self, ground: Ground, storage: NodeStorage) -> None:
        self._logs, self._volumes = ground.logs, storage.volumes

    def paths(self, pod: Pod) -> PodPaths:
        spec, uid = pod.spec, PodUid(pod.metadata.uid)
        logs, ready = self._logs.of_pod(pod_names(pod)), self._volumes.volumes(uid)
        directory = self._volumes.directory(uid)
        names = [one.name for one in (*spec.containers, *spec.init_containers)]
        names += [one.name for one in spec.ephemeral_containers]
        counted = [one.name for one in spec.volumes if one.name in ready and (one.empty_dir or one.config_map)]
        return PodPaths(
            logs={name: f"{logs}/{name}" for name in names},
            volumes={name: ready[name].path for name in counted},
            own_files=(directory.hosts_file, directory.termination_files),
        )


def node_shutdown(ground: Ground, known: NodePods, pool: WorkerPool, health: NodeHealth) -> NodeShutdown:
    """Who lets the node go down; CannotStart for grace periods that make no sense."""
    settings = ground.settings
    try:
        periods = shutdown_periods(settings.shutdown_grace_seconds, settings.shutdown_grace_seconds_critical)
    except ValueError as error:
        raise CannotStart(str(error)) from error
    return NodeShutdown(
        periods=periods,
        pods=known.pods,
        workers=known.queries,
        statuses=known.statuses,
        killer=PodKiller(workers=pool, recorder=ground.recorder),
        announce=health.note_shutdown,
        recorder=ground.recorder,
        node=ground.reference,
    )
