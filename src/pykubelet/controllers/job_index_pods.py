"""What the pod of one index of a Job looks like.

Pure. The index is in a label, an annotation, the host name and an environment variable.
Upstream: manageJob in pkg/controller/job/job_controller.go, pkg/controller/job/indexed_job_utils.go.
"""

from msgspec.structs import replace

from pykubelet.api.generated.batch import Job
from pykubelet.api.generated.core import Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod, PodTemplateSpec
from pykubelet.controllers.job_facts import COMPLETION_INDEX, TRACKING_FINALIZER
from pykubelet.controllers.job_index_state import FAILURE_COUNT, IGNORED_FAILURE_COUNT, next_failure_counts

INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
# What the server lets a name of 63 characters keep when it appends five.
_MAX_PREFIX = 58


def pod_template(job: Job) -> PodTemplateSpec:
    """The template of any pod of the job: it has the finalizer."""
    template = job.spec.template
    finalizers = dict.fromkeys((*template.metadata.finalizers, TRACKING_FINALIZER))
    return replace(template, metadata=replace(template.metadata, finalizers=tuple(finalizers)))


def with_index(template: PodTemplateSpec, job: Job, index: int, replaced: Pod | None) -> PodTemplateSpec:
    """The template of the pod of an index; `replaced` is the failed pod whose place it takes."""
    annotations = {**template.metadata.annotations, COMPLETION_INDEX: str(index)}
    if job.spec.backoff_limit_per_index is not None:
        counted, ignored = next_failure_counts(job, replaced)
        annotations[FAILURE_COUNT] = str(counted)
        if ignored:
            annotations[IGNORED_FAILURE_COUNT] = str(ignored)
    labels = {**template.metadata.labels, COMPLETION_INDEX: str(index)}
    spec = replace(
        template.spec,
        hostname=f"{job.metadata.name}-{index}",
        init_containers=tuple(map(_with_variable, template.spec.init_containers)),
        containers=tuple(map(_with_variable, template.spec.containers)),
    )
    return replace(template, metadata=replace(template.metadata, labels=labels, annotations=annotations), spec=spec)


def index_prefix(job_name: str, index: int) -> str:
    """What the name of an index's pod starts with; the index stays whole, however long the job's name is."""
    end = f"-{index}-"
    return f"{job_name[: _MAX_PREFIX - len(end)]}{end}"


def _with_variable(container: Container) -> Container:
    """A variable of that name that the user has set stays."""
    if any(variable.name == INDEX_VARIABLE for variable in container.env):
        return container
    source = EnvVarSource(field_ref=ObjectFieldSelector(field_path=f"metadata.labels['{COMPLETION_INDEX}']"))
    return replace(container, env=(*container.env, EnvVar(name=INDEX_VARIABLE, value_from=source)))
