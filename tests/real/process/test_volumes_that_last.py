"""Volumes of `pykubelet up` on processes outlive their pods and the program."""

from pathlib import Path

import pytest

from process_lab import end_containers
from pykubelet_process import UpProcess
from volume_scenario import PATIENCE, volume_scenario


@pytest.mark.timeout(180)
def test_data_outlives_pod_and_program_until_the_claim_is_deleted(tmp_path: Path) -> None:
    """The claim's folder goes with the policy Delete and stays with Retain."""
    with volume_scenario(UpProcess(tmp_path), tmp_path, lambda node: end_containers(node / "process")) as scenario:
        data, kept = scenario.create_set("db"), scenario.create_set("archive")
        scenario.replace_pod("db")
        scenario.up.kill()
        scenario.up.start()
        scenario.until_ready("db")
        scenario.replace_pod("db")
        assert (data / "starts").read_text().splitlines() == ["start of db-0"] * 3
        scenario.retain(kept.name)
        scenario.remove_with_claim("db")
        scenario.remove_with_claim("archive")
        scenario.kubectl("wait", "--for=delete", f"pv/{data.name}", PATIENCE)
        scenario.kubectl("wait", "--for=jsonpath={.status.phase}=Released", f"pv/{kept.name}", PATIENCE)
        assert [path.name for path in (scenario.up.data / "volumes").iterdir()] == [kept.name]
        assert (kept / "starts").read_text() == "start of archive-0\n"
