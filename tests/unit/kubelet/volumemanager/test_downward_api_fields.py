"""Pod fields as text, with cases of fieldpath_test.go and kubelet_pods_test.go."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pykubelet.api.generated.core import ObjectFieldSelector
from pykubelet.kubelet.volumemanager.downward_api import (
    Addresses,
    UnknownField,
    field_value,
    format_map,
    metadata_value,
)
from pykubelet.testing.build import pod

POD = pod(
    "web",
    namespace="shop",
    uid="uid-1",
    labels={"app": "web", "a.b/tier": "front"},
    annotations={"note": 'say "hi"\n', "Upper/Key": "x"},
    service_account_name="clerk",
)
ADDRESSES = Addresses(pod_ips=("10.1.0.5", "fd00::5"), host_ips=("192.168.0.1", "fd00::1"))
VALUES = {
    "metadata.name": "web",
    "metadata.namespace": "shop",
    "metadata.uid": "uid-1",
    "metadata.labels": 'a.b/tier="front"\napp="web"',
    "metadata.annotations": 'Upper/Key="x"\nnote="say \\"hi\\"\\n"',
    "metadata.labels['app']": "web",
    "metadata.labels['a.b/tier']": "front",
    "metadata.labels['none']": "",
    "metadata.annotations['note']": 'say "hi"\n',
    "metadata.annotations['Upper/Key']": "x",
    "spec.nodeName": "node-1",
    "spec.host": "node-1",
    "spec.serviceAccountName": "clerk",
    "status.hostIP": "192.168.0.1",
    "status.hostIPs": "192.168.0.1,fd00::1",
    "status.podIP": "10.1.0.5",
    "status.podIPs": "10.1.0.5,fd00::5",
}
UNKNOWN = {
    "metadata.labels['']": "invalid key subscript in metadata.labels['']: name part must be non-empty",
    "metadata.name['x']": "field label does not support subscript: metadata.name['x']",
    "spec.restartPolicy": "unsupported fieldPath: spec.restartPolicy",
    "spec.containers": "field label not supported: spec.containers",
    "['x']": "field label not supported: ['x']",
    "x']": "field label not supported: x']",
}


@pytest.mark.parametrize(("path", "value"), VALUES.items())
def test_field_has_its_value(path: str, value: str) -> None:
    """All fields that an environment variable may refer to."""
    assert field_value(ObjectFieldSelector(api_version="v1", field_path=path), POD, ADDRESSES) == value


@pytest.mark.parametrize(("path", "complaint"), UNKNOWN.items())
def test_field_is_refused_when_it_has_no_value(path: str, complaint: str) -> None:
    """The errors are upstream's texts."""
    with pytest.raises(UnknownField) as caught:
        field_value(ObjectFieldSelector(api_version="v1", field_path=path), POD, ADDRESSES)
    assert str(caught.value).startswith(complaint)


def test_field_is_refused_when_its_version_is_not_v1() -> None:
    """The only version of pods is v1."""
    with pytest.raises(UnknownField, match=r"^unsupported pod version: v2$"):
        field_value(ObjectFieldSelector(api_version="v2", field_path="metadata.name"), POD, ADDRESSES)


def test_addresses_are_empty_when_there_are_none_yet() -> None:
    """They are no error: the container may start before its addresses are known."""
    for path in ("status.podIP", "status.hostIP", "status.podIPs"):
        assert field_value(ObjectFieldSelector(api_version="v1", field_path=path), POD, Addresses()) == ""


def test_file_shows_metadata_only() -> None:
    """A volume may not contain other fields, nor a subscript of them."""
    with pytest.raises(UnknownField, match=r"^unsupported fieldPath: spec\.nodeName$"):
        metadata_value("spec.nodeName", POD)
    with pytest.raises(UnknownField, match=r"^fieldPath \"spec\['x'\]\" does not support subscript$"):
        metadata_value("spec['x']", POD)


@settings(max_examples=100)
@given(st.dictionaries(st.text("abc/.", min_size=1, max_size=4), st.text(max_size=6), max_size=4))
def test_map_takes_one_line_per_entry_in_order(entries: dict[str, str]) -> None:
    """Newlines in values are escaped; the order of the map does not matter."""
    text = format_map(entries)
    assert [line.partition("=")[0] for line in text.split("\n") if line] == sorted(entries)
    assert format_map(dict(reversed(entries.items()))) == text
    assert metadata_value("metadata.labels", replace(POD, metadata=replace(POD.metadata, labels=entries))) == text
