"""Which AppArmor profiles a pod asks for: in its fields, or in the annotations of old.

Pure. Upstream: pkg/security/apparmor/helpers.go.
"""

from collections.abc import Iterator

from pykubelet.api.generated.core import AppArmorProfile, Container, EphemeralContainer, Pod

ANNOTATION_PREFIX = "container.apparmor.security.beta.kubernetes.io/"
_LOCALHOST_PREFIX = "localhost/"
_BY_ANNOTATION = {"runtime/default": "RuntimeDefault", "unconfined": "Unconfined"}


def app_armor_profiles(pod: Pod) -> Iterator[AppArmorProfile]:
    """Every profile a pod names: its own, and each container's by field or annotation."""
    if pod.spec.security_context is not None and pod.spec.security_context.app_armor_profile is not None:
        yield pod.spec.security_context.app_armor_profile
    containers: tuple[Container | EphemeralContainer, ...] = (*pod.spec.init_containers, *pod.spec.containers)
    for container in (*containers, *pod.spec.ephemeral_containers):
        if own := _own_profile(pod, container):
            yield own


def app_armor_profile(pod: Pod, container: Container | EphemeralContainer) -> AppArmorProfile | None:
    """The profile of one container: its own, by field or annotation, or its pod's."""
    of_pod = pod.spec.security_context.app_armor_profile if pod.spec.security_context is not None else None
    return _own_profile(pod, container) or of_pod


def _own_profile(pod: Pod, container: Container | EphemeralContainer) -> AppArmorProfile | None:
    context = container.security_context
    if context is not None and context.app_armor_profile is not None:
        return context.app_armor_profile
    return _annotated(pod.metadata.annotations.get(ANNOTATION_PREFIX + container.name, ""))


def _annotated(value: str) -> AppArmorProfile | None:
    if value in _BY_ANNOTATION:
        return AppArmorProfile(type=_BY_ANNOTATION[value])
    if value.startswith(_LOCALHOST_PREFIX):
        return AppArmorProfile(type="Localhost", localhost_profile=value.removeprefix(_LOCALHOST_PREFIX))
    return None
