"""What may differ between two validations of one pod: the switches.

The kubelet validates static pods with every switch off, which is stricter in places and blinder in others than the API
server, whose switches follow the feature gates of 1.34.

Upstream: PodValidationOptions in pkg/apis/core/validation/validation.go, set in pkg/api/pod/util.go and
pkg/registry/core/pod/strategy.go
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PodValidationOptions:
    """Each switch, when on, allows or checks what its name says; all off is the kubelet's view of a manifest."""

    resource_is_pod: bool = False
    relaxed_env_names: bool = False
    relaxed_dns_searches: bool = False
    zero_sleep: bool = False
    only_recursive_selinux_change: bool = False
    pod_level_resources: bool = False
    sidecar_resize_policy: bool = False
    merged_spread_keys: bool = False


KUBELET_OPTIONS = PodValidationOptions()
API_SERVER_OPTIONS = PodValidationOptions(
    resource_is_pod=True,
    relaxed_env_names=True,
    relaxed_dns_searches=True,
    zero_sleep=True,
    only_recursive_selinux_change=True,
    pod_level_resources=True,
    sidecar_resize_policy=True,
    merged_spread_keys=True,
)
