"""What users hear of documents that the server did not take, and when."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manifest_rig import config_map
from pykubelet.api.errors import ApiError, Conflict, Forbidden, Invalid, NotFound, NotReached
from pykubelet.api.resources import CONFIG_MAPS
from pykubelet.controllers.manifests.marks import Present
from pykubelet.controllers.manifests.plan import make_plan
from pykubelet.controllers.manifests.refusals import (
    PATIENT_TRIES,
    Failure,
    Patience,
    refusal,
    still_ending,
    undeletable,
)
from pykubelet.controllers.manifests.wishes import Apply, kinds_of, read_wishes
from pykubelet.kube.manifests.last_known_good import Found, PathView

CAUSES = [
    {"field": "data.v", "message": 'Invalid value: "1": too short', "reason": "FieldValueInvalid"},
    {"field": "metadata.labels", "message": "Required value", "reason": "FieldValueRequired"},
]


def document() -> Apply:
    reading = read_wishes(f"# above\n{config_map('a')}".encode(), "/m/a")
    found = Found((PathView(path="/m", files={"/m/a": reading}, is_folder=True),))
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
            'line 2: namespaces "x" not found: a Namespace is needed, here or made by hand',
            True,
        ),
    ],
)
def test_refusal_names_lines_and_fields(error: ApiError, text: str, may_pass: bool) -> None:
    """Those the server spoke of, or the document's first."""
    assert refusal(document(), error) == Failure("/m/a", "ConfigMap default/a", text, may_pass)


def test_object_that_is_going_is_told_as_such() -> None:
    assert still_ending(document()).text == "line 2: ConfigMap default/a is being deleted, and is made anew after that"


def test_object_that_cannot_be_deleted_is_told() -> None:
    """By name, at the file that made it; another one of its name by now will be seen at the next pass."""
    one = document()
    made = Present(identity=one.identity, resource=CONFIG_MAPS, uid="1", mark=one.mark, is_created=True)
    text = "ConfigMap default/a is not deleted: no"
    assert undeletable(made, Forbidden("no")) == Failure("/m/a", "ConfigMap default/a", text, may_pass=False)
    assert undeletable(made, Conflict("no")).may_pass


def test_what_may_pass_is_told_after_some_tries() -> None:
    """And what will not pass at once; a success in between starts the count anew."""
    passing, lasting = Failure("/a", "x", "wait", may_pass=True), Failure("/a", "y", "bad", may_pass=False)
    patience = Patience()
    for _ in range(2):
        for _ in range(PATIENT_TRIES - 1):
            assert patience.worth_telling([passing, lasting]) == {"/a": ("bad",)}
        assert patience.worth_telling([passing, lasting]) == {"/a": ("wait", "bad")}
        assert patience.worth_telling([]) == {}


@settings(max_examples=60, deadline=None)
@given(passes=st.lists(st.sets(st.sampled_from("abc")), max_size=12))
def test_failure_is_told_if_it_has_lasted(passes: list[set[str]]) -> None:
    """Exactly those that failed in each of the last few passes."""
    patience = Patience()
    for number, failing in enumerate(passes, start=1):
        told = patience.worth_telling([Failure(f"/{name}", name, name, may_pass=True) for name in sorted(failing)])
        recent = passes[max(0, number - PATIENT_TRIES) : number]
        lasting = set.intersection(*recent) if len(recent) == PATIENT_TRIES else set()
        assert set(told) == {f"/{name}" for name in lasting}
