"""Backoff doubles its delays up to a limit, adds jitter, and starts over after a success."""

from hypothesis import given
from hypothesis import strategies as st

from pykubelet.aio.backoff import Backoff, Retries


def test_delay_doubles_up_to_the_limit() -> None:
    rule = Backoff(first_seconds=1, limit_seconds=5)
    assert [rule.delay_seconds(n) for n in (1, 2, 3, 4, 10_000)] == [1, 2, 4, 5, 5]


@given(st.integers(1, 10**9), st.floats(0, 0.999))
def test_jitter_adds_at_most_its_share(failures: int, rand: float) -> None:
    """With jitter 1.0 the delay lies between the plain delay and twice that."""
    plain = Backoff(first_seconds=0.8, limit_seconds=30).delay_seconds(failures)
    jittered = Backoff(first_seconds=0.8, limit_seconds=30, jitter=1.0).delay_seconds(failures, lambda: rand)
    assert plain <= jittered <= 2 * plain


def test_retries_start_over_after_a_success() -> None:
    """After reset() the first delay is used again."""
    retries = Retries(Backoff(first_seconds=1, limit_seconds=100))
    assert [retries.next_delay_seconds() for _ in range(3)] == [1, 2, 4]
    retries.reset()
    assert retries.next_delay_seconds() == 1
