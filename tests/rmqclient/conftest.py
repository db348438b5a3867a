"""Tests marked ``anyio`` run under asyncio, and with the slow ones under trio, where those with scripted peers and
clocks are at home."""

import pytest

from tests.support.quick import first_is_quick


@pytest.fixture(scope="module", params=first_is_quick(["asyncio", "trio"]))
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)
