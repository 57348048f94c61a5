"""A manifest to everything that is wrong with it: its form, its fields, and the rules of its kinds.

In: the bytes of a manifest. Out: problems with file, line and field. The rules are those of the API server.
"""

from pykubelet.api.manifest import ManifestError, ManifestItem, ManifestProblem, read_manifest
from pykubelet.api.wire import Document
from pykubelet.apiserver.kinds import KINDS

_STRATEGIES = {(served.resource.api_version, served.resource.kind): served for served in KINDS}
_ANY_UID = "00000000-0000-0000-0000-000000000000"


def problems_in(data: bytes, origin: str) -> list[ManifestProblem]:
    """What is wrong, in the order of the lines; nothing if an API server would take it."""
    try:
        manifest = read_manifest(data, origin=origin)
    except ManifestError as error:
        return list(error.problems)
    return [problem for item in manifest.items for problem in _broken_rules(item)]


def _broken_rules(item: ManifestItem) -> list[ManifestProblem]:
    served = _STRATEGIES.get((item.api_version, item.kind))
    if served is None:
        return []
    strategy = served.strategy
    document = strategy.prepare_create(
        strategy.default(_as_created(item.document, namespaced=served.resource.namespaced))
    )
    return [item.problem(error.field, error.body) for error in strategy.validate_create(document)]


def _as_created(document: Document, *, namespaced: bool) -> Document:
    """The object with what the server fills in: UID and namespace, and a name where one is to be made up."""
    metadata = {**(document.get("metadata") or {}), "uid": _ANY_UID}
    if namespaced:
        metadata.setdefault("namespace", "default")
    if "generateName" in metadata and not metadata.get("name"):
        metadata["name"] = f"{metadata['generateName']}xxxxx"
    return {**document, "metadata": metadata}
