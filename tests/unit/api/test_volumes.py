"""Which nodes a volume or its class allows."""

from typing import Any

import pytest

from pykubelet.api.generated.core import Node, PersistentVolume
from pykubelet.api.generated.storage import StorageClass
from pykubelet.api.serializer import from_document
from pykubelet.api.volumes import class_allows_node, source_kind, volume_fits_node

NODE = from_document({"metadata": {"name": "n1", "labels": {"zone": "a", "rack": "1"}}}, Node)


def term(**values: str) -> dict[str, Any]:
    return {"matchLabelExpressions": [{"key": key, "values": text.split()} for key, text in values.items()]}


@pytest.mark.parametrize(
    ("topologies", "is_allowed"),
    [
        ([], True),
        ([term(zone="a b")], True),
        ([term(zone="b")], False),
        ([term(zone="a", rack="1")], True),
        ([term(zone="a", rack="2")], False),
        ([term(zone="b"), term(rack="1")], True),
        ([term(room="x")], False),
        ([term()], False),
    ],
    ids=["any", "value", "other value", "both", "one of both", "second term", "no label", "empty term"],
)
def test_class_allows_nodes_of_one_of_its_topologies(topologies: list[dict[str, Any]], *, is_allowed: bool) -> None:
    """All expressions of a term must match; an empty term matches no node."""
    found = from_document({"provisioner": "p", "allowedTopologies": topologies}, StorageClass)
    assert class_allows_node(found, NODE) == is_allowed


@pytest.mark.parametrize(
    ("zones", "fits"), [(None, True), (["a"], True), (["b"], False), (["b", "a"], True), ([], False)]
)
def test_volume_fits_nodes_of_one_of_its_terms(zones: list[str] | None, *, fits: bool) -> None:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]} for zone in zones or ()]
    affinity = {} if zones is None else {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}
    assert volume_fits_node(from_document({"spec": affinity}, PersistentVolume), NODE) == fits
    assert volume_fits_node(from_document({"spec": {"nodeAffinity": {}}}, PersistentVolume), NODE)


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        ({"hostPath": {"path": "/"}, "nodeAffinity": {"required": {"nodeSelectorTerms": []}}}, "hostPath"),
        ({"claimRef": {"name": "c"}, "csi": {"driver": "d", "volumeHandle": "h"}}, "csi"),
        ({"capacity": {"storage": "1"}, "storageClassName": "fast"}, "unknown"),
    ],
)
def test_source_of_a_volume_is_named_as_in_its_manifest(spec: dict[str, Any], kind: str) -> None:
    assert source_kind(from_document({"spec": spec}, PersistentVolume)) == kind
