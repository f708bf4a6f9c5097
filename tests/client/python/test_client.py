"""The client as an object: its life, its threads, what it tells of the server."""

import threading
from concurrent.futures import ThreadPoolExecutor

import checks
import factord
import fake_factord
import numpy as np
import pytest


def test_eight_threads_share_a_client(target):
    """All at once, by message and by stream, each with its own matrices."""
    start = threading.Barrier(8)

    def work(seed):
        rng = np.random.default_rng(seed)
        start.wait()
        for i in range(10):
            a = rng.standard_normal((1 + i % 3, 4 + i, 3 + seed % 4))
            checks.assert_qr(a, *client.qr(a))

    with factord.Client(target, stream_threshold=1000) as client, ThreadPoolExecutor(8) as pool:
        assert len(list(pool.map(work, range(8)))) == 8


def test_unix_socket(tmp_path, rng):
    with fake_factord.Server(f"unix:{tmp_path}/factord.sock") as server, factord.Client(server.target) as client:
        a = rng.standard_normal((4, 3))
        checks.assert_qr(a, *client.qr(a))


def test_closed_clients_do_not_call(fake):
    client = factord.Client(fake.target)
    client.close()
    with pytest.raises(ValueError, match="closed"):
        client.qr(np.eye(2))


@pytest.mark.parametrize("threshold", [-1, 4 << 20])
def test_info(target, threshold):
    with factord.Client(target, stream_threshold=threshold) as client:
        info = client.info(timeout=60)
    assert info.version
    assert info.max_tensors > 0 and info.max_matrix_elements > 0 and info.max_message_bytes > 0
    assert any(backend.backend == "cpu" and backend.healthy for backend in info.backends)
    assert "Factorize" in " ".join(info.rpcs)


@pytest.mark.parametrize("mode", checks.MODES)
def test_explain(client, mode):
    explanation = client.explain((1000, 8, 4), np.float32, mode, backend="cpu")
    assert explanation.backend == "cpu"
    assert explanation.input_bytes == 1000 * 8 * 4 * 4
    assert explanation.jobs >= 1 and explanation.path and explanation.bucket and explanation.reason


def test_explain_takes_what_qr_takes(client):
    assert client.explain((3, 4), np.int8).input_bytes == 96
    with pytest.raises(ValueError, match="mode"):
        client.explain((3, 4), mode="half")
