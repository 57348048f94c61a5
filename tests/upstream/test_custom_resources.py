"""The strategies answer for a CRD and its objects as a real kube-apiserver did, without a server.

Each step of the transcript is played against the strategies: what the server alone adds (uid, times, revisions) is
masked in the transcript and left out here.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from pykubelet.api.field_errors import FieldError, aggregate_text
from pykubelet.api.normal_form import normal_form
from pykubelet.api.patch.json_merge_patch import apply_merge
from pykubelet.apiserver.apiextensions.controller import served_rows
from pykubelet.apiserver.apiextensions.customresourcedefinition import KIND
from pykubelet.apiserver.apiextensions.status import with_accepted_names
from pykubelet.kinds.kind import Kind

_TIME = "2026-11-15T12:00:00Z"
_STEPS: dict[str, Any] = {
    step["id"]: step
    for step in json.loads(
        (Path(__file__).parent / "transcripts/crds.json")
        .read_text()
        .replace("${ns}", "ns")
        .replace("<ns>", "ns")
        .replace("<time>", _TIME)
    )["steps"]
}
_MASKED = ("uid", "resourceVersion", "creationTimestamp", "namespace")
_DEFINITION = "apiextensions.v1.CustomResourceDefinition"


def _answer(step: str) -> dict[str, Any]:
    body: dict[str, Any] = _STEPS[step]["expect"]["body"]
    return body


def _plain(document: dict[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in document["metadata"].items() if key not in _MASKED}
    return {**document, "metadata": metadata}


def _created() -> dict[str, Any]:
    rules = KIND.strategy
    document = rules.default(normal_form(_STEPS["crd"]["body"], _DEFINITION))
    document = rules.prepare_create(document)
    assert rules.validate_create(document) == []
    return document


def _widgets() -> Kind:
    (served,) = served_rows(with_accepted_names(_created(), [], _TIME))
    return served


def _stored(document: dict[str, Any]) -> dict[str, Any]:
    metadata = {**document["metadata"], "namespace": "ns", "resourceVersion": "1"}
    return {**document, "metadata": metadata}


def _causes(errors: list[FieldError]) -> list[dict[str, str]]:
    return [{"reason": str(error.type), "message": error.body, "field": error.field} for error in errors]


def test_definition_is_created_as_the_api_server_does() -> None:
    """Names get their defaults, storedVersions is set, and no name is accepted yet."""
    assert _plain(_created()) == _plain(_answer("crd"))


def test_definition_is_established_as_the_api_server_does() -> None:
    """Both conditions and the accepted names are those of kube-apiserver."""
    assert _plain(with_accepted_names(_created(), [], _TIME)) == _plain(_answer("est"))


def test_object_is_pruned_and_defaulted_with_a_warning_as_the_api_server_does() -> None:
    """An unknown field is pruned with a warning that names it, and a default is filled in."""
    served, body = _widgets(), _STEPS["mk"]["body"]
    unknown = served.strategy.unknown(body)
    assert [f'299 - "unknown field \\"{path}\\""' for path in unknown] == [_STEPS["mk"]["expect"]["warning"]]
    created = served.strategy.prepare_create(served.strategy.default(_stored(body)))
    assert served.strategy.validate_create(created) == []
    assert _plain(created) == _plain(_answer("mk"))


@pytest.mark.parametrize("step", ["small", "enum", "req", "type"])
def test_object_is_refused_in_the_words_of_the_api_server(step: str) -> None:
    """Causes and message of the Status are those of kube-apiserver."""
    served, want = _widgets(), _answer(step)
    document = served.strategy.prepare_create(served.strategy.default(_stored(_STEPS[step]["body"])))
    errors = served.strategy.validate_create(document)
    assert _causes(errors) == want["details"]["causes"]
    name, group = want["details"]["name"], want["details"]["group"]
    assert f'Widget.{group} "{name}" is invalid: {aggregate_text(errors)}' == want["message"]


def test_patch_leaves_the_status_alone_and_moves_the_generation() -> None:
    """A patch of spec and status through the main resource changes the spec only."""
    served, old = _widgets(), _stored(_answer("mk"))
    patched = served.strategy.default(apply_merge(old, _STEPS["patch"]["body"]))
    new = served.strategy.prepare_update(patched, old)
    assert served.strategy.validate_update(new, old) == []
    assert _plain(new) == _plain(_answer("patch"))


def test_patch_of_the_status_leaves_the_rest_alone() -> None:
    """A patch of spec and status through the subresource changes the status only."""
    served, old = _widgets(), _stored(_answer("patch"))
    patched = served.strategy.default(apply_merge(old, _STEPS["status"]["body"]))
    new = served.strategy.prepare_status(patched, old)
    assert served.strategy.validate_status(new, old) == []
    assert _plain(new) == _plain(_answer("status"))


def test_table_has_the_printer_columns() -> None:
    """Headers and cells of the custom columns are those of kube-apiserver."""
    served, want = _widgets(), _answer("table")
    assert list(served.columns or ()) == want["columnDefinitions"]
    assert served.cells is not None
    assert served.cells(_answer("status"), lambda _time: "") == want["rows"][0]["cells"]


def test_deletion_of_a_definition_starts_as_the_api_server_does() -> None:
    """A finalizer keeps the definition until its objects are gone, and a condition reports that."""
    old = with_accepted_names(_created(), [], _TIME)
    marked = {**old, "metadata": {**old["metadata"], "deletionTimestamp": _TIME}}
    assert _plain(KIND.strategy.prepare_delete(marked)) == _plain(_answer("del"))
