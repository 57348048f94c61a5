"""Where the pods of a node come from: each source that its settings name."""

from dataclasses import dataclass

from pykubelet.agent.flow import Source
from pykubelet.agent.heartbeat import OwnNode
from pykubelet.agent.sources import (
    ApiServerSource,
    FileSource,
    MirrorsFirst,
    PodConfig,
    ReportedProblems,
    SourcesReady,
    UrlSource,
)
from pykubelet.agent.sources.mirrors_first import Runs
from pykubelet.app.node_ground import Ground
from pykubelet.app.running import Runner, with_event
from pykubelet.app.settings import CannotStart


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSources:
    """All sources, merged."""

    config: PodConfig
    ready: SourcesReady
    problems: ReportedProblems
    runners: dict[str, Runner]


def node_sources(ground: Ground, own_node: OwnNode) -> NodeSources:
    """All of it; CannotStart if there is no source, or one that cannot be."""
    config = PodConfig(clock=ground.clock, recorder=ground.recorder, trail=ground.trail)
    problems = ReportedProblems(recorder=ground.recorder, node=ground.reference)
    runners: dict[str, Runner] = {"pod config": with_event(config.run)}
    if ground.client is not None:
        api = ApiServerSource(
            client=ground.client,
            node_name=ground.name,
            node_known=own_node.is_known,
            channel=config.channel(Source.API),
            clock=ground.clock,
        )
        runners["pods of the API server"] = with_event(api.run)
    static = _static_sources(ground, config, problems)
    runners |= {name: with_event(_after_mirrors(source, ground, config).run) for name, source in static.items()}
    if not config.sources():
        raise CannotStart("there is nothing to run: name a kubeconfig, a folder of manifests or a URL of manifests")
    return NodeSources(config=config, ready=SourcesReady(config), problems=problems, runners=runners)


def _after_mirrors(source: Runs, ground: Ground, config: PodConfig) -> Runs:
    if ground.client is None:
        return source
    delivered = config.channel(Source.API).delivered
    return MirrorsFirst(source, delivered=delivered, runtime=ground.runtime.runtime)


def _static_sources(ground: Ground, config: PodConfig, problems: ReportedProblems) -> dict[str, Runs]:
    settings = ground.settings
    found: dict[str, Runs] = {}
    if settings.manifests:
        found["pods of files"] = FileSource(
            paths=settings.manifests,
            node_name=ground.name,
            channel=config.channel(Source.FILE),
            problems=problems,
            allow_references=settings.with_server,
            skips_other_kinds=settings.with_server,
        )
    if settings.manifest_url:
        try:
            found["pods of a URL"] = UrlSource(
                url=settings.manifest_url,
                node_name=ground.name,
                channel=config.channel(Source.HTTP),
                problems=problems,
                headers=settings.manifest_url_headers,
                allow_references=settings.with_server,
            )
        except ValueError as error:
            raise CannotStart(str(error)) from error
    return found
