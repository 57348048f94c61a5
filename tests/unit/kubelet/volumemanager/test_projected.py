"""Files of config map, secret, downward API and projected volumes."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.errors import NotFound
from pykubelet.api.generated.core import Pod, ServiceAccountTokenProjection
from pykubelet.kubelet.objectcache.pod_objects import ObjectLookups
from pykubelet.kubelet.volumemanager.errors import VolumeError
from pykubelet.kubelet.volumemanager.projected import (
    FileContent,
    PayloadInputs,
    file_group,
    file_user,
    fingerprint,
    payload_of,
    payload_sources,
)
from pykubelet.testing.build import config_map, secret
from volume_pods import pod_with

TOKEN = ServiceAccountTokenProjection(path="token", expiration_seconds=3600)
BAD_TOKEN = ServiceAccountTokenProjection(path="other", audience="x")
INPUTS = PayloadInputs(
    lookups=ObjectLookups(
        config_maps={
            "c": config_map("c", {"a": "text", "both": "text"}, binary_data={"bin": b"\xff", "both": b"binary"}),
            "gone": NotFound('configmap "gone" not found'),
        },
        secrets={"s": secret("s", {"a": b"secret", "pw": b"\0"}), "gone": NotFound('secret "gone" not found')},
    ),
    tokens={TOKEN: "a.b.c", BAD_TOKEN: ValueError("failed to fetch token: no")},
    allocatable={"cpu": "4"},
)


def shown(pod: Pod, inputs: PayloadInputs = INPUTS) -> dict[str, tuple[bytes, int]]:
    """The files of a pod's first volume."""
    files = payload_of(pod.spec.volumes[0], pod, inputs)
    return {path: (file.data, file.mode) for path, file in files.items()}


def files_of(**source: Any) -> dict[str, tuple[bytes, int]]:
    return shown(pod_with({"name": "v", **source}))


def test_config_map_shows_all_keys_text_and_binary() -> None:
    """Files have the default mode; a key in both maps takes its binary value."""
    expected = {"a": (b"text", 0o644), "both": (b"binary", 0o644), "bin": (b"\xff", 0o644)}
    assert files_of(configMap={"name": "c"}) == expected


def test_items_choose_keys_paths_and_modes() -> None:
    """For config maps and secrets; a chosen key that is in both maps takes its text."""
    items = [{"key": "a", "path": "x/y", "mode": 0o400}, {"key": "both", "path": "b"}]
    assert files_of(configMap={"name": "c", "items": items, "defaultMode": 0o600}) == {
        "x/y": (b"text", 0o400),
        "b": (b"text", 0o600),
    }
    assert files_of(secret={"secretName": "s", "items": items[:1]}) == {"x/y": (b"secret", 0o400)}
    assert files_of(secret={"secretName": "s"}) == {"a": (b"secret", 0o644), "pw": (b"\0", 0o644)}


MISSING = [
    ({"configMap": {"name": "gone"}}, 'configmap "gone" not found'),
    ({"secret": {"secretName": "gone"}}, 'secret "gone" not found'),
    (
        {"configMap": {"name": "c", "items": [{"key": "no", "path": "p"}]}},
        "configmap references non-existent config key: no",
    ),
    ({"secret": {"secretName": "s", "items": [{"key": "no", "path": "p"}]}}, "references non-existent secret key: no"),
]


@pytest.mark.parametrize(("source", "complaint"), MISSING)
def test_missing_object_or_key_is_a_problem_unless_optional(source: dict[str, Any], complaint: str) -> None:
    """An optional missing source gives an empty volume."""
    with pytest.raises(VolumeError) as caught:
        files_of(**source)
    assert str(caught.value) == complaint
    ((kind, fields),) = source.items()
    assert files_of(**{kind: {**fields, "optional": True}}) == {}


def test_downward_api_shows_fields_and_resources() -> None:
    """Paths are cleaned; an item without a source is an empty file."""
    items = [
        {"path": "./name", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}, "mode": 0o440},
        {"path": "cpu", "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu"}},
        {"path": "nothing"},
    ]
    expected = {"name": (b"web", 0o440), "cpu": (b"4", 0o644), "nothing": (b"", 0o644)}
    assert files_of(downwardAPI={"items": items}) == expected


def test_downward_api_reports_all_errors() -> None:
    """Each error appears once."""
    items = [
        {"path": name, "fieldRef": {"apiVersion": "v1", "fieldPath": field}}
        for name, field in (("a", "spec.x"), ("b", "spec.y"), ("c", "spec.x"))
    ]
    with pytest.raises(VolumeError, match=r"^\[unsupported fieldPath: spec\.x, unsupported fieldPath: spec\.y\]$"):
        files_of(downwardAPI={"items": items})


SOURCES: list[dict[str, Any]] = [
    {"configMap": {"name": "c", "items": [{"key": "a", "path": "same"}]}},
    {"secret": {"name": "s", "items": [{"key": "a", "path": "same", "mode": 0o400}]}},
    {"downwardAPI": {"items": [{"path": "uid", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.uid"}}]}},
    {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
]


def test_projected_volume_merges_its_sources_and_the_later_wins() -> None:
    """All four kinds in one volume, with one default mode."""
    files = files_of(projected={"sources": SOURCES, "defaultMode": 0o640})
    assert files["same"] == (b"secret", 0o400)
    assert files["token"] == (b"a.b.c", 0o640)
    assert set(files) == {"same", "uid", "token"}


def test_projected_volume_reports_all_missing_sources() -> None:
    """All sources are read; optional ones may be missing, and unsupported ones are named."""
    sources = [
        {"configMap": {"name": "gone"}},
        {"secret": {"name": "gone", "optional": True}},
        {"serviceAccountToken": {"path": "other", "audience": "x"}},
        {"clusterTrustBundle": {"name": "b", "path": "p"}},
        {"podCertificate": {"signerName": "s", "keyType": "ED25519"}},
    ]
    with pytest.raises(VolumeError) as caught:
        files_of(projected={"sources": sources})
    assert str(caught.value) == (
        '[configmap "gone" not found, failed to fetch token: no, clusterTrustBundle projections are not supported by '
        "this node, podCertificate projections are not supported by this node]"
    )


@pytest.mark.parametrize(
    ("pod_user", "own_users", "group", "expected"),
    [
        (None, [None], None, (0o644, None)),
        (1000, [None], None, (0o600, 1000)),
        (1000, [2000], None, (0o600, 2000)),
        (1000, [None, 1000], None, (0o600, 1000)),
        (1000, [None, 2000], None, (0o644, None)),
        (None, [None, 2000], None, (0o644, None)),
        (None, [None], 3000, (0o600, None)),
    ],
)
def test_token_is_private_when_its_user_or_group_is_known(
    pod_user: int | None, own_users: list[int | None], group: int | None, expected: tuple[int, int | None]
) -> None:
    """It is owned by the one user that all containers run as."""
    containers = [
        {"name": f"c{index}", "securityContext": {} if user is None else {"runAsUser": user}}
        for index, user in enumerate(own_users)
    ]
    context = {"runAsUser": pod_user, "fsGroup": group}
    volume = {"name": "v", "projected": {"sources": [SOURCES[3]]}}
    pod = pod_with(volume, containers=containers, securityContext=context)
    file = payload_of(pod.spec.volumes[0], pod, INPUTS)["token"]
    assert (file.mode, file.owner) == expected
    assert file_user(pod) == expected[1]
    assert file_group(pod) == group


def test_pod_without_security_context_has_neither_user_nor_group() -> None:
    """Its containers have no security context either."""
    assert file_user(pod_with()) is None
    assert file_group(pod_with()) is None


def test_payload_sources_name_all_looked_up_objects() -> None:
    """For every kind of volume, and every source of a projected one."""
    volumes = pod_with(
        {"name": "a", "configMap": {"name": "c1"}},
        {"name": "b", "secret": {"secretName": "s1"}},
        {"name": "c", "emptyDir": {}},
        {"name": "d", "projected": {"sources": SOURCES}},
    ).spec.volumes
    wanted = payload_sources(volumes)
    assert wanted.config_maps == {"c1", "c"}
    assert wanted.secrets == {"s1", "s"}
    assert wanted.tokens == (TOKEN,)


def test_content_of_files_is_never_shown() -> None:
    """Its repr may appear in a log or traceback."""
    assert "hidden" not in repr(FileContent(b"hidden"))


@settings(max_examples=150)
@given(*[st.dictionaries(st.text("a b1", max_size=3), st.binary(max_size=3), max_size=3)] * 2)
def test_fingerprint_differs_exactly_with_the_contents(one: dict[str, bytes], other: dict[str, bytes]) -> None:
    """Order and modes of the files do not matter."""
    left = {path: FileContent(data, 0o600) for path, data in one.items()}
    right = {path: FileContent(data) for path, data in reversed(other.items())}
    assert (fingerprint(left) == fingerprint(right)) is (one == other)


@settings(max_examples=100)
@given(st.permutations(range(len(SOURCES))))
def test_order_of_sources_decides_only_where_they_meet(order: list[int]) -> None:
    """The last source with a path determines its content."""
    files = files_of(projected={"sources": [SOURCES[index] for index in order]})
    last = max((0, 1), key=order.index)
    assert files["same"][0] == (b"text", b"secret")[last]
    assert set(files) == {"same", "uid", "token"}
