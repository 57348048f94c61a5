"""Static pods: vectors of the Go kubelet, and section 2.5 of the specification.

Strict decoding, several documents in a file and the UID are departures (design.md, section 6); the tables below name
the vectors that they affect.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from pykubelet.api.serializer import to_document
from pykubelet.kinds.pod.features import KUBELET_OPTIONS
from pykubelet.kinds.pod.validation import validate_pod_create
from pykubelet.kubelet.config.file import DecodedPods, ManifestOrigin, decode_pods, file_origin, url_origin

_CASES = json.loads((Path(__file__).parent / "vectors" / "static-pod.json").read_bytes())["cases"]
_FILE = file_origin("/etc/manifests/web.yaml")
_URL = url_origin("http://manifests.example/web")
_HASH = "kubernetes.io/config.hash"
# Upstream accepts these silently, or reads only the first of two documents; here they are errors.
_STRICT = {
    "unknown field": 'spec.nonsense: unknown field (did you mean "nodeName"?)',
    "wrong case of a field": 'spec.hostnetwork: unknown field (did you mean "hostNetwork"?)',
    "duplicate yaml key": "metadata.name: key is given twice (first at line 4)",
}
# Upstream's file source reads no lists at all, and its URL source no list of kind List: the pods and errors of ours.
_LISTS: dict[str, tuple[list[str], list[str]]] = {
    "pod list json": (["one-node-1", "two-node-1"], []),
    "pod list json, one without name": (["one-node-1"], ["invalid pod: name is needed for the pod"]),
    "pod list json, a secret volume": ([], ["static pods may not reference secrets"]),
    "List kind json": (["one-node-1"], []),
}
# Here a bad item of a list does not take the good ones with it.
_OTHER_ITEMS = {"pod list json, one without name": ["one-node-1"]}
# These errors come from decoding, not from validation: ours name field and line instead.
_READER_TEXTS = (
    "quantities must match",
    "unable to parse",
    "no kind",
    "Object '",
    "yaml:",
    "json:",
    "error converting",
)
_BASE = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\nspec:\n  containers:\n  - name: c\n    image: img:1\n"
_UID_EDITS = {
    "generated uid: a comment added": (f"# hello\n{_BASE}", "node-1", _FILE),
    "generated uid: another node": (_BASE, "node-2", _FILE),
    "generated uid: another file": (_BASE, "node-1", file_origin("/etc/manifests/other.yaml")),
    "generated uid: the image changed": (_BASE.replace("img:1", "img:2"), "node-1", _FILE),
    "generated uid: a non-default field added": (f"{_BASE}  hostNetwork: true\n", "node-1", _FILE),
    "generated uid: a label added": (_BASE.replace("name: web", "name: web\n  labels: {a: b}"), "node-1", _FILE),
}


def _decode(text: str, origin: ManifestOrigin, node_name: str = "node-1") -> DecodedPods:
    return decode_pods(text.encode(), origin=origin, node_name=node_name)


def _shown(pod: dict[str, Any]) -> Any:
    """A pod as the vectors show it: without type and empty fields, with a mark for a generated uid."""
    uid = pod["metadata"]["uid"]
    cleaned = _without_noise({key: value for key, value in pod.items() if key not in {"apiVersion", "kind"}})
    if len(uid) != 32:
        return cleaned
    return json.loads(json.dumps(cleaned).replace(uid, "<uid>"))


def _without_noise(value: Any) -> Any:
    if isinstance(value, dict):
        noise: dict[str, Any] = {"resources": {}, "creationTimestamp": None}
        return {key: _without_noise(item) for key, item in value.items() if key not in noise or item != noise[key]}
    return [_without_noise(item) for item in value] if isinstance(value, list) else value


def _manifest_params() -> list[Any]:
    return [
        pytest.param(case, kind, id=f"{case['index']} {case['name']} ({kind})")
        for case in _CASES
        for kind in ("file", "http")
        if "manifest" in case
    ]


def _expected(case: dict[str, Any], kind: str) -> dict[str, Any]:
    answer: dict[str, Any] = case["file"] if kind == "file" else case["http_single"]
    return answer if answer["parsed"] or "http_list" not in case or kind == "file" else case["http_list"]


@pytest.mark.parametrize(("case", "kind"), _manifest_params())
def test_decode_pods_equals_the_go_kubelet_when_given_a_manifest(case: dict[str, Any], kind: str) -> None:
    decoded = _decode(case["manifest"], _FILE if kind == "file" else _URL, case["node_name"])
    expected = _expected(case, kind)
    if case["name"] in _STRICT:
        assert expected["error"] is None
        assert [problem.message for problem in decoded.problems] == [_STRICT[case["name"]]]
        assert not decoded.pods
    elif case["name"] in _LISTS and not expected["parsed"]:
        names = [pod.metadata.name for pod in decoded.pods]
        assert (names, [problem.message for problem in decoded.problems]) == _LISTS[case["name"]]
    elif expected["error"] is None:
        pods = expected.get("pods", [expected.get("pod")])
        assert [_shown(to_document(pod)) for pod in decoded.pods] == [_without_noise(pod) for pod in pods]
        assert not decoded.problems
    elif expected["parsed"] and not expected["error"].startswith(_READER_TEXTS):
        assert expected["error"] in [problem.message for problem in decoded.problems]
        assert [pod.metadata.name for pod in decoded.pods] == _OTHER_ITEMS.get(case["name"], [])
    else:
        assert decoded.problems
        assert not decoded.pods


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in _CASES if case["name"] in _UID_EDITS])
def test_generated_uid_changes_like_that_of_the_go_kubelet(case: dict[str, Any]) -> None:
    text, node_name, origin = _UID_EDITS[case["name"]]
    base = _decode(_BASE, _FILE).pods[0].metadata.uid
    uid = _decode(text, origin, node_name).pods[0].metadata.uid
    assert (uid == base) == case["same_uid_as_base"]
    assert len(uid) == case["uid_length"]


@pytest.mark.parametrize(
    ("text", "node_name", "origin"),
    [
        pytest.param(
            f"{_BASE}  restartPolicy: Always\n", "node-1", _URL, id="2.5 uid (departure): a default is written out"
        ),
        pytest.param(_BASE, "node-2", _URL, id="2.5 uid (departure): another node reads the same URL"),
    ],
)
def test_generated_uid_counts_what_the_user_wrote_and_the_node(
    text: str, node_name: str, origin: ManifestOrigin
) -> None:
    base = _decode(_BASE, origin).pods[0].metadata.uid
    assert _decode(text, origin, node_name).pods[0].metadata.uid != base


_CONTAINER = {"name": "image", "image": "test/image", "imagePullPolicy": "Always"}


def _pod(spec: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    body = {"containers": [_CONTAINER], **(spec or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "foo", **metadata}, "spec": body}


def _projected(source: dict[str, Any]) -> dict[str, Any]:
    return {"volumes": [{"name": "v", "projected": {"sources": [source]}}]}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(json.dumps(_pod()), id="2.12-22 single pod in JSON"),
        pytest.param(json.dumps(_pod(), indent=2), id="2.12-22 single pod in indented JSON"),
        pytest.param(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: foo\nspec:\n  containers:\n"
            "  - {name: image, image: test/image, imagePullPolicy: Always}\n",
            id="2.12-22 single pod in YAML",
        ),
    ],
)
def test_decode_pods_gives_the_input_with_defaults_when_it_is_one_pod(text: str) -> None:
    (pod,) = _decode(text, _URL).pods
    assert _shown(to_document(pod)) == {
        "metadata": {"name": "foo-node-1", "namespace": "default", "uid": "<uid>", "annotations": {_HASH: "<uid>"}},
        "spec": {
            "containers": [
                {**_CONTAINER, "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
            ],
            "dnsPolicy": "ClusterFirst",
            "enableServiceLinks": True,
            "nodeName": "node-1",
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "securityContext": {},
            "terminationGracePeriodSeconds": 30,
        },
        "status": {"phase": "Pending"},
    }


_CLAIMS = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "x"}]}
_TOKEN = {"serviceAccountName": "a", **_projected({"serviceAccountToken": {"path": "t"}})}
_BUNDLE = {"clusterTrustBundle": {"name": "b", "path": "ca.pem"}}
_CERTIFICATE = {"podCertificate": {"signerName": "a.b/c", "keyType": "ED25519", "keyPath": "k"}}


def _volume(**source: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "v", **source}]}


@pytest.mark.parametrize(
    ("spec", "reference"),
    [
        pytest.param(_projected(_BUNDLE), "clustertrustbundles", id="2.12-23 cluster trust bundle"),
        pytest.param(_CLAIMS, "resourceclaims", id="2.12-24 resource claims"),
        pytest.param({"serviceAccountName": "a"}, "serviceaccounts", id="2.5 service account"),
        pytest.param({"imagePullSecrets": [{"name": "a"}]}, "secrets", id="2.5 pull secret"),
        pytest.param(_volume(secret={"secretName": "a"}), "secrets", id="2.5 secret volume"),
        pytest.param(_volume(configMap={"name": "a"}), "configmaps", id="2.5 config map volume"),
        pytest.param(_volume(csi={"driver": "d.example"}), "csidrivers (via CSI volumes)", id="2.5 csi"),
        pytest.param(
            _volume(glusterfs={"endpoints": "e", "path": "p"}), "endpoints (via glusterFS volumes)", id="2.5 glusterfs"
        ),
        pytest.param(_volume(persistentVolumeClaim={"claimName": "c"}), "persistentvolumeclaims", id="2.5 claim"),
        pytest.param(_volume(azureFile={"secretName": "s", "shareName": "s"}), "secrets", id="2.5 azure file"),
        pytest.param(_projected({"configMap": {"name": "a"}}), "configmaps", id="2.5 projected config map"),
        pytest.param(_projected({"secret": {"name": "a"}}), "secrets", id="2.5 projected secret"),
        pytest.param(_TOKEN, "serviceaccounts", id="2.5 projected token"),
        pytest.param(_projected(_CERTIFICATE), "podcertificates", id="2.5 projected certificate"),
        pytest.param(
            {**_CLAIMS, **_volume(secret={"secretName": "a"})}, "secrets", id="2.5 secrets come before claims"
        ),
    ],
)
def test_decode_pods_refuses_references_to_the_api(spec: dict[str, Any], reference: str) -> None:
    decoded = _decode(json.dumps(_pod(spec)), _FILE)
    assert [problem.message for problem in decoded.problems] == [f"static pods may not reference {reference}"]
    assert not decoded.pods


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(_volume(emptyDir={}), id="2.5 emptyDir"),
        pytest.param(_volume(hostPath={"path": "/x"}), id="2.5 hostPath"),
        pytest.param(_volume(nfs={"server": "s", "path": "/x"}), id="2.5 nfs"),
        pytest.param(_volume(image={"reference": "i", "pullPolicy": "Always"}), id="2.5 image"),
        pytest.param(_volume(downwardAPI={"items": []}), id="2.5 downwardAPI"),
        pytest.param(_projected({"downwardAPI": {}}), id="2.5 projected downwardAPI"),
    ],
)
def test_decode_pods_allows_volumes_that_need_no_api(spec: dict[str, Any]) -> None:
    assert not _decode(json.dumps(_pod(spec)), _FILE).problems


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("PodList", id="2.12-25 PodList"),
        pytest.param("List", id="2.12-25 List (departure: upstream refuses it)"),
    ],
)
def test_decode_pods_gives_every_item_when_it_is_a_list(kind: str) -> None:
    items = [_pod(uid="111"), {**_pod(uid="222"), "metadata": {"name": "bar", "uid": "222"}}]
    pods = _decode(json.dumps({"apiVersion": "v1", "kind": kind, "items": items}), _URL).pods
    assert [(pod.metadata.name, pod.metadata.uid) for pod in pods] == [("foo-node-1", "111"), ("bar-node-1", "222")]


@pytest.mark.parametrize(
    "node_name", [pytest.param(name, id=f"2.12-26 {name}") for name in ("node1", "Node1", "NODE1")]
)
def test_decode_pods_lowers_the_node_in_the_name_of_a_pod(node_name: str) -> None:
    """The pod's name has the node name in lower case; validation then rejects upper case in nodeName."""
    decoded = _decode(json.dumps(_pod(name="static-pod1")), _FILE, node_name)
    if node_name == "node1":
        assert decoded.pods[0].metadata.name == "static-pod1-node1"
    else:
        assert [problem.message.partition(": Inv")[0] for problem in decoded.problems] == [
            "invalid pod: [spec.nodeName"
        ]


def test_decode_pods_refuses_an_upper_case_name_2_12_26() -> None:
    """2.12-26: a name with upper-case letters fails validation on metadata.name."""
    (problem,) = _decode(json.dumps(_pod(name="static-pod-NODE1")), _FILE).problems
    assert problem.message.startswith('invalid pod: [metadata.name: Invalid value: "static-pod-NODE1-node-1"')


@pytest.mark.parametrize(
    ("origin", "tolerations"),
    [
        pytest.param(_FILE, [{"operator": "Exists", "effect": "NoExecute"}], id="2.12-28 manifest from a file"),
        pytest.param(_URL, None, id="2.12-37 manifest from a URL has no toleration"),
    ],
)
def test_decode_pods_keeps_the_fields_of_the_manifest(origin: ManifestOrigin, tolerations: Any) -> None:
    spec = {"containers": [{"name": "image", "image": "test/image"}], "securityContext": {}}
    (pod,) = _decode(json.dumps(_pod(spec, name="test", uid="12345", namespace="mynamespace")), origin).pods
    document = to_document(pod)
    assert document["metadata"] == {
        "name": "test-node-1",
        "namespace": "mynamespace",
        "uid": "12345",
        "annotations": {_HASH: "12345"},
    }
    assert document["spec"].get("tolerations") == tolerations
    assert document["spec"]["containers"][0]["imagePullPolicy"] == "Always"
    assert (pod.spec.node_name, pod.spec.enable_service_links, pod.status.phase) == ("node-1", True, "Pending")
    assert validate_pod_create(document, KUBELET_OPTIONS) == []


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param({"kind": "Pod", "metadata": {"name": "foo"}}, id="2.12-36 no apiVersion"),
        pytest.param({**_pod(), "apiVersion": "invalid"}, id="2.12-36 unknown apiVersion"),
        pytest.param(_pod({"volumes": [{"name": "_INVALID_"}]}), id="2.12-36 volume name"),
        pytest.param(_pod({"volumes": [{"name": "v"}, {"name": "v"}]}), id="2.12-36 duplicate volume names"),
        pytest.param(_pod({"containers": [{"image": "i"}]}), id="2.12-36 empty container name"),
        pytest.param(_pod({"containers": [{"name": "_INVALID_", "image": "i"}]}), id="2.12-36 container name"),
    ],
)
def test_decode_pods_fails_when_the_body_is_bad(pod: dict[str, Any]) -> None:
    decoded = _decode(json.dumps(pod), _URL)
    assert decoded.problems
    assert not decoded.pods


@pytest.mark.parametrize("origin", [pytest.param(_URL, id="2.12-38 PodList from a URL")])
def test_decode_pods_fills_each_item_of_a_pod_list(origin: ManifestOrigin) -> None:
    one = {"metadata": {"name": "foo", "uid": "111"}, "spec": {"containers": [{**_CONTAINER, "name": "1"}]}}
    two = {"metadata": {"name": "bar", "uid": "222"}, "spec": {"containers": [{"name": "2", "image": "bar:bartag"}]}}
    pods = _decode(json.dumps({"apiVersion": "v1", "kind": "PodList", "items": [one, two]}), origin).pods
    assert [pod.metadata.namespace for pod in pods] == ["default", "default"]
    assert [pod.spec.containers[0].image_pull_policy for pod in pods] == ["Always", "IfNotPresent"]
