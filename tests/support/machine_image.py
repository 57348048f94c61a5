"""A root file system for container images made of the machine's own programs: PostgreSQL, Python and a few others."""

import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from oci_images import GROUP, PASSWD, add_file, entry
from requirements import missing

POSTGRES_USER = "postgres:x:999:999:PostgreSQL:/var/lib/postgresql:/bin/sh\n"
_PROGRAMS = ("sh", "cat", "date", "head", "id", "install", "mkdir", "mv", "rm", "setpriv", "sleep")
_SERVER_PROGRAMS = ("initdb", "pg_dump", "pg_isready", "postgres")
_PYTHON = Path("/usr/bin/python3")
_LOCALE = Path("/usr/lib/locale/C.utf8")
# Large, and used by nothing here.
_UNUSED = {"__pycache__", "bitcode", "ensurepip", "idlelib", "lib2to3", "llvmjit.so", "test", "tkinter"}
_MERGED = ("bin", "lib", "lib64", "sbin")


@cache
def shop_root() -> bytes:
    """The root file system of examples/shop/Dockerfile, from the packages of this machine, as a tar archive."""
    server = postgres_folder()
    python = _PYTHON.resolve()
    library = Path("/usr/lib", python.name)
    psycopg2 = Path("/usr/lib/python3/dist-packages/psycopg2")
    if not psycopg2.exists():
        missing("psycopg2 of Debian is missing (python3-psycopg2): scripts/setup --for-tests")
    trees = (library, psycopg2, server / "lib", Path("/usr/share/postgresql", server.name), _LOCALE)
    programs = [*map(_program, _PROGRAMS), python, *(server / "bin" / name for name in _SERVER_PROGRAMS)]
    files = {*programs, *(file for tree in trees for file in _files_below(tree))}
    binaries = [file for file in files if file in programs or file.suffix == ".so"]
    links = {"usr/bin/python3": python.name}
    links |= {f"usr/bin/{name}": f"../lib/postgresql/{server.name}/bin/{name}" for name in _SERVER_PROGRAMS[1:3]}
    return _archive(files | _libraries(binaries), links)


def postgres_folder() -> Path:
    """The folder of the machine's newest PostgreSQL."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        missing("PostgreSQL is missing (Debian: postgresql): scripts/setup --for-tests")
    return found[-1].parents[1]


def _program(name: str) -> Path:
    """The place of a program, whose file may have another name."""
    found = shutil.which(name, path="/usr/bin:/usr/sbin")
    if found is None:
        missing(f"{name} is missing")
    return Path(found)


def _files_below(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in _UNUSED and not name.startswith("config-")]
        yield from (Path(parent, name) for name in names if name not in _UNUSED)


def _libraries(binaries: Iterable[Path]) -> set[Path]:
    """The shared libraries of programs and of other libraries, the dynamic loader included."""
    listed = subprocess.run(["ldd", *map(str, binaries)], capture_output=True, text=True, check=False).stdout
    words = (word for line in listed.splitlines() if line.startswith("\t") for word in line.split())
    paths = {Path(word) for word in words if word.startswith("/")}
    return {path.parent.resolve() / path.name for path in paths}


def _archive(files: Iterable[Path], links: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, mode in {"etc": 0o755, "root": 0o700, "tmp": 0o1777, "usr": 0o755}.items():
            tar.addfile(entry(name, tarfile.DIRTYPE, mode=mode))
        for name in _MERGED:
            tar.addfile(entry(f"usr/{name}", tarfile.DIRTYPE, mode=0o755))
            tar.addfile(entry(name, tarfile.SYMTYPE, linkname=f"usr/{name}"))
        add_file(tar, "etc/passwd", (PASSWD + POSTGRES_USER).encode())
        add_file(tar, "etc/group", (GROUP + "postgres:x:999:\n").encode())
        add_file(tar, "etc/nsswitch.conf", b"hosts: files dns\n")
        for file in sorted(files):
            # Links of the machine may lead anywhere, so their content is stored in their place.
            add_file(tar, str(file).lstrip("/"), file.read_bytes(), file.stat().st_mode & 0o777)
        for name, target in links.items():
            tar.addfile(entry(name, tarfile.SYMTYPE, linkname=target))
    return out.getvalue()
