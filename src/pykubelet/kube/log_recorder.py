"""Tells the log what an API server would be told: for a node without one."""

from collections.abc import Mapping

from pykubelet.aio.log import get_logger
from pykubelet.api.generated.core import ObjectReference
from pykubelet.kube.recorder import WARNING

log = get_logger(__name__)


class LogRecorder:
    """Writes events to the log; an AnnotatingRecorder."""

    def event(
        self,
        involved: ObjectReference,
        event_type: str,
        reason: str,
        message: str,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        object_name = "/".join(filter(None, (involved.namespace, involved.name)))
        write = log.warning if event_type == WARNING else log.info
        write("event", object=f"{involved.kind} {object_name}", reason=reason, event=message, **(annotations or {}))
