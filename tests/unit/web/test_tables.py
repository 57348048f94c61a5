"""Tables for browsers: changes of rows, nodes and events, and the newest keys."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from pykubelet.api import serializer
from pykubelet.api.generated.core import Event, Node
from pykubelet.web.routes import message
from pykubelet.web.rows import RowTone, event_row, node_row
from pykubelet.web.tables import NewestKeys, RowTable


class Row(Struct, frozen=True):
    key: str
    value: int


STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2) | st.none(), st.booleans()))


@given(STEPS)
def test_browser_that_takes_every_change_has_the_rows_of_the_table(steps: list[tuple[str, int | None, bool]]) -> None:
    """Whenever it takes changes; no change repeats what the browser already has."""
    table: RowTable[Row] = RowTable()
    seen: dict[str, Row] = {}
    for key, value, takes in [*steps, ("a", 0, True)]:
        if value is None:
            table.drop(key)
        else:
            table.put(Row(key, value))
        if takes and (changes := table.take()) is not None:
            assert all(seen.get(row.key) != row for row in changes.rows)
            assert all(gone in seen for gone in changes.gone)
            seen |= {row.key: row for row in changes.rows}
            for gone in changes.gone:
                del seen[gone]
    assert seen == {row.key: row for row in table.rows()}
    assert table.take() is None


def test_table_returns_the_previous_row() -> None:
    """Tallies need the previous row."""
    table: RowTable[Row] = RowTable()
    assert table.put(Row("a", 1)) is None
    assert table.put(Row("a", 2)) == Row("a", 1)
    assert table.get("a") == table.drop("a") == Row("a", 2)
    assert table.drop("a") is None
    assert table.keys() == ()


@given(st.lists(st.tuples(st.text("abcdefgh", min_size=1, max_size=2), st.integers(0, 9).map(str))), st.integers(1, 4))
def test_newest_keys_stay(steps: list[tuple[str, str]], limit: int) -> None:
    """At most twice the limit is kept, and evicted keys are older than kept ones."""
    newest, kept = NewestKeys(limit), dict[str, str]()
    for key, at in steps:
        kept[key] = at
        gone = newest.note(key, at)
        times = [kept.pop(one) for one in gone]
        assert len(kept) <= 2 * limit
        assert not gone or len(kept) == limit
        assert max(times, default="") <= min(kept.values())


def test_forgotten_event_takes_no_space() -> None:
    newest = NewestKeys(1)
    for key in "abcdef":
        assert newest.note(key, "1") == ()
        newest.forget(key)


def node(ready: str, **spec: object) -> Node:
    conditions = [{"type": "Ready", "status": ready, "message": "why"}, {"type": "DiskPressure", "status": "False"}]
    status = {
        "conditions": conditions,
        "allocatable": {"cpu": "2"},
        "addresses": [{"type": "InternalIP", "address": "::1"}],
    }
    return serializer.from_document({"metadata": {"name": "n"}, "spec": spec, "status": status}, Node)


def test_node_row_shows_whether_it_accepts_pods() -> None:
    """Ready, not ready with a reason, or unschedulable."""
    rows = [
        node_row(node("True")),
        node_row(node("False")),
        node_row(node("True", unschedulable=True)),
        node_row(Node()),
    ]
    assert [(row.word, row.tone) for row in rows] == [
        ("Ready", RowTone.GOOD),
        ("NotReady", RowTone.BAD),
        ("Ready, no new pods", RowTone.WAITING),
        ("NotReady", RowTone.BAD),
    ]
    assert (rows[0].message, rows[1].message, rows[0].cpu, rows[0].address) == ("", "why", "2", "::1")


def test_event_row_has_count_and_last_time() -> None:
    """For events in the old form and in the new form with a series."""
    about = {"kind": "Pod", "name": "web", "namespace": "default"}
    old = {"metadata": {"name": "a"}, "involvedObject": about, "count": 3, "lastTimestamp": "2026-01-01T00:00:02Z"}
    new = {
        "metadata": {"name": "b"},
        "type": "Warning",
        "series": {"count": 5, "lastObservedTime": "2026-01-01T00:00:03.000000Z"},
    }
    rows = [event_row(serializer.from_document(one, Event)) for one in (old, new, {})]
    assert [(row.times, row.at[-4:], row.tone) for row in rows] == [
        (3, ":02Z", RowTone.GOOD),
        (5, "000Z", RowTone.BAD),
        (1, "", RowTone.GOOD),
    ]
    assert (rows[0].kind, rows[0].name) == ("Pod", "web")


def test_message_has_the_form_of_server_sent_events() -> None:
    assert message("change", b"{}") == b"event: change\ndata: {}\n\n"
