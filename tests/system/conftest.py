"""One vLLM engine for the whole test run."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from builders_engine import RunningEngine, start_tiny_engine


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningEngine]:
    """An engine on a tiny untied model, small steps (so that prefills are cut), with its transformers oracle."""
    running = await start_tiny_engine(tmp_path_factory.mktemp("engine"), tie=False)
    yield running
    await running.close()
