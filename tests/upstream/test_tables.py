"""Tables of a real kube-apiserver, rendered again from the same objects.

A transcript changes objects and requests them as tables; the answers to the changes give the objects.
"""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pykubelet.apiserver.registry import BUILT_IN_KINDS
from pykubelet.apiserver.tables.table import as_partial_list, as_table

_TRANSCRIPTS = Path(__file__).parent / "transcripts"
_NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
_CREATED = "2026-11-15T11:59:00Z"
_AGE = re.compile(r"(\d+[smhdy])+")
_KINDS = {(f"/{served.resource.path().strip('/')}"): served for served in BUILT_IN_KINDS}


def _served(path: str) -> tuple[Any, str]:
    """The kind that a path serves, and the name in the path."""
    plain = path.partition("?")[0].replace("/namespaces/${ns}/", "/")
    if plain == path.partition("?")[0] and plain.endswith("/namespaces/${ns}"):
        plain = plain.replace("/${ns}", "/<ns>")
    for prefix in sorted(_KINDS, key=len, reverse=True):
        if plain == prefix or plain.startswith(f"{prefix}/"):
            return _KINDS[prefix], plain[len(prefix) :].strip("/").partition("/")[0]
    raise LookupError(path)


def _steps(transcript: str) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = json.loads((_TRANSCRIPTS / f"{transcript}.json").read_text().replace("<uid>", "u1"))[
        "steps"
    ]
    return steps


def _unmasked(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _unmasked(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_unmasked(item) for item in value]
    if value != "<time>":
        return value
    return "2026-01-01T00:00:00Z" if key == "finishedAt" else _CREATED


def _masked_row(row: dict[str, Any]) -> dict[str, Any]:
    cells = ["<age>" if isinstance(cell, str) and _AGE.fullmatch(cell) else cell for cell in row["cells"]]
    return {"cells": cells, "conditions": row.get("conditions")}


def _is_table(step: dict[str, Any]) -> bool:
    return "as=Table" in step.get("headers", {}).get("Accept", "")


def _tables() -> list[Any]:
    """Each table of the transcripts with the objects as they were at that step."""
    found = []
    for transcript in ("events", "nodes", "tables", "workloads"):
        objects: dict[tuple[str, str], Any] = {}
        for step in _steps(transcript):
            body = step["expect"].get("body") or {}
            if _is_table(step):
                found.append(pytest.param(step, dict(objects), id=f"{transcript}-{step['id']}"))
            elif "kind" in body and "metadata" in body and body["metadata"].get("name"):
                objects[body["kind"], body["metadata"]["name"]] = body
    return found


@pytest.mark.parametrize(("step", "objects"), _tables())
def test_table_equals_the_api_servers(step: dict[str, Any], objects: dict[tuple[str, str], Any]) -> None:
    """Columns with their descriptions, cells and row conditions are those of kube-apiserver 1.34."""
    served, name = _served(step["path"])
    want = step["expect"]["body"]
    names = [row["object"]["metadata"]["name"] for row in want["rows"] if row["object"]]
    if not names:
        names = [row["cells"][0] for row in want["rows"]]
    objects[("Namespace", "<ns>")] = {
        "metadata": {"name": "<ns>", "creationTimestamp": _CREATED},
        "status": {"phase": "Active"},
    }
    items = [_unmasked(objects[served.resource.kind, each]) for each in names]
    document = items[0] if name else {"items": items, "metadata": {"resourceVersion": "7"}}
    got = as_table(document, served, include="Metadata", now=_NOW)
    assert got["columnDefinitions"] == want["columnDefinitions"]
    assert [_masked_row(row) for row in got["rows"]] == [_masked_row(row) for row in want["rows"]]
    assert (got["kind"], got["apiVersion"]) == ("Table", "meta.k8s.io/v1")


def test_metadata_list_equals_the_api_servers() -> None:
    """A list requested as PartialObjectMetadataList holds only metadata."""
    want = next(step for step in _steps("tables") if step["id"] == "meta")["expect"]["body"]
    items = [{"spec": {}, "metadata": each["metadata"]} for each in want["items"]]
    got = as_partial_list({"kind": "PodList", "metadata": {"resourceVersion": "<rv>"}, "items": items})
    assert got == want
