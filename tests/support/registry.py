"""An image registry: one process, plain HTTP on this machine, optionally with a password."""

import base64
import json
import tarfile
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from oci_images import Image, write_archive


@asynccontextmanager
async def running_registry(folder: Path, images: Iterable[Image], *, password: str = "") -> AsyncIterator[str]:
    """Serves images by the last part of their names; yields `host:port`. The user name is `user`."""
    blobs = _blobs(folder / "registry.tar", images)
    manifests = {
        one["annotations"]["io.containerd.image.name"].rpartition("/")[2]: one
        for one in json.loads(blobs["index.json"])["manifests"]
    }
    wanted = f"Basic {base64.b64encode(f'user:{password}'.encode()).decode()}"

    async def serve(request: web.Request) -> web.Response:
        if password and request.headers.get("Authorization") != wanted:
            return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="registry"'})
        kind, reference = request.match_info["kind"], request.match_info["reference"]
        found: Any = manifests.get(f"{request.match_info['name']}:{reference}") if kind == "manifests" else None
        digest = found["digest"] if found is not None else reference
        body = blobs.get(f"blobs/{digest.replace(':', '/')}")
        if body is None:
            return web.Response(status=404)
        media = "application/vnd.oci.image.manifest.v1+json" if kind == "manifests" else "application/octet-stream"
        return web.Response(body=body, headers={"Docker-Content-Digest": digest, "Content-Type": media})

    app = web.Application()
    app.router.add_get("/v2/{name}/{kind}/{reference}", serve)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def _blobs(archive: Path, images: Iterable[Image]) -> dict[str, bytes]:
    write_archive(archive, tuple(images), "/bin/busybox")
    found = {}
    with tarfile.open(archive) as tar:
        for member in tar.getmembers():
            file = tar.extractfile(member)
            assert file is not None
            found[member.name] = file.read()
    return found
