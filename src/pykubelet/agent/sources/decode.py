"""Static pods from the bytes of a manifest.

In: the bytes, where they come from and the node's name. Out: a pod for every good document, with the API's and the
node's defaults, and a problem for every bad one. Reading is strict: if the text itself is wrong, an unknown field
included, there are only problems. Every document counts, and so does every item of a list.

Upstream: pkg/kubelet/config/common.go
"""

import re
from dataclasses import dataclass

from pykubelet.agent.flow import Source
from pykubelet.agent.sources.identity import Origin, static_pod_uid
from pykubelet.api.defaults.pod_defaults import default_pod
from pykubelet.api.generated.core import Pod
from pykubelet.api.manifest import ManifestItem
from pykubelet.api.pods import CONFIG_HASH
from pykubelet.api.quantity import QuantityError
from pykubelet.api.validation.field_errors import list_text
from pykubelet.api.validation.options import KUBELET_OPTIONS
from pykubelet.api.validation.pod import validate_pod_create
from pykubelet.api.validation.static_pods import UnknownVolumeError, api_references
from pykubelet.api.wire import DecodeError, Document, from_document
from pykubelet.kube.manifests.documents import DocumentProblem, is_pod, read_documents

_NO_EXECUTE = {"operator": "Exists", "effect": "NoExecute"}
_TOLERATION_IDENTITY = ("key", "operator", "value", "effect")
# What a static pod may refer to where server and node are one machine.
_LOCAL_REFERENCES = ("secrets", "configmaps")


@dataclass(frozen=True, slots=True)
class Decoded:
    """The good pods of a manifest in their order, and what is wrong with the rest; neither: an explicit empty list."""

    pods: tuple[Pod, ...] = ()
    problems: tuple[DocumentProblem, ...] = ()


# Folders are named by it, so it must not lead anywhere else.
_UID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,126}[A-Za-z0-9])?")


class _NotAPodError(ValueError):
    """A document that cannot become a static pod; the message is for the user."""


def decode_pods(
    data: bytes, *, origin: Origin, node_name: str, allow_references: bool = False, skips_other_kinds: bool = False
) -> Decoded:
    """The static pods of a manifest.

    With `allow_references` they may use config maps and secrets, which upstream refuses; other objects they never may.
    With `skips_other_kinds` what is no pod is passed over, else it is a problem.
    """
    documents = read_documents(data, origin=origin.location)
    pods: list[Pod] = []
    problems = list(documents.problems)
    for item in documents.items:
        if skips_other_kinds and not is_pod(item):
            continue
        try:
            pods.append(_decode_item(item, origin, node_name, allow_references=allow_references))
        except _NotAPodError as error:
            problems.append(DocumentProblem(str(error), line=item.line))
    return Decoded(tuple(pods), tuple(problems))


def _decode_item(item: ManifestItem, origin: Origin, node_name: str, *, allow_references: bool) -> Pod:
    if not is_pod(item):
        raise _NotAPodError(f"invalid pod: this is a {item.kind} of {item.api_version}")
    try:
        pod = default_pod(item.document)
        if not pod["metadata"].get("name"):
            raise _NotAPodError("invalid pod: name is needed for the pod")
        given = pod["metadata"].get("uid")
        if given and not _UID.fullmatch(given):
            raise _NotAPodError("invalid pod: metadata.uid may have letters, digits, - and . only, and 128 of them")
        uid = given or static_pod_uid(item.document, origin=origin, node_name=node_name)
        pod = _with_node_defaults(pod, uid, node_name, is_file=origin.kind == Source.FILE)
        if errors := validate_pod_create(pod, KUBELET_OPTIONS):
            raise _NotAPodError(f"invalid pod: {list_text(errors)}")
        _refuse_references(pod, allow_references=allow_references)
        return from_document(pod, Pod)
    except (QuantityError, DecodeError, UnknownVolumeError) as error:
        raise _NotAPodError(str(error)) from error


def _with_node_defaults(pod: Document, uid: str, node_name: str, *, is_file: bool) -> Document:
    """The pod as this node's own: its name is unique among nodes, and no taint drives it off."""
    metadata, spec = pod["metadata"], pod["spec"]
    named = {
        **metadata,
        "uid": uid,
        "name": f"{metadata['name']}-{node_name.lower()}",
        "namespace": metadata.get("namespace", "default"),
        "annotations": {**metadata.get("annotations", {}), CONFIG_HASH: uid},
    }
    placed = {**spec, "nodeName": node_name}
    if is_file:
        placed["tolerations"] = _with_no_execute(spec.get("tolerations", []))
    return {**pod, "metadata": named, "spec": placed, "status": {**pod["status"], "phase": "Pending"}}


def _with_no_execute(tolerations: list[Document]) -> list[Document]:
    """The tolerations with one for every NoExecute taint, in the place of those that differ from it in duration only."""
    result = [_NO_EXECUTE if _is_same(toleration, _NO_EXECUTE) else toleration for toleration in tolerations]
    return result if _NO_EXECUTE in result else [*result, _NO_EXECUTE]


def _is_same(a: Document, b: Document) -> bool:
    return all(a.get(name, "") == b.get(name, "") for name in _TOLERATION_IDENTITY)


def _refuse_references(pod: Document, *, allow_references: bool) -> None:
    for reference in api_references(pod):
        if not (allow_references and reference.startswith(_LOCAL_REFERENCES)):
            raise _NotAPodError(f"static pods may not reference {reference}")
