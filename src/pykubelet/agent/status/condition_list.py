"""Look up and change conditions in a pod's list of them.

Tuples in, tuples out; pure. Where a type occurs twice the first one counts, as upstream has it.
Upstream: pkg/api/v1/pod/util.go, pkg/util/pod/pod.go.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from pykubelet.api.generated.core import PodCondition

Conditions = tuple[PodCondition, ...]


def find_condition(conditions: Iterable[PodCondition], kind: str) -> PodCondition | None:
    """The first condition of this type."""
    return next((condition for condition in conditions if condition.type == kind), None)


def is_true(conditions: Iterable[PodCondition], kind: str) -> bool:
    """Whether the condition of this type is there and says True."""
    found = find_condition(conditions, kind)
    return found is not None and found.status == "True"


def replace_or_append(conditions: Conditions, condition: PodCondition) -> Conditions:
    """The list with this condition in the place of the first of its type, or at the end."""
    for index, existing in enumerate(conditions):
        if existing.type == condition.type:
            return (*conditions[:index], condition, *conditions[index + 1 :])
    return (*conditions, condition)


def with_transition_time(conditions: Conditions, old: Sequence[PodCondition], kind: str, now: str) -> Conditions:
    """The list with the condition of this type stamped: the old time if its status stays, else now.

    A changed reason or message is no transition. Without such a condition nothing changes.
    """
    condition = find_condition(conditions, kind)
    if condition is None:
        return conditions
    before = find_condition(old, kind)
    since = before.last_transition_time if before is not None and before.status == condition.status else now
    return replace_or_append(conditions, replace(condition, last_transition_time=since))
