"""Discovery: the documents that list what the server serves."""

import json
from pathlib import Path
from typing import Any

import pytest

from pykubelet.apiserver.discovery import (
    aggregated,
    api_group,
    api_group_list,
    api_resource_list,
    etag_of,
    storage_version_hash,
    version_rank,
)
from pykubelet.apiserver.registry import BUILT_IN_KINDS

RECORDED = json.loads((Path(__file__).parents[2] / "upstream/transcripts/discovery.json").read_text())
STEPS = {step["id"]: step for step in RECORDED["steps"]}


@pytest.mark.parametrize(
    ("step", "group", "version"),
    [("v1", "", "v1"), ("apps", "apps", "v1"), ("batch", "batch", "v1"), ("coord", "coordination.k8s.io", "v1")],
)
def test_resource_list_is_the_recorded_one_where_both_serve_a_resource(step: str, group: str, version: str) -> None:
    """Every recorded resource has the same entry here."""
    ours: Any = api_resource_list(BUILT_IN_KINDS, group, version)
    recorded = STEPS[step]["expect"]["body"]
    assert {key: value for key, value in ours.items() if key != "resources"} == {
        key: value for key, value in recorded.items() if key != "resources"
    }
    by_name = {row["name"]: row for row in ours["resources"]}
    assert [by_name.get(row["name"]) for row in recorded["resources"]] == recorded["resources"]


def test_groups_name_their_versions_and_the_core_group_is_not_among_them() -> None:
    """/apis lists named groups only; each has a preferred version."""
    groups = api_group_list(BUILT_IN_KINDS)["groups"]
    assert [group["name"] for group in groups if not group["name"]] == []
    assert groups[0]["name"] == "apps"
    assert all(group["preferredVersion"] == group["versions"][0] for group in groups)
    assert api_group(BUILT_IN_KINDS, "apps") == {"kind": "APIGroup", "apiVersion": "v1", **groups[0]}
    assert api_group(BUILT_IN_KINDS, "nope") is None
    assert api_resource_list(BUILT_IN_KINDS, "apps", "v9") is None


def test_aggregated_discovery_matches_the_single_documents() -> None:
    """The one-document form holds every resource and verb of the others."""
    for legacy in (True, False):
        for group in aggregated(BUILT_IN_KINDS, legacy=legacy)["items"]:
            name = group["metadata"].get("name", "")
            for version in group["versions"]:
                single: Any = api_resource_list(BUILT_IN_KINDS, name, version["version"])
                whole = {row["name"]: row["verbs"] for row in single["resources"]}
                found = {row["resource"]: row["verbs"] for row in version["resources"]}
                for row in version["resources"]:
                    for sub in row.get("subresources", ()):
                        found[f"{row['resource']}/{sub['subresource']}"] = sub["verbs"]
                assert found == whole


def test_versions_are_preferred_as_kubernetes_prefers_them() -> None:
    """Stable versions come before beta and alpha, higher before lower, the rest by name."""
    names = ["v1alpha1", "foo1", "v10", "v1beta1", "v2", "v1", "v11beta2", "v3beta1", "v12alpha1", "v11alpha2", "foo10"]
    assert sorted(names, key=version_rank) == [
        "v10",
        "v2",
        "v1",
        "v11beta2",
        "v3beta1",
        "v1beta1",
        "v12alpha1",
        "v11alpha2",
        "v1alpha1",
        "foo1",
        "foo10",
    ]


def test_hashes_and_tags_tell_forms_apart() -> None:
    """The hash is the recorded one of a ConfigMap; an ETag changes with its document."""
    assert storage_version_hash("", "v1", "ConfigMap") == "qFsyl6wFWjQ="
    assert etag_of({"a": 1}) == etag_of({"a": 1}) != etag_of({"a": 2})
