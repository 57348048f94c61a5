"""Which part of an object a request may change: the whole, its status, or what else has a door.

In: a resource and a subresource. Out: the rules for a change that comes this way.
"""

from typing import NamedTuple

from pykubelet.apiserver.served import Served, Step, StepCheck, StepWarn
from pykubelet.apiserver.strategies.grouped import SUBRESOURCES


class Part(NamedTuple):
    """What becomes of a changed object before it is stored, what is wrong with it, and what is only unwise."""

    prepare: Step
    validate: StepCheck
    warnings: StepWarn


def part_of(served: Served, subresource: str) -> Part:
    """The rules for changes through a subresource (empty: of the object itself)."""
    strategy = served.strategy
    if subresource == "status":
        return Part(strategy.prepare_status, strategy.validate_status, strategy.warnings.status)
    if subresource:
        strategy = SUBRESOURCES.get((served.resource.group_resource, subresource), strategy)
    return Part(strategy.prepare_update, strategy.validate_update, strategy.warnings.update)
