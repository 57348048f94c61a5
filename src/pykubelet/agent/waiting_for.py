"""The one thing a pod waits for now, and what would unblock it.

In: a `Situation`. Out: `Blocked`. Pure. Questions are asked in the order in which one keeps the next from mattering: a pod
that is to end waits for its end, one without a node for a node, one whose manifest is broken for its author. What
concerns its containers is in `waiting_containers.py`, its end in `waiting_ends.py`.
"""

from collections.abc import Callable

from pykubelet.agent.explanation import Blocked, Situation, Step
from pykubelet.agent.flow import WaitAt
from pykubelet.agent.trail import NOT_SENT, SENT
from pykubelet.agent.waiting_containers import containers
from pykubelet.agent.waiting_ends import ending
from pykubelet.api.pods import is_terminal

REJECTED = "Pod was rejected: "
"""What the status of a pod that was refused begins with."""

# What makes a node take a pod that it refused, by the reason it gave.
_ROOM = "free {} on the node or ask for less of it"
_ADMISSION = {
    "NodeAffinity": "give the node the labels that the pod asks for, or change its nodeSelector or affinity",
    "NodeName": "name this node in spec.nodeName",
    "NodePorts": "free the host ports that the pod asks for, or ask for others",
    "TaintToleration": "remove the taint from the node, or have the pod tolerate it",
    "Evicted": "wait until the node is not under that pressure any more",
    "NodeShutdown": "wait until the node is back",
    "SysctlForbidden": "drop the sysctl, or allow it on the node",
    "AppArmor": "drop the AppArmor profile, or run the pod where it can be enforced",
}
_ANEW = "; a pod that was refused is never tried again: delete it and make it anew"


def waiting_for(seen: Situation) -> Blocked:
    """What a pod waits for; Step.NOTHING if it is where it should be."""
    for question in _QUESTIONS:
        found = question(seen)
        if found is not None:
            return found
    return Blocked(Step.NOTHING, "nothing: it runs and is ready")


def _refused(seen: Situation) -> Blocked | None:
    status, note = seen.status, seen.newest("refused")
    is_refused = status.phase == "Failed" and status.message.startswith(REJECTED)
    if not is_refused and not (note is not None and note.station == "admission"):
        return None
    why = status.message.removeprefix(REJECTED) if is_refused else note.fact("why") if note else ""
    reason = status.reason or (note.fact("reason") if note else "")
    resource = reason.removeprefix("OutOf")
    unblock = _ROOM.format(resource) if resource != reason else _ADMISSION.get(reason, "put right what the node names")
    return Blocked(
        Step.ADMISSION,
        f"nothing any more: its node refused it ({reason}): {why.strip()}",
        unblock + _ANEW,
        since=note.at if note else None,
    )


def _ended(seen: Situation) -> Blocked | None:
    status = seen.status
    if not is_terminal(status.phase):
        return None
    why = ": ".join(filter(None, (status.reason, status.message)))
    codes = ", ".join(
        f"container {one.name} exited with {one.state.terminated.exit_code}"
        for one in (*status.init_container_statuses, *status.container_statuses)
        if one.state.terminated is not None and one.state.terminated.exit_code
    )
    told = "; ".join(filter(None, (why, codes)))
    return Blocked(Step.ENDED, f"nothing any more: it has {status.phase.lower()}" + (f" ({told})" if told else ""))


def _unscheduled(seen: Situation) -> Blocked | None:
    pod = seen.pod
    if pod.spec.node_name:
        return None
    if gates := ", ".join(gate.name for gate in pod.spec.scheduling_gates):
        return Blocked(Step.SCHEDULING, f"its scheduling gates: {gates}", "whoever set them removes them")
    condition = next((one for one in seen.status.conditions if one.type == "PodScheduled"), None)
    event = seen.newest("FailedScheduling")
    why = condition.message if condition is not None and condition.status == "False" else ""
    why = why or (event.fact("said") if event else "")
    if why:
        return Blocked(
            Step.SCHEDULING,
            f"a node that it fits on: {why}",
            "a node that meets all of this, or a pod that asks for less",
        )
    name = pod.spec.scheduler_name or "default-scheduler"
    return Blocked(
        Step.SCHEDULING, f"a scheduler: none has looked at it, it asks for {name}", f"run {name}, or set spec.nodeName"
    )


def _held(seen: Situation) -> Blocked | None:
    wait = seen.at(WaitAt.ADMISSION)
    if wait is None:
        return None
    return Blocked(Step.ROOM, f"room on its node: {wait.what}", "they end, which they were told to", since=wait.since)


def _turn(seen: Situation) -> Blocked | None:
    wait = seen.at(WaitAt.TURNS)
    if wait is None:
        return None
    holder = waiting_for(seen.holder) if seen.holder is not None else None
    told = f"; that one waits for {holder.what}" if holder is not None else ""
    unblock = holder.unblock if holder is not None and holder.unblock else "the former one ends"
    until = holder.until if holder is not None else None
    return Blocked(
        Step.TURN, f"the former static pod of this name to end{told}", unblock, since=wait.since, until=until
    )


def _broken_manifest(seen: Situation) -> Blocked | None:
    wait = seen.at(WaitAt.SOURCES)
    if wait is None:
        return None
    return Blocked(
        Step.MANIFEST,
        f"its manifest to make sense again; it runs as last understood: {wait.what}",
        "mend the manifest; what it says then takes effect at once",
        since=wait.since,
    )


def _node(seen: Situation) -> Blocked | None:
    if not seen.node_problem:
        return None
    return Blocked(Step.NODE, f"its node {seen.pod.spec.node_name}: {seen.node_problem}", "the node comes back")


def _gate(seen: Situation) -> Blocked | None:
    known = {one.type: one for one in seen.status.conditions}
    missing = [
        gate.condition_type
        for gate in seen.pod.spec.readiness_gates
        if gate.condition_type not in known or known[gate.condition_type].status != "True"
    ]
    if not missing:
        return None
    return Blocked(
        Step.READINESS_GATE,
        f"its readiness gates: {', '.join(missing)}",
        "whoever is responsible for these conditions sets them to True in the pod's status",
    )


def _unsent(seen: Situation) -> Blocked | None:
    note = seen.newest(SENT, NOT_SENT)
    if note is None or note.what == SENT:
        return None
    return Blocked(
        Step.STATUS,
        f"the API server to take its status: {note.fact('why')}",
        "the API server answers again, or allows it",
        since=note.at,
    )


def _duplicate(seen: Situation) -> Blocked | None:
    wait = seen.at(WaitAt.CLAIMS)
    if wait is None:
        return None
    return Blocked(
        Step.DUPLICATE,
        f"nothing, but another manifest names it too: {wait.what}",
        "remove the pod from one of them, or give it another name there",
        since=wait.since,
    )


_QUESTIONS: tuple[Callable[[Situation], Blocked | None], ...] = (
    ending,
    _refused,
    _ended,
    _unscheduled,
    _held,
    _turn,
    _broken_manifest,
    _node,
    containers,
    _gate,
    _unsent,
    _duplicate,
)
