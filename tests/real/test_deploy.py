"""Checks deploy/: systemd accepts the units, and the files and commands of the Containerfile exist."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

from document_session import ROOT
from pykubelet.cli.main import main

DEPLOY = ROOT / "deploy"
UNITS = sorted(DEPLOY.glob("*.service"))
INSTALLED = "/opt/pykubelet/bin/pykubelet"
# Each gives the service its own mount namespace, from which mounts for containers would not reach them.
OWN_VIEW = (
    "Protect(System|Home|KernelModules|KernelTunables|KernelLogs|ControlGroups|Proc)",
    "Private(Tmp|Devices|Mounts|Users)",
    "(ReadOnly|ReadWrite|Inaccessible|Exec|NoExec)Paths",
    "TemporaryFileSystem|Bind(ReadOnly)?Paths|RootDirectory|DynamicUser|RestrictNamespaces|MemoryDenyWriteExecute",
)


def settings(unit: Path) -> dict[str, str]:
    """The settings of a unit, with continued lines joined."""
    text = unit.read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if "=" in line and not line.startswith("#")]
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def require_command(arguments: list[str]) -> None:
    """Raises UsageError unless the command accepts these options."""
    name, *rest = arguments
    command = main.get_command(click.Context(main), name)
    assert command is not None, name
    command.make_parser(click.Context(command)).parse_args(rest)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_unit_starts_a_real_command_and_spares_containers(unit: Path) -> None:
    """It always restarts, kills only its own process, and uses the machine's mount namespace."""
    said = settings(unit)
    program, *arguments = shlex.split(said["ExecStart"])
    assert program == INSTALLED
    require_command(arguments)
    assert (said["Restart"], said["KillMode"], said["Delegate"], said["NoNewPrivileges"]) == (
        "always",
        "process",
        "yes",
        "yes",
    )
    assert [name for name in said if re.fullmatch("|".join(OWN_VIEW), name)] == []


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_unit_is_accepted_by_systemd(unit: Path, tmp_path: Path) -> None:
    """`systemd-analyze` verifies it where that is installed; the form of each line is always checked."""
    lines = [line for line in unit.read_text().replace("\\\n", " ").splitlines() if line and not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"\[(Unit|Service|Install)\]|[A-Z]\w+=\S.*", line)] == []
    if (systemd := shutil.which("systemd-analyze")) is not None:
        here = tmp_path / unit.name
        here.write_text(unit.read_text().replace(INSTALLED, str(Path(sys.executable).parent / "pykubelet")))
        command = [systemd, "verify", "--man=no", str(here)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def instructions() -> list[tuple[str, str]]:
    text = (DEPLOY / "Containerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def test_image_is_made_of_files_that_exist_and_runs_a_real_command() -> None:
    """It runs as an ordinary user, with its state in a volume."""
    copied = [shlex.split(rest)[:-1] for word, rest in instructions() if word == "COPY" and "--from" not in rest]
    assert [name for names in copied for name in names if not (ROOT / name).exists()] == []
    assert {"pyproject.toml", "src"} <= {name for names in copied for name in names}
    last = dict(instructions())
    assert json.loads(last["ENTRYPOINT"]) == ["pykubelet"]
    arguments = json.loads(last["CMD"])
    require_command(arguments)
    assert arguments[arguments.index("--data-dir") + 1] == last["VOLUME"] == last["WORKDIR"]
    assert int(last["USER"]) > 0


def test_image_has_the_versions_that_are_tested() -> None:
    """Its constraints, extracted from the lock file as in the build, name every dependency."""
    command = next(rest for word, rest in instructions() if word == "RUN" and "requirements.lock" in rest)
    pattern = re.search(r"grep -oE '([^']+)' requirements.lock", command)
    assert pattern is not None
    grep = ["grep", "-oE", pattern[1], str(ROOT / "requirements.lock")]
    pinned = subprocess.run(grep, capture_output=True, text=True, timeout=20, check=True).stdout.splitlines()
    assert [line for line in pinned if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = {re.split(r"[<>=]", each)[0].lower() for each in wanted}
    assert names <= {line.partition("==")[0].lower() for line in pinned}
