"""From a browser's request to what is answered: the one order in which everything is checked and done.

    own host -> reading only -> route -> signed in -> file, data, or stream

Nothing here knows the HTTP library: `app.py` makes an `Asked` of its request and sends the `Outcome`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from pykubelet.aio.broadcast import Lagged
from pykubelet.aio.log import get_logger
from pykubelet.web.collaborators import LiveState, Write
from pykubelet.web.guard import Caller, is_from_elsewhere, is_own_host, session_cookie, session_of
from pykubelet.web.messages import HELLO, KEEP_ALIVE
from pykubelet.web.object_pages import ObjectPages
from pykubelet.web.pod_pages import PodPages
from pykubelet.web.replies import EVENT_STREAM, Flow, Outcome, Reply, see_other, sign_in, text
from pykubelet.web.routes import OPEN, Part, Route, route
from pykubelet.web.sessions import Sessions
from pykubelet.web.static_files import INDEX, static_files

log = get_logger(__name__)

MOST_STREAMS = 32
"""Browsers that look at once; each takes a little for every change."""
_KEEP_ALIVE_SECONDS = 15.0


class Asked(NamedTuple):
    """A request."""

    method: str
    target: str
    caller: Caller


class Entrance(NamedTuple):
    """Where the page is, who may see it, and where the next link lies."""

    port: int
    place: str
    """The path below which signed-in browsers work; nobody can guess it."""
    sessions: Sessions
    link_file: str
    key_used: Callable[[], Awaitable[None]]
    """Called when a link was used, so that the next one is written down."""


class Page:
    """Answers browsers."""

    def __init__(self, *, entrance: Entrance, live: LiveState, pods: PodPages, objects: ObjectPages) -> None:
        self._entrance, self._live, self._pods, self._objects = entrance, live, pods, objects
        self._streams = 0

    async def answer(self, asked: Asked) -> Outcome:
        """What to send; whatever goes wrong becomes a Reply."""
        if not is_own_host(asked.caller.host, self._entrance.port):
            return text(421, f"this page is at http://127.0.0.1:{self._entrance.port}/ and nowhere else")
        if asked.method not in {"GET", "HEAD"}:
            return text(405, "the page only shows")
        found = route(asked.target, self._entrance.place)
        if found is None:
            return text(404, "there is nothing here")
        if found.part not in OPEN and not self._is_signed_in(asked.caller):
            return self._refusal(found)
        if found.part not in OPEN | {Part.INDEX} and is_from_elsewhere(asked.caller.fetch_site):
            return text(403, "data is for the page itself")
        try:
            return await self._outcome(found, asked)
        except Exception as error:  # noqa: BLE001  whatever it is, the browser gets an answer and the program goes on
            log.error("page failed", error=error, part=found.part.value)
            return text(500, "something went wrong: see the program's log")

    async def _outcome(self, found: Route, asked: Asked) -> Outcome:
        match found.part:
            case Part.ENTRANCE:
                return await self._enter(found, asked)
            case Part.STATIC:
                return _static(found.names[0])
            case Part.INDEX:
                return _static(INDEX)
            case Part.STREAM:
                return Flow(EVENT_STREAM, self._stream) if self._streams < MOST_STREAMS else _too_many()
            case Part.POD:
                return await self._pods.pod(found)
            case Part.LOG:
                return await self._pods.log(found)
            case Part.KINDS:
                return await self._objects.kinds()
            case Part.OBJECTS:
                return await self._objects.objects(found)
            case _:
                return await self._objects.object(found)

    async def _enter(self, found: Route, asked: Asked) -> Reply:
        """Let in who brings the key; a HEAD, as of a program that looks at links, does not use it up."""
        key, entrance = found.value("key"), self._entrance
        session = entrance.sessions.redeem(key) if key and asked.method == "GET" else None
        if session is None:
            return sign_in(entrance.link_file, is_used=bool(key))
        await entrance.key_used()
        return see_other(entrance.place, session_cookie(session, entrance.place))

    def _is_signed_in(self, caller: Caller) -> bool:
        return self._entrance.sessions.is_known(session_of(caller.cookie))

    def _refusal(self, found: Route) -> Reply:
        if found.part is Part.INDEX:
            return sign_in(self._entrance.link_file, place=self._entrance.place)
        return text(401, "not signed in")

    async def _stream(self, write: Write) -> None:
        self._streams += 1
        try:
            with self._live.reading() as (everything, changes):
                await write(HELLO + everything)
                while True:
                    try:
                        async with asyncio.timeout(_KEEP_ALIVE_SECONDS):
                            part = await changes.next()
                    except TimeoutError:
                        part = KEEP_ALIVE
                    except Lagged:
                        part = self._live.everything()
                    await write(part)
        finally:
            self._streams -= 1


def _static(name: str) -> Reply:
    found = static_files().get(name)
    return Reply(200, *found) if found is not None else text(404, "there is no such file")


def _too_many() -> Reply:
    return text(503, "too many browsers look at this page: close some")
