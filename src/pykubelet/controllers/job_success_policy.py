"""Which indexes of a Job are enough.

Pure. Upstream: pkg/controller/job/success_policy.go.
"""

from pykubelet.api.generated.batch import SuccessPolicy, SuccessPolicyRule
from pykubelet.controllers.job_indexes import IndexSet, parse_indexes


def matched_rule(policy: SuccessPolicy | None, succeeded: IndexSet, completions: int) -> int | None:
    """The first rule by which these indexes are enough."""
    if policy is None or not succeeded.ranges:
        return None
    rules = enumerate(policy.rules)
    return next((number for number, rule in rules if _is_met(rule, succeeded, completions)), None)


def _is_met(rule: SuccessPolicyRule, succeeded: IndexSet, completions: int) -> bool:
    if rule.succeeded_indexes is None:
        return rule.succeeded_count is not None and succeeded.total >= rule.succeeded_count
    required = parse_indexes(rule.succeeded_indexes, completions)
    if not required.ranges:
        return False
    there = required.common(succeeded)
    return there == required.total or (rule.succeeded_count is not None and there >= rule.succeeded_count)
