"""Puts tests marked `virtual_time` on the virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest

from livekit.plugins.resilient.testing import virtual_time


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", f"{virtual_time.VIRTUAL_TIME_MARK}: run this test on virtual time"
    )


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    marked = item.get_closest_marker(virtual_time.VIRTUAL_TIME_MARK) is not None
    return virtual_time.loop_factories(marked)
