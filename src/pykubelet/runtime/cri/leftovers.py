"""What a node that was killed has left half made.

Making and starting a container are one step for a node. One that is found between them when a node opens the runtime
was left there by a node that was killed. So was one whose start the runtime gave up when nobody waited for it any more.
They go, and are tried again as if they had not been, instead of counting as failed or restarted.
"""

import asyncio
from contextlib import suppress
from pathlib import Path

from cri_api.v1 import api_pb2 as cri

from pykubelet.aio.log import get_logger
from pykubelet.runtime.cri.channel import NOT_FOUND, Channel, CriFailure
from pykubelet.runtime.cri.statuses import owner_of

log = get_logger(__name__)

# How containerd tells of a start that it gave up, depending on how far it had come.
_START_ERROR, _GIVEN_UP = "StartError", ("context canceled", "signal: killed")
# To undo a start takes it two seconds; until then nothing can be done with the container.
_TRIES, _PAUSE_SECONDS = 50, 0.1
_NOT_RUNNING = {cri.CONTAINER_CREATED, cri.CONTAINER_EXITED}


async def remove_unstarted(channel: Channel) -> None:
    """Remove the containers of pods that were made and never started."""
    answer = await channel.ask(cri.ListContainersRequest(), cri.ListContainersResponse)
    suspects = [one.id for one in answer.containers if owner_of(one) is not None and one.state in _NOT_RUNNING]
    for _ in range(_TRIES):
        suspects = [id for id in suspects if not await _is_settled(channel, id)]
        if not suspects:
            return
        await asyncio.sleep(_PAUSE_SECONDS)
    log.warning("containers that were never started cannot be removed", container_ids=" ".join(suspects))


async def _is_settled(channel: Channel, id: str) -> bool:
    """Whether a container is gone, now at the latest, or has been started."""
    try:
        status = (await channel.ask(cri.ContainerStatusRequest(container_id=id), cri.ContainerStatusResponse)).status
        if not was_never_started(status):
            return True
        await channel.ask(cri.RemoveContainerRequest(container_id=id), cri.RemoveContainerResponse)
        if status.log_path:
            await asyncio.to_thread(_take_back_log, Path(status.log_path))
    except CriFailure as failure:
        return failure.code == NOT_FOUND
    log.info("container that was never started is removed", container_id=id)
    return True


def _take_back_log(log_file: Path) -> None:
    """Remove the log of an attempt that was none; the one before it stays known by its log, though it may be empty."""
    with suppress(OSError):
        log_file.unlink(missing_ok=True)
        if log_file.stem.isdecimal() and int(log_file.stem) > 0:
            log_file.with_stem(str(int(log_file.stem) - 1)).touch()


def was_never_started(status: cri.ContainerStatus) -> bool:
    """Whether a container was only made, or did not start because whoever started it was gone."""
    is_given_up = status.reason == _START_ERROR and any(words in status.message for words in _GIVEN_UP)
    return status.state == cri.CONTAINER_CREATED or is_given_up
