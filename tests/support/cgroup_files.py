"""Reads the cgroup files of test containers."""

from pathlib import Path

from containerd_lab import ContainerdLab

CGROUPS = Path("/sys/fs/cgroup")
IS_V2 = (CGROUPS / "cgroup.controllers").exists()


def value(lab: ContainerdLab, path: str, controller: str, v1: str, v2: str) -> str:
    """The value of a file of a cgroup below the lab's."""
    folder = CGROUPS if IS_V2 else CGROUPS / controller
    return Path(f"{folder}{lab.cgroup_parent}/{path}", v2 if IS_V2 else v1).read_text().strip()


def places(lab: ContainerdLab, path: str) -> list[Path]:
    """The folders of a cgroup below the lab's, in every hierarchy that has it."""
    name = lab.cgroup_parent.removeprefix("/")
    return [*CGROUPS.glob(f"*/{name}/{path}"), *CGROUPS.glob(f"{name}/{path}")]
