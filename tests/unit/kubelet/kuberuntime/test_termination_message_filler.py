"""Adding termination messages to the observed state of a pod."""

from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import AnyContainer, PodUid
from pykubelet.kubelet.kuberuntime.termination import TerminationMessages
from pykubelet.runtimes.protocol import ContainerState, RuntimeContainer, RuntimePod
from pykubelet.testing.build import container, pod
from pykubelet.testing.virtual_time import EPOCH


class Messages(TerminationMessages):
    """Returns the container's name, attempt and log path as its message."""

    async def message(self, pod: Pod, container: AnyContainer, exited: RuntimeContainer, log_path: str) -> str:
        return f"{container.name} {exited.attempt} {log_path}"


def seen(name: str, state: ContainerState, attempt: int = 0) -> RuntimeContainer:
    return RuntimeContainer(id=f"{name}-{attempt}", name=name, state=state, attempt=attempt, created_at=EPOCH)


async def test_each_ended_container_gets_its_message() -> None:
    """Running containers have no message, nor do containers that are not in the pod spec."""
    web = pod(containers=(container("a"), container("b")), init_containers=(container("init"),))
    words = Messages("/nowhere", lambda _, one: f"/logs/{one.id}")
    containers = (
        seen("a", ContainerState.EXITED, 1),
        seen("a", ContainerState.EXITED),
        seen("b", ContainerState.RUNNING),
        seen("init", ContainerState.EXITED),
        seen("stranger", ContainerState.EXITED),
    )
    observed = RuntimePod(uid=PodUid("uid"), namespace="default", name="web", containers=containers)
    filled = await words.fill(web, observed)
    assert [one.message for one in filled.containers] == [
        "a 1 /logs/a-1",
        "a 0 /logs/a-0",
        "",
        "init 0 /logs/init-0",
        "",
    ]


async def test_pod_of_which_nothing_has_ended_stays_as_it_is() -> None:
    """The common case makes no copy."""
    observed = RuntimePod(uid=PodUid("uid"), namespace="", name="", containers=(seen("a", ContainerState.RUNNING),))
    words = Messages("/nowhere", lambda *_: "")
    assert await words.fill(pod(), observed) is observed
