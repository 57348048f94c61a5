"""Runtime classes: looking up the handler, and lookup failures."""

import pytest

from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.generated.node import RuntimeClass
from pykubelet.api.scheme import RUNTIME_CLASSES
from pykubelet.kubelet.objectcache.pod_objects import RuntimeClasses
from pykubelet.runtimes.protocol import RuntimeFailure
from pykubelet.testing.faults import Fault, FaultyClient
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import VirtualClock


@pytest.fixture
async def api() -> MemoryApi:
    made = MemoryApi(VirtualClock())
    await made.create(RUNTIME_CLASSES, RuntimeClass(metadata=ObjectMeta(name="strong"), handler="kata"))
    return made


async def test_handler_is_the_one_of_the_class(api: MemoryApi) -> None:
    assert await RuntimeClasses(client=api).handler("strong") == "kata"


async def test_class_that_does_not_exist_is_a_failure(api: MemoryApi) -> None:
    """The message is the kubelet's, with an API server or without one."""
    for client in (api, None):
        with pytest.raises(RuntimeFailure, match=r'^runtimeclass\.node\.k8s\.io "weak" not found$'):
            await RuntimeClasses(client=client).handler("weak")


async def test_server_that_does_not_answer_is_a_failure(api: MemoryApi) -> None:
    """The message names the class and the cause."""
    classes = RuntimeClasses(client=FaultyClient(api, Fault.FAILED, at=0))
    with pytest.raises(RuntimeFailure, match="failed to lookup RuntimeClass strong: the database is on fire"):
        await classes.handler("strong")
