"""Rejected manifest documents: which are reported, with which text, and when."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manifest_rig import config_map
from pykubelet.api.errors import ApiError, Conflict, Forbidden, Invalid, NotFound, NotReached
from pykubelet.api.schema import CONFIG_MAPS
from pykubelet.client.manifests.last_known_good import FoundManifests, PathView
from pykubelet.controllers.manifests.controller import (
    PATIENT_TRIES,
    ApplyFailure,
    FailureReporter,
    apply_failure,
    delete_failure,
    make_plan,
    still_deleting_failure,
)
from pykubelet.controllers.manifests.desired import AppliedObject, DesiredObject, kinds_of, read_manifest_documents

CAUSES = [
    {"field": "data.v", "message": 'Invalid value: "1": too short', "reason": "FieldValueInvalid"},
    {"field": "metadata.labels", "message": "Required value", "reason": "FieldValueRequired"},
]


def document() -> DesiredObject:
    reading = read_manifest_documents(f"# above\n{config_map('a')}".encode(), "/m/a")
    found = FoundManifests((PathView(path="/m", files={"/m/a": reading}, is_folder=True),))
    (one,) = make_plan(found, [], kinds_of([CONFIG_MAPS])).applies
    return one


@pytest.mark.parametrize(
    ("error", "text", "may_pass"),
    [
        (
            Invalid("no", details={"causes": CAUSES}),
            'line 5, column 11: data.v: Invalid value: "1": too short; line 4, column 11: metadata.labels: Required value',
            False,
        ),
        (Forbidden("you may not"), "line 2: you may not", False),
        (NotReached("no answer"), "line 2: no answer", True),
        (NotFound("gone"), "line 2: gone", True),
        (
            NotFound('namespaces "x" not found', details={"kind": "namespaces"}),
            'line 2: namespaces "x" not found: create the Namespace, in a manifest or by hand',
            True,
        ),
    ],
)
def test_refusal_names_lines_and_fields(error: ApiError, text: str, may_pass: bool) -> None:
    """The lines are those of the fields in the server's causes, or the document's first line."""
    assert apply_failure(document(), error) == ApplyFailure("/m/a", "ConfigMap default/a", text, may_pass)


def test_object_being_deleted_is_reported() -> None:
    assert (
        still_deleting_failure(document()).text
        == "line 2: ConfigMap default/a is being deleted and will be created again afterwards"
    )


def test_failed_deletion_is_reported() -> None:
    """The file that created the object gets the failure. A conflict is transient."""
    one = document()
    made = AppliedObject(identity=one.identity, resource=CONFIG_MAPS, uid="1", mark=one.mark, is_created=True)
    text = "ConfigMap default/a is not deleted: no"
    assert delete_failure(made, Forbidden("no")) == ApplyFailure("/m/a", "ConfigMap default/a", text, may_pass=False)
    assert delete_failure(made, Conflict("no")).may_pass


def test_transient_failure_is_reported_after_some_tries() -> None:
    """A lasting failure is reported at once; a pass without the failure resets the count."""
    passing, lasting = ApplyFailure("/a", "x", "wait", may_pass=True), ApplyFailure("/a", "y", "bad", may_pass=False)
    patience = FailureReporter()
    for _ in range(2):
        for _ in range(PATIENT_TRIES - 1):
            assert patience.to_report([passing, lasting]) == {"/a": ("bad",)}
        assert patience.to_report([passing, lasting]) == {"/a": ("wait", "bad")}
        assert patience.to_report([]) == {}


@settings(max_examples=60, deadline=None)
@given(passes=st.lists(st.sets(st.sampled_from("abc")), max_size=12))
def test_failure_is_reported_if_it_has_lasted(passes: list[set[str]]) -> None:
    """It must have occurred in each of the last few passes."""
    patience = FailureReporter()
    for number, failing in enumerate(passes, start=1):
        told = patience.to_report([ApplyFailure(f"/{name}", name, name, may_pass=True) for name in sorted(failing)])
        recent = passes[max(0, number - PATIENT_TRIES) : number]
        lasting = set.intersection(*recent) if len(recent) == PATIENT_TRIES else set()
        assert set(told) == {f"/{name}" for name in lasting}
