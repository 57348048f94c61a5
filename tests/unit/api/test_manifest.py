"""Manifests: documents, lists, and validation errors with their places."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.generated.core import Pod
from pykubelet.api.manifest import Manifest, ManifestError, ManifestProblem, path_text, read_each, read_manifest
from pykubelet.api.serializer import from_document
from pykubelet.api.strict import MAX_FINDINGS
from pykubelet.api.yaml.write import to_yaml


def read(text: str) -> Manifest:
    return read_manifest(text.encode(), origin="web.yaml")


def problems(text: str | bytes, **options: Any) -> list[str]:
    with pytest.raises(ManifestError) as raised:
        read_manifest(text.encode() if isinstance(text, str) else text, origin="web.yaml", **options)
    assert str(raised.value) == "\n".join(map(str, raised.value.problems))
    return [str(problem) for problem in raised.value.problems]


WEB = """\
# the web server
apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  containers:
  - name: web
    image: nginx
    ports:
    - containerPort: 8_080
    resources: {limits: {cpu: 1}}
"""


def test_every_document_is_an_item() -> None:
    """Empty documents and comments are skipped."""
    manifest = read(f"---\n# nothing\n---\n{WEB}---\n---\nnull\n---\napiVersion: v1\nkind: ConfigMap\ndata: {{a: b}}\n")
    assert [(item.kind, item.api_version, item.index, item.line, item.origin) for item in manifest.items] == [
        ("Pod", "v1", 0, 5, "web.yaml"),
        ("ConfigMap", "v1", 1, 20, "web.yaml"),
    ]
    pod = from_document(manifest.items[0].document, Pod)
    assert pod.spec is not None
    assert pod.spec.containers[0].ports[0].container_port == 8080
    assert pod.spec.containers[0].resources.limits == {"cpu": "1"}


def test_items_of_lists_are_items() -> None:
    """Elements of a typed list inherit its kind and version; a `List` may contain other lists."""
    manifest = read(
        "apiVersion: v1\nkind: PodList\nmetadata: {resourceVersion: '1'}\nitems:\n- metadata: {name: a}\n- metadata: {name: b}\n---\n"
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: example.com/v1\n  kind: Thing\n  spec: [1]\n"
        "- apiVersion: example.com/v1\n  kind: ThingList\n  items: [{metadata: {name: d}}]\n"
    )
    assert [(item.kind, item.api_version, item.index, item.line) for item in manifest.items] == [
        ("Pod", "v1", 0, 5),
        ("Pod", "v1", 1, 6),
        ("Thing", "example.com/v1", 2, 11),
        ("Thing", "example.com/v1", 3, 16),
    ]
    assert manifest.items[0].document == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}


@pytest.mark.parametrize("items", ["items: []", "items:", "items: null", "metadata: {}"])
def test_empty_list_is_a_manifest_without_items(items: str) -> None:
    """An empty list asks for no objects, unlike an empty file."""
    assert read(f"apiVersion: v1\nkind: PodList\n{items}\n").items == ()


@pytest.mark.parametrize("text", ["", "\n", "# a comment\n", "---\n---\n", "null\n", "~", "   "])
def test_text_without_an_object_is_an_error(text: str) -> None:
    """An empty file must not be read as a request to remove everything."""
    assert problems(text) == ["web.yaml: the manifest contains no object"]


def test_kind_that_ends_in_list_without_items_is_an_object() -> None:
    """A custom resource may have such a kind."""
    (item,) = read("apiVersion: example.com/v1\nkind: AccessList\nspec: {items: 3}\n").items
    assert item.kind == "AccessList"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("image: nginx", "imag: nginx", '9:5: spec.containers[0].imag: unknown field (did you mean "image"?)'),
        ("image: nginx", "image: 8080", "9:12: spec.containers[0].image: expected a string, found the number 8080"),
        ("name: web\nspec", "name: web\n  name: x\nspec", "6:3: metadata.name: key is given twice (first at line 5)"),
        ("8_080", "'80'", '11:22: spec.containers[0].ports[0].containerPort: expected an integer, found the string "80"'),
        ("8_080", "8.5", "11:22: spec.containers[0].ports[0].containerPort: expected an integer, found the number 8.5"),
        ("kind: Pod", "kin: Pod", "2:1: kind: required field is missing"),
        ("kind: Pod", "kind:", "3:6: kind: required field is missing"),
        ("kind: Pod", "kind: 3", "3:7: kind: expected a string, found the number 3"),
        ("kind: Pod", "kind: Pdo", '3:7: kind: unknown kind "Pdo" in "v1" (did you mean "Pod"?)'),
        ("apiVersion: v1", "apiVersion: ''", "2:13: apiVersion: required field is missing"),
        ("  name: web\nspec", "  labels: {a.b/c: 1}\nspec", "5:19: metadata.labels[a.b/c]: expected a string, found the number 1"),
        ("image: nginx", "image: nginx: x", "9:17: mapping values are not allowed in this context"),
        (WEB, "- 1\n", "1:1: expected an object, found a list"),
        (WEB, "text\n", "1:1: expected an object, found a string"),
        (WEB, "apiVersion: v1\nkind: List\nitem: []\n", "3:1: item: unknown field"),
        (WEB, "apiVersion: v1\nkind: List\nitems: {}\n", "3:8: items: expected a list, found an object"),
        (WEB, "apiVersion: v1\nkind: PodList\nitems:\n- 1\n", "4:3: items[0]: expected an object, found a number"),
        (WEB, "apiVersion: v1\nkind: PodList\nitems:\n-\n", "4:2: items[0]: expected an object, found null"),
        (WEB, "apiVersion: v1\nkind: PodList\nitems:\n- kind: Node\n", '4:9: items[0].kind: expected Pod of "v1" as in the list'),
        (WEB, "apiVersion: v1\nkind: List\nitems:\n- kind: Node\n", "4:3: items[0].apiVersion: required field is missing"),
        (WEB, "apiVersion: example.com/v1\nkind: X\nmetadata: {nam: a}\n", '3:12: metadata.nam: unknown field (did you mean "name"?)'),
        (WEB, '{"apiVersion": "v1", "kind": "Pod",\n "spec": {"nodename": "a"}}', '2:11: spec.nodename: unknown field (did you mean "nodeName"?)'),
    ],
)  # fmt: skip
def test_problem_has_file_line_column_and_field(old: str, new: str, expected: str) -> None:
    assert f"web.yaml:{expected}" in problems(WEB.replace(old, new))


def test_all_problems_of_all_documents_are_reported() -> None:
    """In the order of the text, also after a document that is not valid YAML."""
    text = "apiVersion: v1\nkind: Pod\nspek: {}\nSpec: {}\n---\na: b: c\n---\nkind: Pod\n"
    assert problems(text) == [
        'web.yaml:3:1: spek: unknown field (did you mean "spec"?)',
        'web.yaml:4:1: Spec: unknown field (did you mean "spec"?)',
        "web.yaml:6:5: mapping values are not allowed in this context",
        "web.yaml:8:1: apiVersion: required field is missing",
    ]


def test_secret_is_neither_quoted_nor_shown() -> None:
    """Secret values appear neither in problems nor in a repr."""
    secret = "apiVersion: v1\nkind: Secret\ndata: {a: hunter2}\nstringData: {b: 12345}\n"
    assert problems(secret) == [
        "web.yaml:3:11: data.a: expected base64 text, found text that is not",
        "web.yaml:4:17: stringData.b: expected a string, found a number",
    ]
    assert "aHVudGVyMg" not in repr(read("apiVersion: v1\nkind: Secret\ndata: {a: aHVudGVyMg==}\n"))


def test_problems_are_bounded() -> None:
    """However much is wrong, at most MAX_FINDINGS problems are reported."""
    assert len(problems("---\n{apiVersion: v1, kind: Pod, x: 1, y: 2, z: 3}\n" * 500)) == MAX_FINDINGS
    assert len(problems("apiVersion: v1\nkind: Pod\n" + "a: 1\n" * 500)) == MAX_FINDINGS


def test_text_over_the_limit_is_refused() -> None:
    """The caller sets the limit."""
    assert problems(WEB, max_bytes=100) == [f"web.yaml: the text has {len(WEB)} bytes, more than 100"]


def test_json_with_several_objects_is_read() -> None:
    """JSON objects may follow one another, as for kubectl; positions are those in the text."""
    text = '{"apiVersion": "v1", "kind": "Pod"}\n\n{"apiVersion": "v1", "kind": "List",\n "items": [{"apiVersion": "v1", "kind": "Node"}]}'
    assert [(item.kind, item.line) for item in read(text).items] == [("Pod", 1), ("Node", 4)]
    assert problems('{"apiVersion": "v1", "kind": "Pod",\n "kind": "Pod"}') == [
        "web.yaml:2:2: kind: key is given twice (first at line 1)"
    ]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), ""),
        (("spec", "containers", 0, "env", 1, "name"), "spec.containers[0].env[1].name"),
        (("metadata", "labels", "a.b/c"), "metadata.labels[a.b/c]"),
        (("data", ""), "data[]"),
        ((0, "a"), "[0].a"),
    ],
)
def test_path_is_written_like_kubernetes_writes_it(path: tuple[str | int, ...], text: str) -> None:
    """Keys with dots or slashes are put in brackets."""
    assert path_text(path) == text


def test_problem_without_a_place_shows_only_the_file() -> None:
    assert str(ManifestProblem("a.yaml", 0, 0, "", "gone")) == "a.yaml: gone"
    assert str(ManifestProblem("a.yaml", 1, 2, "spec", "bad")) == "a.yaml:1:2: spec: bad"


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.text("abc", min_size=1, max_size=3), st.text(max_size=10)), min_size=1, max_size=5))
def test_any_number_of_documents_is_read_in_order(pairs: list[tuple[str, str]]) -> None:
    """Each document keeps its content and its line number."""
    documents = [{"apiVersion": "v1", "kind": "ConfigMap", "data": {key: value}} for key, value in pairs]
    text = "---\n".join(to_yaml(document) for document in documents)
    manifest = read(text)
    assert [item.document for item in manifest.items] == documents
    assert [item.index for item in manifest.items] == list(range(len(documents)))
    lines = text.encode().split(b"\n")
    assert all(lines[item.line - 1] == b"apiVersion: v1" for item in manifest.items)


def test_read_each_returns_valid_documents_besides_problems() -> None:
    """For callers that continue after an error; each item keeps its index among all documents."""
    broken = WEB.replace("image: nginx", "imagee: nginx")
    found = read_each(f"{WEB}---\n{broken}---\n{WEB}".encode(), origin="web.yaml")
    assert [(item.index, item.line) for item in found.items] == [(0, 2), (2, 28)]
    assert {problem.path for problem in found.problems} >= {"spec.containers[0].imagee"}
