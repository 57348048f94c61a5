"""Ports as people write them, as numbers here and in a pod.

In: `8080:80`, `80`, `:80`, `8080:http`, and for a service its ports. Out: pairs of local and remote ports; a local 0 stands for
any free one.

Upstream: client-go/tools/portforward/portforward.go, kubectl/pkg/cmd/portforward/portforward.go.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pykubelet.api.wire import Document


class UnclearPort(ValueError):
    """A port cannot be understood, or is not there."""


@dataclass(frozen=True, slots=True)
class Forwarding:
    """A port here, and the pod's port it leads to."""

    local: int
    remote: int


def forwarding_of(text: str, pod: Document, service: Document | None = None) -> Forwarding:
    """What a person means, with the ports of the service, if one was named. UnclearPort."""
    left, colon, right = text.rpartition(":")
    local = left if colon else right
    wanted = _service_port(service, right) if service is not None else right
    remote = wanted if isinstance(wanted, int) else _pod_port(pod, wanted)
    if not colon and not right.isdecimal():
        return Forwarding(remote, remote)
    return Forwarding(_number(local or "0", text, lowest=0), remote)


def _service_port(service: Document, word: str) -> int | str:
    """The port of the pods, or its name, behind a port of a service."""
    for port in service["spec"].get("ports") or ():
        if word in {str(port["port"]), port.get("name")}:
            if service["spec"].get("clusterIP") == "None":
                return int(port["port"])
            target: int | str = port.get("targetPort") or int(port["port"])
            return target
    raise UnclearPort(f"service {service['metadata']['name']} does not have a port {word}")


def _pod_port(pod: Document, word: str) -> int:
    if word.isdecimal():
        return _number(word, word, lowest=1)
    for container in _containers(pod):
        for port in container.get("ports") or ():
            if port.get("name") == word:
                return int(port["containerPort"])
    raise UnclearPort(f"pod {pod['metadata']['name']} does not have a port named {word!r}")


def _containers(pod: Document) -> Iterable[Document]:
    spec = pod["spec"]
    return [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]


def _number(word: str, text: str, *, lowest: int) -> int:
    if not (word.isascii() and word.isdecimal()) or not lowest <= int(word) <= 65535:
        raise UnclearPort(f"{text!r} is not of the form LOCAL:REMOTE, with ports up to 65535")
    return int(word)
