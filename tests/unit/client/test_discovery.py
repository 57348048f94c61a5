"""The resources that a server serves, read from its aggregated discovery."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.errors import InternalError
from pykubelet.api.schema import CONFIG_MAPS, DEPLOYMENTS, NAMESPACES, PODS, Resource
from pykubelet.apiserver.discovery import aggregated
from pykubelet.apiserver.registry import BUILT_IN_KINDS
from pykubelet.client.discovery import APPLIED_VERBS, Discovery, read_catalogue, read_discovery
from pykubelet.testing.local_api import local_api


def served(*, legacy: bool) -> bytes:
    return json.dumps(aggregated(BUILT_IN_KINDS, legacy=legacy)).encode()


async def test_discovery_over_http_and_within_the_process_agree(tmp_path: Path) -> None:
    """The resources are the same, with the versions of each group in order of preference."""
    parts = [read_discovery(served(legacy=legacy), APPLIED_VERBS) for legacy in (True, False)]
    found = parts[0].resources + parts[1].resources
    assert [part.unsure for part in parts] == [(), ()]
    assert {PODS, CONFIG_MAPS, NAMESPACES, DEPLOYMENTS} <= set(found)
    assert not [resource for resource in found if resource.kind in {"Binding", "TokenReview", "SubjectAccessReview"}]
    async with local_api(tmp_path) as api:
        local = await api.client.served()
    assert sorted(map(repr, local)) == sorted(map(repr, found))
    for group in {resource.group for resource in found}:
        versions = [list(dict.fromkeys(one.version for one in all_ if one.group == group)) for all_ in (found, local)]
        assert versions[0] == versions[1]


def test_resource_of_unknown_kind_is_left_out() -> None:
    """A server that cannot reach an API group omits the kinds of its resources."""
    rows = [
        {"resource": "stale", "scope": "Namespaced", "verbs": ["list", "patch"]},
        {"resource": "readable", "scope": "Cluster", "verbs": ["list"], "responseKind": {"kind": "Readable"}},
    ]
    body = {"items": [{"metadata": {"name": "x"}, "versions": [{"version": "v1", "resources": rows}]}]}
    assert read_discovery(json.dumps(body).encode(), APPLIED_VERBS) == Discovery(())


def test_stale_group_version_is_reported_as_unsure() -> None:
    """Resources known from before count as served."""
    row = {"resource": "old", "scope": "Namespaced", "verbs": ["list", "delete"], "responseKind": {"kind": "Old"}}
    versions = [
        {"version": "v2", "freshness": "Stale"},
        {"version": "v1", "freshness": "Stale", "resources": [row]},
        {"version": "v0", "freshness": "Current", "resources": [row]},
    ]
    body = json.dumps({"items": [{"metadata": {"name": "x"}, "versions": versions}]}).encode()
    known = tuple(Resource("x", version, "old", "Old") for version in ("v1", "v0"))
    assert read_discovery(body, frozenset({"delete"})) == Discovery(known, ("x/v2", "x/v1"))
    assert read_discovery(body, frozenset({"patch"})) == Discovery((), ("x/v2", "x/v1"))


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"items": 1}', b"<html>"])
def test_body_that_is_not_a_discovery_document_is_an_error(body: bytes) -> None:
    with pytest.raises(InternalError, match="discovery cannot be read"):
        read_discovery(body, APPLIED_VERBS)


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(0, 4000))
def test_discovery_that_is_cut_short_is_an_error(cut: int) -> None:
    """A truncated body never yields a part of the resources."""
    with pytest.raises(InternalError):
        read_discovery(served(legacy=True)[:cut], APPLIED_VERBS)


def test_catalogue_has_all_names_of_a_resource() -> None:
    """Singular, short names and categories."""
    found = {one.resource.plural: one for one in read_catalogue(served(legacy=True))}
    pods = found["pods"]
    assert (pods.singular, pods.short_names, pods.categories) == ("pod", ("po",), ("all",))
    assert {"get", "list", "watch", "delete"} <= pods.verbs
