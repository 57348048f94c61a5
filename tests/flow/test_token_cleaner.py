"""Expired bootstrap tokens are deleted when their time comes, on virtual time; nothing else is."""

import asyncio
from datetime import timedelta
from pathlib import Path

from pykubelet.aio.tasks import running, with_ready_event
from pykubelet.api.schema import SECRETS
from pykubelet.api.scheme import as_documents
from pykubelet.api.serializer import Document
from pykubelet.app.joining.command import create_token
from pykubelet.client.interface import PatchType
from pykubelet.controllers.bootstrap.tokencleaner import TokenCleaner
from pykubelet.kinds.bootstrap_token import SECRET_NAMESPACE
from pykubelet.testing.local_api import LocalApi, local_api
from pykubelet.testing.virtual_time import VirtualClock

KIND = as_documents(SECRETS)
CLOCK = VirtualClock()


async def names(api: LocalApi) -> set[str]:
    listed = await api.client.list(KIND, namespace=SECRET_NAMESPACE)
    return {each["metadata"]["name"] for each in listed.items}


async def test_each_token_goes_when_it_expires(tmp_path: Path) -> None:
    async with local_api(tmp_path, clock=CLOCK) as api:
        kept: Document = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "other"}, "type": "Opaque"}
        await api.client.create(
            KIND, kept | {"stringData": {"expiration": "2000-01-01T00:00:00Z"}}, namespace=SECRET_NAMESPACE
        )
        before = await create_token(api.client, CLOCK, seconds=60, description="")
        cleaner, ready = TokenCleaner(client=api.client, clock=CLOCK), asyncio.Event()
        async with running({"cleaner": with_ready_event(cleaner.run, ready)}):
            await ready.wait()
            after = await create_token(api.client, CLOCK, seconds=3600, description="")
            await asyncio.sleep(59)
            assert await names(api) == {"other", before.secret_name, after.secret_name}
            await asyncio.sleep(2)
            assert await names(api) == {"other", after.secret_name}
            longer = {"stringData": {"expiration": (CLOCK.now() + timedelta(hours=3)).strftime("%Y-%m-%dT%H:%M:%SZ")}}
            await api.client.patch(
                KIND, after.secret_name, longer, namespace=SECRET_NAMESPACE, patch_type=PatchType.MERGE
            )
            await asyncio.sleep(2 * 3600)
            assert await names(api) == {"other", after.secret_name}
            await asyncio.sleep(3610)
            assert await names(api) == {"other"}


async def test_token_that_expired_before_the_start_goes_at_once(tmp_path: Path) -> None:
    async with local_api(tmp_path, clock=CLOCK) as api:
        await create_token(api.client, CLOCK, seconds=60, description="")
        await asyncio.sleep(61)
        cleaner = TokenCleaner(client=api.client, clock=CLOCK)
        async with running({"cleaner": with_ready_event(cleaner.run)}):
            await asyncio.sleep(1)
            assert await names(api) == set()
