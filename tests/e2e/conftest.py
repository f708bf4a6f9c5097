import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import harness


@pytest.fixture(scope="session")
def server():
    """One for all tests that leave it as it was; each must leave it idle."""
    with harness.running("--memory_budget_bytes=2000000000") as running:
        yield running


@pytest.fixture(autouse=True)
def left_idle(request):
    yield
    if "server" in request.fixturenames:
        harness.assert_alive(request.getfixturevalue("server"))
        harness.assert_idle(request.getfixturevalue("server"))


@pytest.fixture
def stub(server):
    return server.stub()
