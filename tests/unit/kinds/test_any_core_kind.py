"""Properties of the strategies of every core kind, of leases and events, over documents of every shape."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any_document import any_document
from pykubelet.api.field_errors import aggregate_text
from pykubelet.api.normal_form import normal_form
from pykubelet.api.serializer import without_nulls
from pykubelet.api.strict import check_object
from pykubelet.kinds.kind import Kind, Strategy
from pykubelet.kinds.registry import KINDS

_GROUPS = ("", "certificates.k8s.io", "coordination.k8s.io", "events.k8s.io")
_KINDS = [
    pytest.param(served, id=served.resource.group_resource)
    for served in KINDS
    if served.strategy != Strategy() and served.resource.group in _GROUPS
]


def _document(random: Any, served: Kind) -> dict[str, Any]:
    kind = {"apiVersion": served.resource.api_version, "kind": served.resource.kind}
    document = any_document(random, served.definition) | kind
    assert check_object(document, served.definition) == []
    return document


@pytest.mark.parametrize("served", _KINDS)
@given(random=st.randoms(use_true_random=True))
@settings(max_examples=25, deadline=None)
def test_defaults_are_idempotent_and_in_normal_form_for_any_document(served: Kind, random: Any) -> None:
    """A second pass changes nothing, and the caller's document is not modified."""
    document = _document(random, served)
    before = json.dumps(document)
    once = served.strategy.default(document)
    assert json.dumps(document) == before
    assert served.strategy.default(once) == once
    assert without_nulls(normal_form(once, served.definition)) == without_nulls(once)


@pytest.mark.parametrize("served", _KINDS)
@given(random=st.randoms(use_true_random=True))
@settings(max_examples=25, deadline=None)
def test_writes_of_any_document_end_in_errors_not_in_failures(served: Kind, random: Any) -> None:
    """Each endpoint returns an object and a list of printable errors, whatever is sent."""
    strategy = served.strategy
    old = strategy.prepare_create(strategy.default(_document(random, served)))
    new = strategy.default(_document(random, served))
    errors = strategy.validate_create(old)
    updated = strategy.prepare_update(new, old)
    errors += strategy.validate_update(updated, old)
    errors += strategy.validate_status(strategy.prepare_status(new, old), old)
    for rules in served.subresource_strategies.values():
        errors += rules.validate_update(rules.prepare_update(new, old), old)
    assert all(error.field and error.body for error in errors)
    assert not errors or aggregate_text(errors)
    assert strategy.fields(updated)["metadata.name"] == updated["metadata"].get("name", "")
    assert strategy.grace_seconds(updated, None) >= 0


@pytest.mark.parametrize("served", _KINDS)
@given(random=st.randoms(use_true_random=True))
@settings(max_examples=25, deadline=None)
def test_an_update_without_a_change_keeps_everything(served: Kind, random: Any) -> None:
    """A stored object that is sent again through either endpoint stays unchanged."""
    strategy = served.strategy
    stored = strategy.prepare_create(strategy.default(_document(random, served)))
    assert strategy.prepare_update(strategy.default(stored), stored) == stored
    by_controller = strategy.prepare_status(strategy.default(stored), stored)
    # Only a delete sets deletionTimestamp, and a node may not change the owners of a pod.
    by_controller["metadata"].setdefault("deletionTimestamp", stored["metadata"].get("deletionTimestamp"))
    assert without_nulls(by_controller) == without_nulls(stored)
