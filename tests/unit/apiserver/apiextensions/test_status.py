"""Accepted names of a CustomResourceDefinition."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.apiserver.apiextensions.status import find_condition, is_true, with_accepted_names
from widgets import NOW, definition


def _other(**names: Any) -> dict[str, Any]:
    taken = definition(names={"plural": "others", "kind": "Other", **names})
    taken["metadata"] = {"name": "others.example.com"}
    return with_accepted_names(taken, [], NOW)


@pytest.mark.parametrize(
    ("names", "reason", "message"),
    [
        ({"shortNames": ["widget"]}, "SingularConflict", '"widget" is already in use'),
        ({"singular": "widgets"}, "PluralConflict", '"widgets" is already in use'),
        ({"kind": "Widget"}, "KindConflict", '"Widget" is already in use'),
        ({"listKind": "WidgetList"}, "ListKindConflict", '"WidgetList" is already in use'),
        ({"shortNames": ["w", "wd"]}, "ShortNamesConflict", '["w" is already in use, "wd" is already in use]'),
    ],
)
def test_name_that_another_has_is_refused(names: dict[str, Any], reason: str, message: str) -> None:
    """The definition is not established."""
    wanted = definition()
    wanted["spec"]["names"]["shortNames"] = ["w", "wd"]
    refused = with_accepted_names(wanted, [_other(**names)], NOW)
    condition = find_condition(refused, "NamesAccepted")
    assert condition
    assert (condition["status"], condition["reason"], condition["message"]) == ("False", reason, message)
    established = find_condition(refused, "Established")
    assert established
    assert (established["status"], established["reason"]) == ("False", "NotAccepted")


def test_name_is_free_once_the_other_is_gone_or_in_another_group() -> None:
    """Then the definition is established."""
    refused = with_accepted_names(definition(), [_other(kind="Widget")], NOW)
    assert is_true(with_accepted_names(refused, [], NOW), "Established")
    elsewhere = _other(kind="Widget")
    elsewhere["spec"]["group"] = "elsewhere.com"
    assert is_true(with_accepted_names(definition(), [elsewhere], NOW), "Established")


def test_established_definition_keeps_being_served_while_a_new_name_is_refused() -> None:
    """Its accepted names stay as they were."""
    served = with_accepted_names(definition(), [], NOW)
    served["spec"] = {**served["spec"], "names": {**served["spec"]["names"], "singular": "other"}}
    refused = with_accepted_names(served, [_other(shortNames=["other"])], NOW)
    assert is_true(refused, "Established")
    assert not is_true(refused, "NamesAccepted")
    assert refused["status"]["acceptedNames"]["singular"] == "widget"


@given(st.lists(st.sampled_from(["a", "b", "widget"]), max_size=3, unique=True), st.sampled_from(["Widget", "Other"]))
def test_naming_twice_changes_nothing(short: list[str], kind: str) -> None:
    """A later decision on the same names gives the same result."""
    other = _other(shortNames=short, kind=kind)
    once = with_accepted_names(definition(), [other], NOW)
    assert with_accepted_names(once, [other, once], "2030-01-01T00:00:00Z") == once
