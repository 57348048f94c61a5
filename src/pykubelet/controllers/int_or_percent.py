"""A number that may be given as a share of another: 3, or "25%".

Pure. Upstream: GetScaledValueFromIntOrPercent in k8s.io/apimachinery/pkg/util/intstr/intstr.go.
"""

from pykubelet.api.int64 import parse_int64


def scaled_count(value: int | str, total: int, *, round_up: bool) -> int:
    """The number itself, or so many hundredths of `total`; ValueError if it is neither."""
    if isinstance(value, int):
        return value
    percent = parse_int64(value.removesuffix("%")) if value.endswith("%") else None
    if percent is None:
        raise ValueError(f"invalid value for IntOrString: {value!r} is not a percentage")
    return -(-percent * total // 100) if round_up else percent * total // 100
