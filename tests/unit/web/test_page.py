"""Responses of the page without a socket, and the order of its checks."""

import asyncio
from contextlib import AsyncExitStack
from itertools import count

import pytest

from pykubelet.aio.tasks import background_task
from pykubelet.api.errors import NotReached
from pykubelet.api.generated.core import ConfigMap, Secret
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.schema import Resource
from pykubelet.api.scheme import CONFIG_MAPS, SECRETS
from pykubelet.api.serializer import decode_document
from pykubelet.httpserver.request import HttpRequest
from pykubelet.httpserver.response import HttpResponse, HttpStream
from pykubelet.testing.build import pod
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import VirtualClock
from pykubelet.web.access import Sessions
from pykubelet.web.node_view import PodUsageHistory
from pykubelet.web.object_pages import ObjectPages
from pykubelet.web.page import MOST_STREAMS, PageAddress, WebPage, static_files
from pykubelet.web.pod_pages import PodPages
from pykubelet.web.routes import KEEP_ALIVE
from web_rig import PLACE, PORT, Browser, FeedRig, asked, told


class ServedApi(MemoryApi):
    """An API that also returns its served resources."""

    async def served(self) -> tuple[Resource, ...]:
        return (CONFIG_MAPS.resource, SECRETS.resource)


class PageRig:
    """A page, and a browser that is signed in."""

    def __init__(self, api: ServedApi | None = None) -> None:
        clock, numbers = VirtualClock(), count()
        self.rig, self.used = FeedRig(clock), 0
        self.sessions = Sessions(lambda: f"secret-{next(numbers)}")
        entrance = PageAddress(PORT, PLACE, self.sessions, "/data/<page-link>", self._note)
        node = self.rig.node
        pods = PodPages(
            node=node,
            tables=self.rig.tables,
            explain=node.explain,
            usage=PodUsageHistory(node.usages),
            open_log=node.open_log,
        )
        self.page = WebPage(entrance=entrance, live=self.rig.feed, pods=pods, objects=ObjectPages(api))
        self.cookie = f"pykubelet-page={self.sessions.redeem(self.sessions.key)}"

    async def _note(self) -> None:
        self.used += 1

    async def get(self, target: str, **caller: str) -> HttpResponse:
        """Returns a complete response to the signed-in browser."""
        found = await self.page.answer(asked(target, **{"cookie": self.cookie, **caller}))
        assert isinstance(found, HttpResponse)
        return found

    async def flow(self, target: str) -> HttpStream:
        found = await self.page.answer(asked(target, cookie=self.cookie))
        assert isinstance(found, HttpStream)
        return found


async def test_key_opens_the_page_once() -> None:
    """The browser gets a session cookie and a redirect to the page; a used key yields 403."""
    page = PageRig()
    key = page.sessions.key
    let_in = await page.get(f"/?key={key}", cookie="")
    headers = dict(let_in.headers)
    assert (let_in.code, headers["Location"], page.used) == (303, PLACE, 1)
    assert headers["Set-Cookie"].startswith("pykubelet-page=secret-")
    again = await page.get(f"/?key={key}", cookie="")
    assert (again.code, page.used) == (403, 1)
    assert b"used before" in again.body
    assert b"/data/&lt;page-link&gt;" in again.body
    assert b"opens with a link" in (await page.get("/", cookie="")).body
    assert b"Continue" in (await page.get(PLACE, cookie="")).body


REFUSED = {
    "another name": (asked(PLACE, host="evil.example"), 421),
    "a change": (asked(PLACE, "DELETE"), 405),
    "nothing": (asked("/nothing"), 404),
    "not signed in": (asked(f"{PLACE}stream"), 401),
    "no file": (asked("/static/nothing.js"), 404),
    "a file that is none of the page's": (asked("/static/..%2fpage.py"), 404),
}


@pytest.mark.parametrize(("request_", "code"), REFUSED.values(), ids=REFUSED)
async def test_each_check_rejects_with_its_status_code(request_: HttpRequest, code: int) -> None:
    found = await PageRig().page.answer(request_)
    assert isinstance(found, HttpResponse)
    assert found.code == code


async def test_data_is_denied_to_other_origins() -> None:
    """Even when the browser is signed in."""
    page = PageRig()
    assert (await page.get(f"{PLACE}kinds", fetch_site="same-site")).code == 403
    assert (await page.get(PLACE, fetch_site="cross-site")).code == 200


async def test_stream_begins_with_the_full_state_and_sends_keepalives() -> None:
    """A browser that disconnects frees its place."""
    page = PageRig()
    page.rig.node.put(pod("web"))
    for _ in range(MOST_STREAMS + 1):
        browser = Browser(stay=2)
        await browser.read((await page.flow(f"{PLACE}stream")).copy)
        assert told(browser.messages[0])[0] == "start"
        assert browser.messages[1] == KEEP_ALIVE


async def test_slow_browser_gets_the_full_state_again() -> None:
    """Changes it missed are not kept for it."""
    page = PageRig()
    browser = Browser(stay=2, pause_seconds=200)
    stream = await page.flow(f"{PLACE}stream")
    async with (
        background_task(page.rig.feed.run(asyncio.Event()), "feed"),
        background_task(browser.read(stream.copy), "browser") as task,
    ):
        for number in range(200):
            page.rig.feed.pod_changed(page.rig.node.put(pod(f"pod-{number}")))
            await asyncio.sleep(0.5)
        await task
    first, second = (told(message) for message in browser.messages)
    assert (first[0], len(first[1]["pods"])) == ("start", 1)
    assert (second[0], len(second[1]["pods"])) == ("start", 200)


async def test_number_of_open_streams_is_limited() -> None:
    """One more stream gets 503."""
    page = PageRig()
    async with AsyncExitStack() as stack:
        for number in range(MOST_STREAMS):
            stream = await page.flow(f"{PLACE}stream")
            browser = Browser(stay=9, pause_seconds=1000)
            await stack.enter_async_context(background_task(browser.read(stream.copy), f"browser {number}"))
        await asyncio.sleep(1)
        assert (await page.get(f"{PLACE}stream")).code == 503


async def test_pod_is_shown_with_why_and_containers() -> None:
    """An unknown pod yields 404."""
    page = PageRig()
    page.rig.node.put(pod("web"))
    shown = decode_document((await page.get(f"{PLACE}pods/default/web")).body)
    assert shown["why"]["waitsFor"]["step"] == "nothing"
    assert [one["name"] for one in shown["containers"]] == ["main"]
    assert shown["row"]["key"] == "default/web"
    assert (await page.get(f"{PLACE}pods/default/other")).code == 404


async def test_log_is_streamed_or_a_missing_container_is_reported() -> None:
    """For the current run or the previous one."""
    page = PageRig()
    browser = Browser(stay=9)
    await browser.read((await page.flow(f"{PLACE}logs/default/web/main")).copy)
    await browser.read((await page.flow(f"{PLACE}logs/default/web/main?previous=true")).copy)
    assert browser.messages == [b"newest\n", b"previous\n"]
    missing = await page.get(f"{PLACE}logs/default/web/other")
    assert (missing.code, missing.body) == (404, b"there is no container other\n")


async def test_objects_are_listed_by_kind_and_shown_as_yaml() -> None:
    """Only kinds that the server serves; without an API server there are none."""
    api = ServedApi(VirtualClock())
    meta = ObjectMeta(name="words", namespace="default")
    await api.create(CONFIG_MAPS, ConfigMap(metadata=meta, data={"a": "b"}), namespace="default")
    await api.create(SECRETS, Secret(metadata=meta, data={"a": b"hunter2"}), namespace="default")
    page = PageRig(api)
    kinds = decode_document((await page.get(f"{PLACE}kinds")).body)
    assert [kind["kind"] for kind in kinds] == ["ConfigMap", "Secret"]
    query = "group=&version=v1&plural=configmaps"
    listed = decode_document((await page.get(f"{PLACE}objects?{query}")).body)
    assert [row["key"] for row in listed["rows"]] == ["default/words"]
    one = await page.get(f"{PLACE}object?{query}&namespace=default&name=words")
    assert b"kind: ConfigMap" in one.body
    hidden = await page.get(f"{PLACE}object?group=&version=v1&plural=secrets&namespace=default&name=words")
    assert b"a: (hidden, 12 characters)" in hidden.body
    assert (await page.get(f"{PLACE}object?{query}&namespace=default&name=other")).code == 404
    assert (await page.get(f"{PLACE}objects?plural=../secrets")).code == 404
    for part in ("kinds", "objects?a=b", "object?a=b"):
        assert (await PageRig().get(f"{PLACE}{part}")).code == 404


class SilentApi(ServedApi):
    """An API server that does not answer."""

    async def served(self) -> tuple[Resource, ...]:
        raise NotReached("no answer")


async def test_unreachable_api_server_yields_bad_gateway() -> None:
    page = PageRig(SilentApi(VirtualClock()))
    for part in ("kinds", "objects?plural=pods", "object?plural=pods"):
        found = await page.get(f"{PLACE}{part}")
        assert (found.code, found.body) == (502, b"no answer\n")


async def test_internal_error_yields_status_500() -> None:
    page = PageRig()
    page.rig.node.failure = ValueError("a mistake of ours")
    assert (await page.get(f"{PLACE}pods/default/web")).code == 500


def test_every_file_referenced_by_the_page_exists() -> None:
    """No file refers to an external address or has inline styles."""
    files = static_files()
    for name, file in files.items():
        text = file.content.decode()
        for other in files:
            assert text.count(f'from "./{other}"') <= 1
        named = [part.partition('"')[0] for part in text.split('from "./')[1:]]
        named += [part.partition('"')[0] for part in text.split('"/static/')[1:]]
        assert set(named) <= set(files), name
        assert "https://" not in text
        assert " style=" not in text
        assert "innerHTML" not in text
    assert {"index.html", "app.js", "page.css", "icon.svg"} <= set(files)
