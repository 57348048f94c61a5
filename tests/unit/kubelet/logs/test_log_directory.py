"""Names of log directories, files and links."""

from pathlib import Path

import pytest

from pykubelet.kubelet.logs.log_directory import (
    LogDirectory,
    PodNames,
    container_id_from_link,
    log_link_name,
    pod_uid_from_directory,
)

WEB = PodNames("default", "web", "1234")


def test_log_path_names_pod_container_and_attempt() -> None:
    """Log collectors rely on this path."""
    logs = LogDirectory(Path("/var/log/pods"))
    assert logs.path(WEB, "main", 3) == "/var/log/pods/default_web_1234/main/3.log"
    assert logs.of_pod(WEB) == "/var/log/pods/default_web_1234"


@pytest.mark.parametrize(("name", "uid"), [("default_web_1234", "1234"), ("1234", "1234"), ("a_b_c_d", "d")])
def test_log_directory_name_contains_the_pod_uid(name: str, uid: str) -> None:
    """The older form, with the UID alone, is accepted as well."""
    assert pod_uid_from_directory(name) == uid


@pytest.mark.parametrize(
    ("name", "container_id"),
    [("web_default_main-123456.log", "123456"), ("web_default_main-12345.log", ""), ("web_default_main-123456", "")],
)
def test_link_name_contains_the_container_id(name: str, container_id: str) -> None:
    """Names in any other form give no id."""
    assert container_id_from_link(name) == container_id


def test_link_name_fits_the_file_system() -> None:
    """A long name is cut; its suffix is kept."""
    assert log_link_name(WEB, "main", "abcdef") == "web_default_main-abcdef.log"
    long = log_link_name(PodNames("n" * 63, "p" * 200, "u"), "main", "a" * 64)
    assert len(long) == 255
    assert long.endswith(".log")
