"""One containerd for all tests of the CRI runtime."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import oci_images
from containerd_lab import ContainerdLab, running_containerd
from cri_lab import CriLab, opened, remove_everything
from pykubelet.runtimes.cri.connect import OpenCri
from pykubelet.runtimes.cri.runtime import CriRuntime


@pytest.fixture(scope="session")
def containerd() -> Iterator[ContainerdLab]:
    with running_containerd() as lab:
        yield lab


@pytest.fixture
async def cri(containerd: ContainerdLab) -> AsyncIterator[OpenCri]:
    async with opened(containerd) as found:
        yield found
        await remove_everything(found.runtime)


@pytest.fixture
def runtime(cri: OpenCri) -> CriRuntime:
    return cri.runtime


@pytest.fixture
def image() -> str:
    return oci_images.BUSYBOX


@pytest.fixture
def lab(cri: OpenCri, tmp_path: Path) -> CriLab:
    return CriLab(cri, tmp_path)
