"""Provides the images of containers: inspects, pulls, backs off, and reports events.

A pod worker gets the id of an image, or a RuntimeFailure with the waiting reason. Containers that need the
same image with the same credentials share one pull, where upstream pulls once per container. The credentials come from
the pod's pull secrets; no registry receives those of another.

Upstream: pkg/kubelet/images/image_manager.go, pkg/kubelet/images/puller.go, pkg/kubelet/images/types.go,
pkg/credentialprovider/keyring.go, pkg/credentialprovider/config.go, pkg/credentialprovider/secrets/secrets.go
"""

import asyncio
import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

import msgspec

from pykubelet.aio.backoff import KeyedBackoff
from pykubelet.aio.clock import Clock
from pykubelet.aio.tasks import start_supervised
from pykubelet.api.field_errors import go_quote
from pykubelet.api.generated.core import ObjectReference, Pod, Secret
from pykubelet.api.pods import AnyContainer, PodUid
from pykubelet.api.times import format_duration
from pykubelet.client.recorder import NORMAL, WARNING, EventRecorder
from pykubelet.kinds.pod.defaults import parse_image_name, with_default_tag
from pykubelet.runtimes.protocol import Image, Images, RegistryCredentials, RuntimeFailure

# Errors of a runtime that begin with one of these name the cause of the failure.
_KNOWN_CAUSES = {
    "RegistryUnavailable": "the registry is unavailable",
    "SignatureValidationFailed": "the signature validation failed",
}


class ImagePullStep(Enum):
    """What the pull policy requires for a container's image."""

    USE = auto()
    PULL = auto()
    REFUSE = auto()


def must_inspect(policy: str) -> bool:
    """Whether a pull policy depends on the presence of the image; an unknown policy pulls always."""
    return policy in {"IfNotPresent", "Never"}


def image_pull_step(policy: str, *, is_present: bool) -> ImagePullStep:
    """The step for an image; `is_present` matters only if the policy `must_inspect`."""
    if not must_inspect(policy):
        return ImagePullStep.PULL
    if is_present:
        return ImagePullStep.USE
    return ImagePullStep.REFUSE if policy == "Never" else ImagePullStep.PULL


def pull_failure(image: str, error: str, reason: str = "") -> tuple[str, str]:
    """The waiting reason and message of a failed pull; a reason of the runtime takes precedence."""
    for known, cause in _KNOWN_CAUSES.items():
        if error.startswith(known):
            return known, f"image pull failed for {image} because {cause}{error.removeprefix(known)}"
    return reason or "ErrImagePull", error


# Only pulls with equal credentials are shared: others may get another answer.
_Key: TypeAlias = tuple[str, tuple[RegistryCredentials, ...]]


@dataclass(frozen=True, slots=True)
class PulledImage:
    """A pulled image and the duration of the pull, without the wait in the queue."""

    image: Image
    seconds: float


@dataclass(slots=True)
class _Pull:
    outcome: asyncio.Future[PulledImage | RuntimeFailure] = field(default_factory=asyncio.Future)
    waiting: int = 0


class PullQueue:
    """Pulls at most `parallel` images at once; `run` must be running.

    A pull continues when its waiting tasks are cancelled, because the next sync will need the image too. A pull that
    has not begun is dropped when no task waits for it any more.
    """

    def __init__(self, *, images: Images, clock: Clock, parallel: int = 1) -> None:
        self._images, self._clock, self._parallel = images, clock, parallel
        self._pulls: dict[_Key, _Pull] = {}
        self._queue: asyncio.Queue[_Key] = asyncio.Queue()

    async def pull(self, name: str, credentials: Sequence[RegistryCredentials]) -> PulledImage:
        """Pull an image, or wait for a pull of it in progress; RuntimeFailure if the pull fails."""
        key = (name, tuple(credentials))
        pull = self._pulls.get(key)
        if pull is None:
            pull = self._pulls[key] = _Pull()
            self._queue.put_nowait(key)
        pull.waiting += 1
        try:
            outcome = await asyncio.shield(pull.outcome)
        finally:
            pull.waiting -= 1
        if isinstance(outcome, RuntimeFailure):
            raise RuntimeFailure(outcome.message, reason=outcome.reason) from outcome
        return outcome

    async def run(self, ready: asyncio.Event) -> None:
        """Pull queued images until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._parallel):
                start_supervised(group, f"image puller {number + 1}", self._work)
            ready.set()

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            pull = self._pulls[key]
            if not pull.waiting:
                del self._pulls[key]
                continue
            try:
                outcome = await self._fetch(*key)
            except BaseException:
                # Release the waiting tasks.
                pull.outcome.set_result(RuntimeFailure("the pull was interrupted"))
                raise
            else:
                pull.outcome.set_result(outcome)
            finally:
                del self._pulls[key]

    async def _fetch(self, name: str, credentials: Sequence[RegistryCredentials]) -> PulledImage | RuntimeFailure:
        started = self._clock.monotonic()
        try:
            image = await self._images.pull(name, credentials)
        except RuntimeFailure as failure:
            return failure
        return PulledImage(image, self._clock.monotonic() - started)


class ImageManager:
    """Provides the images of all containers of a node; `run` must be running."""

    def __init__(
        self,
        *,
        images: Images,
        events: EventRecorder,
        clock: Clock,
        parallel: int = 1,
        first_seconds: float = 10.0,
        limit_seconds: float = 300.0,
        pulled: Callable[[PodUid, float, float], None] = lambda *_: None,
    ) -> None:
        """`pulled` is called with the pod and the start and end of each pull on the monotonic clock."""
        self._pulled = pulled
        self._images, self._events, self._clock = images, events, clock
        self._queue = PullQueue(images=images, clock=clock, parallel=parallel)
        self._backoff: KeyedBackoff[tuple[str, str]] = KeyedBackoff(
            first_seconds=first_seconds, limit_seconds=limit_seconds
        )
        self._last_failures: dict[tuple[str, str], str] = {}

    async def run(self, ready: asyncio.Event) -> None:
        """Pull queued images until cancelled."""
        await self._queue.run(ready)

    async def ensure(
        self,
        pod: Pod,
        container: AnyContainer,
        involved: ObjectReference,
        credentials: Sequence[RegistryCredentials] = (),
    ) -> str:
        """The id of the container's image, pulled if necessary; events are about `involved`."""
        image, policy = container.image, container.image_pull_policy
        try:
            name = with_default_tag(image)
        except ValueError as error:
            text = f"Failed to apply default image tag {go_quote(image)}: {error}"
            raise self._failed(involved, "InspectFailed", text, "InvalidImageName") from error
        found = await self._find(involved, image, name) if must_inspect(policy) else ""
        step = image_pull_step(policy, is_present=bool(found))
        if step is ImagePullStep.REFUSE:
            text = f"Container image {go_quote(image)} is not present with pull policy of Never"
            raise self._failed(involved, "ErrImageNeverPull", text, "ErrImageNeverPull")
        if step is ImagePullStep.USE:
            text = f"Container image {go_quote(image)} already present on machine"
            self._events.event(involved, NORMAL, "Pulled", text)
            return found
        return await self._pull((pod.metadata.uid, image), name, involved, credentials)

    async def user_of(self, container: AnyContainer) -> str | None:
        """The user of the container's image, a number or a name; None if it sets none."""
        found = await self._images.find(with_default_tag(container.image))
        return found.user if found is not None else None

    async def _find(self, involved: ObjectReference, image: str, name: str) -> str:
        try:
            found = await self._images.find(name)
        except RuntimeFailure as failure:
            text = f"Failed to inspect image {go_quote(image)}: {failure.message}"
            raise self._failed(involved, "InspectFailed", text, "ImageInspectError") from failure
        return found.id if found is not None else ""

    async def _pull(
        self, key: tuple[str, str], name: str, involved: ObjectReference, credentials: Sequence[RegistryCredentials]
    ) -> str:
        uid, image = key
        until = self._backoff.waits_since_advance(key, self._clock.now())
        if until is not None:
            text = f"Back-off pulling image {go_quote(image)}"
            self._events.event(involved, NORMAL, "BackOff", text)
            message = f"{text}: {self._last_failures[key]}" if key in self._last_failures else text
            raise RuntimeFailure(message, reason="ImagePullBackOff", retry_at=until)
        self._last_failures.pop(key, None)
        self._events.event(involved, NORMAL, "Pulling", f"Pulling image {go_quote(image)}")
        started = self._clock.monotonic()
        try:
            pulled = await self._queue.pull(name, credentials)
        except RuntimeFailure as failure:
            raise self._pull_failed(key, involved, failure) from failure
        ended = self._clock.monotonic()
        self._pulled(PodUid(uid), started, ended)
        pull, total = (format_duration(int(seconds * 1000) / 1000) for seconds in (pulled.seconds, ended - started))
        text = f"Successfully pulled image {go_quote(image)} in {pull} ({total} including waiting)."
        self._events.event(involved, NORMAL, "Pulled", f"{text} Image size: {pulled.image.size_bytes} bytes.")
        self._prune()
        return pulled.image.id

    def _pull_failed(self, key: tuple[str, str], involved: ObjectReference, failure: RuntimeFailure) -> RuntimeFailure:
        _, image = key
        text = f"Failed to pull image {go_quote(image)}: {failure.message}"
        self._events.event(involved, WARNING, "Failed", text)
        now = self._clock.now()
        if self._backoff.waits_since_advance(key, now) is None:
            # Two containers of a pod that share a failed pull count as one failure.
            self._backoff.advance(key, event_at=now, now=now)
        reason, message = pull_failure(image, failure.message, failure.reason)
        self._last_failures[key] = f"{reason}: {message}"
        # No `retry_at` yet: the pod must be synced again before, to show that it backs off.
        return RuntimeFailure(message, reason=reason)

    def _failed(self, involved: ObjectReference, event_reason: str, message: str, reason: str) -> RuntimeFailure:
        self._events.event(involved, WARNING, event_reason, message)
        return RuntimeFailure(message, reason=reason)

    def _prune(self) -> None:
        self._backoff.prune(self._clock.now())
        self._last_failures = {key: text for key, text in self._last_failures.items() if key in self._backoff}


class NoImages:
    """Stands in for the image manager when the runtime has no images: every image counts as present."""

    async def ensure(
        self,
        pod: Pod,  # noqa: ARG002
        container: AnyContainer,
        involved: ObjectReference,  # noqa: ARG002
        credentials: Sequence[RegistryCredentials] = (),  # noqa: ARG002
    ) -> str:
        return container.image

    async def user_of(self, container: AnyContainer) -> str | None:  # noqa: ARG002
        return None


_DEFAULT_REGISTRY = "index.docker.io"
_DEFAULT_NAMES = frozenset({"docker.io", _DEFAULT_REGISTRY})
_API_VERSIONS = ("/v1/", "/v2/")


@dataclass(frozen=True, slots=True, repr=False)
class DockerKeyring:
    """Credentials with the registry, and possibly the path, that each is for; excluded from repr."""

    keys: tuple[tuple[str, RegistryCredentials], ...] = ()

    def credentials(self, image: str) -> tuple[RegistryCredentials, ...]:
        """The credentials for an image, the most specific first; none for an invalid image name."""
        try:
            repository = parse_image_name(image).repository
        except ValueError:
            return ()
        found = tuple(credentials for place, credentials in self.keys if _is_for(place, repository))
        if not found and repository.partition("/")[0] in _DEFAULT_NAMES:
            return tuple(credentials for place, credentials in self.keys if place == _DEFAULT_REGISTRY)
        return found


EMPTY_KEYRING = DockerKeyring()


def keyring_of(secrets: Iterable[Secret]) -> DockerKeyring:
    """The credentials in secrets of the two Docker configuration types; ignores malformed entries."""
    keys = [
        (_registry_and_path(location), credentials)
        for secret in secrets
        for location, entry in _entries(secret).items()
        if (credentials := _credentials(entry)) is not None
    ]
    # A path sorts after its prefixes, so in reverse order the most specific comes first.
    return DockerKeyring(tuple(sorted(keys, key=lambda key: key[0], reverse=True)))


def _entries(secret: Secret) -> Mapping[str, Any]:
    match secret.type:
        case "kubernetes.io/dockerconfigjson":
            document = _decoded(secret.data.get(".dockerconfigjson", b"")).get("auths")
        case "kubernetes.io/dockercfg":
            document = _decoded(secret.data.get(".dockercfg", b""))
        case _:
            document = None
    return document if isinstance(document, dict) else {}


def _decoded(data: bytes) -> Mapping[str, Any]:
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return document if isinstance(document, dict) else {}


def _credentials(entry: Any) -> RegistryCredentials | None:
    """The credentials of an entry: `auth` has user and password in one and overrides the single fields."""
    if not isinstance(entry, dict):
        return None
    username, password, both = (str(entry.get(name) or "") for name in ("username", "password", "auth"))
    if both:
        try:
            text = base64.b64decode(both + "=" * (-len(both) % 4), validate=True).decode()
        except ValueError:
            return None
        username, colon, password = text.partition(":")
        if not colon:
            return None
    return RegistryCredentials(username, password)


def _registry_and_path(location: str) -> str:
    """Registry and path of an entry, without scheme and API version."""
    scheme, separator, rest = location.partition("://")
    place = rest if separator and scheme in {"http", "https"} else location
    host, slash, path = place.partition("/")
    path = slash + path
    if path.startswith(_API_VERSIONS):
        path = path[3:]
    return host if path in {"", "/"} else host + path


def _is_for(place: str, repository: str) -> bool:
    """Whether a key matches: same port, host labels match as patterns, path is a prefix."""
    wanted_host, wanted_port, wanted_path = _split(place)
    host, port, path = _split(repository)
    if wanted_port != port or not path.startswith(wanted_path):
        return False
    wanted_parts, parts = wanted_host.split("."), host.split(".")
    return len(wanted_parts) == len(parts) and all(map(fnmatchcase, parts, wanted_parts))


def _split(place: str) -> tuple[str, str, str]:
    netloc, _, path = place.partition("/")
    host, colon, port = netloc.rpartition(":")
    return (host, port, path) if colon else (netloc, "", path)
