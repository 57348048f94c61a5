"""Warnings about the volumes of a pod."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.kinds.pod.warnings import pod_volume_warnings

_GONE_1_31 = "deprecated in v1.28, non-functional in v1.31+"
_GONE_1_25 = "deprecated in v1.22, non-functional in v1.25+"


def _items(*paths: str) -> list[dict[str, str]]:
    return [{"key": "k", "path": path} for path in paths]


def _token(path: str) -> dict[str, Any]:
    return {"serviceAccountToken": {"path": path}}


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        pytest.param("photonPersistentDisk", "photonPersistentDisk: deprecated in v1.11, non-functional in v1.16+", id="photon"),
        pytest.param("gitRepo", "gitRepo: deprecated in v1.11, and disabled by default in v1.33+", id="git"),
        pytest.param("scaleIO", "scaleIO: deprecated in v1.16, non-functional in v1.22+", id="scaleio"),
        pytest.param("flocker", f"flocker: {_GONE_1_25}", id="flocker"),
        pytest.param("storageos", f"storageOS: {_GONE_1_25}", id="storageos"),
        pytest.param("quobyte", f"quobyte: {_GONE_1_25}", id="quobyte"),
        pytest.param("glusterfs", "glusterfs: deprecated in v1.25, non-functional in v1.26+", id="glusterfs"),
        pytest.param("cephfs", f"cephfs: {_GONE_1_31}", id="cephfs"),
        pytest.param("rbd", f"rbd: {_GONE_1_31}", id="rbd"),
    ],
)  # fmt: skip
def test_removed_volume_type_warns(kind: str, said: str) -> None:
    """The warning has the path of the volume."""
    volumes = [{"name": "a", "emptyDir": {}}, {"name": "b", kind: {}}]
    assert pod_volume_warnings(volumes, "spec.volumes") == [f"spec.volumes[1].{said}"]


def test_claim_of_an_ephemeral_volume_warns() -> None:
    """Its storage request is checked like that of any claim."""
    template = {"spec": {"resources": {"requests": {"storage": "500m"}}}}
    assert pod_volume_warnings([{"name": "a", "ephemeral": {"volumeClaimTemplate": template}}], "spec.volumes") == [
        (
            "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources.requests[storage]: fractional byte value "
            '"500m" is invalid, must be an integer'
        )
    ]


@pytest.mark.parametrize(
    ("source", "warnings"),
    [
        pytest.param({"configMap": {"name": "m", "items": _items("a", "b")}}, [], id="apart"),
        pytest.param(
            {"configMap": {"name": "m", "items": _items("a", "a")}},
            ['(ConfigMap "m"): overlapping paths: "a" with "a"'],
            id="same file",
        ),
        pytest.param(
            {"secret": {"secretName": "s", "items": _items("a", "a/b/", "ab")}},
            ['(Secret "s"): overlapping paths: "a/b" with "a"'],
            id="file in a file",
        ),
        pytest.param(
            {"downwardAPI": {"items": _items("a/b", "a")}},
            ['(DownwardAPI): overlapping paths: "a" with "a/b"'],
            id="file over a folder",
        ),
        pytest.param({"configMap": {"name": "m", "items": _items("", "/")}}, [], id="no path"),
        pytest.param({"projected": {"sources": [{}]}}, ["(Projected) has no sources provided"], id="no source"),
        pytest.param({"projected": {"sources": [{"configMap": {"name": "m"}}, _token("a")]}}, [], id="all keys"),
        pytest.param(
            {"projected": {"sources": [{"secret": {"name": "s", "items": _items("t")}}, _token("t")]}},
            ['(Projected): overlapping paths: "t" (ServiceAccountToken) with "t" (Secret "s")'],
            id="secret and token",
        ),
        pytest.param(
            {"projected": {"sources": [{"clusterTrustBundle": {"signerName": "x", "path": "t"}}, {"downwardAPI": {"items": _items("t/u")}}]}},
            ['(Projected): overlapping paths: "t/u" (DownwardAPI) with "t" (ClusterTrustBundle "x")'],
            id="bundle and fields",
        ),
        pytest.param(
            {"projected": {"sources": [{"podCertificate": {"keyPath": "t", "certificateChainPath": "t", "credentialBundlePath": "u"}}]}},
            ['(Projected): overlapping paths: "t" (PodCertificate key) with "t" (PodCertificate chain)'],
            id="certificate",
        ),
    ],
)  # fmt: skip
def test_files_that_overlap_warn(source: dict[str, Any], warnings: list[str]) -> None:
    """A file is reported with each earlier file that it overlaps."""
    volume = {"name": "v", **source}
    assert pod_volume_warnings([volume], "spec.volumes") == [f'volume "v" {said}' for said in warnings]


@given(st.lists(st.text(st.sampled_from("ab/"), max_size=5), max_size=4))
def test_overlaps_are_the_same_in_a_volume_and_in_a_projection(paths: list[str]) -> None:
    """The warnings differ only in the source of each file."""
    plain = pod_volume_warnings([{"name": "v", "configMap": {"items": _items(*paths)}}], "x")
    sources = [_token(path) for path in paths]
    projected = pod_volume_warnings([{"name": "v", "projected": {"sources": sources}}], "x")
    assert [text.replace(" (ServiceAccountToken)", "").partition("): ")[2] for text in projected] == [
        text.partition("): ")[2] for text in plain
    ]
