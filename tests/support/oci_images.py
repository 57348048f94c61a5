"""Small OCI images made of Debian's static busybox, without a registry: one archive for `ctr images import`."""

import hashlib
import io
import json
import platform
import subprocess
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

BUSYBOX = "example.test/busybox:1"
PAUSE = "example.test/pause:1"
NUMBERED_USER = "example.test/numbered-user:1"
NAMED_USER = "example.test/named-user:1"
ENTRYPOINT = "example.test/entrypoint:1"
STUBBORN = "example.test/stubborn:1"
STOP_SIGNAL = "example.test/stop-signal:1"
WEB = "example.test/web:1"

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
PASSWD = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\nworker:x:1000:1000::/home:/bin/sh\n"
GROUP = "root:x:0:\nnogroup:x:65534:\nworker:x:1000:\nextra:x:2000:worker\n"
# The shell reaps every process that ends, so that orphans in a shared process namespace have a parent.
PAUSE_SCRIPT = "trap 'exit 0' TERM INT; while :; do sleep 86400 & wait $!; done"
STUBBORN_SCRIPT = "trap '' TERM INT; echo ready; while :; do sleep 1; done"
STOP_SIGNAL_SCRIPT = "trap 'echo got USR1; exit 3' USR1; trap '' TERM; echo ready; while :; do sleep 1 & wait $!; done"


@dataclass(frozen=True)
class Image:
    """An image: busybox, further files in a layer of their own, and settings with the names of the OCI config."""

    name: str
    config: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    root: bytes = b""
    """A root file system instead of busybox, as a tar archive."""


IMAGES = (
    Image(BUSYBOX, {"Cmd": ["sh"]}),
    Image(PAUSE, {"Entrypoint": ["sh", "-c", PAUSE_SCRIPT]}),
    Image(NUMBERED_USER, {"User": "1000", "Cmd": ["id"]}),
    Image(NAMED_USER, {"User": "worker", "Cmd": ["id"]}),
    Image(
        ENTRYPOINT,
        {"Entrypoint": ["echo", "entry"], "Cmd": ["usual"], "Env": ["GREETING=hello"], "WorkingDir": "/srv"},
        {"srv/note": b"from the image\n"},
    ),
    Image(STUBBORN, {"Entrypoint": ["sh", "-c", STUBBORN_SCRIPT]}),
    Image(STOP_SIGNAL, {"Entrypoint": ["sh", "-c", STOP_SIGNAL_SCRIPT], "StopSignal": "SIGUSR1"}),
    Image(
        WEB,
        {"Entrypoint": ["httpd", "-f", "-p", "8080", "-h", "/srv"], "ExposedPorts": {"8080/tcp": {}}},
        {"srv/index.html": b"hello from the pod\n"},
    ),
)


def write_archive(target: Path, images: Iterable[Image], busybox: str) -> None:
    """Write an OCI layout with all the images; equal layers are stored once."""
    blobs: dict[str, bytes] = {}

    def keep(kind: str, content: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        media_type = f"application/vnd.oci.image.{kind}"
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    manifests = []
    for image in images:
        layers = [image.root or busybox_layer(busybox), *([tar_of(image.files)] if image.files else [])]
        kept = [keep("layer.v1.tar", layer) for layer in layers]
        config = {
            "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {"Env": ["PATH=/bin"], **image.config},
            "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in kept]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": keep("config.v1+json", json.dumps(config).encode()),
            "layers": kept,
        }
        described = keep("manifest.v1+json", json.dumps(manifest).encode())
        manifests.append({**described, "annotations": {"io.containerd.image.name": image.name}})
    index = json.dumps({"schemaVersion": 2, "manifests": manifests}).encode()
    layout = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}', "index.json": index, **blobs}
    target.write_bytes(tar_of(layout))


@cache
def busybox_layer(program: str) -> bytes:
    """A root file system: the program, a link for each of its applets, users, and the folders that programs expect."""
    applets = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, mode in {"bin": 0o755, "etc": 0o755, "root": 0o700, "srv": 0o755, "tmp": 0o1777}.items():
            tar.addfile(entry(name, tarfile.DIRTYPE, mode=mode))
        add_file(tar, "bin/busybox", Path(program).read_bytes(), 0o755)
        for applet in sorted({*applets} - {"busybox"}):
            tar.addfile(entry(f"bin/{applet}", tarfile.SYMTYPE, linkname="busybox"))
        add_file(tar, "etc/passwd", PASSWD.encode())
        add_file(tar, "etc/group", GROUP.encode())
    return out.getvalue()


def tar_of(files: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in files.items():
            add_file(tar, name, content)
    return out.getvalue()


def add_file(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    tar.addfile(entry(name, tarfile.REGTYPE, mode=mode, size=len(content)), io.BytesIO(content))


def entry(name: str, type: bytes, **fields: Any) -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.type = type
    for key, value in fields.items():
        setattr(found, key, value)
    return found
