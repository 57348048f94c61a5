"""References to variables in a container's command and in the paths of its mounts.

Upstream: the Expand functions of pkg/kubelet/container/helpers.go
"""

from collections.abc import Mapping, Sequence

from pykubelet.agent.volumes.problems import ConfigProblem
from pykubelet.api.expansion import expand, values_of


def expand_all(texts: Sequence[str], environment: Mapping[str, str]) -> tuple[str, ...]:
    """A command or its arguments, expanded."""
    value_of = values_of(environment)
    return tuple(expand(text, value_of) for text in texts)


def expand_sub_path(expression: str, environment: Mapping[str, str]) -> str:
    """A path below a volume, expanded; ConfigProblem if a variable is missing or empty."""
    missing: set[str] = set()

    def value_of(name: str) -> str:
        if not environment.get(name):
            missing.add(name)
        return environment.get(name, "")

    expanded = expand(expression, value_of)
    if missing:
        raise ConfigProblem(f"missing value for {', '.join(sorted(missing))}")
    return expanded
