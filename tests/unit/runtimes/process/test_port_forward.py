"""Which process listens on a loopback port, according to the kernel's tables."""

import pytest

from pykubelet.runtimes.process.port_forward import Listener, answering, parse_listeners

ANY6, LOOP6 = "0" * 32, "00000000000000000000000001000000"
TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 111 1 0 100 0 0 10 0
   1: 0100007F:1F90 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 222 1 0 20 4 30 10 -1
   2: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 333 1 0 100 0 0 10 0
"""


def test_only_sockets_that_take_connections_are_listeners() -> None:
    """Established connections are ignored."""
    assert parse_listeners("tcp", TABLE) == [
        Listener("tcp", "0100007F", 8080, "111"),
        Listener("tcp", "00000000", 80, "333"),
    ]


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ([("tcp", "0100007F")], {"127.0.0.1": {"0"}}),
        ([("tcp", "00000000"), ("tcp", "0100007F")], {"127.0.0.1": {"1"}}),
        ([("tcp6", ANY6)], {"127.0.0.1": {"0"}, "::1": {"0"}}),
        ([("tcp6", ANY6), ("tcp", "00000000")], {"127.0.0.1": {"1"}, "::1": {"0"}}),
        ([("tcp6", LOOP6), ("tcp6", ANY6)], {"127.0.0.1": {"1"}, "::1": {"0"}}),
        ([("tcp", "0100007F"), ("tcp", "0100007F")], {"127.0.0.1": {"0", "1"}}),
        ([("tcp", "0A00000A")], {}),
    ],
    ids=["loopback", "the nearer one", "both families", "own family first", "nearer of six", "shared", "elsewhere"],
)
def test_nearest_listener_answers(places: list[tuple[str, str]], expected: dict[str, set[str]]) -> None:
    """The choice is the kernel's; sockets that share a port may all answer."""
    listeners = [Listener(*place, 80, str(number)) for number, place in enumerate(places)]
    assert answering([*listeners, Listener("tcp", "0100007F", 81, "x")], 80) == expected
