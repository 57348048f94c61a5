"""Which pod and container a person means, by what it belongs to and by what is most useful.

In: documents. Out: a selector, a pod, containers.

Upstream: kubectl/pkg/polymorphichelpers/{helpers,attachablepodforobject}.go, kubectl/pkg/util/podutils/podutils.go,
kubectl/pkg/cmd/util/podcmd/podcmd.go.
"""

from collections.abc import Sequence

from pykubelet.api.selector import selector_from_document, selector_from_labels
from pykubelet.api.wire import Document

DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
_BY_PLAIN_LABELS = frozenset({"Service", "ReplicationController"})
_PHASES = {"Running": 0, "Unknown": 1, "Pending": 2}


def selector_of_pods(owner: Document) -> str:
    """The labels of the pods that belong to an object; empty if it has none."""
    selector = (owner.get("spec") or {}).get("selector")
    if not selector:
        return ""
    if owner.get("kind") in _BY_PLAIN_LABELS:
        return str(selector_from_labels(selector))
    return str(selector_from_document(selector))


def most_useful(pods: Sequence[Document]) -> Document:
    """Of several the one to look at: on a node, running, ready and for long, seldom restarted, old."""
    return min(pods, key=_rank)


def _rank(pod: Document) -> tuple[bool, int, bool, str, int, str]:
    status = pod.get("status") or {}
    ready: Document = next((one for one in status.get("conditions") or () if one.get("type") == "Ready"), {})
    restarts = max((one.get("restartCount", 0) for one in status.get("containerStatuses") or ()), default=0)
    return (
        not pod["spec"].get("nodeName"),
        _PHASES.get(status.get("phase", ""), 0),
        ready.get("status") != "True",
        str(ready.get("lastTransitionTime", "")),
        restarts,
        str(pod["metadata"].get("creationTimestamp", "")),
    )


def container_names(pod: Document) -> tuple[str, ...]:
    """All containers of a pod: init containers, then the others, then ephemeral ones."""
    return tuple(one["name"] for key in _LISTS for one in pod["spec"].get(key) or ())


_LISTS = ("initContainers", "containers", "ephemeralContainers")


def default_container(pod: Document) -> tuple[str, str]:
    """The container that is meant where none is named, and a line on it if there are others."""
    wished = (pod["metadata"].get("annotations") or {}).get(DEFAULT_CONTAINER, "")
    names = container_names(pod)
    if wished in names:
        return wished, ""
    first = pod["spec"]["containers"][0]["name"]
    if len(names) == 1:
        return first, ""
    order = ("containers", "ephemeralContainers", "initContainers")
    marks = {"ephemeralContainers": " (ephem)", "initContainers": " (init)"}
    shown = [one["name"] + marks.get(key, "") for key in order for one in pod["spec"].get(key) or ()]
    return first, f'Defaulted container "{first}" out of: {", ".join(shown)}'
