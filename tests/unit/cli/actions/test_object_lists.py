"""Lists of objects, and printed names of objects."""

from pykubelet.api import schema
from pykubelet.cli.actions.resource_args import list_of, named, objects_in, without_managed_fields


def test_items_of_a_list_get_its_kind() -> None:
    """An item on its own needs its apiVersion and kind."""
    found = objects_in({"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "a"}}]})
    assert list(found) == [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}]


def test_single_object_is_returned_as_it_is() -> None:
    """Also when an object that is not a list has a field `items`."""
    assert list(objects_in({"kind": "Pod"})) == [{"kind": "Pod"}]
    assert list(objects_in({"kind": "Cart", "items": [1]})) == [{"kind": "Cart", "items": [1]}]
    assert list(objects_in({"kind": "PodList", "items": None})) == []


def test_composed_list_has_an_empty_resource_version() -> None:
    """The list is composed by the client, not by the server."""
    assert list_of([{"a": 1}])["metadata"] == {"resourceVersion": ""}


def test_managed_fields_are_left_out_and_the_original_is_kept() -> None:
    """The original object is not changed."""
    pod = {"kind": "Pod", "metadata": {"name": "a", "managedFields": []}}
    assert without_managed_fields(pod) == {"kind": "Pod", "metadata": {"name": "a"}}
    assert "managedFields" in pod["metadata"]
    plain = {"kind": "Pod"}
    assert without_managed_fields(plain) is plain


def test_name_of_a_kind_has_its_group() -> None:
    """kubectl prints `deployment.apps`, and no group for core kinds."""
    assert named(schema.PODS) == "pod"
    assert named(schema.DEPLOYMENTS) == "deployment.apps"
