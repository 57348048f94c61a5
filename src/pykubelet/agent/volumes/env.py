"""The environment of a container: what its pod asks for, resolved.

In: the pod, and everything it refers to, already looked up. Out: variables, or a ConfigProblem that says what is
missing. Variables of `envFrom` come first, then those of `env` in their order, then services that nobody has overridden.

Upstream: makeEnvironmentVariables in pkg/kubelet/kubelet_pods.go. On purpose otherwise: a value that no process could be
given (a NUL byte, or bytes that are no text) is refused here, by name, and not somewhere in the runtime.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pykubelet.agent.volumes import resource_ref
from pykubelet.agent.volumes.field_ref import Addresses, field_value
from pykubelet.agent.volumes.lookups import Lookups, found
from pykubelet.agent.volumes.problems import ConfigProblem
from pykubelet.agent.volumes.service_env import service_variables
from pykubelet.api.expansion import expand, values_of
from pykubelet.api.generated.core import (
    ConfigMapKeySelector,
    Container,
    EnvFromSource,
    EnvVarSource,
    EphemeralContainer,
    Pod,
    SecretKeySelector,
    Service,
)
from pykubelet.api.pods import is_static_pod

AnyContainer = Container | EphemeralContainer


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a container's environment is made from, apart from its pod."""

    lookups: Lookups = field(default_factory=Lookups)
    services: tuple[Service, ...] | None = ()
    """None: the API server has not told yet."""
    addresses: Addresses = field(default_factory=Addresses)
    allocatable: Mapping[str, str] = field(default_factory=dict)
    """What the node has for pods."""


@dataclass(frozen=True, slots=True)
class Names:
    """The objects that an environment needs."""

    config_maps: frozenset[str]
    secrets: frozenset[str]


def wanted_names(container: AnyContainer) -> Names:
    """Whatever `environment` will look up for this container."""
    sources = [variable.value_from for variable in container.env if variable.value_from and not variable.value]
    return Names(
        frozenset(source.config_map_ref.name for source in container.env_from if source.config_map_ref)
        | {source.config_map_key_ref.name for source in sources if source.config_map_key_ref},
        frozenset(source.secret_ref.name for source in container.env_from if source.secret_ref)
        | {source.secret_key_ref.name for source in sources if source.secret_key_ref},
    )


def environment(pod: Pod, container: AnyContainer, surroundings: Surroundings) -> dict[str, str]:
    """The variables of a container; ConfigProblem if one cannot be made."""
    links = pod.spec.enable_service_links
    if links is None:
        raise ConfigProblem("nil pod.spec.enableServiceLinks encountered, cannot construct envvars")
    if surroundings.services is None and not is_static_pod(pod):
        raise ConfigProblem("services have not yet been read at least once, cannot construct envvars")
    services = service_variables(surroundings.services or (), pod.metadata.namespace, links=links)
    try:
        variables = _declared(pod, container, surroundings, services)
    except ConfigProblem:
        raise
    except Exception as error:
        raise ConfigProblem(str(error)) from error
    for name, value in variables.items():
        if "\0" in name + value:
            raise ConfigProblem(f'environment variable "{name}" must not contain a NUL byte')
    return variables | {name: value for name, value in services.items() if name not in variables}


def _declared(
    pod: Pod, container: AnyContainer, surroundings: Surroundings, services: Mapping[str, str]
) -> dict[str, str]:
    variables: dict[str, str] = {}
    for source in container.env_from:
        variables.update(_from_object(source, surroundings.lookups))
    # References see what is known so far, not what is defined further below.
    value_of = values_of(variables, services)
    for variable in container.env:
        value: str | None = variable.value
        if variable.value:
            value = expand(variable.value, value_of)
        elif variable.value_from:
            value = _resolved(variable.value_from, pod, container, surroundings)
        if value is not None:
            variables[variable.name] = value
    return variables


def _from_object(source: EnvFromSource, lookups: Lookups) -> Iterator[tuple[str, str]]:
    if reference := source.config_map_ref:
        config_map = found(lookups.config_maps, reference.name, optional=bool(reference.optional))
        for key, text in config_map.data.items() if config_map else ():
            yield source.prefix + key, text
    elif secret_reference := source.secret_ref:
        secret = found(lookups.secrets, secret_reference.name, optional=bool(secret_reference.optional))
        for key, data in secret.data.items() if secret else ():
            yield source.prefix + key, _text(data, key, secret_reference.name)


def _resolved(source: EnvVarSource, pod: Pod, container: AnyContainer, surroundings: Surroundings) -> str | None:
    """The value that a source gives; None if there is none and none is needed."""
    if source.field_ref:
        return field_value(source.field_ref, pod, surroundings.addresses)
    if source.resource_field_ref:
        return resource_ref.variable_value(source.resource_field_ref, pod, container, surroundings.allocatable)
    if source.config_map_key_ref:
        return _config_map_value(source.config_map_key_ref, pod.metadata.namespace, surroundings.lookups)
    if source.secret_key_ref:
        return _secret_value(source.secret_key_ref, pod.metadata.namespace, surroundings.lookups)
    if source.file_key_ref:
        raise ConfigProblem("fileKeyRef is not supported by this node")
    return ""


def _config_map_value(reference: ConfigMapKeySelector, namespace: str, lookups: Lookups) -> str | None:
    config_map = found(lookups.config_maps, reference.name, optional=bool(reference.optional))
    if config_map is not None and reference.key in config_map.data:
        return config_map.data[reference.key]
    if reference.optional:
        return None
    raise ConfigProblem(f"couldn't find key {reference.key} in ConfigMap {namespace}/{reference.name}")


def _secret_value(reference: SecretKeySelector, namespace: str, lookups: Lookups) -> str | None:
    secret = found(lookups.secrets, reference.name, optional=bool(reference.optional))
    if secret is not None and reference.key in secret.data:
        return _text(secret.data[reference.key], reference.key, reference.name)
    if reference.optional:
        return None
    raise ConfigProblem(f"couldn't find key {reference.key} in Secret {namespace}/{reference.name}")


def _text(data: bytes, key: str, secret: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ConfigProblem(f"key {key} in Secret {secret} is not valid UTF-8, cannot be a variable") from None
