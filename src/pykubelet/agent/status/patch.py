"""The patch that carries a status to the API server.

UID, the status the server has and the one it shall have in, a strategic merge patch document out; pure. The UID is in
every patch: the server refuses it if the name belongs to another pod by now. Upstream: pkg/util/pod/pod.go.
"""

from pykubelet.api.generated.core import PodStatus
from pykubelet.api.patch import diff_strategic
from pykubelet.api.wire import Document, to_document


def status_patch(uid: str, old: PodStatus, new: PodStatus) -> Document:
    """What turns `old` into `new`, for the pod with this UID."""
    wanted = {"metadata": {"uid": uid}, "status": to_document(new)}
    return diff_strategic({"status": to_document(old)}, wanted, "core.v1.Pod")


def is_unchanged(patch: Document) -> bool:
    """Whether a status patch holds nothing but its precondition, so that nobody needs to see it."""
    return patch.keys() == {"metadata"}
