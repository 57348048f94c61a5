"""Fair queues: which request is next, whatever order and number requests come in."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pykubelet.apiserver.flowcontrol.queueset import QueueSet, Queuing, deal

FLOWS = [f"flow-{number}" for number in range(40)]


@given(st.integers(0, 2**64 - 1), st.integers(1, 128), st.integers(1, 10))
def test_hand_has_different_cards_of_the_deck(number: int, cards: int, hand_size: int) -> None:
    """The same number gives the same hand."""
    hand = deal(number, cards, hand_size)
    assert len(set(hand)) == len(hand) == min(hand_size, cards)
    assert all(0 <= card < cards for card in hand)
    assert deal(number, cards, hand_size) == hand


def test_every_card_is_dealt_about_equally_often() -> None:
    dealt = Counter(card for number in range(8 * 7 * 6 * 5) for card in deal(number, 8, 4))
    assert set(dealt.values()) == {8 * 7 * 6 * 5 // 2}


def served(queues: "QueueSet[str]", seconds: float = 0.01) -> str:
    """Executes the next request; returns it."""
    queue, request, width = queues.next()
    queues.dispatch(queue, request)
    queues.ended(queue, width, seconds)
    return request


def test_flows_take_turns_however_many_requests_one_has() -> None:
    """A flow that comes late waits for one request of the other, not for all."""
    queues = QueueSet[str](Queuing(64, 1, 50))
    for number in range(50):
        assert queues.add(FLOWS[0], f"busy-{number}", 1)
    assert [served(queues) for _ in range(10)] == [f"busy-{number}" for number in range(10)]
    for number in range(3):
        assert queues.add(FLOWS[1], f"quiet-{number}", 1)
    order = [served(queues) for _ in range(6)]
    assert [one.partition("-")[0] for one in order].count("quiet") == 3
    assert [one for one in order if one.startswith("quiet")] == ["quiet-0", "quiet-1", "quiet-2"]


def test_expensive_requests_have_fewer_turns() -> None:
    """What counts is seats times seconds."""
    queues, turns = QueueSet[str](Queuing(64, 1, 200)), Counter[str]()
    for number in range(100):
        queues.add(FLOWS[0], f"wide-{number}", 5)
        queues.add(FLOWS[1], f"narrow-{number}", 1)
    for _ in range(60):
        turns[served(queues).partition("-")[0]] += 1
    assert turns == {"wide": 10, "narrow": 50}


def test_full_queue_takes_no_more_and_another_flow_is_not_affected() -> None:
    """A flow has as many places as its hand of queues; with shuffle sharding few flows have the same queues."""
    queues = QueueSet[str](Queuing(64, 4, 10))
    taken = [queues.add(FLOWS[0], f"busy-{number}", 1) for number in range(60)]
    assert (taken.count(True), len(queues)) == (40, 40)
    assert all(queues.add(flow, flow, 1) for flow in FLOWS[1:])
    queues.discard("busy-7")
    assert queues.add(FLOWS[0], "again", 1)


def test_request_that_gave_up_is_never_next() -> None:
    queues = QueueSet[str](Queuing(8, 2, 10))
    for name in ("a", "b"):
        queues.add(FLOWS[0], name, 1)
    queues.discard("a")
    queues.discard("a")
    assert served(queues) == "b"
    assert (bool(queues), len(queues)) == (False, 0)
