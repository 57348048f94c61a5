"""Forms of objects that are shown: the items of lists, lists of items, names.

Upstream: kubectl/pkg/cmd/get/get.go, cli-runtime/pkg/printers/{name,managedfields}.go.
"""

from collections.abc import Iterator, Sequence

from pykubelet.api.resources import Resource
from pykubelet.api.wire import Document


def objects_in(answer: Document) -> Iterator[Document]:
    """The objects of an answer, each with its kind: those of a list, or the one that it is."""
    kind = str(answer.get("kind", ""))
    if "items" not in answer or not kind.endswith("List"):
        yield answer
        return
    named_by_list = {"apiVersion": answer.get("apiVersion"), "kind": kind.removesuffix("List")}
    for item in answer["items"] or ():
        yield {**named_by_list, **item}


def list_of(objects: Sequence[Document]) -> Document:
    """Objects of any kinds, as one."""
    return {"apiVersion": "v1", "items": list(objects), "kind": "List", "metadata": {"resourceVersion": ""}}


def without_managed_fields(document: Document) -> Document:
    """The same without what only machines read."""
    metadata = document.get("metadata") or {}
    if "managedFields" not in metadata:
        return document
    return {**document, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}


def named(resource: Resource) -> str:
    """`pod` or `deployment.apps`, as names of objects begin."""
    kind = resource.kind.lower()
    return f"{kind}.{resource.group}" if resource.group else kind
