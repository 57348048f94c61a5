"""A new world with a prober manager for each test."""

import pytest

from prober_rig import World


@pytest.fixture
async def world() -> World:
    return World()
