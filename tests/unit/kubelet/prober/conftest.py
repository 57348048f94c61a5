"""A fresh node for each test."""

import pytest

from probe_world import World


@pytest.fixture
async def world() -> World:
    return World()
