"""Controller revisions: their data, names, order, and how many are kept."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api import serializer
from pykubelet.api.generated.apps import ControllerRevision, StatefulSet
from pykubelet.api.generated.core import Container, PodSecurityContext, PodSpec, PodTemplateSpec
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.controllers.framework.controller_history import (
    RevisionNaming,
    data_hash,
    is_same_data,
    new_revision,
    next_number,
    restored_template,
    restores,
    revision_data,
    sorted_revisions,
    surplus_revisions,
)

TEMPLATE = PodTemplateSpec(
    metadata=ObjectMeta(labels={"app": "web"}),
    spec=PodSpec(containers=(Container(name="main", image="a:1"),)),
)
OTHER = PodTemplateSpec(metadata=TEMPLATE.metadata, spec=PodSpec(containers=(Container(name="side", image="b:1"),)))
OWNER = StatefulSet(metadata=ObjectMeta(name="web", namespace="ns", uid="u", annotations={"why": "because"}))
NAMING = RevisionNaming("hash", data_hash)


def revision(number: int, name: str = "r", *, at: str | None = None, data: Any = None) -> ControllerRevision:
    return ControllerRevision(metadata=ObjectMeta(name=name, creation_timestamp=at), revision=number, data=data)


def test_revision_holds_a_patch_in_go_order() -> None:
    """`kubectl rollout undo` sends this patch, and compares it byte by byte with its own."""
    text = serializer.encode(revision_data(TEMPLATE)).decode()
    container = '{"image":"a:1","name":"main","resources":{}}'
    spec = f'{{"containers":[{container}]}}'
    assert (
        text
        == f'{{"spec":{{"template":{{"$patch":"replace","metadata":{{"labels":{{"app":"web"}}}},"spec":{spec}}}}}}}'
    )


def test_new_revision_is_named_after_its_data() -> None:
    """The owner supplies annotations and the owner reference, the template the labels; a long name is cut."""
    made = new_revision(OWNER, TEMPLATE, number=3, naming=NAMING, collision_count=0)
    short_hash = data_hash(TEMPLATE, 0)
    assert (made.metadata.name, made.revision) == (f"web-{short_hash}", 3)
    assert made.metadata.labels == {"app": "web", "hash": short_hash}
    assert made.metadata.annotations == {"why": "because"}
    assert [owner.uid for owner in made.metadata.owner_references if owner.controller] == ["u"]
    assert TEMPLATE.metadata.labels == {"app": "web"}
    long = StatefulSet(metadata=ObjectMeta(name="x" * 250))
    assert len(new_revision(long, TEMPLATE, number=1, naming=NAMING, collision_count=0).metadata.name) < 253


def test_hash_depends_on_template_and_collisions() -> None:
    """Characters that Go escapes in JSON are included."""
    escaped = PodTemplateSpec(metadata=ObjectMeta(annotations={"text": "<&>\u2028é"}))
    hashes = [data_hash(TEMPLATE), data_hash(TEMPLATE, 0), data_hash(TEMPLATE, 1), data_hash(OTHER), data_hash(escaped)]
    assert len(set(hashes)) == 5
    assert data_hash(TEMPLATE, 1) == hashes[2]


def test_hash_is_that_of_kubernetes() -> None:
    """Sets taken over from Kubernetes keep their revision names; the value was recorded with 1.34."""
    container = Container(
        name="test",
        image="test",
        image_pull_policy="Always",
        termination_message_path="/dev/termination-log",
        termination_message_policy="File",
    )
    spec = PodSpec(
        containers=(container,),
        dns_policy="ClusterFirst",
        restart_policy="Always",
        scheduler_name="default-scheduler",
        security_context=PodSecurityContext(),
        termination_grace_period_seconds=30,
    )
    metadata = ObjectMeta(annotations={"test": "value"}, labels={"app": "foo"})
    assert data_hash(PodTemplateSpec(metadata=metadata, spec=spec), 0) == "776999688b"


def test_revision_with_nulls_holds_the_same() -> None:
    """Versions before 1.34 wrote null for a missing creation time."""
    data = revision_data(TEMPLATE)
    metadata = {**data["spec"]["template"]["metadata"], "creationTimestamp": None}
    older = {"spec": {"template": {**data["spec"]["template"], "metadata": metadata}}}
    assert is_same_data(revision(1, data=older), data)
    assert not is_same_data(revision(1, data=revision_data(OTHER)), data)


def test_revision_restores_what_the_api_fills_in() -> None:
    """A missing field equals its default; any other difference counts."""
    data = revision_data(TEMPLATE)
    template = {**data["spec"]["template"], "spec": {**data["spec"]["template"]["spec"], "restartPolicy": "Always"}}
    assert restores(revision(1, data={"spec": {"template": template}}), TEMPLATE)
    assert not restores(revision(1, data=revision_data(OTHER)), TEMPLATE)
    assert restored_template(revision(1, data=revision_data(OTHER)), TEMPLATE) == OTHER


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(None, id="nothing"),
        pytest.param([], id="list"),
        pytest.param({"spec": {"template": 3}}, id="number"),
        pytest.param({"spec": {"template": {"$patch": "wrong"}}}, id="unknown directive"),
        pytest.param({"spec": None}, id="null"),
    ],
)
def test_nonsense_restores_nothing(data: Any) -> None:
    """Invalid data is no revision of this template."""
    assert restored_template(revision(1, data=data), TEMPLATE) is None
    assert not restores(revision(1, data=data), TEMPLATE)


def test_order_is_by_number_age_and_name() -> None:
    """The next number is one above the last, and 1 without revisions."""
    old, new = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
    ordered = [revision(1, "z"), revision(2, "b", at=old), revision(2, "c", at=old), revision(2, "a", at=new)]
    assert list(sorted_revisions(reversed(ordered))) == ordered
    assert (next_number(ordered), next_number(())) == (3, 1)


@settings(deadline=None, max_examples=100)
@given(lives=st.lists(st.booleans(), max_size=8), limit=st.integers(-1, 5), count_live=st.booleans())
def test_surplus_revisions_are_the_oldest_unused(lives: list[bool], limit: int, count_live: bool) -> None:
    """Live revisions are never surplus. A negative limit means no limit."""
    old = [revision(number, str(number)) for number in range(len(lives))]
    surplus = surplus_revisions(old, limit, lambda one: lives[one.revision], count_live=count_live)
    assert not any(lives[one.revision] for one in surplus)
    dead = [one for one in old if not lives[one.revision]]
    assert list(surplus) == dead[: len(surplus)]
    if limit < 0:
        assert surplus == ()
    elif count_live:
        assert len(old) - len(surplus) <= limit or len(surplus) == len(dead)
    else:
        assert len(dead) - len(surplus) <= limit
        assert len(surplus) == max(0, len(dead) - limit)
