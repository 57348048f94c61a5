"""Explains a pod from the API server alone: it has no node, or its node does not tell.

In: the pod, the events about it, its node. Out: a `Situation` whose trail are the events. Pure.
"""

from collections.abc import Iterable
from datetime import UTC, datetime

from msgspec.structs import replace

from pykubelet.agent.explanation import Explanation, Situation, Step
from pykubelet.agent.trail import EVENTS, TrailEntry, event_facts
from pykubelet.agent.waiting_ends import by_finalizers
from pykubelet.agent.waiting_for import waiting_for
from pykubelet.api.generated.core import Event, Node, Pod
from pykubelet.api.times import parse_time

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


def explain_from_api(pod: Pod, events: Iterable[Event], *, node_problem: str, now: datetime) -> Explanation:
    """What can be said of a pod without asking its node."""
    entries = event_trail(events)
    seen = Situation(
        pod=pod, status=pod.status, now=now, entries=entries, is_from_node=False, node_problem=node_problem
    )
    meta = pod.metadata
    return Explanation(
        meta.namespace,
        meta.name,
        waiting_for(seen),
        uid=meta.uid,
        phase=pod.status.phase,
        node=pod.spec.node_name,
        trail=entries,
    )


def refined(told: Explanation, pod: Pod) -> Explanation:
    """What a node told, with what only the API knows: the finalizers that a pod has now."""
    if told.waits_for.step is not Step.FINALIZER:
        return told
    return replace(told, waits_for=by_finalizers(pod))


def event_trail(events: Iterable[Event]) -> tuple[TrailEntry, ...]:
    """Events as entries of a trail, the newest last."""
    entries = [_entry(event) for event in events]
    return tuple(sorted(entries, key=lambda entry: entry.last_at or entry.at))


def node_problem(node: Node | None) -> str:
    """Why nothing can be expected of a node; empty if nothing is known against it."""
    if node is None:
        return "there is no such node"
    ready = next((one for one in node.status.conditions if one.type == "Ready"), None)
    if ready is not None and ready.status == "True":
        return ""
    return f"it is not ready: {ready.reason}: {ready.message}" if ready is not None else "it has never been ready"


def _entry(event: Event) -> TrailEntry:
    times = [
        parse_time(text)
        for text in (
            event.first_timestamp,
            event.event_time,
            event.last_timestamp,
            event.series.last_observed_time if event.series is not None else None,
        )
        if text
    ] or [_LONG_AGO]
    count = event.series.count if event.series is not None else event.count
    first, last = min(times), max(times)
    facts = tuple(event_facts(event.involved_object, event.message).items())
    return TrailEntry(first, EVENTS, event.reason, facts, max(count, 1), last if last != first else None)
