"""Label and field selectors: properties of all selectors, and upstream's syntax errors."""

import re
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.fields import FieldRequirement, FieldSelector, escape_value, parse_field_selector, unescape_value
from pykubelet.api.generated.meta import LabelSelector, LabelSelectorRequirement
from pykubelet.api.labels import (
    EVERYTHING,
    NOTHING,
    Operator,
    Requirement,
    Selector,
    SelectorError,
    parse_selector,
    requirement,
    selector_from_document,
    selector_from_labels,
    selector_from_object,
    sorted_selector,
)
from pykubelet.api.serializer import to_document

laws = settings(max_examples=200, deadline=None)
KEYS = st.sampled_from(["a", "b", "in", "notin", "k8s.io/n"])
VALUES = st.sampled_from(["", "1", "2", "12", "x", "in"])
NUMBERS = st.integers(0, 20).map(str)
LABELS = st.dictionaries(KEYS, VALUES)
REQUIREMENTS = st.one_of(
    st.builds(requirement, KEYS, st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST])),
    st.builds(
        lambda key, operator, value: requirement(key, operator, (value,)),
        KEYS,
        st.sampled_from([Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.NOT_EQUALS]),
        VALUES,
    ),
    st.builds(
        lambda key, operator, value: requirement(key, operator, (value,)),
        KEYS,
        st.sampled_from([Operator.GREATER_THAN, Operator.LESS_THAN]),
        NUMBERS,
    ),
    st.builds(
        lambda key, operator, values: requirement(key, operator, sorted(values)),
        KEYS,
        st.sampled_from([Operator.IN, Operator.NOT_IN]),
        st.sets(VALUES, min_size=1),
    ),
)
SELECTORS = st.lists(REQUIREMENTS, max_size=5).map(sorted_selector)
OBJECTS = st.builds(
    LabelSelector,
    match_labels=LABELS,
    match_expressions=st.lists(
        st.one_of(
            st.builds(
                LabelSelectorRequirement,
                key=KEYS,
                operator=st.sampled_from(["In", "NotIn"]),
                values=st.lists(VALUES, min_size=1, max_size=3, unique=True).map(tuple),
            ),
            st.builds(LabelSelectorRequirement, key=KEYS, operator=st.sampled_from(["Exists", "DoesNotExist"])),
        ),
        max_size=3,
    ).map(tuple),
)


@laws
@given(SELECTORS)
def test_selector_is_read_back_from_its_string_form(selector: Selector) -> None:
    assert parse_selector(str(selector)) == selector


@laws
@given(SELECTORS, LABELS)
def test_selector_matches_when_each_requirement_does(selector: Selector, labels: Mapping[str, str]) -> None:
    """Requirements are joined by AND, and an opposite requirement gives the opposite answer."""
    assert selector.matches(labels) == all(one.matches(labels) for one in selector.requirements)
    opposites = {Operator.IN: Operator.NOT_IN, Operator.EQUALS: Operator.NOT_EQUALS}
    for one in selector.requirements:
        if opposite := opposites.get(one.operator):
            assert Requirement(one.key, opposite, one.values).matches(labels) != one.matches(labels)


@laws
@given(OBJECTS, LABELS)
def test_selector_of_an_object_is_the_same_from_struct_document_and_text(
    selector: LabelSelector, labels: dict[str, str]
) -> None:
    """Struct, document and string form of one LabelSelector select the same objects."""
    from_struct = selector_from_object(selector)
    assert selector_from_document(to_document(selector)) == from_struct
    assert parse_selector(str(from_struct)).matches(labels) == from_struct.matches(labels)
    assert from_struct.empty() == (from_struct == EVERYTHING)


@laws
@given(LABELS)
def test_selector_from_labels_matches_those_labels(labels: dict[str, str]) -> None:
    """An object that has the labels, and more of them, is selected."""
    selector = selector_from_labels(labels)
    assert selector.matches({**labels, "more": "x"})
    assert selector == selector_from_object(LabelSelector(match_labels=labels))


def test_null_selects_nothing_and_an_empty_object_everything() -> None:
    """Both have an empty string form."""
    assert selector_from_document(None) == NOTHING
    assert selector_from_document({}) == EVERYTHING
    assert (NOTHING.matches({}), NOTHING.empty(), str(NOTHING)) == (False, False, "")
    assert (EVERYTHING.matches({}), EVERYTHING.empty(), str(EVERYTHING)) == (True, True, "")


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("a in (,,b)", "a in (,b)"),
        ("a in (b,,,c)", "a in (,b,c)"),
        ("a\r\nin\t(b)", "a in (b)"),
        ("a=1\0", "a=1"),
        ("a=1 \0,,,", "a=1"),
        ("a\0=1", "a=1"),
    ],
)
def test_parse_selector_accepts_what_upstream_accepts(text: str, parsed: str) -> None:
    assert str(parse_selector(text)) == parsed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a in (,,)", "unable to parse requirement: found ')', expected: ',', or identifier"),
        ("a in (b,", "unable to parse requirement: found '', expected: ',', or identifier"),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("!a=1", "found '=', expected: ',' or 'end of string'"),
        ("!!a", "unable to parse requirement: found '!', expected: identifier"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a\0b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
    ],
)
def test_parse_selector_rejects_bad_text_with_the_message_of_upstream(text: str, message: str) -> None:
    with pytest.raises(SelectorError, match=f"^{re.escape(message)}$"):
        parse_selector(text)


@pytest.mark.parametrize(
    ("operator", "values", "message"),
    [
        (Operator.IN, (), "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"),
        (Operator.EQUALS, ("1", "2"), 'values: Invalid value: ["1","2"]: exact-match compatibility requires one'),
        (Operator.LESS_THAN, (), "values: Invalid value: null: for 'Gt', 'Lt' operators, exactly one value is"),
        (Operator.LESS_THAN, ("x",), "values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an"),
        (Operator.EXISTS, ("-",), '[values: Invalid value: ["-"]: values set must be empty for exists and does not'),
    ],
)
def test_requirement_is_refused_when_operator_and_values_disagree(
    operator: Operator, values: tuple[str, ...], message: str
) -> None:
    with pytest.raises(SelectorError, match=re.escape(message)):
        requirement("a", operator, values)


@pytest.mark.parametrize("labels", [{}, {"n": "x"}, {"n": ""}, {"n": "9" * 30}, {"n": "5"}])
def test_comparison_does_not_match_when_the_label_is_no_greater_number(labels: dict[str, str]) -> None:
    assert not parse_selector("n>5").matches(labels)


@laws
@given(st.text(alphabet="ab\\,=!é ", max_size=8))
def test_field_value_survives_escaping(value: str) -> None:
    """Any value can be escaped in a field selector and parsed back."""
    assert unescape_value(escape_value(value)) == value
    selector = parse_field_selector(f"f={escape_value(value)},g!=x")
    assert selector.matches({"f": value})
    assert parse_field_selector(str(selector)) == selector
    assert selector.required_value("f") == value


@laws
@given(st.text(alphabet="ab\\,=! ", max_size=10), st.dictionaries(st.sampled_from("ab"), st.sampled_from(["", "a"])))
def test_field_selector_is_read_back_from_its_string_form(text: str, fields: dict[str, str]) -> None:
    """Any text is a selector or a SelectorError; parsing a selector's string form yields the same selector."""
    try:
        selector = parse_field_selector(text)
    except SelectorError:
        return
    assert parse_field_selector(str(selector)).matches(fields) == selector.matches(fields)


def test_field_selector_requires_no_value_when_it_only_excludes() -> None:
    """An unequal term, or a term about another field, names no value to look up."""
    selector = FieldSelector((FieldRequirement("a", "1", equal=False), FieldRequirement("b", "2")))
    assert (selector.required_value("a"), selector.required_value("b"), selector.required_value("c")) == (
        None,
        "2",
        None,
    )


@pytest.mark.parametrize("text", ["=" * 100_000, "a" * 200_000, "a in (" * 50_000, "(" * 100_000, " " * 200_000 + "="])
def test_parsing_takes_linear_time_when_the_text_is_hostile(text: str) -> None:
    """The time limit of the test is the check."""
    with pytest.raises(SelectorError):
        parse_selector(text)
    with pytest.raises(SelectorError):
        parse_field_selector(text + ",x")
