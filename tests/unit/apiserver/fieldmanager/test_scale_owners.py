"""Field managers of replicas, converted between an object and its Scale."""

from typing import Any

import pytest

from pykubelet.apiserver.fieldmanager.fieldmanager import record
from pykubelet.apiserver.fieldmanager.fieldpath import FieldTree
from pykubelet.apiserver.fieldmanager.managedfields import parent_owners, replicas_path, scale_owners

REPLICAS: FieldTree = {"f:spec": {"f:replicas": {}}}
MORE: FieldTree = {"f:spec": {"f:replicas": {}, "f:selector": {}}}
LESS: FieldTree = {"f:spec": {"f:selector": {}}}


def entry(manager: str, operation: str, fields: Any, version: str = "apps/v1", **more: str) -> dict[str, Any]:
    first = {"manager": manager, "operation": operation, "apiVersion": version}
    return {**first, "fieldsType": "FieldsV1", "fieldsV1": fields, **more}


def test_scale_has_the_owners_of_the_replicas() -> None:
    """Each entry has the path and the apiVersion of a Scale."""
    parent = [entry("a", "Apply", MORE), entry("b", "Update", LESS), entry("c", "Update", MORE)]
    assert scale_owners(parent) == [
        entry("a", "Apply", REPLICAS, "autoscaling/v1"),
        entry("c", "Update", REPLICAS, "autoscaling/v1"),
    ]


@pytest.mark.parametrize("before", ["Apply", "Update"])
@pytest.mark.parametrize("after", ["Apply", "Update"])
@pytest.mark.parametrize("manager", ["test", "scale"])
def test_replicas_move_to_the_manager_that_scales(before: str, after: str, manager: str) -> None:
    """The old owner keeps the rest; the new owner's entry has subresource scale and no time."""
    parent = [entry("test", before, MORE)]
    of_scale = [entry(manager, after, REPLICAS, "autoscaling/v1", subresource="scale")]
    made = parent_owners(parent, of_scale, api_version="apps/v1")
    wanted = [entry("test", before, LESS), entry(manager, after, REPLICAS, subresource="scale")]
    assert sorted(made, key=str) == sorted(wanted, key=str)


def test_owner_stays_when_nothing_is_taken() -> None:
    """Managers that lost the replicas on the Scale lose them; a manager of nothing else is removed."""
    parent = [entry("a", "Apply", MORE), entry("b", "Update", MORE), entry("c", "Update", REPLICAS)]
    of_scale = scale_owners(parent)
    assert parent_owners(parent, of_scale, api_version="apps/v1") == parent
    assert parent_owners(parent, [], api_version="apps/v1") == [entry("a", "Apply", LESS), entry("b", "Update", LESS)]


def test_scaling_moves_the_replicas_of_a_custom_resource() -> None:
    """The definition states the path; the write is recorded on the Scale."""
    path = replicas_path(".spec.size")
    parent = [entry("a", "Apply", {"f:spec": {"f:size": {}}}, "example.com/v1")]
    live = {"metadata": {"managedFields": scale_owners(parent, path)}, "spec": {"replicas": 1}}
    new = record(
        {**live, "spec": {"replicas": 2}},
        live,
        definition="autoscaling.v1.Scale",
        manager="hpa",
        api_version="autoscaling/v1",
        subresource="scale",
        now="2026-01-01T00:00:00Z",
    )
    made = parent_owners(parent, new["metadata"]["managedFields"], api_version="example.com/v1", path=path)
    assert made == [entry("hpa", "Update", {"f:spec": {"f:size": {}}}, "example.com/v1", subresource="scale")]
