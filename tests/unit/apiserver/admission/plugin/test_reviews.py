"""Decisions that need webhooks: called outside of them, once for each state of the object."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from pykubelet.api.errors import Timeout
from pykubelet.apiserver.admission.plugin.webhook.reviews import MAX_REVIEWS, ReviewNeeded, reviewed


def test_a_write_is_decided_again_until_it_needs_no_more_answers() -> None:
    known: set[str] = set()

    def answering(question: str) -> Callable[[], Awaitable[None]]:
        async def review() -> None:
            known.add(question)

        return review

    async def decide() -> str:
        for question in ("mutate", "validate"):
            if question not in known:
                raise ReviewNeeded(answering(question))
        return "stored"

    assert asyncio.run(reviewed(decide)) == "stored"
    assert known == {"mutate", "validate"}


def test_an_object_that_changes_all_the_time_ends_the_request() -> None:
    calls: list[int] = []

    async def review() -> None:
        calls.append(1)

    async def decide() -> str:
        raise ReviewNeeded(review)

    with pytest.raises(Timeout):
        asyncio.run(reviewed(decide))
    assert len(calls) == MAX_REVIEWS
