"""What a node knows from the API server and tells it of itself; without one, nothing."""

import asyncio
from dataclasses import dataclass

from pykubelet.agent.health import NodeHealth
from pykubelet.agent.heartbeat import NodeLease, NodeReporter, OwnNode, Situation, Surroundings, initial_node
from pykubelet.agent.refs import (
    CacheOptions,
    ConfigMapManager,
    PodReferences,
    RuntimeClasses,
    SecretManager,
    ServiceList,
)
from pykubelet.agent.volumes.objects import PodObjects
from pykubelet.app.node_ground import Ground
from pykubelet.app.running import Runner, with_event


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeApi:
    """What is known from the API server."""

    own_node: OwnNode
    services: ServiceList
    runtime_classes: RuntimeClasses
    references: PodReferences
    objects: PodObjects
    runners: dict[str, Runner]


def node_api(ground: Ground) -> NodeApi:
    """All of it."""
    client, clock = ground.client, ground.clock
    initial, _ = initial_node(ground.about, Situation(now=clock.now(), machine=ground.machine_now))
    own_node = OwnNode(initial=initial, client=client, clock=clock)
    services = ServiceList(client=client, clock=clock)
    runners: dict[str, Runner] = {"own node": with_event(own_node.run), "services": with_event(services.run)}
    secrets = config_maps = None
    if client is not None:
        options = CacheOptions(single_object_watches=ground.settings.only_named_objects)
        secrets, config_maps = (
            SecretManager(client=client, clock=clock, options=options),
            ConfigMapManager(client=client, clock=clock, options=options),
        )
        runners |= {"secrets": with_event(secrets.run), "config maps": with_event(config_maps.run)}
    if ground.event_writer is not None:
        runners["events"] = with_event(ground.event_writer.run)
    return NodeApi(
        own_node=own_node,
        services=services,
        runtime_classes=RuntimeClasses(client=client),
        references=PodReferences(secrets=secrets, config_maps=config_maps),
        objects=PodObjects(config_maps=config_maps, secrets=secrets),
        runners=runners,
    )


def heartbeat(ground: Ground, own_node: OwnNode, health: NodeHealth, *, first_look: asyncio.Event) -> dict[str, Runner]:
    """What the node says of itself, if there is somebody to say it to."""
    client, clock = ground.client, ground.clock
    if client is None:
        return {}
    around = Surroundings(
        machine=ground.machine,
        health=health,
        images=ground.runtime.images,
        known_node=own_node.shown,
        first_look=first_look,
    )
    reporter = NodeReporter(
        settings=ground.about, client=client, surroundings=around, recorder=ground.recorder, clock=clock
    )
    health.on_change(reporter.poke)
    lease = NodeLease(node_name=ground.name, client=client, clock=clock)
    return {"node status": with_event(reporter.run), "node lease": with_event(lease.run)}
