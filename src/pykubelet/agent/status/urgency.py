"""Which status goes out first when many wait.

Old and new status in, an urgency out; pure. Others wait for an end (to start a successor, to free a name), traffic
waits for readiness, and nobody waits for the rest. Upstream sends in no order.
"""

from enum import IntEnum

from pykubelet.agent.status.condition_list import is_true
from pykubelet.api.generated.core import Pod, PodStatus
from pykubelet.api.pods import is_terminal


class Urgency(IntEnum):
    """The lower, the sooner."""

    END = 0
    READINESS = 1
    OTHER = 2


def urgency_of(pod: Pod, old: PodStatus, new: PodStatus, *, finished: bool) -> Urgency:
    """How urgent the change from one status to another is."""
    if finished or pod.metadata.deletion_timestamp is not None or is_terminal(new.phase):
        return Urgency.END
    if is_true(old.conditions, "Ready") != is_true(new.conditions, "Ready"):
        return Urgency.READINESS
    return Urgency.OTHER
