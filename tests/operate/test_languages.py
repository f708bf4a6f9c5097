"""The examples in every language: built as their `build` says, run against a live server."""

import concurrent.futures
import contextlib
import os
import pathlib
import re
import subprocess
import sys
import threading

import grpc
import pytest
from harness import UNLIMITED, normal, pb, running, tensor

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = ROOT / "client" / "examples"
LANGUAGES = ["python", "cpp", "go", "java", "ruby"]
REFUSALS = 'factord_requests_total{code="UNAVAILABLE",rpc="Factorize"}'


class Example:
    """The programs of one language, built into a folder of their own."""

    def __init__(self, language, out):
        self.folder = EXAMPLES / language
        self.environment = {**os.environ, "OUT": str(out), "PYTHON": sys.executable, "PRESET": "dev"}
        built = subprocess.run([self.folder / "build"], env=self.environment, capture_output=True, text=True, timeout=600)
        assert built.returncode == 0, built.stdout + built.stderr

    def run(self, program, target, **environment):
        """(exit code, stdout, stderr)."""
        done = subprocess.run([self.folder / "run", program, target], env={**self.environment, **environment},
                              capture_output=True, text=True, timeout=180)
        return done.returncode, done.stdout, done.stderr

    def output(self, program, target, **environment):
        """Its stdout; it must do well."""
        code, out, err = self.run(program, target, **environment)
        assert code == 0, out + err
        return out


def source_files():
    return sorted(path for path in EXAMPLES.rglob("*") if path.is_file())


@pytest.fixture(scope="module", params=LANGUAGES)
def example(request, tmp_path_factory):
    sources = source_files()
    yield Example(request.param, tmp_path_factory.mktemp(request.param))
    assert source_files() == sources  # what is built goes elsewhere


@pytest.fixture(scope="module")
def server():
    with running() as server:
        yield server


def residuals(text):
    """The two that a program prints."""
    return [float(number) for number in re.search(r"\|A-QR\|/\|A\| (\S+), \|Q'Q-I\| ([^\s,]+)", text).groups()]


def words(text):
    """INVALID_ARGUMENT and InvalidArgument are the same."""
    return text.replace("_", "").lower()


def test_factorize_a_batch(example, server):
    counter = 'factord_matrices_total{dtype="f32",op="factorize"}'
    before = server.metrics().get(counter, 0)
    out = example.output("batch", server.target)
    assert out.startswith("batch: 1000 of 32x32, ")
    assert all(0 < value < 1e-5 for value in residuals(out))
    assert server.metrics()[counter] - before == 1000


def test_stream_a_large_matrix(example, server):
    streams, matrices = 'factord_requests_total{code="OK",rpc="FactorizeStream"}', 'factord_matrices_total{dtype="f64",op="factorize"}'
    before = server.metrics()
    out = example.output("stream", server.target)
    assert out.startswith("stream: 4000x1000, ")
    assert all(0 < value < 1e-12 for value in residuals(out))
    after = server.metrics()
    for counter in (streams, matrices):
        assert after[counter] - before.get(counter, 0) == 1
    assert after["factord_received_bytes_total"] - before["factord_received_bytes_total"] > 8 * 4000 * 1000


def test_handle_refusals_and_a_deadline(example, server):
    refused, busy, late = example.output("errors", server.target).splitlines()
    assert re.fullmatch(r"refused: invalidargument, (a\[0\]\.data|qr\.sign)", words(refused))
    assert busy == "busy: 16 calls answered, 0 refusals"
    assert words(late) == "late: deadlineexceeded"


@contextlib.contextmanager
def kept_full(server):
    """The lane and the queue are taken by calls of another kind, until a Factorize was refused."""
    a = normal(1200, 1200, dtype="f8")
    request = pb.SolveRequest(problems=[pb.LeastSquaresProblem(a=tensor(a), b=tensor(a[:, :1]))])
    stub, over = server.stub(), threading.Event()

    def keep_busy():
        while not over.is_set() and server.metrics().get(REFUSALS, 0) == 0:
            with contextlib.suppress(grpc.RpcError):  # refused itself: there are more of these than fit
                stub.Solve(request)

    threads = [threading.Thread(target=keep_busy) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def test_a_full_queue_is_tried_again(example):
    with running("--cpu_threads=1", "--max_queued_jobs=1") as server:
        with kept_full(server):
            out = example.output("errors", server.target)
        refusals = int(re.search(r"busy: 16 calls answered, (\d+) refusals", out)[1])
        assert refusals == server.metrics()[REFUSALS] > 0


class RefusesAll(grpc.GenericRpcHandler):
    """A server's every RPC: UNAVAILABLE, as while one restarts."""

    def __init__(self):
        self.calls = 0

    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(self._refuse)

    def _refuse(self, request, context):
        self.calls += 1
        context.abort(grpc.StatusCode.UNAVAILABLE, "not now")


def test_grpc_itself_tries_again(example):
    handler = RefusesAll()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        refusing = grpc.server(pool, [handler], options=UNLIMITED)
        port = refusing.add_insecure_port("127.0.0.1:0")
        refusing.start()
        # Debian's grpc-go is older than 1.40.
        code, _, err = example.run("batch", f"127.0.0.1:{port}", GRPC_GO_RETRY="on")
        refusing.stop(None).wait()
    assert code == 1 and "not now" in err
    assert handler.calls == 5


def openssl(folder, *words):
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """A CA, and what it signed for a server and for a client."""
    folder = tmp_path_factory.mktemp("keys")
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc"]
    openssl(folder, "req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.crt", "-days", "2", "-subj", "/CN=test CA")
    for name in ("server", "client"):
        openssl(folder, "req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}",
                "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
        openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
                "-copy_extensions", "copy", "-days", "2", "-out", f"{name}.crt")
    (folder / "tokens").write_text("examples:0123456789abcdef\n")
    return folder


@pytest.fixture(scope="module")
def secured(keys):
    """(server, environment of the programs): mutual TLS and a token."""
    flags = {"tls_cert": "server.crt", "tls_key": "server.key", "tls_client_ca": "ca.crt", "auth_token_file": "tokens"}
    variables = {"FACTORD_CA": "ca.crt", "FACTORD_CERT": "client.crt", "FACTORD_KEY": "client.key"}
    with running(*(f"--{flag}={keys / name}" for flag, name in flags.items())) as server:
        files = {variable: str(keys / name) for variable, name in variables.items()}
        yield server, {**files, "FACTORD_TOKEN": "0123456789abcdef"}


def test_mutual_tls_and_a_token(example, secured):
    server, environment = secured
    example.output("errors", server.target, **environment)
    code, out, err = example.run("errors", server.target, **{**environment, "FACTORD_TOKEN": "wrong"})
    assert code not in (0, 2) and "unauthenticated" in words(out + err)
    code, _, _ = example.run("errors", server.target)
    assert code not in (0, 2)


@pytest.mark.parametrize("program", ["batch", "stream", "errors"])
def test_without_a_server_they_fail(example, program):
    code, out, err = example.run(program, "127.0.0.1:1")
    assert code not in (0, 2) and out + err


@pytest.mark.parametrize("is_secured", [False, True], ids=["plain", "tls"])
def test_all_of_it_with_our_python_package(is_secured, server, secured, tmp_path):
    server, environment = secured if is_secured else (server, {})
    out = Example("python", tmp_path).output("client", server.target, **environment)
    assert [line.split(":")[0] for line in out.splitlines()] == ["batch", "stream", "rows", "refused", "busy", "late"]
    assert "INVALID_ARGUMENT, qr.sign" in out and "DEADLINE_EXCEEDED" in out
