"""One pod for a person who looks at it: why it is where it is, its containers, its past, its logs.

In: what the node and the API server know. Out: replies, and a log that goes on.
"""

from typing import NamedTuple

from pykubelet.api.generated.core import Pod, PodStatus
from pykubelet.api.wire import Document, encode
from pykubelet.web.api_tables import ApiTables
from pykubelet.web.collaborators import Explanations, LogOptions, Logs, NodeView, Probes, Unavailable, Usage
from pykubelet.web.containers import container_rows
from pykubelet.web.pod_row import NOT_HERE, Standing, pod_key, pod_row
from pykubelet.web.replies import JSON, TEXT, Flow, Outcome, Reply, text
from pykubelet.web.routes import Route
from pykubelet.web.timeline import timeline


class _Seen(NamedTuple):
    pod: Pod
    status: PodStatus
    standing: Standing


class PodPages:
    """Answers what is asked about one pod."""

    def __init__(
        self,
        *,
        node: NodeView,
        tables: ApiTables,
        explanations: Explanations,
        probes: Probes,
        usage: Usage,
        logs: Logs,
    ) -> None:
        self._node, self._tables, self._explanations = node, tables, explanations
        self._probes, self._usage, self._logs = probes, usage, logs

    async def pod(self, asked: Route) -> Reply:
        """All about one pod."""
        namespace, name = asked.names
        key = pod_key(namespace, name)
        seen, why = self._seen(key), await self._explanations.explain(namespace, name)
        if seen is None and why is None:
            return text(404, f"there is no pod {key}")
        told: Document = {"why": why}
        if seen is not None:
            told |= {
                "row": pod_row(*seen),
                "labels": seen.pod.metadata.labels,
                "containers": container_rows(seen.pod, seen.status),
                "conditions": seen.status.conditions,
                "timeline": timeline((why or {}).get("trail", ()), seen.status),
                "probes": tuple(self._probes.findings(key)),
                "usage": self._usage.points(key),
            }
        return Reply(200, encode(told), JSON)

    async def log(self, asked: Route) -> Outcome:
        """The log of a container, as long as it is written."""
        namespace, pod, container = asked.names
        options = LogOptions(namespace, pod, container, previous=asked.value("previous") == "true")
        try:
            return Flow(TEXT, await self._logs.open(options))
        except Unavailable as error:
            return text(404, str(error))

    def _seen(self, key: str) -> _Seen | None:
        if (found := self._node.pod(key)) is not None:
            return _Seen(*found)
        pod = self._tables.pod(key)
        return _Seen(pod, pod.status, NOT_HERE) if pod is not None else None
