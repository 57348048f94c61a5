"""Structs of the API group core; written by tools/generate_api.py, not by hand."""

from collections.abc import Mapping
from types import NoneType

from msgspec import Struct, field

from pykubelet.api.serializer import redacted
from pykubelet.api.generated.meta import Condition, LabelSelector, ObjectMeta


class AWSElasticBlockStoreVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """AWSElasticBlockStoreVolumeSource of core.v1."""

    fs_type: str = ""
    partition: int = 0
    read_only: bool = False
    volume_id: str = field(default_factory=str, name="volumeID")


class NodeSelectorRequirement(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """NodeSelectorRequirement of core.v1."""

    key: str = field(default_factory=str)
    operator: str = field(default_factory=str)
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """NodeSelectorTerm of core.v1."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class PreferredSchedulingTerm(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PreferredSchedulingTerm of core.v1."""

    preference: NodeSelectorTerm = field(default_factory=NodeSelectorTerm)
    weight: int = field(default_factory=int)


class NodeSelector(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """NodeSelector of core.v1."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class NodeAffinity(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """NodeAffinity of core.v1."""

    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class PodAffinityTerm(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PodAffinityTerm of core.v1."""

    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    topology_key: str = field(default_factory=str)


class WeightedPodAffinityTerm(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """WeightedPodAffinityTerm of core.v1."""

    pod_affinity_term: PodAffinityTerm = field(default_factory=PodAffinityTerm)
    weight: int = field(default_factory=int)


class PodAffinity(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PodAffinity of core.v1."""

    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()
    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()


class PodAntiAffinity(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PodAntiAffinity of core.v1."""

    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()
    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()


class Affinity(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """Affinity of core.v1."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class AppArmorProfile(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """AppArmorProfile of core.v1."""

    localhost_profile: str | None = None
    type: str = field(default_factory=str)


class AttachedVolume(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """AttachedVolume of core.v1."""

    device_path: str = field(default_factory=str)
    name: str = field(default_factory=str)


class AzureDiskVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """AzureDiskVolumeSource of core.v1."""

    caching_mode: str | None = None
    disk_name: str = field(default_factory=str)
    disk_uri: str = field(default_factory=str, name="diskURI")
    fs_type: str | None = None
    kind: str | None = None
    read_only: bool | None = None


class AzureFilePersistentVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """AzureFilePersistentVolumeSource of core.v1."""

    read_only: bool = False
    secret_name: str = field(default_factory=str)
    secret_namespace: str | None = None
    share_name: str = field(default_factory=str)


class AzureFileVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """AzureFileVolumeSource of core.v1."""

    read_only: bool = False
    secret_name: str = field(default_factory=str)
    share_name: str = field(default_factory=str)


class ObjectReference(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ObjectReference of core.v1."""

    api_version: str = ""
    field_path: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    uid: str = ""


class Binding(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """Binding of core.v1."""

    api_version: str = field(default_factory=lambda: "v1")
    kind: str = field(default_factory=lambda: "Binding")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    target: ObjectReference = field(default_factory=ObjectReference)


class SecretReference(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """SecretReference of core.v1."""

    name: str = ""
    namespace: str = ""


class CSIPersistentVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """CSIPersistentVolumeSource of core.v1."""

    controller_expand_secret_ref: SecretReference | None = None
    controller_publish_secret_ref: SecretReference | None = None
    driver: str = field(default_factory=str)
    fs_type: str = ""
    node_expand_secret_ref: SecretReference | None = None
    node_publish_secret_ref: SecretReference | None = None
    node_stage_secret_ref: SecretReference | None = None
    read_only: bool = False
    volume_attributes: Mapping[str, str] = {}
    volume_handle: str = field(default_factory=str)


class LocalObjectReference(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """LocalObjectReference of core.v1."""

    name: str = ""


class CSIVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """CSIVolumeSource of core.v1."""

    driver: str = field(default_factory=str)
    fs_type: str | None = None
    node_publish_secret_ref: LocalObjectReference | None = None
    read_only: bool | None = None
    volume_attributes: Mapping[str, str] = {}


class Capabilities(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """Capabilities of core.v1."""

    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


class CephFSPersistentVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """CephFSPersistentVolumeSource of core.v1."""

    monitors: tuple[str, ...] = ()
    path: str = ""
    read_only: bool = False
    secret_file: str = ""
    secret_ref: SecretReference | None = None
    user: str = ""


class CephFSVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """CephFSVolumeSource of core.v1."""

    monitors: tuple[str, ...] = ()
    path: str = ""
    read_only: bool = False
    secret_file: str = ""
    secret_ref: LocalObjectReference | None = None
    user: str = ""


class CinderPersistentVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """CinderPersistentVolumeSource of core.v1."""

    fs_type: str = ""
    read_only: bool = False
    secret_ref: SecretReference | None = None
    volume_id: str = field(default_factory=str, name="volumeID")


class CinderVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """CinderVolumeSource of core.v1."""

    fs_type: str = ""
    read_only: bool = False
    secret_ref: LocalObjectReference | None = None
    volume_id: str = field(default_factory=str, name="volumeID")


class ClientIPConfig(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ClientIPConfig of core.v1."""

    timeout_seconds: int | None = None


class ClusterTrustBundleProjection(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ClusterTrustBundleProjection of core.v1."""

    label_selector: LabelSelector | None = None
    name: str | None = None
    optional: bool | None = None
    path: str = field(default_factory=str)
    signer_name: str | None = None


class ConfigMap(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ConfigMap of core.v1."""

    api_version: str = field(default_factory=lambda: "v1")
    binary_data: Mapping[str, bytes] = {}
    data: Mapping[str, str] = {}
    immutable: bool | None = None
    kind: str = field(default_factory=lambda: "ConfigMap")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)


class ConfigMapEnvSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ConfigMapEnvSource of core.v1."""

    name: str = ""
    optional: bool | None = None


class ConfigMapKeySelector(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ConfigMapKeySelector of core.v1."""

    key: str = field(default_factory=str)
    name: str = ""
    optional: bool | None = None


class ConfigMapNodeConfigSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ConfigMapNodeConfigSource of core.v1."""

    kubelet_config_key: str = field(default_factory=str)
    name: str = field(default_factory=str)
    namespace: str = field(default_factory=str)
    resource_version: str = ""
    uid: str = ""


class KeyToPath(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """KeyToPath of core.v1."""

    key: str = field(default_factory=str)
    mode: int | None = None
    path: str = field(default_factory=str)


class ConfigMapProjection(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ConfigMapProjection of core.v1."""

    items: tuple[KeyToPath, ...] = ()
    name: str = ""
    optional: bool | None = None


class ConfigMapVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ConfigMapVolumeSource of core.v1."""

    default_mode: int | None = None
    items: tuple[KeyToPath, ...] = ()
    name: str = ""
    optional: bool | None = None


class ObjectFieldSelector(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ObjectFieldSelector of core.v1."""

    api_version: str = ""
    field_path: str = field(default_factory=str)


class FileKeySelector(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """FileKeySelector of core.v1."""

    key: str = field(default_factory=str)
    optional: bool | None = None
    path: str = field(default_factory=str)
    volume_name: str = field(default_factory=str)


class ResourceFieldSelector(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ResourceFieldSelector of core.v1."""

    container_name: str = ""
    divisor: str = ""
    resource: str = field(default_factory=str)


class SecretKeySelector(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """SecretKeySelector of core.v1."""

    key: str = field(default_factory=str)
    name: str = ""
    optional: bool | None = None


class EnvVarSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """EnvVarSource of core.v1."""

    config_map_key_ref: ConfigMapKeySelector | None = None
    field_ref: ObjectFieldSelector | None = None
    file_key_ref: FileKeySelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    secret_key_ref: SecretKeySelector | None = None


class EnvVar(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """EnvVar of core.v1."""

    name: str = field(default_factory=str)
    value: str = ""
    value_from: EnvVarSource | None = None


class SecretEnvSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """SecretEnvSource of core.v1."""

    name: str = ""
    optional: bool | None = None


class EnvFromSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """EnvFromSource of core.v1."""

    config_map_ref: ConfigMapEnvSource | None = None
    prefix: str = ""
    secret_ref: SecretEnvSource | None = None


class ExecAction(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ExecAction of core.v1."""

    command: tuple[str, ...] = ()


class HTTPHeader(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """HTTPHeader of core.v1."""

    name: str = field(default_factory=str)
    value: str = field(default_factory=str)


class HTTPGetAction(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """HTTPGetAction of core.v1."""

    host: str = ""
    http_headers: tuple[HTTPHeader, ...] = ()
    path: str = ""
    port: int | str | None = None
    scheme: str = ""


class SleepAction(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """SleepAction of core.v1."""

    seconds: int = field(default_factory=int)


class TCPSocketAction(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """TCPSocketAction of core.v1."""

    host: str = ""
    port: int | str | None = None


class LifecycleHandler(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """LifecycleHandler of core.v1."""

    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    sleep: SleepAction | None = None
    tcp_socket: TCPSocketAction | None = None


class Lifecycle(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """Lifecycle of core.v1."""

    post_start: LifecycleHandler | None = None
    pre_stop: LifecycleHandler | None = None
    stop_signal: str | None = None


class GRPCAction(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """GRPCAction of core.v1."""

    port: int = field(default_factory=int)
    service: str | None = None


class Probe(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """Probe of core.v1."""

    exec: ExecAction | None = None
    failure_threshold: int = 0
    grpc: GRPCAction | None = None
    http_get: HTTPGetAction | None = None
    initial_delay_seconds: int = 0
    period_seconds: int = 0
    success_threshold: int = 0
    tcp_socket: TCPSocketAction | None = None
    termination_grace_period_seconds: int | None = None
    timeout_seconds: int = 0


class ContainerPort(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ContainerPort of core.v1."""

    container_port: int = field(default_factory=int)
    host_ip: str = field(default="", name="hostIP")
    host_port: int = 0
    name: str = ""
    protocol: str = ""


class ContainerResizePolicy(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ContainerResizePolicy of core.v1."""

    resource_name: str = field(default_factory=str)
    restart_policy: str = field(default_factory=str)


class ResourceClaim(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ResourceClaim of core.v1."""

    name: str = field(default_factory=str)
    request: str = ""


class ResourceRequirements(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ResourceRequirements of core.v1."""

    claims: tuple[ResourceClaim, ...] = ()
    limits: Mapping[str, str] = {}
    requests: Mapping[str, str] = {}


class ContainerRestartRuleOnExitCodes(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ContainerRestartRuleOnExitCodes of core.v1."""

    operator: str = ""
    values: tuple[int, ...] = ()


class ContainerRestartRule(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ContainerRestartRule of core.v1."""

    action: str = ""
    exit_codes: ContainerRestartRuleOnExitCodes | None = None


class SELinuxOptions(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """SELinuxOptions of core.v1."""

    level: str = ""
    role: str = ""
    type: str = ""
    user: str = ""


class SeccompProfile(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """SeccompProfile of core.v1."""

    localhost_profile: str | None = None
    type: str = field(default_factory=str)


class WindowsSecurityContextOptions(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """WindowsSecurityContextOptions of core.v1."""

    gmsa_credential_spec: str | None = None
    gmsa_credential_spec_name: str | None = None
    host_process: bool | None = None
    run_as_user_name: str | None = None


class SecurityContext(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """SecurityContext of core.v1."""

    allow_privilege_escalation: bool | None = None
    app_armor_profile: AppArmorProfile | None = None
    capabilities: Capabilities | None = None
    privileged: bool | None = None
    proc_mount: str | None = None
    read_only_root_filesystem: bool | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    run_as_user: int | None = None
    se_linux_options: SELinuxOptions | None = None
    seccomp_profile: SeccompProfile | None = None
    windows_options: WindowsSecurityContextOptions | None = None


class VolumeDevice(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """VolumeDevice of core.v1."""

    device_path: str = field(default_factory=str)
    name: str = field(default_factory=str)


class VolumeMount(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """VolumeMount of core.v1."""

    mount_path: str = field(default_factory=str)
    mount_propagation: str | None = None
    name: str = field(default_factory=str)
    read_only: bool = False
    recursive_read_only: str | None = None
    sub_path: str = ""
    sub_path_expr: str = ""


class Container(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """Container of core.v1."""

    args: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[EnvFromSource, ...] = ()
    image: str = ""
    image_pull_policy: str = ""
    lifecycle: Lifecycle | None = None
    liveness_probe: Probe | None = None
    name: str = field(default_factory=str)
    ports: tuple[ContainerPort, ...] = ()
    readiness_probe: Probe | None = None
    resize_policy: tuple[ContainerResizePolicy, ...] = ()
    resources: ResourceRequirements = field(default_factory=ResourceRequirements)
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    security_context: SecurityContext | None = None
    startup_probe: Probe | None = None
    stdin: bool = False
    stdin_once: bool = False
    termination_message_path: str = ""
    termination_message_policy: str = ""
    tty: bool = False
    volume_devices: tuple[VolumeDevice, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    working_dir: str = ""


class ContainerExtendedResourceRequest(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ContainerExtendedResourceRequest of core.v1."""

    container_name: str = field(default_factory=str)
    request_name: str = field(default_factory=str)
    resource_name: str = field(default_factory=str)


class ContainerImage(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ContainerImage of core.v1."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class ContainerStateRunning(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ContainerStateRunning of core.v1."""

    started_at: str | None = field(default_factory=NoneType)


class ContainerStateTerminated(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ContainerStateTerminated of core.v1."""

    container_id: str = field(default="", name="containerID")
    exit_code: int = field(default_factory=int)
    finished_at: str | None = field(default_factory=NoneType)
    message: str = ""
    reason: str = ""
    signal: int = 0
    started_at: str | None = field(default_factory=NoneType)


class ContainerStateWaiting(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ContainerStateWaiting of core.v1."""

    message: str = ""
    reason: str = ""


class ContainerState(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ContainerState of core.v1."""

    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None
    waiting: ContainerStateWaiting | None = None


class ResourceHealth(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ResourceHealth of core.v1."""

    health: str = ""
    resource_id: str = field(default_factory=str, name="resourceID")


class ResourceStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ResourceStatus of core.v1."""

    name: str = field(default_factory=str)
    resources: tuple[ResourceHealth, ...] = ()


class LinuxContainerUser(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """LinuxContainerUser of core.v1."""

    gid: int = field(default_factory=int)
    supplemental_groups: tuple[int, ...] = ()
    uid: int = field(default_factory=int)


class ContainerUser(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ContainerUser of core.v1."""

    linux: LinuxContainerUser | None = None


class VolumeMountStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """VolumeMountStatus of core.v1."""

    mount_path: str = field(default_factory=str)
    name: str = field(default_factory=str)
    read_only: bool = False
    recursive_read_only: str | None = None


class ContainerStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ContainerStatus of core.v1."""

    allocated_resources: Mapping[str, str] = {}
    allocated_resources_status: tuple[ResourceStatus, ...] = ()
    container_id: str = field(default="", name="containerID")
    image: str = field(default_factory=str)
    image_id: str = field(default_factory=str, name="imageID")
    last_state: ContainerState = field(default_factory=ContainerState)
    name: str = field(default_factory=str)
    ready: bool = field(default_factory=bool)
    resources: ResourceRequirements | None = None
    restart_count: int = field(default_factory=int)
    started: bool | None = None
    state: ContainerState = field(default_factory=ContainerState)
    stop_signal: str | None = None
    user: ContainerUser | None = None
    volume_mounts: tuple[VolumeMountStatus, ...] = ()


class DaemonEndpoint(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """DaemonEndpoint of core.v1."""

    port: int = field(default_factory=int, name="Port")


class DownwardAPIVolumeFile(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """DownwardAPIVolumeFile of core.v1."""

    field_ref: ObjectFieldSelector | None = None
    mode: int | None = None
    path: str = field(default_factory=str)
    resource_field_ref: ResourceFieldSelector | None = None


class DownwardAPIProjection(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """DownwardAPIProjection of core.v1."""

    items: tuple[DownwardAPIVolumeFile, ...] = ()


class DownwardAPIVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """DownwardAPIVolumeSource of core.v1."""

    default_mode: int | None = None
    items: tuple[DownwardAPIVolumeFile, ...] = ()


class EmptyDirVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """EmptyDirVolumeSource of core.v1."""

    medium: str = ""
    size_limit: str | None = None


class EndpointAddress(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """EndpointAddress of core.v1."""

    hostname: str = ""
    ip: str = field(default_factory=str)
    node_name: str | None = None
    target_ref: ObjectReference | None = None


class EndpointPort(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """EndpointPort of core.v1."""

    app_protocol: str | None = None
    name: str = ""
    port: int = field(default_factory=int)
    protocol: str = ""


class EndpointSubset(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """EndpointSubset of core.v1."""

    addresses: tuple[EndpointAddress, ...] = ()
    not_ready_addresses: tuple[EndpointAddress, ...] = ()
    ports: tuple[EndpointPort, ...] = ()


class Endpoints(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """Endpoints of core.v1."""

    api_version: str = field(default_factory=lambda: "v1")
    kind: str = field(default_factory=lambda: "Endpoints")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    subsets: tuple[EndpointSubset, ...] = ()


class EphemeralContainer(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """EphemeralContainer of core.v1."""

    args: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[EnvFromSource, ...] = ()
    image: str = ""
    image_pull_policy: str = ""
    lifecycle: Lifecycle | None = None
    liveness_probe: Probe | None = None
    name: str = field(default_factory=str)
    ports: tuple[ContainerPort, ...] = ()
    readiness_probe: Probe | None = None
    resize_policy: tuple[ContainerResizePolicy, ...] = ()
    resources: ResourceRequirements = field(default_factory=ResourceRequirements)
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    security_context: SecurityContext | None = None
    startup_probe: Probe | None = None
    stdin: bool = False
    stdin_once: bool = False
    target_container_name: str = ""
    termination_message_path: str = ""
    termination_message_policy: str = ""
    tty: bool = False
    volume_devices: tuple[VolumeDevice, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    working_dir: str = ""


class TypedLocalObjectReference(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """TypedLocalObjectReference of core.v1."""

    api_group: str | None = None
    kind: str = field(default_factory=str)
    name: str = field(default_factory=str)


class TypedObjectReference(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """TypedObjectReference of core.v1."""

    api_group: str | None = None
    kind: str = field(default_factory=str)
    name: str = field(default_factory=str)
    namespace: str | None = None


class VolumeResourceRequirements(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """VolumeResourceRequirements of core.v1."""

    limits: Mapping[str, str] = {}
    requests: Mapping[str, str] = {}


class PersistentVolumeClaimSpec(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PersistentVolumeClaimSpec of core.v1."""

    access_modes: tuple[str, ...] = ()
    data_source: TypedLocalObjectReference | None = None
    data_source_ref: TypedObjectReference | None = None
    resources: VolumeResourceRequirements = field(default_factory=VolumeResourceRequirements)
    selector: LabelSelector | None = None
    storage_class_name: str | None = None
    volume_attributes_class_name: str | None = None
    volume_mode: str | None = None
    volume_name: str = ""


class PersistentVolumeClaimTemplate(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PersistentVolumeClaimTemplate of core.v1."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PersistentVolumeClaimSpec = field(default_factory=PersistentVolumeClaimSpec)


class EphemeralVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """EphemeralVolumeSource of core.v1."""

    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class EventSeries(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """EventSeries of core.v1."""

    count: int = 0
    last_observed_time: str | None = field(default_factory=NoneType)


class EventSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """EventSource of core.v1."""

    component: str = ""
    host: str = ""


class Event(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """Event of core.v1."""

    action: str = ""
    api_version: str = field(default_factory=lambda: "v1")
    count: int = 0
    event_time: str | None = field(default_factory=NoneType)
    first_timestamp: str | None = field(default_factory=NoneType)
    involved_object: ObjectReference = field(default_factory=ObjectReference)
    kind: str = field(default_factory=lambda: "Event")
    last_timestamp: str | None = field(default_factory=NoneType)
    message: str = ""
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    reason: str = ""
    related: ObjectReference | None = None
    reporting_component: str = field(default_factory=str)
    reporting_instance: str = field(default_factory=str)
    series: EventSeries | None = None
    source: EventSource = field(default_factory=EventSource)
    type: str = ""


class FCVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """FCVolumeSource of core.v1."""

    fs_type: str = ""
    lun: int | None = None
    read_only: bool = False
    target_wwns: tuple[str, ...] = field(default=(), name="targetWWNs")
    wwids: tuple[str, ...] = ()


class FlexPersistentVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """FlexPersistentVolumeSource of core.v1."""

    driver: str = field(default_factory=str)
    fs_type: str = ""
    options: Mapping[str, str] = {}
    read_only: bool = False
    secret_ref: SecretReference | None = None


class FlexVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """FlexVolumeSource of core.v1."""

    driver: str = field(default_factory=str)
    fs_type: str = ""
    options: Mapping[str, str] = {}
    read_only: bool = False
    secret_ref: LocalObjectReference | None = None


class FlockerVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """FlockerVolumeSource of core.v1."""

    dataset_name: str = ""
    dataset_uuid: str = field(default="", name="datasetUUID")


class GCEPersistentDiskVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """GCEPersistentDiskVolumeSource of core.v1."""

    fs_type: str = ""
    partition: int = 0
    pd_name: str = field(default_factory=str)
    read_only: bool = False


class GitRepoVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """GitRepoVolumeSource of core.v1."""

    directory: str = ""
    repository: str = field(default_factory=str)
    revision: str = ""


class GlusterfsPersistentVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """GlusterfsPersistentVolumeSource of core.v1."""

    endpoints: str = field(default_factory=str)
    endpoints_namespace: str | None = None
    path: str = field(default_factory=str)
    read_only: bool = False


class GlusterfsVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """GlusterfsVolumeSource of core.v1."""

    endpoints: str = field(default_factory=str)
    path: str = field(default_factory=str)
    read_only: bool = False


class HostAlias(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """HostAlias of core.v1."""

    hostnames: tuple[str, ...] = ()
    ip: str = field(default_factory=str)


class HostIP(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """HostIP of core.v1."""

    ip: str = field(default_factory=str)


class HostPathVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """HostPathVolumeSource of core.v1."""

    path: str = field(default_factory=str)
    type: str | None = None


class ISCSIPersistentVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ISCSIPersistentVolumeSource of core.v1."""

    chap_auth_discovery: bool = False
    chap_auth_session: bool = False
    fs_type: str = ""
    initiator_name: str | None = None
    iqn: str = field(default_factory=str)
    iscsi_interface: str = ""
    lun: int = field(default_factory=int)
    portals: tuple[str, ...] = ()
    read_only: bool = False
    secret_ref: SecretReference | None = None
    target_portal: str = field(default_factory=str)


class ISCSIVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ISCSIVolumeSource of core.v1."""

    chap_auth_discovery: bool = False
    chap_auth_session: bool = False
    fs_type: str = ""
    initiator_name: str | None = None
    iqn: str = field(default_factory=str)
    iscsi_interface: str = ""
    lun: int = field(default_factory=int)
    portals: tuple[str, ...] = ()
    read_only: bool = False
    secret_ref: LocalObjectReference | None = None
    target_portal: str = field(default_factory=str)


class ImageVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ImageVolumeSource of core.v1."""

    pull_policy: str = ""
    reference: str = ""


class PortStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PortStatus of core.v1."""

    error: str | None = None
    port: int = field(default_factory=int)
    protocol: str = field(default_factory=str)


class LoadBalancerIngress(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """LoadBalancerIngress of core.v1."""

    hostname: str = ""
    ip: str = ""
    ip_mode: str | None = None
    ports: tuple[PortStatus, ...] = ()


class LoadBalancerStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """LoadBalancerStatus of core.v1."""

    ingress: tuple[LoadBalancerIngress, ...] = ()


class LocalVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """LocalVolumeSource of core.v1."""

    fs_type: str | None = None
    path: str = field(default_factory=str)


class ModifyVolumeStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ModifyVolumeStatus of core.v1."""

    status: str = field(default_factory=str)
    target_volume_attributes_class_name: str = ""


class NFSVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """NFSVolumeSource of core.v1."""

    path: str = field(default_factory=str)
    read_only: bool = False
    server: str = field(default_factory=str)


class NamespaceSpec(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """NamespaceSpec of core.v1."""

    finalizers: tuple[str, ...] = ()


class NamespaceCondition(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """NamespaceCondition of core.v1."""

    last_transition_time: str | None = field(default_factory=NoneType)
    message: str = ""
    reason: str = ""
    status: str = field(default_factory=str)
    type: str = field(default_factory=str)


class NamespaceStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """NamespaceStatus of core.v1."""

    conditions: tuple[NamespaceCondition, ...] = ()
    phase: str = ""


class Namespace(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """Namespace of core.v1."""

    api_version: str = field(default_factory=lambda: "v1")
    kind: str = field(default_factory=lambda: "Namespace")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: NamespaceSpec = field(default_factory=NamespaceSpec)
    status: NamespaceStatus = field(default_factory=NamespaceStatus)


class NodeConfigSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """NodeConfigSource of core.v1."""

    config_map: ConfigMapNodeConfigSource | None = None


class Taint(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """Taint of core.v1."""

    effect: str = field(default_factory=str)
    key: str = field(default_factory=str)
    time_added: str | None = None
    value: str = ""


class NodeSpec(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """NodeSpec of core.v1."""

    config_source: NodeConfigSource | None = None
    external_id: str = field(default="", name="externalID")
    pod_cidr: str = field(default="", name="podCIDR")
    pod_cidrs: tuple[str, ...] = field(default=(), name="podCIDRs")
    provider_id: str = field(default="", name="providerID")
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class NodeAddress(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """NodeAddress of core.v1."""

    address: str = field(default_factory=str)
    type: str = field(default_factory=str)


class NodeCondition(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """NodeCondition of core.v1."""

    last_heartbeat_time: str | None = field(default_factory=NoneType)
    last_transition_time: str | None = field(default_factory=NoneType)
    message: str = ""
    reason: str = ""
    status: str = field(default_factory=str)
    type: str = field(default_factory=str)


class NodeConfigStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """NodeConfigStatus of core.v1."""

    active: NodeConfigSource | None = None
    assigned: NodeConfigSource | None = None
    error: str = ""
    last_known_good: NodeConfigSource | None = None


class NodeDaemonEndpoints(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """NodeDaemonEndpoints of core.v1."""

    kubelet_endpoint: DaemonEndpoint = field(default_factory=DaemonEndpoint)


class NodeFeatures(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """NodeFeatures of core.v1."""

    supplemental_groups_policy: bool | None = None


class NodeSwapStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """NodeSwapStatus of core.v1."""

    capacity: int | None = None


class NodeSystemInfo(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """NodeSystemInfo of core.v1."""

    architecture: str = field(default_factory=str)
    boot_id: str = field(default_factory=str, name="bootID")
    container_runtime_version: str = field(default_factory=str)
    kernel_version: str = field(default_factory=str)
    kube_proxy_version: str = field(default_factory=str)
    kubelet_version: str = field(default_factory=str)
    machine_id: str = field(default_factory=str, name="machineID")
    operating_system: str = field(default_factory=str)
    os_image: str = field(default_factory=str)
    swap: NodeSwapStatus | None = None
    system_uuid: str = field(default_factory=str, name="systemUUID")


class NodeRuntimeHandlerFeatures(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """NodeRuntimeHandlerFeatures of core.v1."""

    recursive_read_only_mounts: bool | None = None
    user_namespaces: bool | None = None


class NodeRuntimeHandler(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """NodeRuntimeHandler of core.v1."""

    features: NodeRuntimeHandlerFeatures | None = None
    name: str = field(default_factory=str)


class NodeStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """NodeStatus of core.v1."""

    addresses: tuple[NodeAddress, ...] = ()
    allocatable: Mapping[str, str] = {}
    capacity: Mapping[str, str] = {}
    conditions: tuple[NodeCondition, ...] = ()
    config: NodeConfigStatus | None = None
    daemon_endpoints: NodeDaemonEndpoints = field(default_factory=NodeDaemonEndpoints)
    features: NodeFeatures | None = None
    images: tuple[ContainerImage, ...] = ()
    node_info: NodeSystemInfo = field(default_factory=NodeSystemInfo)
    phase: str = ""
    runtime_handlers: tuple[NodeRuntimeHandler, ...] = ()
    volumes_attached: tuple[AttachedVolume, ...] = ()
    volumes_in_use: tuple[str, ...] = ()


class Node(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """Node of core.v1."""

    api_version: str = field(default_factory=lambda: "v1")
    kind: str = field(default_factory=lambda: "Node")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)


class VolumeNodeAffinity(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """VolumeNodeAffinity of core.v1."""

    required: NodeSelector | None = None


class PhotonPersistentDiskVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PhotonPersistentDiskVolumeSource of core.v1."""

    fs_type: str = ""
    pd_id: str = field(default_factory=str, name="pdID")


class PortworxVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PortworxVolumeSource of core.v1."""

    fs_type: str = ""
    read_only: bool = False
    volume_id: str = field(default_factory=str, name="volumeID")


class QuobyteVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """QuobyteVolumeSource of core.v1."""

    group: str = ""
    read_only: bool = False
    registry: str = field(default_factory=str)
    tenant: str = ""
    user: str = ""
    volume: str = field(default_factory=str)


class RBDPersistentVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """RBDPersistentVolumeSource of core.v1."""

    fs_type: str = ""
    image: str = field(default_factory=str)
    keyring: str = ""
    monitors: tuple[str, ...] = ()
    pool: str = ""
    read_only: bool = False
    secret_ref: SecretReference | None = None
    user: str = ""


class ScaleIOPersistentVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ScaleIOPersistentVolumeSource of core.v1."""

    fs_type: str = ""
    gateway: str = field(default_factory=str)
    protection_domain: str = ""
    read_only: bool = False
    secret_ref: SecretReference | None = None
    ssl_enabled: bool = False
    storage_mode: str = ""
    storage_pool: str = ""
    system: str = field(default_factory=str)
    volume_name: str = ""


class StorageOSPersistentVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """StorageOSPersistentVolumeSource of core.v1."""

    fs_type: str = ""
    read_only: bool = False
    secret_ref: ObjectReference | None = None
    volume_name: str = ""
    volume_namespace: str = ""


class VsphereVirtualDiskVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """VsphereVirtualDiskVolumeSource of core.v1."""

    fs_type: str = ""
    storage_policy_id: str = field(default="", name="storagePolicyID")
    storage_policy_name: str = ""
    volume_path: str = field(default_factory=str)


class PersistentVolumeSpec(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PersistentVolumeSpec of core.v1."""

    access_modes: tuple[str, ...] = ()
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: AzureFilePersistentVolumeSource | None = None
    capacity: Mapping[str, str] = {}
    cephfs: CephFSPersistentVolumeSource | None = None
    cinder: CinderPersistentVolumeSource | None = None
    claim_ref: ObjectReference | None = None
    csi: CSIPersistentVolumeSource | None = None
    fc: FCVolumeSource | None = None
    flex_volume: FlexPersistentVolumeSource | None = None
    flocker: FlockerVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    glusterfs: GlusterfsPersistentVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    iscsi: ISCSIPersistentVolumeSource | None = None
    local: LocalVolumeSource | None = None
    mount_options: tuple[str, ...] = ()
    nfs: NFSVolumeSource | None = None
    node_affinity: VolumeNodeAffinity | None = None
    persistent_volume_reclaim_policy: str = ""
    photon_persistent_disk: PhotonPersistentDiskVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    quobyte: QuobyteVolumeSource | None = None
    rbd: RBDPersistentVolumeSource | None = None
    scale_io: ScaleIOPersistentVolumeSource | None = field(default=None, name="scaleIO")
    storage_class_name: str = ""
    storageos: StorageOSPersistentVolumeSource | None = None
    volume_attributes_class_name: str | None = None
    volume_mode: str | None = None
    vsphere_volume: VsphereVirtualDiskVolumeSource | None = None


class PersistentVolumeStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PersistentVolumeStatus of core.v1."""

    last_phase_transition_time: str | None = None
    message: str = ""
    phase: str = ""
    reason: str = ""


class PersistentVolume(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PersistentVolume of core.v1."""

    api_version: str = field(default_factory=lambda: "v1")
    kind: str = field(default_factory=lambda: "PersistentVolume")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PersistentVolumeSpec = field(default_factory=PersistentVolumeSpec)
    status: PersistentVolumeStatus = field(default_factory=PersistentVolumeStatus)


class PersistentVolumeClaimCondition(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PersistentVolumeClaimCondition of core.v1."""

    last_probe_time: str | None = field(default_factory=NoneType)
    last_transition_time: str | None = field(default_factory=NoneType)
    message: str = ""
    reason: str = ""
    status: str = field(default_factory=str)
    type: str = field(default_factory=str)


class PersistentVolumeClaimStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PersistentVolumeClaimStatus of core.v1."""

    access_modes: tuple[str, ...] = ()
    allocated_resource_statuses: Mapping[str, str] = {}
    allocated_resources: Mapping[str, str] = {}
    capacity: Mapping[str, str] = {}
    conditions: tuple[PersistentVolumeClaimCondition, ...] = ()
    current_volume_attributes_class_name: str | None = None
    modify_volume_status: ModifyVolumeStatus | None = None
    phase: str = ""


class PersistentVolumeClaim(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PersistentVolumeClaim of core.v1."""

    api_version: str = field(default_factory=lambda: "v1")
    kind: str = field(default_factory=lambda: "PersistentVolumeClaim")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PersistentVolumeClaimSpec = field(default_factory=PersistentVolumeClaimSpec)
    status: PersistentVolumeClaimStatus = field(default_factory=PersistentVolumeClaimStatus)


class PersistentVolumeClaimVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PersistentVolumeClaimVolumeSource of core.v1."""

    claim_name: str = field(default_factory=str)
    read_only: bool = False


class PodDNSConfigOption(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PodDNSConfigOption of core.v1."""

    name: str = ""
    value: str | None = None


class PodDNSConfig(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PodDNSConfig of core.v1."""

    nameservers: tuple[str, ...] = ()
    options: tuple[PodDNSConfigOption, ...] = ()
    searches: tuple[str, ...] = ()


class PodOS(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PodOS of core.v1."""

    name: str = field(default_factory=str)


class PodReadinessGate(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PodReadinessGate of core.v1."""

    condition_type: str = field(default_factory=str)


class PodResourceClaim(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PodResourceClaim of core.v1."""

    name: str = field(default_factory=str)
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGate(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PodSchedulingGate of core.v1."""

    name: str = field(default_factory=str)


class Sysctl(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """Sysctl of core.v1."""

    name: str = field(default_factory=str)
    value: str = field(default_factory=str)


class PodSecurityContext(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PodSecurityContext of core.v1."""

    app_armor_profile: AppArmorProfile | None = None
    fs_group: int | None = None
    fs_group_change_policy: str | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    run_as_user: int | None = None
    se_linux_change_policy: str | None = None
    se_linux_options: SELinuxOptions | None = None
    seccomp_profile: SeccompProfile | None = None
    supplemental_groups: tuple[int, ...] = ()
    supplemental_groups_policy: str | None = None
    sysctls: tuple[Sysctl, ...] = ()
    windows_options: WindowsSecurityContextOptions | None = None


class Toleration(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """Toleration of core.v1."""

    effect: str = ""
    key: str = ""
    operator: str = ""
    toleration_seconds: int | None = None
    value: str = ""


class TopologySpreadConstraint(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """TopologySpreadConstraint of core.v1."""

    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    max_skew: int = field(default_factory=int)
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    topology_key: str = field(default_factory=str)
    when_unsatisfiable: str = field(default_factory=str)


class PodCertificateProjection(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PodCertificateProjection of core.v1."""

    certificate_chain_path: str = ""
    credential_bundle_path: str = ""
    key_path: str = ""
    key_type: str = ""
    max_expiration_seconds: int | None = None
    signer_name: str = ""


class SecretProjection(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """SecretProjection of core.v1."""

    items: tuple[KeyToPath, ...] = ()
    name: str = ""
    optional: bool | None = None


class ServiceAccountTokenProjection(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ServiceAccountTokenProjection of core.v1."""

    audience: str = ""
    expiration_seconds: int | None = None
    path: str = field(default_factory=str)


class VolumeProjection(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """VolumeProjection of core.v1."""

    cluster_trust_bundle: ClusterTrustBundleProjection | None = None
    config_map: ConfigMapProjection | None = None
    downward_api: DownwardAPIProjection | None = field(default=None, name="downwardAPI")
    pod_certificate: PodCertificateProjection | None = None
    secret: SecretProjection | None = None
    service_account_token: ServiceAccountTokenProjection | None = None


class ProjectedVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ProjectedVolumeSource of core.v1."""

    default_mode: int | None = None
    sources: tuple[VolumeProjection, ...] = ()


class RBDVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """RBDVolumeSource of core.v1."""

    fs_type: str = ""
    image: str = field(default_factory=str)
    keyring: str = ""
    monitors: tuple[str, ...] = ()
    pool: str = ""
    read_only: bool = False
    secret_ref: LocalObjectReference | None = None
    user: str = ""


class ScaleIOVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ScaleIOVolumeSource of core.v1."""

    fs_type: str = ""
    gateway: str = field(default_factory=str)
    protection_domain: str = ""
    read_only: bool = False
    secret_ref: LocalObjectReference | None = None
    ssl_enabled: bool = False
    storage_mode: str = ""
    storage_pool: str = ""
    system: str = field(default_factory=str)
    volume_name: str = ""


class SecretVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """SecretVolumeSource of core.v1."""

    default_mode: int | None = None
    items: tuple[KeyToPath, ...] = ()
    optional: bool | None = None
    secret_name: str = ""


class StorageOSVolumeSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """StorageOSVolumeSource of core.v1."""

    fs_type: str = ""
    read_only: bool = False
    secret_ref: LocalObjectReference | None = None
    volume_name: str = ""
    volume_namespace: str = ""


class Volume(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """Volume of core.v1."""

    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: AzureFileVolumeSource | None = None
    cephfs: CephFSVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    config_map: ConfigMapVolumeSource | None = None
    csi: CSIVolumeSource | None = None
    downward_api: DownwardAPIVolumeSource | None = field(default=None, name="downwardAPI")
    empty_dir: EmptyDirVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    fc: FCVolumeSource | None = None
    flex_volume: FlexVolumeSource | None = None
    flocker: FlockerVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    git_repo: GitRepoVolumeSource | None = None
    glusterfs: GlusterfsVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    image: ImageVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    name: str = field(default_factory=str)
    nfs: NFSVolumeSource | None = None
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    photon_persistent_disk: PhotonPersistentDiskVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    projected: ProjectedVolumeSource | None = None
    quobyte: QuobyteVolumeSource | None = None
    rbd: RBDVolumeSource | None = None
    scale_io: ScaleIOVolumeSource | None = field(default=None, name="scaleIO")
    secret: SecretVolumeSource | None = None
    storageos: StorageOSVolumeSource | None = None
    vsphere_volume: VsphereVirtualDiskVolumeSource | None = None


class PodSpec(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PodSpec of core.v1."""

    active_deadline_seconds: int | None = None
    affinity: Affinity | None = None
    automount_service_account_token: bool | None = None
    containers: tuple[Container, ...] = ()
    dns_config: PodDNSConfig | None = None
    dns_policy: str = ""
    enable_service_links: bool | None = None
    ephemeral_containers: tuple[EphemeralContainer, ...] = ()
    host_aliases: tuple[HostAlias, ...] = ()
    host_ipc: bool = field(default=False, name="hostIPC")
    host_network: bool = False
    host_pid: bool = field(default=False, name="hostPID")
    host_users: bool | None = None
    hostname: str = ""
    hostname_override: str | None = None
    image_pull_secrets: tuple[LocalObjectReference, ...] = ()
    init_containers: tuple[Container, ...] = ()
    node_name: str = ""
    node_selector: Mapping[str, str] = {}
    os: PodOS | None = None
    overhead: Mapping[str, str] = {}
    preemption_policy: str | None = None
    priority: int | None = None
    priority_class_name: str = ""
    readiness_gates: tuple[PodReadinessGate, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    resources: ResourceRequirements | None = None
    restart_policy: str = ""
    runtime_class_name: str | None = None
    scheduler_name: str = ""
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    security_context: PodSecurityContext | None = None
    service_account: str = ""
    service_account_name: str = ""
    set_hostname_as_fqdn: bool | None = field(default=None, name="setHostnameAsFQDN")
    share_process_namespace: bool | None = None
    subdomain: str = ""
    termination_grace_period_seconds: int | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    volumes: tuple[Volume, ...] = ()


class PodCondition(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PodCondition of core.v1."""

    last_probe_time: str | None = field(default_factory=NoneType)
    last_transition_time: str | None = field(default_factory=NoneType)
    message: str = ""
    observed_generation: int = 0
    reason: str = ""
    status: str = field(default_factory=str)
    type: str = field(default_factory=str)


class PodExtendedResourceClaimStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PodExtendedResourceClaimStatus of core.v1."""

    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    resource_claim_name: str = field(default_factory=str)


class PodIP(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PodIP of core.v1."""

    ip: str = field(default_factory=str)


class PodResourceClaimStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PodResourceClaimStatus of core.v1."""

    name: str = field(default_factory=str)
    resource_claim_name: str | None = None


class PodStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PodStatus of core.v1."""

    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    host_ip: str = field(default="", name="hostIP")
    host_ips: tuple[HostIP, ...] = field(default=(), name="hostIPs")
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    message: str = ""
    nominated_node_name: str = ""
    observed_generation: int = 0
    phase: str = ""
    pod_ip: str = field(default="", name="podIP")
    pod_ips: tuple[PodIP, ...] = field(default=(), name="podIPs")
    qos_class: str = ""
    reason: str = ""
    resize: str = ""
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    start_time: str | None = None


class Pod(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """Pod of core.v1."""

    api_version: str = field(default_factory=lambda: "v1")
    kind: str = field(default_factory=lambda: "Pod")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)


class PodTemplateSpec(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PodTemplateSpec of core.v1."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodSpec = field(default_factory=PodSpec)


class PodTemplate(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PodTemplate of core.v1."""

    api_version: str = field(default_factory=lambda: "v1")
    kind: str = field(default_factory=lambda: "PodTemplate")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    template: PodTemplateSpec = field(default_factory=PodTemplateSpec)


class ReplicationControllerSpec(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ReplicationControllerSpec of core.v1."""

    min_ready_seconds: int = 0
    replicas: int | None = None
    selector: Mapping[str, str] = {}
    template: PodTemplateSpec | None = None


class ReplicationControllerCondition(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ReplicationControllerCondition of core.v1."""

    last_transition_time: str | None = field(default_factory=NoneType)
    message: str = ""
    reason: str = ""
    status: str = field(default_factory=str)
    type: str = field(default_factory=str)


class ReplicationControllerStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ReplicationControllerStatus of core.v1."""

    available_replicas: int = 0
    conditions: tuple[ReplicationControllerCondition, ...] = ()
    fully_labeled_replicas: int = 0
    observed_generation: int = 0
    ready_replicas: int = 0
    replicas: int = field(default_factory=int)


class ReplicationController(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ReplicationController of core.v1."""

    api_version: str = field(default_factory=lambda: "v1")
    kind: str = field(default_factory=lambda: "ReplicationController")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: ReplicationControllerSpec = field(default_factory=ReplicationControllerSpec)
    status: ReplicationControllerStatus = field(default_factory=ReplicationControllerStatus)


class Secret(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """Secret of core.v1."""

    api_version: str = field(default_factory=lambda: "v1")
    data: Mapping[str, bytes] = {}
    immutable: bool | None = None
    kind: str = field(default_factory=lambda: "Secret")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    string_data: Mapping[str, str] = {}
    type: str = ""

    def __repr__(self) -> str:
        return redacted(self, "data", "string_data")


class ServicePort(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ServicePort of core.v1."""

    app_protocol: str | None = None
    name: str = ""
    node_port: int = 0
    port: int = field(default_factory=int)
    protocol: str = ""
    target_port: int | str | None = None


class SessionAffinityConfig(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """SessionAffinityConfig of core.v1."""

    client_ip: ClientIPConfig | None = field(default=None, name="clientIP")


class ServiceSpec(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ServiceSpec of core.v1."""

    allocate_load_balancer_node_ports: bool | None = None
    cluster_ip: str = field(default="", name="clusterIP")
    cluster_ips: tuple[str, ...] = field(default=(), name="clusterIPs")
    external_ips: tuple[str, ...] = field(default=(), name="externalIPs")
    external_name: str = ""
    external_traffic_policy: str = ""
    health_check_node_port: int = 0
    internal_traffic_policy: str | None = None
    ip_families: tuple[str, ...] = ()
    ip_family_policy: str | None = None
    load_balancer_class: str | None = None
    load_balancer_ip: str = field(default="", name="loadBalancerIP")
    load_balancer_source_ranges: tuple[str, ...] = ()
    ports: tuple[ServicePort, ...] = ()
    publish_not_ready_addresses: bool = False
    selector: Mapping[str, str] = {}
    session_affinity: str = ""
    session_affinity_config: SessionAffinityConfig | None = None
    traffic_distribution: str | None = None
    type: str = ""


class ServiceStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ServiceStatus of core.v1."""

    conditions: tuple[Condition, ...] = ()
    load_balancer: LoadBalancerStatus = field(default_factory=LoadBalancerStatus)


class Service(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """Service of core.v1."""

    api_version: str = field(default_factory=lambda: "v1")
    kind: str = field(default_factory=lambda: "Service")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: ServiceSpec = field(default_factory=ServiceSpec)
    status: ServiceStatus = field(default_factory=ServiceStatus)


class ServiceAccount(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ServiceAccount of core.v1."""

    api_version: str = field(default_factory=lambda: "v1")
    automount_service_account_token: bool | None = None
    image_pull_secrets: tuple[LocalObjectReference, ...] = ()
    kind: str = field(default_factory=lambda: "ServiceAccount")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    secrets: tuple[ObjectReference, ...] = ()


class TopologySelectorLabelRequirement(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """TopologySelectorLabelRequirement of core.v1."""

    key: str = field(default_factory=str)
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """TopologySelectorTerm of core.v1."""

    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()
