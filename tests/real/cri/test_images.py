"""Images on containerd: lookup, pull from a local registry, listing, and removal."""

from pathlib import Path

import pytest

import oci_images
from containerd_lab import ContainerdLab
from cri_lab import CriLab
from oci_images import Image
from pykubelet.runtimes.cri.connect import OpenCri
from pykubelet.runtimes.protocol import RegistryCredentials, RuntimeFailure
from registry import running_registry

PULLED = Image("example.test/pulled:1", {"User": "1000", "Cmd": ["sleep", "1000"]}, {"note": b"pulled\n"})
RIGHT, WRONG = RegistryCredentials("user", "secret"), RegistryCredentials("user", "guess")


async def test_image_tells_its_names_its_size_and_its_user(cri: OpenCri) -> None:
    """An image without a user runs as root."""
    for name, user in (
        (oci_images.BUSYBOX, "0"),
        (oci_images.NUMBERED_USER, "1000"),
        (oci_images.NAMED_USER, "worker"),
    ):
        image = await cri.images.find(name)
        assert image is not None
        assert image.id.startswith("sha256:")
        assert image.size_bytes > 100_000
        assert (name in image.names, image.user) == (True, user)
    assert await cri.images.find("example.test/nonesuch:1") is None
    assert {oci_images.BUSYBOX, oci_images.WEB} <= {name for one in await cri.images.images() for name in one.names}


async def test_image_is_pulled_run_and_removed(cri: OpenCri, lab: CriLab, tmp_path: Path) -> None:
    """It is pulled by tag and then has a digest too."""
    async with running_registry(tmp_path, [PULLED]) as host:
        name = f"{host}/pulled:1"
        image = await cri.images.pull(name, ())
        assert name in image.names
        assert any(one.startswith(f"{host}/pulled@sha256:") for one in image.names)
        container_id = await lab.run_shell("sleep 1000", image=name)
        assert await lab.tell(container_id, "cat /note; id -u") == ["pulled", "1000"]
        (container,) = (await cri.runtime.pods())[0].containers
        assert container.image == name
        assert container.image_id.startswith(f"{host}/pulled@sha256:")
        await cri.images.remove_image(image.id)
        assert await cri.images.find(name) is None
        await cri.images.remove_image(image.id)


@pytest.mark.parametrize("credentials", [[RIGHT], [WRONG, RIGHT]], ids=["right", "right at last"])
async def test_pull_tries_each_of_the_credentials(
    cri: OpenCri, tmp_path: Path, credentials: list[RegistryCredentials]
) -> None:
    """A refused credential is followed by the next one."""
    async with running_registry(tmp_path, [PULLED], password="secret") as host:
        image = await cri.images.pull(f"{host}/pulled:1", credentials)
        await cri.images.remove_image(image.id)
    assert image.user == "1000"


@pytest.mark.parametrize(("credentials", "count"), [([], 1), ([WRONG], 1), ([WRONG, WRONG], 1)])
async def test_refused_pull_reports_the_reason_without_the_password(
    cri: OpenCri, tmp_path: Path, credentials: list[RegistryCredentials], count: int
) -> None:
    """The same reason is given only once, however many credentials failed."""
    async with running_registry(tmp_path, [PULLED], password="secret") as host:
        with pytest.raises(RuntimeFailure, match=r"^failed to pull and unpack image") as failure:
            await cri.images.pull(f"{host}/pulled:1", credentials)
    assert failure.value.message.count("failed to pull") == count
    assert "guess" not in failure.value.message


async def test_image_that_does_not_exist_is_a_failure(cri: OpenCri, tmp_path: Path) -> None:
    """The message has the gRPC code NotFound."""
    async with running_registry(tmp_path, [PULLED]) as host:
        with pytest.raises(RuntimeFailure, match=r"^rpc error: code = NotFound desc = failed to pull .*not found"):
            await cri.images.pull(f"{host}/other:1", ())


async def test_image_file_system_is_that_of_the_containerd_folder(cri: OpenCri, containerd: ContainerdLab) -> None:
    found = await cri.images.image_file_system()
    assert found.device == containerd.folder.stat().st_dev
    assert 0 < found.available_bytes <= found.capacity_bytes
