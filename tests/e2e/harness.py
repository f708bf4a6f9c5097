"""The real binary, and what a stock stub needs to talk to it."""

import contextlib
import os
import signal
import subprocess
import urllib.request

import grpc
import numpy as np

from factord.v1 import factord_pb2 as pb
from factord.v1 import factord_pb2_grpc

DTYPES = {
    np.dtype("f4"): pb.DTYPE_F32,
    np.dtype("f8"): pb.DTYPE_F64,
    np.dtype("c8"): pb.DTYPE_C64,
    np.dtype("c16"): pb.DTYPE_C128,
}
# What a sanitizer's own bookkeeping may add to a process: AddressSanitizer keeps 256 MiB of freed memory aside.
SANITIZER_BYTES = (384 << 20) if os.environ.get("FACTORD_SANITIZER") else 0
# What "at once" may take: sanitizers make a server many times slower.
PATIENCE = 10 if os.environ.get("FACTORD_SANITIZER") else 1
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


class Factord:
    """One server process. Ends only itself, by its handle."""

    def __init__(self, *flags, log=None):
        """`log`: the file that stderr goes to, for those who read it while the server runs."""
        self.log_file = log
        command = [os.environ["FACTORD_BINARY"], "--listen=127.0.0.1:0", "--metrics_listen=127.0.0.1:0", *flags]
        with open(log, "w") if log else contextlib.nullcontext(subprocess.PIPE) as stderr:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
        self.addresses, self.metrics_url = [], None
        for line in self.process.stdout:
            if line.startswith("listening on "):
                self.addresses.append(line.split()[-1])
            if line.startswith("metrics on "):
                self.metrics_url = line.split()[-1]
                break
        else:
            raise RuntimeError(log.read_text() if log else self.process.stderr.read())
        self.target = self.addresses[0]

    def channel(self, target=None, options=UNLIMITED):
        # A connection of its own: gRPC would share one among equal channels.
        return grpc.insecure_channel(target or self.target, [*options, ("grpc.use_local_subchannel_pool", 1)])

    def stub(self, **kwargs):
        return factord_pb2_grpc.FactorizationStub(self.channel(**kwargs))

    def metrics(self):
        """{name{labels}: value} of a scrape."""
        with urllib.request.urlopen(self.metrics_url, timeout=10) as reply:
            lines = reply.read().decode().splitlines()
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line[:1] not in ("#", "")}

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def wait(self, timeout=60):
        """(exit code, stderr)."""
        _, err = self.process.communicate(timeout=timeout)
        if self.log_file:
            err = self.log_file.read_text()
        # What a sanitizer, or UndefinedBehaviorSanitizer, has to say.
        assert "Sanitizer" not in err and "runtime error" not in err, err
        return self.process.returncode, err

    def stop(self):
        """Ends it, unless the test did and has waited for it; a server that died in the middle of a test says why."""
        if self.process.stdout.closed:
            return
        if self.process.poll() is None:
            self.terminate()
        try:
            self.wait()
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


@contextlib.contextmanager
def running(*flags, **kwargs):
    server = Factord(*flags, **kwargs)
    try:
        yield server
    finally:
        server.stop()


def tensor(array, layout=pb.LAYOUT_ROW_MAJOR, data=True):
    array = np.asarray(array)
    if layout == pb.LAYOUT_COLUMN_MAJOR:
        raw = np.ascontiguousarray(array.swapaxes(-1, -2)).tobytes()
    else:
        raw = np.ascontiguousarray(array).tobytes()
    return pb.Tensor(dtype=DTYPES[array.dtype], dims=array.shape, layout=layout, data=raw if data else b"")


def array_of(message, data=None):
    dtype = {value: key for key, value in DTYPES.items()}[message.dtype]
    flat = np.frombuffer(message.data if data is None else data, dtype)
    dims = list(message.dims)
    if message.layout == pb.LAYOUT_COLUMN_MAJOR:
        return flat.reshape(*dims[:-2], dims[-1], dims[-2]).swapaxes(-1, -2)
    return flat.reshape(dims)


def qr_request(*arrays, q=pb.Q_MODE_REDUCED, r=True, reflectors=False, sign=pb.SIGN_LAPACK, run=None, data=True):
    return pb.FactorizeRequest(
        a=[tensor(a, data=data) for a in arrays],
        qr=pb.QrOptions(q=q, r=r, reflectors=reflectors, sign=sign),
        run=run or pb.RunOptions(),
    )


def normal(*shape, dtype="f4", seed=0):
    """Seeded normal numbers; complex ones for complex types."""
    rng = np.random.default_rng([seed, *shape])
    a = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        a = a + 1j * rng.standard_normal(shape)
    return a.astype(dtype)


# One lane, which a slow request holds for about a second: on LAPACK, since no sanitizer slows that down.
ONE_LANE = ("--cpu_threads=1", "--cpu_engine=lapack")


def slow_request():
    return qr_request(normal(1950, 1950, dtype="c16"), q=pb.Q_MODE_UNSPECIFIED)


def eps_of(dtype):
    return float(np.finfo(dtype).eps) / 2


def check_qr(a, q, r):
    """The contract's accuracy, for every matrix of the batch: column by column, and orthogonality."""
    m, n = a.shape[-2:]
    bound = 30 * max(1, m) * eps_of(a.dtype)
    grid = m * float(np.finfo(a.dtype).smallest_subnormal)  # R is rounded to it
    wide = np.clongdouble if a.dtype.kind == "c" else np.longdouble
    a, q, r = a.astype(wide), q.astype(wide), r.astype(wide)
    qh = q.conj().swapaxes(-1, -2)
    residual = np.sqrt((abs(r - qh @ a) ** 2).sum(-2))
    # The part of A outside Q's range counts too, where Q has only k columns.
    outside = np.sqrt((abs(a - q @ r) ** 2).sum(-2))
    norms = np.sqrt((abs(a) ** 2).sum(-2))
    assert (residual <= bound * norms + grid).all() and (outside <= bound * norms + grid).all()
    orthogonality = abs(qh @ q - np.eye(q.shape[-1])).sum(-2)
    assert (orthogonality <= bound).all()
    assert (np.tril(r, -1) == 0).all()


def code_of(call):
    """(status code, details) of a call that must fail."""
    try:
        call()
    except grpc.RpcError as error:
        return error.code(), error.details()
    raise AssertionError("the call succeeded")


def assert_alive(server):
    """Up, and a fresh request is answered right; nothing is left of earlier ones."""
    a = normal(6, 4, seed=99)
    reply = server.stub().Factorize(qr_request(a), timeout=30)
    check_qr(a, array_of(reply.qr[0].q), array_of(reply.qr[0].r))


def wait_until(condition, timeout=20):
    """Polls, for what another process reports only when asked."""
    import time

    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def assert_idle(server):
    """Every gauge of work in flight goes back to 0."""

    def idle():
        metrics = server.metrics()
        gauges = ["factord_queue_jobs", "factord_queue_bytes", "factord_running_jobs", "factord_memory_in_flight_bytes",
                  "factord_streams", *(k for k in metrics if k.startswith("factord_requests_in_flight"))]
        return all(metrics[gauge] == 0 for gauge in gauges)

    wait_until(idle)
