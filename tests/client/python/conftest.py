"""The server under test: FACTORD_TARGET if set, else the binary FACTORD_BINARY, else a fake in this process."""

import os
import re
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path

import factord
import fake_factord
import numpy as np
import pytest

DATA = Path(os.environ.get("FACTORD_DATA", Path(__file__).parents[2] / "data"))


@pytest.fixture(scope="session")
def target():
    """The address of a server that keeps the API's promises: real where there is one."""
    if "FACTORD_TARGET" in os.environ:
        yield os.environ["FACTORD_TARGET"]
    elif "FACTORD_BINARY" in os.environ:
        with running(os.environ["FACTORD_BINARY"]) as address:
            yield address
    else:
        with fake_factord.Server() as server:
            yield server.target


@contextmanager
def running(binary):
    """A server process of our own; the address that it listens on."""
    command = [binary, "--listen=127.0.0.1:0", "--metrics_listen=127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            address = next((m[1] for m in map(re.compile(r"listening on (\S+:\d+)$").match, process.stdout) if m), None)
            assert address, f"{binary} ended without a word of where it listens"
            # Whatever else it prints must not fill the pipe and stop it.
            threading.Thread(target=process.stdout.read, daemon=True).start()
            yield address
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
            assert process.returncode == 0, f"{binary} ended with {process.returncode}"


@pytest.fixture(scope="session")
def client(target):
    with factord.Client(target) as client:
        yield client


@pytest.fixture(scope="session")
def streaming(target):
    """A client that streams everything."""
    with factord.Client(target, stream_threshold=-1) as client:
        yield client


@pytest.fixture
def fake():
    """A fake server whatever the target, to be made to fail: its `service` is at the test's command."""
    with fake_factord.Server() as server:
        yield server


@pytest.fixture
def rng():
    return np.random.default_rng(20240229)


@pytest.fixture(scope="session")
def nist():
    return DATA / "nist"
