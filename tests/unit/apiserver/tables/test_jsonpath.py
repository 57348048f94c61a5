"""kubectl's dialect of JSONPath: values, errors and invalid paths."""

import contextlib
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.apiserver.tables.jsonpath import JsonPathError, find, json_path

_DOCUMENT: dict[str, Any] = {
    "spec": {"size": 3, "dotted.key": "d", "list": [1, 2, 3, 4], "none": None, "text": "x"},
    "data": {"switches": [{"on": True, "weight": 0.5, "name": 'a"b'}, {"on": False, "weight": 1.5, "name": "c"}]},
    "status": {
        "conditions": [
            {"type": "Ready", "status": "True", "age": 7},
            {"type": "Seen", "status": "False", "age": 9},
        ]
    },
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.size", [3]),
        ("$.spec.size", [3]),
        (".spec.missing.deeper", []),
        (".spec.none", [None]),
        (".spec.none.deeper", []),
        (".spec.text.deeper", []),
        (r".spec.dotted\.key", ["d"]),
        (".spec['size']", [3]),
        (".spec.list[0]", [1]),
        (".spec.list[-1]", [4]),
        (".spec.list[1:3]", [2, 3]),
        (".spec.list[:2]", [1, 2]),
        (".spec.list[::1]", [1, 2, 3, 4]),
        (".spec.list[::2]", [1, 3]),
        (".spec.list[-2:]", [3, 4]),
        (".spec.list[0,2]", [1, 3]),
        (".spec.list[*]", [1, 2, 3, 4]),
        (".status.conditions[*].type", ["Ready", "Seen"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type == 'Seen')].status", ["False"]),
        (".status.conditions[?(@.age>8)].type", ["Seen"]),
        (".status.conditions[?(@.age<=7)].type", ["Ready"]),
        (".status.conditions[?(@.nope)].type", []),
        (".status.conditions[?(@.nope==1)].type", []),
        ('.status.conditions[?(@.type!="Ready")].type', ["Seen"]),
        (".spec.none[0]", []),
        (".status.*", [_DOCUMENT["status"]["conditions"]]),
        ("..type", ["Ready", "Seen"]),
        (".", []),
        (".spec.list[3]", [4]),
        (".spec.list[-4]", [1]),
        (".spec.list[1:]", [2, 3, 4]),
        (".spec.list[0:4]", [1, 2, 3, 4]),
        (".spec.list[1:4:2]", [2, 4]),
        (".spec.list[-3:-1]", [2, 3]),
        ("..age", [7, 9]),
        (".status.conditions[?(@.age>7)].type", ["Seen"]),
        (".status.conditions[?(@.age>=7)].type", ["Ready", "Seen"]),
        (".status.conditions[?(@.age<9)].type", ["Ready"]),
        (".status.conditions[?(@.age<=9)].type", ["Ready", "Seen"]),
        (".status.conditions[?(@.age==7)].type", ["Ready"]),
        (".status.conditions[?(@.age!=7)].type", ["Seen"]),
        (".status.conditions[?(@.age>-1)].type", ["Ready", "Seen"]),
        (".status.conditions[?(@.age)].type", ["Ready", "Seen"]),
        (".data.switches[?(@.on==true)].name", ['a"b']),
        (".data.switches[?(@.on==false)].name", ["c"]),
        (".data.switches[?(@.on!=true)].name", ["c"]),
        (".data.switches[?(@.weight==0.5)].name", ['a"b']),
        (".data.switches[?(@.weight>0.5)].name", ["c"]),
        (r""".data.switches[?(@.name=='a\"b')].on""", [True]),
    ],
)
def test_path_leads_to_values(path: str, found: list[Any]) -> None:
    """A missing field is not an error."""
    assert find(path, _DOCUMENT) == found


def test_object_that_two_ways_lead_to_is_found_once() -> None:
    """Equal values in several places are all found."""
    document = {"a": {"a": {"b": {"c": 1}}}, "d": {"b": {"c": 1}}, "e": {"b": 1}, "f": {"b": 1}}
    assert find("..a..b", document) == [{"c": 1}]
    assert find("..b", document) == [{"c": 1}, {"c": 1}, 1, 1]


@pytest.mark.parametrize(
    "path",
    [
        ".spec.list[9]",
        ".spec.list[4]",
        ".spec.list[-5]",
        ".spec.list[3:1]",
        ".spec.list[-9:2]",
        ".spec.list[::-1]",
        ".status.conditions[?(@.*==1)]",
        ".spec.list[?(@==true)]",
        ".spec.list[2:9]",
        ".spec.size[0]",
        '.status.conditions[?(@.age=="7")]',
        ".spec[?(@.a==1)]",
    ],
)
def test_path_that_does_not_fit_the_document_is_an_error(path: str) -> None:
    """Examples: an index beyond the list, a comparison of different types."""
    with pytest.raises(JsonPathError):
        find(path, _DOCUMENT)


@pytest.mark.parametrize(
    "path", [".a[", ".a[x]", ".a[?(@.b", "{", "range", ".a[?(@.b=!1)]", ".a[::0]", ".a[?(@.b==1.2.3)]"]
)
def test_invalid_path_is_refused(path: str) -> None:
    """Parsing fails before any document is read."""
    with pytest.raises(JsonPathError):
        json_path(path)


@given(
    st.text(max_size=30),
    st.recursive(
        st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    ),
)
def test_any_text_is_a_path_or_an_error(path: str, document: Any) -> None:
    """No other error is raised."""
    with contextlib.suppress(JsonPathError):
        assert isinstance(find(path, document), list)


@pytest.mark.parametrize("path", ["..*..*..*", "..*..*..*.nope", "..*" * 40])
def test_time_grows_with_the_document_not_with_its_power(path: str) -> None:
    """Repeated descents visit each object once per step, however deep it is."""
    deep: Any = 1
    for _ in range(400):
        deep = [{"a": deep}]
    started = time.process_time()
    found = find(path, {"spec": deep})
    assert time.process_time() - started < 2, "0.1 s; it was minutes"
    assert len(found) <= 1600


def test_path_has_a_limited_number_of_steps() -> None:
    """Each step may visit the whole document."""
    with pytest.raises(JsonPathError, match="at most 100 steps"):
        json_path("..*" * 1000)


@pytest.mark.parametrize("path", [".a[%s]", ".a[%s:]", ".a[:%s]", ".a[::%s]", "[?(@.a==%s)]"])
def test_number_of_thousands_of_digits_is_an_error_of_the_path(path: str) -> None:
    """Python refuses to convert so many digits."""
    with pytest.raises(JsonPathError):
        json_path(path % ("9" * 5000))
