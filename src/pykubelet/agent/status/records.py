"""All that is kept about a pod's status, so that it is forgotten in one go.

The statuses themselves, the conditions of a resize, and what we know of the API's copy. One loop owns them.
"""

from pykubelet.agent.status.api_view import ApiView
from pykubelet.agent.status.cache import StatusCache
from pykubelet.agent.status.collaborators import StatusObserver
from pykubelet.agent.status.resize import ResizeConditions
from pykubelet.api.keys import PodUid


class StatusRecords:
    """Everything we hold about pods' statuses."""

    def __init__(self, *, resize: ResizeConditions, view: ApiView, observer: StatusObserver | None) -> None:
        self.cache = StatusCache()
        self.resize = resize
        self.view = view
        self._observer = observer

    def drop(self, uid: PodUid) -> None:
        """Forget a pod, if it is known at all."""
        self.resize.drop(uid)
        self.view.forget(uid)
        if self.cache.drop(uid) and self._observer is not None:
            self._observer.pod_forgotten(uid)
