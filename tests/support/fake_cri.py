"""A CRI server that answers as scripted and counts calls."""

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
from cri_api.v1 import api_pb2 as cri

Labels = dict[str, str]
ALWAYS = {
    "Version": cri.VersionResponse(runtime_name="fake", runtime_version="1"),
    "StopContainer": cri.StopContainerResponse(),
}


class FakeCri:
    """A CRI server in memory: answers from the pods added to it, and counts the calls of each method."""

    def __init__(self, *, has_events: bool = True, has_config: bool = True, config: str = "") -> None:
        self.calls: Counter[str] = Counter()
        self.sandboxes: dict[str, cri.PodSandboxStatus] = {}
        self.containers: dict[str, cri.ContainerStatus] = {}
        self.gates: dict[str, asyncio.Event] = {}
        """Calls that are answered, with what there was when they came, only once their gate is open."""
        self.events: asyncio.Queue[cri.ContainerEventResponse] = asyncio.Queue()
        self._has_events, self._has_config, self._config = has_events, has_config, config
        self._times = itertools.count(1)

    def add(self, uid: str, *, state: Any = cri.CONTAINER_RUNNING) -> str:
        """Add a pod with one container, both with the UID in their ids; returns the container's id."""
        labels = {"io.kubernetes.pod.uid": uid, "io.kubernetes.pod.name": uid, "io.kubernetes.pod.namespace": "default"}
        self.sandboxes[f"box-{uid}"] = cri.PodSandboxStatus(
            id=f"box-{uid}", metadata=cri.PodSandboxMetadata(uid=uid), created_at=next(self._times), labels=labels
        )
        self.containers[f"main-{uid}"] = cri.ContainerStatus(
            id=f"main-{uid}",
            metadata=cri.ContainerMetadata(name="main"),
            state=state,
            created_at=next(self._times),
            labels={**labels, "io.kubernetes.container.name": "main"},
        )
        return f"main-{uid}"

    async def answer(self, name: str, request: Any, context: Any) -> Any:
        self.calls[name] += 1
        answer = await self._answer(name, request, context)
        if name in self.gates:
            await self.gates[name].wait()
        return answer

    async def _answer(self, name: str, request: Any, context: Any) -> Any:
        if name in ALWAYS:
            return ALWAYS[name]
        match name:
            case "RuntimeConfig" if self._has_config:
                linux = cri.LinuxRuntimeConfiguration(cgroup_driver=cri.SYSTEMD)
                return cri.RuntimeConfigResponse(linux=linux)
            case "Status":
                ready = [cri.RuntimeCondition(type=f"{name}Ready", status=True) for name in ("Runtime", "Network")]
                return cri.StatusResponse(status=cri.RuntimeStatus(conditions=ready), info={"config": self._config})
            case "ListPodSandbox":
                return cri.ListPodSandboxResponse(items=self._listed(request))
            case "ListContainers":
                return cri.ListContainersResponse(containers=self._listed_containers(request))
            case "ImageStatus":
                return cri.ImageStatusResponse(image=cri.Image(id=f"id-{request.image.image}", username="worker"))
            case "PodSandboxStatus" | "ContainerStatus":
                return self._status(request) or await context.abort(grpc.StatusCode.NOT_FOUND, "not found")
            case "ExecSync":
                # A command that never ends.
                return await asyncio.Event().wait()
        return await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"unknown method {name}")

    def _status(self, request: Any) -> Any:
        if isinstance(request, cri.PodSandboxStatusRequest):
            sandbox = self.sandboxes.get(request.pod_sandbox_id)
            return sandbox and cri.PodSandboxStatusResponse(status=sandbox)
        container = self.containers.get(request.container_id)
        return container and cri.ContainerStatusResponse(status=container)

    async def tell(self, context: Any) -> AsyncIterator[cri.ContainerEventResponse]:
        self.calls["GetContainerEvents"] += 1
        if not self._has_events:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "method GetContainerEvents not implemented")
        while True:
            yield await self.events.get()

    def _listed(self, request: Any) -> list[cri.PodSandbox]:
        return [
            cri.PodSandbox(
                id=one.id, metadata=one.metadata, state=one.state, created_at=one.created_at, labels=one.labels
            )
            for one in self.sandboxes.values()
            if _is_wanted(request.filter, one)
        ]

    def _listed_containers(self, request: Any) -> list[cri.Container]:
        return [
            cri.Container(
                id=one.id,
                pod_sandbox_id=one.id.replace("main-", "box-"),
                metadata=one.metadata,
                state=one.state,
                created_at=one.created_at,
                labels=one.labels,
            )
            for one in self.containers.values()
            if _is_wanted(request.filter, one)
        ]


def _is_wanted(filter: Any, one: Any) -> bool:
    labels: Labels = dict(filter.label_selector)
    return filter.id in {"", one.id} and labels.items() <= dict(one.labels).items()


class _Handler(grpc.GenericRpcHandler):  # type: ignore[misc]  # gRPC has no types
    def __init__(self, fake: FakeCri) -> None:
        self._fake = fake
        methods = [one for service in cri.DESCRIPTOR.services_by_name.values() for one in service.methods]
        self._requests = {one.name: getattr(cri, one.input_type.name) for one in methods}

    def service(self, details: Any) -> Any:
        name = details.method.rpartition("/")[2]
        if name not in self._requests:
            return None

        async def answer(request: Any, context: Any) -> Any:
            return await self._fake.answer(name, request, context)

        async def tell(_: Any, context: Any) -> AsyncIterator[Any]:
            async for event in self._fake.tell(context):
                yield event

        coding = {"request_deserializer": self._requests[name].FromString, "response_serializer": _serialized}
        if name == "GetContainerEvents":
            return grpc.unary_stream_rpc_method_handler(tell, **coding)
        return grpc.unary_unary_rpc_method_handler(answer, **coding)


def _serialized(message: Any) -> bytes:
    data: bytes = message.SerializeToString()
    return data


@asynccontextmanager
async def serving(fake: FakeCri, folder: Path) -> AsyncIterator[str]:
    """Serves at a socket in a folder; yields its path."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((_Handler(fake),))
    socket = folder / "fake.sock"
    server.add_insecure_port(f"unix://{socket}")
    await server.start()
    try:
        yield str(socket)
    finally:
        await server.stop(None)
