"""Results of applying a document: outcome, conflicts and invalid fields."""

import pytest

from pykubelet.api.errors import ApiError, BadRequest, Conflict, Invalid
from pykubelet.api.manifest import ManifestItem, read_manifest
from pykubelet.api.serializer import Document
from pykubelet.cli.actions.apply import conflict_hint, outcome, refusal_lines

TEXT = b"""apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      containers:
      - name: other
        image: x
      - name: main
        image: one
        env:
        - {name: A, value: b}
"""


@pytest.fixture
def item() -> ManifestItem:
    return read_manifest(TEXT, origin="web.yaml").items[0]


def document(**fields: object) -> Document:
    metadata = {"name": "web", "resourceVersion": "1", "generation": 1, "managedFields": []}
    return {"metadata": metadata, "spec": {"a": 1}, **fields}


OTHER_REVISION = document(metadata={"name": "web", "resourceVersion": "2", "managedFields": [1]})


@pytest.mark.parametrize(
    ("before", "after", "word"),
    [
        (None, document(), "created"),
        (document(), document(), "unchanged"),
        (document(), OTHER_REVISION, "unchanged"),
        (document(), document(status={"ready": 1}), "unchanged"),
        (document(), document(spec={"a": 2}), "configured"),
        (document(), document(metadata={"name": "web", "labels": {"a": "b"}}), "configured"),
    ],
)
def test_outcome_ignores_status_and_server_metadata(before: Document | None, after: Document, word: str) -> None:
    assert outcome(before, after) == word


def conflict(*fields: str) -> Conflict:
    causes = [
        {"reason": "FieldManagerConflict", "message": 'conflict with "kubectl" using apps/v1', "field": field}
        for field in fields
    ]
    return Conflict("Apply failed", details={"causes": causes})


def test_conflict_names_owner_and_line(item: ManifestItem) -> None:
    """List elements are found by their merge keys."""
    main = '.spec.template.spec.containers[name="main"]'
    error = conflict(".spec.replicas", f"{main}.image", f'{main}.env[name="A"].value')
    owned = 'another manager owns this field: "kubectl" using apps/v1'
    assert refusal_lines(item, error) == [
        f"web.yaml:5:13: spec.replicas: {owned}",
        f"web.yaml:14:16: spec.template.spec.containers[1].image: {owned}",
        f"web.yaml:16:28: spec.template.spec.containers[1].env[0].value: {owned}",
    ]
    assert "--force-conflicts" in conflict_hint(error)


@pytest.mark.parametrize(
    "field",
    ['.spec.template.spec.containers[name="gone"].image', '.spec.replicas[a="b"].c', '.spec.list[0].deep[a="b"].c'],
)
def test_conflict_on_a_field_outside_the_manifest_is_reported(item: ManifestItem, field: str) -> None:
    """The place is the nearest enclosing field in the manifest."""
    (line,) = refusal_lines(item, conflict(field))
    assert line.startswith("web.yaml:")
    assert '"kubectl"' in line


def test_invalid_field_has_its_line(item: ManifestItem) -> None:
    """Each cause becomes one line."""
    error = Invalid("whole", details={"causes": [{"field": "spec.replicas", "message": "Invalid value: 2"}]})
    assert refusal_lines(item, error) == ["web.yaml:5:13: spec.replicas: Invalid value: 2"]


@pytest.mark.parametrize("error", [BadRequest("strict decoding error"), Conflict("changed meanwhile")])
def test_error_without_a_field_is_reported_at_the_document(item: ManifestItem, error: ApiError) -> None:
    """It has the server's message and no hint about conflicts."""
    assert refusal_lines(item, error) == [f"web.yaml:1:1: {error.message}"]
    assert conflict_hint(error) == ""
