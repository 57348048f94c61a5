"""The reflector delivers every change once, whatever happens to its streams."""

import asyncio
import itertools
import logging
from collections.abc import Callable
from typing import Any

import pytest

from logged_bugs import LoggedBugs
from pykubelet.api import schema
from pykubelet.api.errors import ApiError, Expired, Forbidden, InternalError, NotReached, Timeout, TooManyRequests

Follow = Callable[..., Any]


async def settle() -> None:
    await asyncio.sleep(0.001)


async def test_reflector_delivers_the_list_then_every_change(following: Follow) -> None:
    """Each watch event causes one call."""
    follow = following()
    follow.put("web")
    async with follow.running():
        assert follow.sink.heard == [("added", "first"), ("added", "web")]
        assert follow.sink.syncs == 1
        follow.put("web", "2")
        follow.put("new")
        follow.remove("first")
        await settle()
        assert follow.sink.heard[2:] == [("modified", "web"), ("added", "new"), ("deleted", "first")]
        follow.assert_same()
    assert follow.client.lists == [("0", 500, "")]


async def test_reflector_watches_for_five_to_ten_minutes_and_resumes_without_a_list(
    following: Follow,
) -> None:
    """A watch that times out is resumed at once from the last revision."""
    follow = following()
    async with follow.running():
        follow.put("web")
        seen = [follow.version(name) for name in ("first", "web", "web")]
        await asyncio.sleep(3600)
        follow.put("late")
        await settle()
        follow.assert_same()
    assert len(follow.client.lists) == 1
    assert 6 <= len(follow.client.watches) <= 12
    assert all(timeout is not None and 300 <= timeout < 600 for _, timeout in follow.client.watches)
    assert [revision for revision, _ in follow.client.watches][:3] == seen


async def test_reflector_uses_the_given_minimum_watch_time(following: Follow) -> None:
    """Object managers use half an hour."""
    follow = following(min_watch_seconds=1800)
    async with follow.running():
        pass
    assert 1800 <= (follow.client.watches[0][1] or 0) < 3600


async def test_reflector_resumes_after_a_cut_from_the_last_revision(following: Follow) -> None:
    """Changes made meanwhile are delivered once, without a relist."""
    follow = following()
    async with follow.running():
        follow.put("web")
        first, web = follow.version("first"), follow.version("web")
        await settle()
        follow.client.watch_errors = [NotReached("refused"), NotReached("refused")]
        follow.client.cut(NotReached("cut"))
        follow.put("web", "2")
        follow.remove("first")
        await asyncio.sleep(10)
        follow.assert_same()
    assert follow.sink.heard == [("added", "first"), ("added", "web"), ("modified", "web"), ("deleted", "first")]
    assert len(follow.client.lists) == 1
    assert [revision for revision, _ in follow.client.watches] == [first, web, web, web]


async def test_reflector_resumes_at_once_when_a_stream_that_worked_is_cut(following: Follow) -> None:
    """Backoff is only for servers that do not answer."""
    follow = following()
    async with follow.running():
        await asyncio.sleep(2)
        follow.client.cut(NotReached("cut"))
        await settle()
        assert follow.api.open_watches == 1


async def test_reflector_resumes_from_a_bookmark(following: Follow) -> None:
    """A watch without events still moves its revision forward."""
    follow = following()
    async with follow.running():
        other = follow.api.put(schema.SECRETS, {"metadata": {"name": "other", "namespace": "default"}})
        follow.api.bookmark()
        follow.api.compact()
        await settle()
        follow.client.cut()
        await settle()
        follow.put("web")
        await settle()
        follow.assert_same()
    assert len(follow.client.lists) == 1
    assert follow.client.watches[-1][0] == other["metadata"]["resourceVersion"]


async def test_reflector_relists_when_its_revision_expired_and_delivers_the_differences(following: Follow) -> None:
    """Unchanged objects cause no call; deletions, also of recreated objects, come first."""
    follow = following()
    follow.put("stays")
    follow.put("recreated")
    revision = follow.version("recreated")
    async with follow.running():
        follow.client.watch_errors = [NotReached("down")]
        await asyncio.sleep(60)
        follow.client.cut()
        follow.remove("first")
        follow.remove("recreated")
        follow.put("recreated")
        follow.put("new")
        follow.api.compact()
        before = len(follow.sink.heard)
        await asyncio.sleep(10)
        heard = follow.sink.heard[before:]
        assert heard == [("deleted", "first"), ("deleted", "recreated"), ("added", "new"), ("added", "recreated")]
        follow.assert_same()
    assert follow.sink.syncs == 2
    assert follow.client.lists == [("0", 500, ""), (revision, 0, "")]


@pytest.mark.parametrize(
    "error",
    [
        Expired("too old"),
        Timeout("x", details={"causes": [{"reason": "ResourceVersionTooLarge"}]}),
        Timeout("Too large resource version: 7, current: 6"),
    ],
    ids=["expired", "too large", "too large in words"],
)
async def test_reflector_lists_consistently_when_the_revision_cannot_be_listed(
    error: ApiError, following: Follow
) -> None:
    """The second list is sent at once; lists stay consistent reads until one succeeds."""
    follow = following()
    follow.client.list_errors = [error, InternalError("broken")]
    async with follow.running():
        follow.assert_same()
    assert [revision for revision, _, _ in follow.client.lists] == ["0", "", ""]
    assert follow.client.times[1] == 0


async def test_reflector_lists_as_before_after_an_ordinary_timeout(following: Follow) -> None:
    follow = following()
    follow.client.list_errors = [Timeout("too slow")]
    async with follow.running():
        follow.assert_same()
    assert [revision for revision, _, _ in follow.client.lists] == ["0", "0"]


async def test_reflector_lists_in_pages(following: Follow) -> None:
    """Continued pages have no revision, and an expired continue token leads to one full list."""
    follow = following()
    for number in range(1001):
        follow.put(f"map-{number}")
    follow.client.list_errors = [None, None, Expired("token too old")]
    async with follow.running():
        follow.assert_same()
        assert follow.client.lists == [("0", 500, ""), ("", 500, "500"), ("", 500, "1000"), ("0", 0, "")]
        follow.client.lists.clear()
        follow.client.watch_errors = [Expired("old")]
        await asyncio.sleep(2)
        follow.client.cut()
        await asyncio.sleep(10)
        # A server that pages the first list does not serve it from a watch cache, so relists are paged, too.
        assert [limit for _, limit, _ in follow.client.lists] == [500, 500, 500]


async def test_reflector_backs_off_with_jitter_up_to_a_minute_and_recovers_after_two(following: Follow) -> None:
    """Delays double from 0.1 s to 30 s, each up to twice as long by jitter."""
    follow = following()
    follow.client.list_errors = [InternalError("broken")] * 12
    async with follow.running():
        times = follow.client.times
        delays = [after - before for before, after in itertools.pairwise(times)]
        for delay, least in zip(delays, [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30, 30], strict=True):
            assert least <= delay < 2 * least
        await asyncio.sleep(121)
        follow.client.list_errors = [InternalError("broken")]
        follow.client.watch_errors = [InternalError("broken")]
        follow.client.cut()
        await asyncio.sleep(0.2 + 0.4)
        assert len(follow.client.lists) == 15


async def test_reflector_respects_retry_after(following: Follow) -> None:
    """It is a minimum for watches and for lists."""
    follow = following()
    follow.client.list_errors = [TooManyRequests("slow", retry_after_seconds=20)]
    follow.client.watch_errors = [TooManyRequests("slow", retry_after_seconds=20)]
    async with follow.running():
        assert 20 <= follow.client.times[1] < 21
        await asyncio.sleep(18)
        assert len(follow.client.watches) == 1
        await asyncio.sleep(3)
        assert len(follow.client.watches) == 2
    assert len(follow.client.lists) == 2


async def test_reflector_waits_when_an_open_watch_is_throttled(following: Follow) -> None:
    """Unlike a cut, a 429 on a stream that worked is no reason to resume at once; its revision is still valid."""
    follow = following()
    async with follow.running():
        await asyncio.sleep(5)
        follow.client.cut(TooManyRequests("slow", retry_after_seconds=20))
        await asyncio.sleep(19)
        assert len(follow.client.watches) == 1
        follow.put("late")
        await asyncio.sleep(2)
        assert len(follow.client.watches) == 2
        follow.assert_same()
    assert len(follow.client.lists) == 1


async def test_reflector_backs_off_when_streams_end_at_once(following: Follow) -> None:
    """That the first stream has lasted makes no difference for later ones."""
    follow = following()
    async with follow.running():
        await asyncio.sleep(100)
        for _ in range(1000):
            follow.client.cut()
            await settle()
    assert len(follow.client.watches) <= 5


async def test_reflector_keeps_trying_when_forbidden(following: Follow) -> None:
    """Permissions may be granted later."""
    follow = following()
    follow.client.list_errors = [Forbidden("no")] * 3
    async with follow.running():
        follow.assert_same()


async def test_reflector_raises_forbidden_when_configured_to_give_up(following: Follow) -> None:
    """A caller can then fall back to narrower watches."""
    for errors in ("list_errors", "watch_errors"):
        follow = following(give_up_on_forbidden=True)
        setattr(follow.client, errors, [Forbidden("no")])
        async with follow.running(until_ready=False) as task:
            with pytest.raises(Forbidden):
                await task


async def test_reflector_survives_a_sink_that_raises(
    caplog: pytest.LogCaptureFixture, following: Follow, logged_bugs: LoggedBugs
) -> None:
    """The error is logged, and the next change is delivered."""
    follow = following()
    async with follow.running():
        follow.sink.view["web"] = {}
        with caplog.at_level(logging.ERROR):
            follow.put("web")
            follow.put("next")
            await settle()
        assert ("added", "next") in follow.sink.heard
    assert [record.message for record in caplog.records] == ["event handler failed"]
    logged_bugs.found.clear()
