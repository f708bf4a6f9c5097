"""The metrics port: probes, the status page's data, plan lookup, scrapes; readiness and warm-up."""

import concurrent.futures
import gzip
import http.client
import json
import os
import signal
import socket
import subprocess
import urllib.parse

import pytest
from google.protobuf import json_format
from grpc_health.v1 import health_pb2, health_pb2_grpc
from harness import (ONE_LANE, SANITIZER_BYTES, array_of, assert_alive, check_qr, code_of, normal, pb, qr_request, running,
                     slow_request, wait_until)

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
# Seconds on a lane; with a sanitizer it is slower.
SLOW_SHAPE = "1x900x900:c128" if SANITIZER_BYTES else "1x2200x2200:c128"


def netloc(server):
    return urllib.parse.urlsplit(server.metrics_url).netloc


def ask(server, target, method="GET", headers=None, body=None):
    """(status, headers, body)."""
    connection = http.client.HTTPConnection(netloc(server), timeout=30)
    try:
        connection.request(method, target, headers=headers or {}, body=body)
        reply = connection.getresponse()
        return reply.status, reply.headers, reply.read()
    finally:
        connection.close()


def status_of(server):
    return json.loads(ask(server, "/status.json")[2])


def health_of(server):
    return health_pb2_grpc.HealthStub(server.channel()).Check(health_pb2.HealthCheckRequest()).status


# ---- endpoints


@pytest.mark.parametrize("path,kind", [("/", "text/html"), ("/status.css", "text/css"), ("/status.js", "text/javascript"),
                                       ("/charts.js", "text/javascript"), ("/icon.svg", "image/svg+xml"),
                                       ("/status.json", "application/json"), ("/metrics", "text/plain"),
                                       ("/livez", "text/plain"), ("/readyz", "text/plain")])
def test_every_endpoint_answers_and_allows_nothing_from_elsewhere(server, path, kind):
    status, headers, body = ask(server, path)
    assert status == 200 and body and headers["Content-Type"].startswith(kind)
    assert "default-src 'self'" in headers["Content-Security-Policy"]
    assert headers["Cache-Control"] == "no-store" and headers["X-Content-Type-Options"] == "nosniff"
    head_status, head_headers, nothing = ask(server, path, method="HEAD")
    assert head_status == 200 and nothing == b"" and head_headers["Content-Type"] == headers["Content-Type"]
    assert ask(server, path + "?anything=1")[0] == 200


def test_the_page_names_nothing_outside(server):
    for path in ("/", "/status.css", "/status.js", "/charts.js"):
        text = ask(server, path)[2].decode().replace("http://www.w3.org/2000/svg", "")
        assert "http:" not in text and "https:" not in text and 'src="//' not in text


@pytest.mark.parametrize("path", ["/nothing", "/metrics/", "//", "/..", "/%2e%2e/etc/passwd", "/index.html", "/%zz",
                                  "/" + "a" * 3000])
def test_unknown_paths_are_404(server, path):
    assert ask(server, path)[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "BREW"])
def test_other_methods_are_405(server, method):
    status, headers, _ = ask(server, "/metrics", method=method, body=b"x" * 100)
    assert status == 405 and headers["Allow"] == "GET, HEAD"


def test_scrapes_are_compressed_for_those_who_ask(server):
    status, headers, packed = ask(server, "/metrics", headers={"Accept-Encoding": "gzip"})
    assert status == 200 and headers["Content-Encoding"] == "gzip"
    plain = ask(server, "/metrics")[2]
    assert b"factord_serving 1" in gzip.decompress(packed) and len(packed) < len(plain) / 4


def test_hostile_bytes_harm_nobody(server):
    host, port = netloc(server).split(":")
    pieces = [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET", b"GET / HTTP/9.9\r\n\r\n", b"\r\n" * 2000, b"\0" * 70000,
              b"GET /" + b"x" * 100000 + b" HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20000,
              b"GET /explain.json?" + b"&" * 8000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
              b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
              b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n",
              b"GET /readyz HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n"]
    sockets = []
    for piece in pieces:
        peer = socket.create_connection((host, int(port)), timeout=10)
        sockets.append(peer)
        try:
            peer.sendall(piece)
        except OSError:  # it hung up in the middle
            pass
    assert ask(server, "/livez")[0] == 200
    for peer in sockets:
        peer.close()
    assert_alive(server)


def test_idle_connections_hold_up_neither_scrapes_nor_the_exit():
    with running() as server:
        host, port = netloc(server).split(":")
        idle = [socket.create_connection((host, int(port))) for _ in range(100)]
        assert server.metrics()["factord_serving"] == 1
        server.terminate()
        assert server.wait(timeout=20)[0] == 0
        for peer in idle:
            peer.close()


def test_ten_scrapers_at_once_under_load(server):
    stub = server.stub()
    loads = [stub.Factorize.future(qr_request(normal(200, 30, 30, seed=i))) for i in range(20)]

    def scrape(_):
        replies = [ask(server, path, headers={"Accept-Encoding": "gzip"}) for path in ("/metrics", "/status.json") * 10]
        assert all(status == 200 for status, _, _ in replies)
        return sum(len(gzip.decompress(body)) for _, _, body in replies)

    with concurrent.futures.ThreadPoolExecutor(10) as scrapers:
        assert all(size > 20000 for size in scrapers.map(scrape, range(10)))
    for load in loads:
        load.result(timeout=120)


# ---- status.json


def test_status_tells_what_ran():
    with running("--cpu_threads=1") as server:
        before = status_of(server)
        assert before["ready"] and before["state"] == "serving"
        assert all(one["count"] == 0 and one["p50_s"] is None for one in before["stages"])
        server.stub().Factorize(qr_request(normal(30, 8, 5)))
        wait_until(lambda: server.metrics()['factord_requests_total{code="OK",rpc="Factorize"}'] == 1)
        status = status_of(server)
    factorize = next(one for one in status["requests"] if one["name"] == "Factorize")
    assert factorize["total"] == 1 and factorize["failed"] == 0
    assert [one["name"] for one in status["stages"]] == ["decode", "queue", "pack", "compute", "unpack", "encode"]
    assert status["devices"][0]["name"] == "cpu" and status["devices"][0]["healthy"] and status["devices"][0]["lanes"] == 1
    assert status["memory"]["budget_bytes"] > 0
    settings = {one["name"]: one["value"] for one in status["settings"]}
    assert settings["cpu_threads"] == "1" and settings["backend"] == "auto"


def test_waiting_buckets_are_listed():
    with running(*ONE_LANE) as server:
        stub = server.stub()
        slow = stub.Factorize.future(slow_request())
        wait_until(lambda: server.metrics()["factord_running_jobs"] > 0)
        calls = [stub.Factorize.future(qr_request(normal(3, 8, 8, seed=i))) for i in range(4)]
        calls += [stub.Factorize.future(qr_request(normal(5, 20, 4, dtype="f8")))]

        seen = {}

        def listed():
            seen.update(status_of(server)["queue"])
            return seen["jobs"] == 5

        wait_until(listed)
        buckets = {one["name"]: one for one in seen["buckets"]}
        assert seen["bucket_count"] == 2
        assert buckets["factorize f32 8x8 qr"]["jobs"] == 4 and buckets["factorize f32 8x8 qr"]["matrices"] == 12
        assert buckets["factorize f64 20x4 qr"]["type"] == "f64" and buckets["factorize f64 20x4 qr"]["backend"] == "cpu"
        assert 0 <= buckets["factorize f64 20x4 qr"]["oldest_s"] <= seen["oldest_s"] < 600
        for call in [slow, *calls]:
            call.result(timeout=300)
        wait_until(lambda: status_of(server)["queue"]["bucket_count"] == 0)


def test_refusals_appear_and_are_bounded():
    with running("--max_tensors=8") as server:
        stub = server.stub()
        bad = pb.FactorizeRequest(a=[pb.Tensor(dtype=pb.DTYPE_F32, dims=[2, -2])], qr=pb.QrOptions(r=True))
        for _ in range(60):
            code_of(lambda: stub.Factorize(bad))
        code_of(lambda: stub.Explain(pb.ExplainRequest()))
        refusals = status_of(server)["refusals"]
    assert len(refusals) == 50
    assert refusals[0]["rpc"] == "Explain" and refusals[0]["message"] == "operation: is not set"
    assert refusals[1]["rpc"] == "Factorize" and refusals[1]["reason"] == "invalid"
    assert refusals[1]["message"] == "a[0].dims[1]: is -2; must be >= 0"
    assert refusals[0]["time_unix_ms"] >= refusals[-1]["time_unix_ms"] > 1e12


# ---- plan lookup


def explain_request(op, batch, m, n, dtype, p):
    kind = {"f32": pb.DTYPE_F32, "f64": pb.DTYPE_F64, "c64": pb.DTYPE_C64, "c128": pb.DTYPE_C128}[dtype]

    def shape(*dims):
        return pb.Tensor(dtype=kind, dims=[batch, *dims])

    factors = pb.Reflectors(reflectors=shape(m, n), tau=shape(min(m, n)))
    return {
        "factorize": pb.ExplainRequest(factorize=pb.FactorizeRequest(
            a=[shape(m, n)], qr=pb.QrOptions(q=pb.Q_MODE_REDUCED, r=True))),
        "form_q": pb.ExplainRequest(form_q=pb.FormQRequest(factors=[factors], q=pb.Q_MODE_REDUCED)),
        "apply_q": pb.ExplainRequest(apply_q=pb.ApplyQRequest(applications=[pb.Application(factors=factors, c=shape(m, p))])),
        "solve": pb.ExplainRequest(solve=pb.SolveRequest(problems=[pb.LeastSquaresProblem(a=shape(m, n), b=shape(m, p))])),
    }[op]


@pytest.mark.parametrize("op", ["factorize", "form_q", "apply_q", "solve"])
@pytest.mark.parametrize("batch,m,n,dtype,p", [(1, 3, 3, "f32", 1), (20000, 8, 8, "f64", 2), (1, 2000, 500, "c128", 1),
                                               (7, 0, 4, "f32", 1), (0, 5, 5, "c64", 3)])
def test_a_plan_is_what_explain_says(server, op, batch, m, n, dtype, p):
    query = urllib.parse.urlencode({"op": op, "batch": batch, "m": m, "n": n, "dtype": dtype, "p": p})
    status, headers, body = ask(server, f"/explain.json?{query}")
    assert status == 200 and headers["Content-Type"] == "application/json"
    answer = json_format.Parse(body, pb.ExplainResponse())
    expected = server.stub().Explain(explain_request(op, batch, m, n, dtype, p))
    for one in [*answer.explanations, *expected.explanations]:  # the cost model may have learnt in between
        one.ClearField("predicted_ns")
        one.ClearField("measured")
        one.ClearField("jobs")
    assert answer == expected


@pytest.mark.parametrize("query,name", [
    ("", "m: "), ("m=4", "n: "), ("m=-1&n=4", "m: "), ("m=4&n=4.5", "n: "), ("m=4&n=99999999999999999999", "n: "),
    ("m=4&n=4&batch=many", "batch: "), ("m=4&n=4&batch=%00", "batch: "), ("m=4&n=4&dtype=f16", "dtype: "),
    ("m=4&n=4&op=cholesky", "op: "), ("m=4&n=4&q=some", "q: "), ("m=4&n=4&p=-1&op=solve", "p: "), ("m=&n=", "m: "),
    ("m=3000000000&n=3000000000", "batch, m, n, p: "), ("m=9223372036854775807&n=0", "batch, m, n, p: "),
    ("m=100&n=100&batch=9223372036854775807", "batch, m, n, p: "), ("m=100&n=100&batch=100000000", "batch, m, n, p: "),
    ("m=4&n=4&rows=4", '"rows" '), ("m=4&n=4&" + urllib.parse.quote("<script>\xff"), '"<script>'), ("%zz=%", '"%zz" ')])
def test_a_shape_that_does_not_exist_is_400_and_named(server, query, name):
    status, headers, body = ask(server, f"/explain.json?{query}")
    problem = json.loads(body)["error"]
    assert status == 400 and headers["Content-Type"] == "application/json"
    assert problem.startswith(name) and "\n" not in problem and len(problem) < 400


# ---- readiness, warm-up, draining


def test_ready_comes_after_the_warm_up_and_life_before():
    with running("--cpu_threads=1", f"--warmup_shapes={SLOW_SHAPE},100x16x16,7x5x9:f64") as server:
        assert ask(server, "/readyz") [::2] == (503, b"warming up\n")
        assert ask(server, "/livez")[0] == 200
        assert health_of(server) == NOT_SERVING
        assert status_of(server)["state"] == "warming up"
        early = server.stub().Factorize.future(qr_request(normal(6, 4)))
        health = health_pb2_grpc.HealthStub(server.channel())
        watch = health.Watch(health_pb2.HealthCheckRequest(service="factord.v1.Factorization"))
        assert next(watch).status == NOT_SERVING
        assert next(watch).status == SERVING
        wait_until(lambda: ask(server, "/readyz")[0] == 200)
        assert server.metrics()["factord_serving"] == 1
        factors = early.result(timeout=120).qr[0]
        check_qr(normal(6, 4), array_of(factors.q), array_of(factors.r))
        assert server.metrics()['factord_matrices_total{dtype="f64",op="factorize"}'] == 0  # warm-up is nobody's work
        server.terminate()
        code, err = server.wait()
        assert code == 0 and err.count("warm-up of ") == 3


def test_a_warm_up_ends_at_once_when_asked():
    with running("--cpu_threads=1", "--warmup_shapes=1x20000x20000:f64") as server:  # minutes
        assert ask(server, "/readyz")[0] == 503
        server.terminate()
        assert server.wait(timeout=20)[0] == 0


def test_a_shape_that_does_not_fit_is_a_warning():
    with running("--memory_budget_bytes=1000000", "--warmup_shapes=1x3000x3000,1x4x4") as server:
        wait_until(lambda: ask(server, "/readyz")[0] == 200)
        server.terminate()
        code, err = server.wait()
    assert code == 0 and "warm-up of 1x3000x3000:f32 on the cpu failed: its " in err and "memory budget" in err


@pytest.mark.parametrize("shapes,sentence", [
    ("32x32", 'warmup_shapes: "32x32" is neither BATCHxMxN nor BATCHxMxN:TYPE'),
    ("1x2x3,1x2x3:f16", 'warmup_shapes: "1x2x3:f16" has the type "f16"; must be one of f32, f64, c64, c128'),
    ("0x2x3", 'warmup_shapes: "0x2x3" has a dimension that is not positive')])
def test_shapes_that_make_no_sense_are_exit_code_2(shapes, sentence):
    result = subprocess.run([os.environ["FACTORD_BINARY"], f"--warmup_shapes={shapes}"], capture_output=True, text=True, timeout=60)
    assert result.returncode == 2 and result.stderr == f"factord: {sentence}\n"


def test_a_metrics_address_that_is_none_is_exit_code_2():
    result = subprocess.run([os.environ["FACTORD_BINARY"], "--listen=127.0.0.1:0", "--metrics_listen=9464"], capture_output=True,
                            text=True, timeout=60)
    assert result.returncode == 2 and result.stderr.endswith('factord: metrics_listen: "9464" is not HOST:PORT\n')


def test_a_server_that_drains_lives_and_is_not_ready():
    with running("--drain_delay=1h") as server:
        assert ask(server, "/readyz")[::2] == (200, b"ready\n")
        server.terminate()
        wait_until(lambda: ask(server, "/readyz")[0] == 503)
        assert ask(server, "/readyz")[2] == b"draining\n"
        assert ask(server, "/livez")[0] == 200
        assert status_of(server)["state"] == "draining" and not status_of(server)["ready"]
        server.process.send_signal(signal.SIGTERM)
        assert server.wait()[0] == 1
