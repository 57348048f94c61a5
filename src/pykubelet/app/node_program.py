"""`pykubelet node` as a program: a node for an API server, or on its own."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace

from pykubelet.aio.clock import Clock
from pykubelet.app import program
from pykubelet.app.node import open_node
from pykubelet.app.node_join import connected, has_joined
from pykubelet.app.program import Say, tune_garbage_collection
from pykubelet.app.running import running
from pykubelet.app.settings import NodeSettings
from pykubelet.nodeapi.stats.metric_pages import Collector


def run(settings: NodeSettings, *, say: Say) -> None:
    """Be a node until SIGINT or SIGTERM; containers go on running. CannotStart if that is not possible."""

    async def main(clock: Clock, stop: asyncio.Event) -> None:
        async with AsyncExitStack() as stack:
            told, client, server, collectors = settings, None, None, tuple[Collector, ...]()
            if settings.kubeconfig is not None:
                if not await has_joined(settings, settings.kubeconfig, clock=clock, stop=stop):
                    return
                joined = await stack.enter_async_context(connected(settings, settings.kubeconfig, clock=clock))
                client, server, collectors = joined.client, joined.server, (joined.requests,)
                told = replace(settings, only_named_objects=joined.is_node)
            opened = open_node(told, client=client, server=server, clock=clock, collectors=collectors)
            node = await stack.enter_async_context(opened)

            async def announce() -> None:
                await node.until_ready()
                say(f"ready node {settings.node_name}")
                tune_garbage_collection()

            await stack.enter_async_context(running({"announcement": announce}))
            if settings.page is not None:
                # What only the page needs is nobody else's start.
                from pykubelet.app.page import Cluster, open_page

                around = Cluster(client=client, url=server.url if server is not None else "")
                page = open_page(settings.page, node=node, cluster=around, folder=settings.root_dir, say=say)
                await stack.enter_async_context(page)
            await stop.wait()
            await node.shutdown.shut_down()

    program.run(main)
