"""`@pytest.mark.case("5.10-07 text")` puts the number of a case into the id of its test."""

import pytest


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    ids = [marker.args[0] for marker in metafunc.definition.iter_markers("case")]
    if ids:
        metafunc.fixturenames.append("case_id")
        metafunc.parametrize("case_id", ids[::-1], ids=ids[::-1])
