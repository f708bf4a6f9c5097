"""TLS, tokens, reflection and the probe."""

import asyncio
import os
import pathlib
import socket
import subprocess

import factord
import grpc
import numpy as np
import pytest
from factord.v1 import factord_pb2_grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from harness import UNLIMITED, array_of, check_qr, code_of, normal, pb, qr_request, running, wait_until

Code = grpc.StatusCode
FACTORD = os.environ["FACTORD_BINARY"]
FACTORCTL = pathlib.Path(FACTORD).parent / "factorctl"
UNAUTHENTICATED = 'factord_rejected_total{reason="unauthenticated"}'
STAYS = "what was read before stays in use"
A = normal(5, 3)


def openssl(*words):
    subprocess.run(["openssl", *words], check=True, capture_output=True)


class Authority:
    """A CA in a folder of its own, which signs certificates."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self.ca = folder / "ca.crt"
        openssl("req", "-x509", *self._new_key("ca"), "-out", self.ca, "-days", "2", "-subj", "/CN=test CA")

    def _new_key(self, name):
        return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-keyout", self.folder / f"{name}.key")

    def sign(self, name, alternative_names=""):
        """(certificate, key) files."""
        request, certificate = self.folder / f"{name}.csr", self.folder / f"{name}.crt"
        extension = ["-addext", f"subjectAltName={alternative_names}"] if alternative_names else []
        openssl("req", *self._new_key(name), "-out", request, "-subj", f"/CN={name}", *extension)
        openssl("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self.folder / "ca.key", "-CAcreateserial",
                "-days", "2", "-copy_extensions", "copy", "-out", certificate)
        return certificate, self.folder / f"{name}.key"

    def sign_server(self, name):
        return self.sign(name, "DNS:localhost,IP:127.0.0.1")


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls") / "ours")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls") / "theirs")


def tls_flags(pair, client_ca=None):
    flags = [f"--tls_cert={pair[0]}", f"--tls_key={pair[1]}"]
    return flags if client_ca is None else [*flags, f"--tls_client_ca={client_ca}"]


@pytest.fixture(scope="module")
def tls_server(authority):
    with running(*tls_flags(authority.sign_server("plain-tls"))) as server:
        yield server


@pytest.fixture(scope="module")
def mutual_server(authority):
    with running(*tls_flags(authority.sign_server("mutual"), authority.ca)) as server:
        yield server


def secure_channel(target, ca, pair=(None, None)):
    credentials = factord.tls_credentials(ca, *pair)
    return grpc.secure_channel(target, credentials, [*UNLIMITED, ("grpc.use_local_subchannel_pool", 1)])


def factorize(channel, metadata=None, timeout=30):
    reply = factord_pb2_grpc.FactorizationStub(channel).Factorize(qr_request(A), metadata=metadata, timeout=timeout)
    check_qr(A, array_of(reply.qr[0].q), array_of(reply.qr[0].r))
    return reply


def factorize_stream(channel, metadata=None):
    start = pb.Start(request_id="1", factorize=qr_request(A))
    stub = factord_pb2_grpc.FactorizationStub(channel)
    replies = list(stub.FactorizeStream(iter([pb.StreamRequest(start=start)]), metadata=metadata, timeout=30))
    assert replies[-1].done.status.code == 0


def is_served_by(target, ca):
    """Whether a fresh connection trusts what the server shows."""
    with secure_channel(target, ca) as channel:
        try:
            return health_of(channel) == "SERVING"
        except grpc.RpcError as error:
            assert error.code() == Code.UNAVAILABLE
            return False


def health_of(channel):
    reply = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=20)
    return health_pb2.HealthCheckResponse.ServingStatus.Name(reply.status)


def reflection_of(channel, metadata=None):
    """Names of the services that the server tells of."""
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    reply = next(iter(stub.ServerReflectionInfo(iter([request]), metadata=metadata, timeout=30)))
    return [service.name for service in reply.list_services_response.service]


def factorctl(target, *flags):
    command = [FACTORCTL, "info", f"--server={target}", "--timeout=20s", *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def probe(address, *flags):
    """(exit code, stdout and stderr)."""
    command = [FACTORD, f"--probe={address}", *flags]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return result.returncode, result.stdout + result.stderr


def start_and_fail(*flags):
    """(exit code, stderr) of a server that does not start."""
    command = [FACTORD, "--listen=127.0.0.1:0", "--metrics_listen=", *flags]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return result.returncode, result.stderr


# TLS

def test_python_client_over_tls(tls_server, authority):
    with factord.Client(tls_server.target, credentials=factord.tls_credentials(authority.ca)) as client:
        q, r = client.qr(A)
    check_qr(A, q, r)


def test_asyncio_client_over_tls(tls_server, authority):
    async def call():
        credentials = factord.tls_credentials(authority.ca)
        async with factord.AsyncClient(tls_server.target, credentials=credentials, stream_threshold=-1) as client:
            return await client.qr(A)

    check_qr(A, *asyncio.run(call()))


def test_factorctl_and_so_the_cpp_client_over_tls(tls_server, authority):
    result = factorctl(tls_server.target, f"--tls_ca={authority.ca}")
    assert result.returncode == 0 and result.stdout.startswith("factord ")


def test_stock_stub_over_tls_both_ways_of_calling(tls_server, authority):
    with secure_channel(tls_server.target, authority.ca) as channel:
        factorize(channel)
        factorize_stream(channel)


def test_a_ca_that_did_not_sign_is_no_help(tls_server, stranger):
    assert code_of(lambda: factorize(secure_channel(tls_server.target, stranger.ca)))[0] == Code.UNAVAILABLE
    result = factorctl(tls_server.target, f"--tls_ca={stranger.ca}", "--timeout=2s")
    assert result.returncode == 1 and result.stderr


def test_plaintext_does_not_reach_a_tls_port(tls_server):
    assert code_of(lambda: factorize(tls_server.channel()))[0] == Code.UNAVAILABLE


def test_unix_sockets_stay_plain(authority, tmp_path):
    path = f"unix:{tmp_path}/s"
    with running(*tls_flags(authority.sign_server("unix")), f"--listen=127.0.0.1:0,{path}") as server:
        factorize(server.channel(target=path))
        assert is_served_by(server.target, authority.ca)


def test_mutual_tls_takes_clients_of_its_ca_only(mutual_server, authority, stranger):
    with secure_channel(mutual_server.target, authority.ca, authority.sign("client")) as channel:
        factorize(channel)
    for pair in ((None, None), stranger.sign("client")):
        with secure_channel(mutual_server.target, authority.ca, pair) as channel:
            assert code_of(lambda: factorize(channel))[0] == Code.UNAVAILABLE


def test_mutual_tls_in_our_clients(mutual_server, authority):
    cert, key = authority.sign("ours")
    with factord.Client(mutual_server.target, credentials=factord.tls_credentials(authority.ca, cert, key)) as client:
        check_qr(A, *client.qr(A))
    flags = f"--tls_ca={authority.ca}", f"--tls_cert={cert}", f"--tls_key={key}"
    assert factorctl(mutual_server.target, *flags).returncode == 0
    assert factorctl(mutual_server.target, *flags[:2]).returncode == 2


def test_a_new_certificate_is_served_and_a_bad_one_is_not(authority, stranger, tmp_path):
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"

    def put(pair):
        cert.write_bytes(pair[0].read_bytes())
        key.write_bytes(pair[1].read_bytes())

    old, new = authority.sign_server("old"), stranger.sign_server("new")
    put(old)
    with running(*tls_flags((cert, key))) as server:
        first = secure_channel(server.target, authority.ca)
        factorize(first)

        put(new)
        wait_until(lambda: is_served_by(server.target, stranger.ca))
        assert not is_served_by(server.target, authority.ca)
        factorize(first)  # the connection was not dropped

        # Half written, then of another key, then gone. Each is told of; each time the port serves what it had.
        for spoil in (lambda: cert.write_bytes(old[0].read_bytes()[:200]),
                      lambda: cert.write_bytes(old[0].read_bytes()),
                      lambda: key.unlink()):
            told = log_of(server).count(STAYS)
            spoil()
            wait_until(lambda: log_of(server).count(STAYS) > told)
            assert is_served_by(server.target, stranger.ca)

        put(old)
        wait_until(lambda: is_served_by(server.target, authority.ca))
        server.terminate()
        assert server.wait()[0] == 0


def log_of(server):
    """What the server has written to stderr so far."""
    stderr = server.process.stderr.fileno()
    os.set_blocking(stderr, False)
    try:
        server.log = getattr(server, "log", "") + os.read(stderr, 1 << 20).decode()  # more than a pipe holds
    except BlockingIOError:
        pass  # nothing new
    os.set_blocking(stderr, True)
    return getattr(server, "log", "")


@pytest.mark.parametrize("flags, words", [
    (["--tls_cert={cert}"], ["tls_cert", "tls_key is not"]),
    (["--tls_key={key}"], ["tls_key", "tls_cert is not"]),
    (["--tls_client_ca={cert}"], ["tls_client_ca", "tls_cert and tls_key are not"]),
    (["--tls_cert={none}", "--tls_key={key}"], ["tls_cert: can not read {none}: No such file"]),
    (["--tls_cert={cert}", "--tls_key={none}"], ["tls_key: can not read {none}: No such file"]),
    (["--tls_cert={folder}", "--tls_key={key}"], ["tls_cert: can not read {folder}: Is a directory"]),
    (["--tls_cert={garbage}", "--tls_key={key}"], ["tls_cert: {garbage} holds no certificate in PEM"]),
    (["--tls_cert={half}", "--tls_key={key}"], ["tls_cert: {half} holds a damaged certificate"]),
    (["--tls_cert={cert}", "--tls_key={garbage}"], ["tls_key: {garbage} holds no unencrypted private key in PEM"]),
    (["--tls_cert={cert}", "--tls_key={locked}"], ["tls_key: {locked} holds no unencrypted private key in PEM"]),
    (["--tls_cert={cert}", "--tls_key={other}"], ["tls_key: {other} is not the key of the certificate in {cert}"]),
    (["--tls_cert={cert}", "--tls_key={key}", "--tls_client_ca={garbage}"], ["tls_client_ca: {garbage} holds no certificate"]),
    (["--auth_token_file={none}"], ["auth_token_file: can not read {none}"]),
    (["--auth_token_file={empty}"], ["auth_token_file: {empty} holds no token"]),
    (["--auth_token_file={garbage}"], ["auth_token_file: line 1 of {garbage} is neither"]),
])
def test_bad_files_end_the_start_with_a_sentence(authority, tmp_path, flags, words):
    cert, key = authority.sign_server("start")
    files = {"cert": cert, "key": key, "other": authority.sign("other")[1], "none": tmp_path / "none", "folder": tmp_path}
    for name, text in {"garbage": b"not PEM \xff secret\n", "half": cert.read_bytes()[:200] + cert.read_bytes()[-30:],
                       "empty": b"# nobody\n"}.items():
        files[name] = tmp_path / name
        files[name].write_bytes(text)
    files["locked"] = tmp_path / "locked"
    openssl("pkey", "-in", key, "-aes128", "-passout", "pass:x", "-out", files["locked"])

    code, error = start_and_fail(*(flag.format(**files) for flag in flags))

    assert code == 2 and error.startswith("factord: ") and error.count("\n") == 1
    assert all(word.format(**files) in error for word in words) and "secret" not in error


# Tokens

def bearer(token):
    return (("authorization", f"Bearer {token}"),)


@pytest.fixture
def token_server(tmp_path):
    path = tmp_path / "tokens"
    path.write_text("# two of them\nfirst-secret\nradar:named-secret\n")
    with running(f"--auth_token_file={path}") as server:
        server.token_file = path
        yield server


@pytest.mark.parametrize("call", [factorize, factorize_stream, reflection_of])
def test_calls_need_a_token_that_is_known(token_server, call):
    channel = token_server.channel()
    for token in ("first-secret", "named-secret"):
        call(channel, bearer(token))
    before = token_server.metrics()[UNAUTHENTICATED]
    code, message = code_of(lambda: call(channel))
    assert code == Code.UNAUTHENTICATED and "authorization: Bearer TOKEN" in message
    for wrong in ("wrong-secret", "first-secre", "first-secret2", "radar:named-secret", ""):
        assert code_of(lambda: call(channel, bearer(wrong)))[0] == Code.UNAUTHENTICATED
    assert code_of(lambda: call(channel, (("authorization", "first-secret"),)))[0] == Code.UNAUTHENTICATED
    assert token_server.metrics()[UNAUTHENTICATED] == before + 7


@pytest.mark.parametrize("rpc", ["Factorize", "FormQ", "ApplyQ", "Solve", "Explain", "GetServerInfo", "FactorizeStream"])
def test_every_rpc_is_refused_and_counted(token_server, rpc):
    method = f"/factord.v1.Factorization/{rpc}"
    if rpc == "FactorizeStream":
        call = lambda: list(token_server.channel().stream_stream(method)(iter([b"\xff"]), timeout=30))
    else:
        call = lambda: token_server.channel().unary_unary(method)(b"\xff", timeout=30)
    assert code_of(call)[0] == Code.UNAUTHENTICATED
    metrics = token_server.metrics()
    assert metrics[f'factord_requests_total{{code="UNAUTHENTICATED",rpc="{rpc}"}}'] == 1
    assert metrics[f'factord_requests_in_flight{{rpc="{rpc}"}}'] == 0
    assert metrics[UNAUTHENTICATED] == 1


def test_health_needs_no_token(token_server):
    assert health_of(token_server.channel()) == "SERVING"
    assert token_server.metrics()[UNAUTHENTICATED] == 0


def test_our_clients_show_their_token(token_server):
    with factord.Client(token_server.target, token="named-secret\n") as client:
        check_qr(A, *client.qr(A))
    with factord.Client(token_server.target, token="wrong") as client, pytest.raises(factord.FactordError) as refusal:
        client.qr(A)
    assert refusal.value.code == Code.UNAUTHENTICATED

    async def call():
        async with factord.AsyncClient(token_server.target, token="first-secret") as client:
            return await client.qr(A)

    check_qr(A, *asyncio.run(call()))
    assert factorctl(token_server.target, f"--token_file={token_server.token_file}").returncode == 0
    result = factorctl(token_server.target)
    assert result.returncode == 1 and "authorization" in result.stderr


def test_tokens_can_be_rotated_and_none_is_logged(token_server):
    channel = token_server.channel()
    token_server.token_file.write_text("third-secret\n")
    wait_until(lambda: _is_let_in(channel, "third-secret"))
    assert not _is_let_in(channel, "first-secret")

    token_server.token_file.write_text("fourth secret with spaces\n")
    wait_until(lambda: log_of(token_server).count(STAYS) == 1)
    assert _is_let_in(channel, "third-secret")

    token_server.token_file.unlink()
    wait_until(lambda: log_of(token_server).count(STAYS) == 2)
    assert _is_let_in(channel, "third-secret") and not _is_let_in(channel, "wrong-secret")

    token_server.terminate()
    token_server.process.wait(60)
    assert token_server.process.returncode == 0
    log = log_of(token_server)
    assert "auth_token_file" in log and "secret" not in log


def _is_let_in(channel, token):
    try:
        factord_pb2_grpc.FactorizationStub(channel).GetServerInfo(pb.GetServerInfoRequest(), metadata=bearer(token), timeout=30)
        return True
    except grpc.RpcError as error:
        assert error.code() == Code.UNAUTHENTICATED
        return False


def test_tokens_and_mutual_tls_together(authority, tmp_path):
    path = tmp_path / "tokens"
    path.write_text("radar:named-secret\n")
    with running(*tls_flags(authority.sign_server("both"), authority.ca), f"--auth_token_file={path}") as server:
        with secure_channel(server.target, authority.ca, authority.sign("both-client")) as channel:
            factorize(channel, bearer("named-secret"))
            assert code_of(lambda: factorize(channel))[0] == Code.UNAUTHENTICATED


@pytest.mark.parametrize("listen, is_warned", [("127.0.0.1:0", False), ("0.0.0.0:0", True)])
def test_a_warning_where_tokens_cross_the_network_in_the_clear(tmp_path, listen, is_warned):
    path = tmp_path / "tokens"
    path.write_text("secret\n")
    with running(f"--auth_token_file={path}", f"--listen={listen}") as server:
        server.terminate()
        assert ("unencrypted" in server.wait()[1]) == is_warned


# Reflection, metrics

def test_reflection_is_on_unless_switched_off():
    with running() as server:
        assert "factord.v1.Factorization" in reflection_of(server.channel())
    with running("--reflection=false") as server:
        assert code_of(lambda: reflection_of(server.channel()))[0] == Code.UNIMPLEMENTED
        factorize(server.channel())


# The probe

def test_probe_says_serving(tls_server, mutual_server, authority, tmp_path):
    path = f"unix:{tmp_path}/s"
    with running(f"--listen=127.0.0.1:0,{path}") as server:
        for address in (server.target, path):
            assert probe(address) == (0, f"{address}: SERVING\n")
    # With the flags that the server itself was started with.
    for server, name in ((tls_server, "plain-tls"), (mutual_server, "mutual")):
        pair = authority.folder / f"{name}.crt", authority.folder / f"{name}.key"
        assert probe(server.target, *tls_flags(pair)) == (0, f"{server.target}: SERVING\n")
    assert probe(tls_server.target, f"--tls_ca={authority.ca}")[0] == 0


def test_probe_says_what_else_it_found(tls_server, mutual_server, authority, stranger):
    assert probe(tls_server.target, f"--tls_ca={stranger.ca}")[0] == 1
    assert probe(mutual_server.target, f"--tls_ca={authority.ca}")[0] == 1
    assert probe(tls_server.target)[0] == 1
    with socket.socket() as closed:  # bound, so nobody else's; not listening
        closed.bind(("127.0.0.1", 0))
        code, text = probe(f"127.0.0.1:{closed.getsockname()[1]}")
    assert code == 1 and text.startswith("factord: 127.0.0.1:") and text.count("\n") == 1


def test_probe_finds_a_draining_server_not_serving():
    with running("--drain_delay=30s") as server:
        server.terminate()
        wait_until(lambda: probe(server.target) == (1, f"factord: {server.target}: NOT_SERVING\n"))
        server.terminate()  # a second signal: at once
        assert server.wait()[0] == 1


@pytest.mark.parametrize("flags", [["nonsense"], ["127.0.0.1:x"], ["127.0.0.1:0"], [":50051"], ["unix:"], ["127.0.0.1:70000"],
                                   ["127.0.0.1:1", "--tls_cert=/a"], ["127.0.0.1:1", "--tls_ca=/no/such/file"]])
def test_probe_refuses_nonsense(flags):
    code, text = probe(*flags)
    assert code == 2 and text.count("\n") == 1 and ("probe" in text or "tls_c" in text)
