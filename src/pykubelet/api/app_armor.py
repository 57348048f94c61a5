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
        context = container.security_context
        if context is not None and context.app_armor_profile is not None:
            yield context.app_armor_profile
        elif annotated := _annotated(pod.metadata.annotations.get(ANNOTATION_PREFIX + container.name, "")):
            yield annotated


def _annotated(value: str) -> AppArmorProfile | None:
    if value in _BY_ANNOTATION:
        return AppArmorProfile(type=_BY_ANNOTATION[value])
    if value.startswith(_LOCALHOST_PREFIX):
        return AppArmorProfile(type="Localhost", localhost_profile=value.removeprefix(_LOCALHOST_PREFIX))
    return None
