"""Objects and lists as tables and as partial metadata."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.errors import BadRequest, NotAcceptable
from pykubelet.apiserver.apiextensions.controller import served_rows
from pykubelet.apiserver.apiextensions.status import with_accepted_names
from pykubelet.apiserver.registry import BUILT_IN_KINDS
from pykubelet.apiserver.tables.table import as_partial, as_partial_list, as_table
from pykubelet.kinds.kind import Kind
from widgets import NOW, definition, widget

_NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
_STATUS = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
_MAP: dict[str, Any] = {"metadata": {"name": "m", "resourceVersion": "7"}, "data": {"a": "b"}}


def _kind(name: str) -> Kind:
    return next(served for served in BUILT_IN_KINDS if served.resource.group_resource == name)


@pytest.mark.parametrize(
    ("include", "object_"),
    [
        ("", {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": _MAP["metadata"]}),
        ("Metadata", {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": _MAP["metadata"]}),
        ("None", None),
        ("Object", {"kind": "ConfigMap", "apiVersion": "v1", **_MAP}),
    ],
)
def test_rows_carry_the_requested_part_of_the_object(include: str, object_: Any) -> None:
    """The part is the object, its metadata, or nothing."""
    table = as_table(_MAP, _kind("configmaps"), include=include, now=_NOW)
    assert table["rows"] == [{"cells": ["m", 1, "<unknown>"], "object": object_}]
    assert table["metadata"] == {"resourceVersion": "7"}


def test_unknown_include_is_refused_in_the_words_of_the_api_server() -> None:
    """Nothing else can be included."""
    with pytest.raises(
        BadRequest, match="includeObject: Invalid value: \"All\": must be 'Metadata', 'Object', 'None', or empty"
    ):
        as_table(_MAP, _kind("configmaps"), include="All", now=_NOW)


def test_watch_gets_columns_once_and_the_mark_of_initial_events() -> None:
    """Later events have no columns; the mark is sent even if no object is included."""
    mark = {"metadata": {"annotations": {"k8s.io/initial-events-end": "true"}}}
    table = as_table(mark, _kind("configmaps"), include="None", now=_NOW, headers=False)
    assert table["columnDefinitions"] is None
    assert table["rows"][0]["object"]["metadata"] == mark["metadata"]


def test_kind_without_columns_shows_its_name_and_creation() -> None:
    """Roles are such a kind; an empty list has null rows."""
    role = {"metadata": {"name": "r", "creationTimestamp": "2026-11-15T12:00:00Z"}}
    served = _kind("roles.rbac.authorization.k8s.io")
    table = as_table({"items": [role, {}], "metadata": {}}, served, include="None", now=_NOW)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Created At"]
    assert [row["cells"] for row in table["rows"]] == [["r", "2026-11-15T12:00:00Z"], ["", "0001-01-01T00:00:00Z"]]
    assert as_table({"items": [], "metadata": {}}, served, include="", now=_NOW)["rows"] is None


def test_list_keeps_its_place_for_the_next_page() -> None:
    """The table's metadata has the list's continue token."""
    metadata = {"resourceVersion": "9", "continue": "x", "remainingItemCount": 3}
    table = as_table(
        {"items": [_MAP], "metadata": metadata}, _kind("configmaps"), include="", now=_NOW, version="v1beta1"
    )
    assert table["metadata"] == metadata
    assert table["apiVersion"] == table["rows"][0]["object"]["apiVersion"] == "meta.k8s.io/v1beta1"


def test_scale_of_a_kind_has_columns_of_its_own() -> None:
    """The columns do not depend on the kind that is scaled."""
    scale = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "d"}, "spec": {"replicas": 2}}
    table = as_table(scale, _kind("deployments.apps"), include="None", now=_NOW)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Desired", "Available", "Age"]
    assert table["rows"][0]["cells"] == ["d", 2, 0, "<unknown>"]


def test_custom_resource_has_the_columns_of_its_definition() -> None:
    """Its scale has other columns."""
    (served,) = served_rows(with_accepted_names(definition(), [], NOW))
    table = as_table(widget(), served, include="None", now=_NOW)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Age"]
    scale = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "w"}, "spec": {"replicas": 2}}
    assert as_table(scale, served, include="None", now=_NOW)["rows"][0]["cells"] == ["w", 2, None, None]
    assert as_table({"items": [], "metadata": {}}, served, include="", now=_NOW)["rows"] == []


def test_status_stays_what_it_is() -> None:
    """A Status is returned unchanged."""
    assert as_table(_STATUS, _kind("pods"), include="", now=_NOW) is _STATUS
    assert as_partial(_STATUS) is as_partial_list(_STATUS) is _STATUS


def test_metadata_of_the_wrong_shape_is_not_acceptable() -> None:
    """A list is not an object, and an object is not a list."""
    assert as_partial(_MAP)["metadata"] is _MAP["metadata"]
    with pytest.raises(NotAcceptable, match="is a list"):
        as_partial({"kind": "PodList", "items": []})
    with pytest.raises(NotAcceptable, match="is not a list"):
        as_partial_list(_MAP)


@given(st.sampled_from(BUILT_IN_KINDS), st.integers(0, 3))
def test_every_row_has_a_cell_for_each_column(served: Kind, count: int) -> None:
    """This holds for every kind, even for empty objects."""
    table = as_table({"items": [{}] * count, "metadata": {}}, served, include="None", now=_NOW)
    assert all(len(row["cells"]) == len(table["columnDefinitions"]) for row in table["rows"] or ())
    assert len(table["rows"] or ()) == count
