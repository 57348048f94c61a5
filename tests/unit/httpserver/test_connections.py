"""Which addresses are one client of a listener, and which of its connections is closed for a new one."""

import socket
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.httpserver.connections import Connection, ConnectionQueues, ConnectionState, client_of


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("127.0.0.1", "loopback"),
        ("127.9.9.9", "loopback"),
        ("::1", "loopback"),
        ("::ffff:127.0.0.1", "loopback"),
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_addresses_of_one_machine_are_one_client(address: str, client: str) -> None:
    """A machine can choose any address of its loopback and of its IPv6 network."""
    assert client_of(address) == client


def some_connections(count: int, *, clients: int = 3) -> list[Connection]:
    """Connections without sockets, which the queues do not use."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        return [Connection(ours, f"192.0.2.{number % clients}") for number in range(count)]


@given(st.lists(st.tuples(st.integers(0, 7), st.sampled_from(ConnectionState)), max_size=40))
def test_first_connection_of_a_state_is_the_one_that_entered_it_first(
    moves: list[tuple[int, ConnectionState]],
) -> None:
    """This holds for all clients together and for each one; closed connections are in no queue."""
    queues, connections, entered = ConnectionQueues(), some_connections(8), dict[Connection, int]()
    for moment, (number, state) in enumerate(moves):
        queues.move(connections[number], state)
        entered[connections[number]] = moment
    is_open = [one for one in sorted(entered, key=entered.__getitem__) if one.state is not ConnectionState.CLOSED]
    assert queues.count() == len(is_open)
    for state in ConnectionState:
        queue = [one for one in is_open if one.state is state]
        assert (list(queues.all(state)), queues.count(state)) == (queue, len(queue))
        assert queues.first((state,)) == next(iter(queue), None)
        for client in {one.client for one in connections}:
            assert queues.first((state,), client) == next((one for one in queue if one.client == client), None)
    both = (ConnectionState.IDLE, ConnectionState.SILENT)
    assert queues.first(both) == (queues.first(both[:1]) or queues.first(both[1:]))


def test_connection_to_close_is_found_in_the_same_time_however_many_there_are() -> None:
    """One client's connection is found as soon behind the others; twice as many to close take twice the time."""

    def seconds(count: int) -> float:
        queues, connections = ConnectionQueues(), some_connections(count, clients=2)
        for one in connections:
            queues.move(one, ConnectionState.IDLE)
        last, started = connections[-1].client, time.process_time()
        for _ in range(count // 2):
            found = queues.first((ConnectionState.SILENT, ConnectionState.IDLE), last)
            assert found is not None
            queues.move(found, ConnectionState.CLOSED)
        return time.process_time() - started

    few, many = (min(seconds(count) for _ in range(5)) for count in (20_000, 40_000))
    # Four times if each were searched for.
    assert many < 3 * few
