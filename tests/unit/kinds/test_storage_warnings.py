"""Warnings about volumes, claims, fractional byte values and node labels."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.kinds.persistent_volume import volume_warnings
from pykubelet.kinds.persistent_volume_claim import claim_warnings
from pykubelet.kinds.resources import fraction_warnings
from pykubelet.kinds.runtime_class import runtime_class_warnings
from pykubelet.kinds.storage_class import storage_class_warnings

_CLASS = "metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; "
_USE_CLASS = f'{_CLASS}use "storageClassName" attribute instead'
_GONE_1_31 = "deprecated in v1.28, non-functional in v1.31+"
_ZONE = "failure-domain.beta.kubernetes.io/zone"
_USE_ZONE = 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead'


@pytest.mark.parametrize(
    ("spec", "warnings"),
    [
        pytest.param({"hostPath": {"path": "/"}, "persistentVolumeReclaimPolicy": "Retain"}, [], id="plain"),
        pytest.param(
            {"persistentVolumeReclaimPolicy": "Recycle"},
            [
                ("spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended "
                "approach is to use dynamic provisioning.")
            ],
            id="recycle",
        ),
        pytest.param(
            {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": _ZONE}]}]}}},
            [
                f"spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].key: {_ZONE} is {_USE_ZONE}"
            ],
            id="nodes",
        ),
        pytest.param({"cephfs": {}}, [f"spec.cephfs: {_GONE_1_31}"], id="cephfs"),
        pytest.param({"rbd": {}}, [f"spec.rbd: {_GONE_1_31}"], id="rbd"),
        pytest.param({"storageos": {}}, ["spec.storageOS: deprecated in v1.22, non-functional in v1.25+"], id="storageos"),
        pytest.param({"flocker": {}}, [], id="not told of"),
    ],
)  # fmt: skip
def test_volume_warns(spec: dict[str, Any], warnings: list[str]) -> None:
    """Warnings are about removed and deprecated features."""
    assert volume_warnings({"metadata": {}, "spec": spec}) == warnings


def test_old_annotations_of_volumes_and_claims_warn() -> None:
    """Claims can have only one of these annotations."""
    keys = ("volume.beta.kubernetes.io/mount-options", "volume.beta.kubernetes.io/storage-class")
    document = {"metadata": {"annotations": dict.fromkeys(keys, "x")}, "spec": {}}
    assert volume_warnings(document) == [
        _USE_CLASS,
        (
            'metadata.annotations[volume.beta.kubernetes.io/mount-options]: deprecated since v1.31; use "mountOptions" '
            "attribute instead"
        ),
    ]
    assert claim_warnings(document) == [_USE_CLASS]


def test_claim_with_a_fractional_byte_value_warns() -> None:
    """Requests are reported before limits."""
    resources = {"limits": {"storage": "1.5"}, "requests": {"storage": "200m"}}
    assert claim_warnings({"metadata": {}, "spec": {"resources": resources}}) == [
        f'spec.resources.{kind}[storage]: fractional byte value "{text}" is invalid, must be an integer'
        for kind, text in (("requests", "200m"), ("limits", "1500m"))
    ]


@pytest.mark.parametrize(
    ("text", "warns"),
    [
        pytest.param("0", False, id="nothing"),
        pytest.param("1Gi", False, id="whole"),
        pytest.param("1.5Gi", False, id="whole after all"),
        pytest.param("1", False, id="one"),
        pytest.param("1e-3", True, id="a thousandth"),
        pytest.param("1m", True, id="suffix"),
        pytest.param("1000m", False, id="whole in thousandths"),
        pytest.param("8Pi", False, id="thousandths fit 64 bits"),
        pytest.param("10Pi", True, id="thousandths wrap around"),
        pytest.param("10P", False, id="thousandths count as none"),
        pytest.param("10000000000000000", True, id="the same without a suffix wraps"),
        pytest.param("9223372036854775807", False, id="largest: wraps to a whole number"),
    ],
)
def test_amount_is_fractional_as_upstream_counts(*, text: str, warns: bool) -> None:
    """It counts in thousandths, which do not always fit into 64 bits."""
    assert bool(fraction_warnings({"memory": text}, "memory", "x")) == warns


@given(st.integers(0, 2**53), st.sampled_from(["", "k", "Ki", "M", "Mi"]))
def test_whole_amounts_never_warn(number: int, suffix: str) -> None:
    """Their thousandths fit into 64 bits."""
    text = f"{number % 10**6}{suffix}"
    assert fraction_warnings({"memory": text}, "memory", "x") == []


def test_classes_warn_about_labels_with_newer_names() -> None:
    """The path for a RuntimeClass does not contain the label."""
    selector = {_ZONE: "a", "x": "y"}
    assert runtime_class_warnings({"scheduling": {"nodeSelector": selector}}) == [
        f"scheduling.nodeSelector: {_USE_ZONE}"
    ]
    assert runtime_class_warnings({}) == []
    topologies = [{"matchLabelExpressions": [{"key": "x"}, {"key": _ZONE}]}]
    assert storage_class_warnings({"allowedTopologies": topologies}) == [
        f"allowedTopologies[0].matchLabelExpressions[1].key: {_USE_ZONE}"
    ]
    assert storage_class_warnings({}) == []
