"""A node writes only volumes of its own folders, for claims that it was selected for."""

from typing import Any

import pytest

from pykubelet.apiserver.admission.nodevolumes import volume_problem

UID = "0b1c2d3e-0000-4000-8000-000000000001"
NAME = f"pvc-{UID}"
ANNOTATION = {"pv.kubernetes.io/provisioned-by": "pykubelet.io/local-path"}


def affinity(*names: str, key: str = "kubernetes.io/hostname") -> dict[str, Any]:
    expression = {"key": key, "operator": "In", "values": list(names)}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def volume(*, name: str = NAME, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    made = {
        "capacity": {"storage": "1Gi"},
        "local": {"path": f"/srv/volumes/{NAME}"},
        "nodeAffinity": affinity("a"),
        "claimRef": {"namespace": "default", "name": "data", "uid": UID},
        **spec,
    }
    metadata = {"name": name, "annotations": ANNOTATION if annotations is None else annotations}
    return {"metadata": metadata, "spec": {field: value for field, value in made.items() if value is not None}}


def claim(node: str = "a", uid: str = UID) -> dict[str, Any]:
    return {"metadata": {"uid": uid, "annotations": {"volume.kubernetes.io/selected-node": node} if node else {}}}


def test_node_may_write_its_own_volume() -> None:
    assert volume_problem("a", "create", volume(), {}, claim()) == ""
    larger = volume(capacity={"storage": "2Gi"})
    assert volume_problem("a", "update", larger, volume(), claim()) == ""
    assert volume_problem("a", "delete", {}, volume(), None) == ""


@pytest.mark.parametrize(
    "other",
    [
        volume(nodeAffinity=affinity("b")),
        volume(nodeAffinity=affinity("a", "b")),
        volume(nodeAffinity=affinity("a", key="zone")),
        volume(nodeAffinity=None),
        volume(annotations={}),
        volume(local=None, hostPath={"path": f"/{NAME}"}),
        volume(local={"path": "/etc"}),
        volume(name="pvc-other"),
    ],
    ids=[
        "another node",
        "more nodes",
        "a zone",
        "any node",
        "no provisioner",
        "host path",
        "other folder",
        "other name",
    ],
)
def test_node_may_not_write_other_volumes(other: dict[str, Any]) -> None:
    only = 'node "a" may only write volumes that it has provisioned on itself'
    assert volume_problem("a", "create", other, {}, claim()).startswith(only)
    assert volume_problem("a", "update", other, volume(), claim()).startswith(only)
    assert volume_problem("a", "update", volume(), other, claim()).startswith(only)
    assert volume_problem("a", "delete", {}, other, None).startswith(only)


@pytest.mark.parametrize("of", [None, claim("b"), claim(""), claim(uid="another")])
def test_node_may_not_make_volumes_for_claims_of_others(of: dict[str, Any] | None) -> None:
    assert "for claims that it was selected for" in volume_problem("a", "create", volume(), {}, of)


@pytest.mark.parametrize("field", ["claimRef", "local", "accessModes", "persistentVolumeReclaimPolicy"])
def test_node_may_change_the_capacity_only(field: str) -> None:
    changed = volume()
    changed["spec"][field] = {"path": f"/elsewhere/{NAME}"} if field == "local" else {"name": "x"}
    assert "only their capacity" in volume_problem("a", "update", changed, volume(), claim())


def test_other_verbs_are_refused() -> None:
    assert volume_problem("a", "deletecollection", {}, {}, None)
