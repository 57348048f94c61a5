"""Decoding static pods: what determines their UID, and how invalid documents are reported."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.client.manifests.scanner import MAX_MANIFEST_BYTES
from pykubelet.kubelet.config.file import DecodedPods, decode_pods, file_origin, static_pod_uid, url_origin

_FILE = file_origin("/etc/manifests/web.yaml")
_LEAVES = st.none() | st.booleans() | st.integers(0, 9) | st.text("ab", max_size=2)
_DOCUMENTS = st.dictionaries(
    st.text("abc", min_size=1, max_size=2),
    st.recursive(
        _LEAVES,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    ),
    max_size=4,
)


def _pod(name: str = "web", **spec: Any) -> dict[str, Any]:
    body = {"containers": [{"name": "c", "image": "i:1"}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": body}


def _decode(*documents: dict[str, Any], allow_references: bool = False) -> DecodedPods:
    data = "\n---\n".join(map(json.dumps, documents)).encode()
    return decode_pods(data, origin=_FILE, node_name="n", allow_references=allow_references)


def _uid(document: dict[str, Any]) -> str:
    return static_pod_uid(document, origin=_FILE, node_name="n")


def _reversed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _reversed(item) for key, item in reversed(value.items())}
    return [_reversed(item) for item in value] if isinstance(value, list) else value


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


@given(_DOCUMENTS)
@settings(max_examples=60, deadline=None)
def test_uid_does_not_depend_on_the_order_of_keys_or_on_nulls(document: dict[str, Any]) -> None:
    """Equivalent spellings of a manifest give the same pod."""
    assert _uid(_reversed(document)) == _uid(document) == _uid(_without_nulls(document))


@given(_DOCUMENTS, _DOCUMENTS)
@settings(max_examples=60, deadline=None)
def test_uid_differs_whenever_the_documents_do(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Every leaf and its type count: 1 is not true."""
    same = json.dumps(_without_nulls(one), sort_keys=True) == json.dumps(_without_nulls(other), sort_keys=True)
    assert (_uid(one) == _uid(other)) == same


@pytest.mark.parametrize(
    ("origin", "node_name"),
    [
        pytest.param(_FILE, "m", id="node"),
        pytest.param(file_origin("/etc/manifests/other.yaml"), "n", id="path"),
        pytest.param(url_origin("/etc/manifests/web.yaml"), "n", id="kind of source"),
    ],
)
def test_uid_depends_on_node_and_place(origin: Any, node_name: str) -> None:
    assert static_pod_uid(_pod(), origin=origin, node_name=node_name) != _uid(_pod())


def test_uid_stays_the_same_across_releases() -> None:
    """A changed digest would restart every static pod on upgrade; a new algorithm needs a new name."""
    assert _uid(_pod()) == "5da74570b64ab868fc06f62ea4402a47"


def test_formatting_and_comments_do_not_change_a_pod() -> None:
    """Equivalent YAML and JSON decode to the same pod."""
    yaml = (
        b"# hello\nkind: Pod\napiVersion: v1\nspec:\n  containers: [{image: 'i:1', name: c}]\nmetadata: {name: web}\n"
    )
    decoded = decode_pods(yaml, origin=_FILE, node_name="n")
    assert decoded == _decode(_pod())
    assert not decoded.problems


def test_every_document_of_a_file_becomes_a_pod() -> None:
    """Upstream reads only the first document."""
    decoded = _decode(_pod("a"), _pod("b"))
    assert [pod.metadata.name for pod in decoded.pods] == ["a-n", "b-n"]


def test_bad_document_is_a_problem_and_the_others_are_pods() -> None:
    """The problem names the line of the invalid document."""
    decoded = _decode(_pod("a"), _pod("B"), {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}})
    assert [pod.metadata.name for pod in decoded.pods] == ["a-n"]
    assert [problem.line for problem in decoded.problems] == [3, 5]
    assert str(decoded.problems[0]).startswith('line 3: invalid pod: [metadata.name: Invalid value: "B-n"')
    assert str(decoded.problems[1]) == "line 5: invalid pod: this is a Deployment of apps/v1"


def test_other_kinds_are_skipped_when_another_source_takes_them() -> None:
    """Problems of the pods in the same file are still reported."""
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    data = "\n---\n".join(map(json.dumps, [service, _pod("a"), _pod("B"), service])).encode()
    decoded = decode_pods(data, origin=_FILE, node_name="n", skips_other_kinds=True)
    assert [pod.metadata.name for pod in decoded.pods] == ["a-n"]
    assert [problem.line for problem in decoded.problems] == [5]
    alone = decode_pods(json.dumps(service).encode(), origin=_FILE, node_name="n", skips_other_kinds=True)
    assert alone == DecodedPods()


def test_several_validation_errors_are_one_list_as_go_prints_it() -> None:
    """The kubelet prints the list with spaces between its entries."""
    (problem,) = _decode(_pod(restartPolicy="X", dnsPolicy="Y")).problems
    assert problem.message == (
        'invalid pod: [spec.restartPolicy: Unsupported value: "X": supported values: "Always", "OnFailure", "Never" '
        'spec.dnsPolicy: Unsupported value: "Y": supported values: "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]'
    )


def test_text_that_cannot_be_read_gives_problems_with_places() -> None:
    """An unknown field is reported with line, column and path."""
    decoded = decode_pods(b"apiVersion: v1\nkind: Pod\nspec:\n  nonsense: 1\n", origin=_FILE, node_name="n")
    assert not decoded.pods
    (problem,) = decoded.problems
    assert (problem.line, problem.column) == (4, 3)
    assert str(problem).startswith("line 4, column 3: spec.nonsense: unknown field")


@pytest.mark.parametrize(("size", "fits"), [(MAX_MANIFEST_BYTES - 1, True), (MAX_MANIFEST_BYTES, False)])
def test_read_limit_is_reached_at_exactly_ten_mebibytes(size: int, fits: bool) -> None:
    decoded = decode_pods(json.dumps(_pod()).encode().ljust(size), origin=_FILE, node_name="n")
    assert bool(decoded.pods) == fits
    assert [str(problem) for problem in decoded.problems] == ([] if fits else ["the read limit is reached"])


def test_explicit_empty_list_is_neither_pod_nor_problem() -> None:
    """It is a valid manifest without pods."""
    assert _decode({"apiVersion": "v1", "kind": "PodList", "items": []}) == DecodedPods()


@pytest.mark.parametrize(
    ("given_tolerations", "expected"),
    [
        pytest.param([], [("Exists", "NoExecute", None)], id="added"),
        pytest.param(
            [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
            [("Exists", "NoExecute", None)],
            id="replaced",
        ),
        pytest.param(
            [{"key": "k", "operator": "Exists", "effect": "NoExecute"}, {"operator": "Exists", "effect": "NoExecute"}],
            [("Exists", "NoExecute", None)] * 2,
            id="kept",
        ),
    ],
)
def test_file_pod_tolerates_every_no_execute_taint(given_tolerations: list[Any], expected: list[Any]) -> None:
    (pod,) = _decode(_pod(tolerations=given_tolerations)).pods
    assert [(each.operator, each.effect, each.toleration_seconds) for each in pod.spec.tolerations] == expected


_CONFIG_MAP = {"volumes": [{"name": "v", "configMap": {"name": "m"}}]}
_SECRET = {"volumes": [{"name": "v", "projected": {"sources": [{"secret": {"name": "s"}}]}}]}
_CLAIM = {
    "volumes": [{"name": "w", "configMap": {"name": "m"}}, {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
}


@pytest.mark.parametrize(
    ("spec", "problems"),
    [
        pytest.param(_CONFIG_MAP, [], id="config map"),
        pytest.param(_SECRET, [], id="secret"),
        pytest.param(_CLAIM, ["static pods may not reference persistentvolumeclaims"], id="claim"),
        pytest.param({"serviceAccountName": "a"}, ["static pods may not reference serviceaccounts"], id="account"),
    ],
)
def test_pods_of_a_single_machine_may_use_its_config_maps_and_secrets(
    spec: dict[str, Any], problems: list[str]
) -> None:
    decoded = _decode(_pod(**spec), allow_references=True)
    assert [problem.message for problem in decoded.problems] == problems
    assert bool(decoded.pods) == (not problems)


def test_projection_of_nothing_has_a_problem_of_its_own() -> None:
    """Validation accepts it, but the reference it would need is unknown."""
    (problem,) = _decode(_pod(volumes=[{"name": "v", "projected": {"sources": [{}]}}])).problems
    assert problem.message == 'unknown source for projected volume "v"'


@pytest.mark.parametrize("uid", ["../../etc", "a/b", ".", "..", "a\nb", "a b", "x" * 129, "-a", "a_b"])
def test_uid_that_could_lead_elsewhere_is_refused(uid: str) -> None:
    """Volume and log folders are named after the UID."""
    document = _pod()
    document["metadata"]["uid"] = uid
    found = _decode(document)
    assert not found.pods
    assert "metadata.uid" in found.problems[0].message


def test_uid_of_the_manifest_is_kept() -> None:
    """A valid UID in the manifest replaces the computed one."""
    document = _pod()
    document["metadata"]["uid"] = "4bf2d8a0-8cb5-4a3a-9d0f-1c1f2b7a9e11"
    assert _decode(document).pods[0].metadata.uid == document["metadata"]["uid"]
