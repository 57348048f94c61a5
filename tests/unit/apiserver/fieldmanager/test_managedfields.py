"""Entries of managedFields: reading, refusing, capping and sorting them, and the name of a manager."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.apiserver.fieldmanager.fieldpath import FieldsError
from pykubelet.apiserver.fieldmanager.managedfields import (
    ManagerFields,
    ManagerIdentifier,
    cap_updaters,
    managed_fields,
    manager_name,
    owner_id,
    read_owners,
    stored_owners,
)

ENTRY = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:a": {}}}


@pytest.mark.parametrize(
    ("field_manager", "user_agent", "name"),
    [
        ("said", "kubectl/v1", "said"),
        ("", "kubectl/v1.34 (linux)", "kubectl"),
        ("", "a\x00b\u200bc d/1", "abc d"),
        ("", "é" * 100 + "/1", "é" * 64),
        ("", "", ""),
    ],
)
def test_manager_is_the_given_name_or_the_program(field_manager: str, user_agent: str, name: str) -> None:
    """The program is the printable part of the user agent before the slash, up to 128 bytes."""
    assert manager_name(field_manager, user_agent) == name


def test_owner_without_a_name_is_unknown() -> None:
    """An applier has the same id in every apiVersion."""
    assert owner_id("", "Apply", "v1", "") == ManagerIdentifier("unknown", "Apply", "", "")
    assert owner_id("m", "Update", "v1", "status").text == (
        '{"manager":"m","operation":"Update","apiVersion":"v1","subresource":"status"}'
    )


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"operation": "Patch"}, "operation must be `Apply` or `Update`"),
        ({"apiVersion": ""}, "apiVersion must not be empty"),
        ({"fieldsType": ""}, "missing fieldsType in managed fields entry 0"),
        ({"fieldsType": "V2"}, 'invalid fieldsType "V2" in managed fields entry 0'),
        ({"fieldsV1": {"a": {}}}, "key must be 2 characters long:"),
        ({"time": "yesterday"}, "invalid time"),
        ({"time": 5}, "invalid time"),
        ({"manager": 5}, "must hold texts"),
    ],
)
def test_read_owners_refuses_broken_entries(change: dict[str, Any], text: str) -> None:
    """The error has upstream's reason where upstream gives one."""
    with pytest.raises(FieldsError, match=text):
        read_owners([{**ENTRY, **change}])


@pytest.mark.parametrize("entries", [{}, "x", [5]])
def test_read_owners_refuses_values_that_are_no_list_of_entries(entries: Any) -> None:
    """Any such input gives an error that the caller can handle."""
    with pytest.raises(FieldsError):
        read_owners(entries)


def test_read_owners_normalizes_times() -> None:
    """Times are whole seconds in UTC, so they sort as text."""
    (owned,) = read_owners([{**ENTRY, "time": "2026-01-02T03:04:05.6+01:00"}]).values()
    assert owned.time == "2026-01-02T02:04:05Z"
    (timeless,) = read_owners([ENTRY]).values()
    assert timeless.time is None


def test_written_sorts_appliers_first_then_by_time_and_name() -> None:
    """This is the order of metadata.managedFields."""
    owners = {
        ManagerIdentifier("b", "Update", "v1", ""): ManagerFields({}, "v1", "2026-01-01T00:00:00Z"),
        ManagerIdentifier("a", "Update", "v1", "status"): ManagerFields({}, "v1", "2026-01-02T00:00:00Z"),
        ManagerIdentifier("a", "Update", "v1", ""): ManagerFields({}, "v1", "2026-01-02T00:00:00Z"),
        ManagerIdentifier("late", "Apply", "", ""): ManagerFields({}, "v1", "2026-01-03T00:00:00Z"),
        ManagerIdentifier("none", "Update", "v1", "scale"): ManagerFields({}, "v1"),
    }
    entries = managed_fields(owners)
    assert [(entry["manager"], entry.get("subresource")) for entry in entries] == [
        ("late", None),
        ("none", "scale"),
        ("b", None),
        ("a", None),
        ("a", "status"),
    ]
    assert list(entries[-1]) == ["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"]
    assert stored_owners(entries) == owners


def updaters(*versions: str) -> dict[ManagerIdentifier, ManagerFields]:
    return {
        ManagerIdentifier(f"u{index}", "Update", version, ""): ManagerFields(
            {f"f:{index:02}": {}}, version, f"2026-01-01T00:00:{index:02}Z"
        )
        for index, version in enumerate(versions)
    }


def test_capped_joins_the_oldest_of_each_version() -> None:
    """Beyond ten updaters, the oldest ones of a version merge, with the time of the youngest of them."""
    assert cap_updaters(updaters(*["v1"] * 10)) == updaters(*["v1"] * 10)
    left = cap_updaters(updaters("v1", "v2", *["v1"] * 10))
    ancient = ManagerIdentifier("ancient-changes", "Update", "v1", "")
    assert left[ancient] == ManagerFields({"f:00": {}, "f:02": {}, "f:03": {}}, "v1", "2026-01-01T00:00:03Z")
    assert len(left) == 10
    assert ManagerIdentifier("u1", "Update", "v2", "") in left


def test_capped_leaves_what_has_nothing_to_join() -> None:
    """Eleven owners in eleven apiVersions stay eleven."""
    owners = updaters(*(f"v{index}" for index in range(11)))
    assert cap_updaters(owners) == owners


def test_capped_merges_into_existing_ancient_changes() -> None:
    """That entry takes in the next one, whether or not it is the oldest."""
    old = ManagerIdentifier("ancient-changes", "Update", "v1", "")
    for time in ("2025-01-01T00:00:00Z", "2026-01-01T00:00:01Z"):
        left = cap_updaters({old: ManagerFields({"f:x": {}}, "v1", time), **updaters(*["v1"] * 10)})
        assert len(left) == 10
        assert "f:x" in left[old].fields
        assert len(left[old].fields) == 2


@settings(max_examples=40)
@given(st.lists(st.sampled_from(["v1", "v2", "v3"]), max_size=16))
def test_capped_loses_no_field(versions: list[str]) -> None:
    """With any number of owners, every field keeps exactly one."""
    owners = updaters(*versions)
    left = cap_updaters(owners)
    assert sorted(step for owned in left.values() for step in owned.fields) == sorted(
        step for owned in owners.values() for step in owned.fields
    )
    assert len(left) <= max(10, len(set(versions)))
