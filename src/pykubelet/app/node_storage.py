"""What the pods of a node have on disk: volumes, the files of containers, their last words."""

from dataclasses import dataclass

from pykubelet.agent.inbox import LoopInbox
from pykubelet.agent.volumes.awaited import AwaitedObjects
from pykubelet.agent.volumes.container_setup import ContainerSetup
from pykubelet.agent.volumes.last_words import LastWords
from pykubelet.agent.volumes.manager import VolumeManager
from pykubelet.agent.volumes.termination import TerminationMessages
from pykubelet.agent.volumes.tokens import TokenCache
from pykubelet.app.node_api import NodeApi
from pykubelet.app.node_ground import Ground
from pykubelet.app.running import Runner, with_event
from pykubelet.runtime.log_paths import pod_names


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStorage:
    """Everything on disk."""

    volumes: VolumeManager
    setup: ContainerSetup
    last_words: LastWords
    awaited: AwaitedObjects
    runners: dict[str, Runner]


def node_storage(ground: Ground, api: NodeApi, inbox: LoopInbox) -> NodeStorage:
    """All of it."""
    root, logs = str(ground.settings.root_dir), ground.logs
    volumes = VolumeManager(
        root=root,
        objects=api.objects,
        tokens=TokenCache(source=ground.client, clock=ground.clock),
        node=api.own_node,
        mounter=ground.mounter,
        recorder=ground.recorder,
        clock=ground.clock,
    )
    awaited = AwaitedObjects(objects=api.objects, arrived=inbox.objects_arrived)
    setup = ContainerSetup(
        volumes=volumes,
        objects=api.objects,
        awaited=awaited,
        services=api.services,
        node=api.own_node,
        mounter=ground.mounter,
        cluster_domain=ground.settings.cluster_domain,
    )
    last_words = LastWords(
        messages=TerminationMessages(root),
        log_path=lambda pod, container: logs.path(pod_names(pod), container.name, container.attempt),
    )
    runners = {"volumes": with_event(volumes.run), "awaited objects": with_event(awaited.run)}
    return NodeStorage(volumes=volumes, setup=setup, last_words=last_words, awaited=awaited, runners=runners)
