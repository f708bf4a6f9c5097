"""Every unary RPC, through a stock stub."""

import concurrent.futures
import os
import socket
import subprocess

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from harness import (array_of, check_qr, code_of, normal, pb, qr_request, running, tensor)

TYPES = ["f4", "f8", "c8", "c16"]
COLUMN, ROW = pb.LAYOUT_COLUMN_MAJOR, pb.LAYOUT_ROW_MAJOR


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(1, 1), (3, 7, 5), (2, 2, 5, 7), (2, 64, 64), (200, 60), (60, 200), (300, 300)])
def test_factorize(stub, dtype, shape):
    a = normal(*shape, dtype=dtype)
    factors = stub.Factorize(qr_request(a)).qr[0]
    check_qr(a, array_of(factors.q), array_of(factors.r))


@pytest.mark.parametrize("m,n", [(m, n) for m in range(1, 10) for n in range(1, 10) if m != n])
def test_layouts_give_the_same_factors(stub, m, n):
    a = normal(3, m, n)
    options = pb.QrOptions(q=pb.Q_MODE_COMPLETE, r=True, reflectors=True)
    row, column = (stub.Factorize(pb.FactorizeRequest(a=[tensor(a, layout)], qr=options)).qr[0] for layout in (ROW, COLUMN))
    for name in ("q", "r", "reflectors", "tau"):
        first, second = getattr(row, name), getattr(column, name)
        assert (array_of(first) == array_of(second)).all()
        assert list(first.dims) == list(second.dims)


@pytest.mark.parametrize("dtype", TYPES)
def test_reflectors_are_lapacks(stub, dtype):
    a = normal(7, 5, dtype=dtype)
    factors = stub.Factorize(qr_request(a, q=pb.Q_MODE_COMPLETE, reflectors=True)).qr[0]
    packed, tau = array_of(factors.reflectors), array_of(factors.tau)
    q = np.eye(7, dtype="c16")
    for i in range(5):
        v = np.concatenate([np.zeros(i), [1], packed[i + 1:, i]])
        q = q @ (np.eye(7) - tau[i] * np.outer(v, v.conj()))
    np.testing.assert_allclose(q, array_of(factors.q), atol=1e-5 if a.dtype.itemsize <= 8 and dtype != "f8" else 1e-13)
    assert (np.triu(packed)[:5] == array_of(factors.r)).all()


def test_tensors_of_different_shapes_types_and_layouts_in_one_request(stub):
    arrays = [normal(4, 3), normal(2, 5, 5, dtype="c16"), normal(0, 3, 3), normal(1, 9, dtype="f8")]
    reply = stub.Factorize(qr_request(*arrays))
    for a, factors in zip(arrays, reply.qr, strict=True):
        check_qr(a, array_of(factors.q), array_of(factors.r))


@pytest.mark.parametrize("shape,q,r", [((1, 0, 2, 4, 5), (1, 0, 2, 4, 4), (1, 0, 2, 4, 5)), ((0, 3), (0, 0), (0, 3)),
                                       ((3, 0), (3, 0), (0, 0)), ((0, 0), (0, 0), (0, 0)), ((2, 0, 5, 3), (2, 0, 5, 3), (2, 0, 3, 3))])
def test_empty_dims(stub, shape, q, r):
    factors = stub.Factorize(qr_request(np.zeros(shape, "f4"), reflectors=True)).qr[0]
    assert tuple(factors.q.dims) == q and tuple(factors.r.dims) == r
    assert tuple(factors.tau.dims) == (*shape[:-2], min(shape[-2:]))
    assert factors.q.data == b"" and factors.r.data == b""


def test_complete_q_of_no_columns_is_the_identity(stub):
    factors = stub.Factorize(qr_request(np.zeros((2, 3, 0), "f8"), q=pb.Q_MODE_COMPLETE)).qr[0]
    assert (array_of(factors.q) == np.eye(3)).all()


def test_signs(stub):
    a = normal(50, 4, 4, dtype="f8")
    q, r = (array_of(t) for f in stub.Factorize(qr_request(a, sign=pb.SIGN_NONNEGATIVE)).qr for t in (f.q, f.r))
    check_qr(a, q, r)
    assert (np.diagonal(r, axis1=1, axis2=2) >= 0).all()
    q, r = (array_of(t) for f in stub.Factorize(qr_request(a, sign=pb.SIGN_SPECIAL_ORTHOGONAL)).qr for t in (f.q, f.r))
    check_qr(a, q, r)
    np.testing.assert_allclose(np.linalg.det(q), 1)
    assert (np.diagonal(r, axis1=1, axis2=2)[:, :-1] >= 0).all()


def test_nonnegative_q_of_a_gaussian_is_haar(stub):
    q = array_of(stub.Factorize(qr_request(normal(4000, 2, 2, dtype="f8"), sign=pb.SIGN_NONNEGATIVE)).qr[0].q)
    assert abs(q[:, 0, 0].mean()) < 4 * np.sqrt(0.5 / 4000)


def test_a_bad_matrix_fails_alone(stub):
    a = normal(100, 9, 6)
    alone = stub.Factorize(qr_request(a, reflectors=True)).qr[0]
    bad = a.copy()
    bad[[3, 50], 4, 2] = np.nan, np.inf
    reply = stub.Factorize(qr_request(bad, reflectors=True)).qr[0]
    assert [(s.index, s.code) for s in reply.statuses] == [(3, pb.MATRIX_CODE_NONFINITE_INPUT), (50, pb.MATRIX_CODE_NONFINITE_INPUT)]
    good = np.setdiff1d(np.arange(100), [3, 50])
    for name in ("q", "r", "reflectors", "tau"):
        before, after = array_of(getattr(alone, name)), array_of(getattr(reply, name))
        assert (before[good].view("u4") == after[good].view("u4")).all()
        assert np.isnan(after[[3, 50]]).all()


@pytest.mark.parametrize("dtype,exponent", [("f4", 127), ("c8", 127), ("f8", 1023), ("c16", 1023)])
def test_r_that_is_not_representable(stub, dtype, exponent):
    a = normal(6, 4, dtype=dtype)
    a = np.ldexp(1.0, exponent).astype(a.real.dtype) * (a / abs(a).max())
    a[0, 0] = np.ldexp(1.0, exponent)
    factors = stub.Factorize(qr_request(np.stack([a, a / 2**20]))).qr[0]
    overflow = not np.isfinite(array_of(factors.r)[0]).all()
    assert [(s.index, s.code) for s in factors.statuses] == [(0, pb.MATRIX_CODE_RESULT_OUT_OF_RANGE)] * overflow
    assert np.isfinite(array_of(factors.r)[1]).all()
    assert (array_of(factors.q)[0] == array_of(factors.q)[1]).all()


def test_form_q_and_apply_q(stub):
    a, c = normal(3, 8, 5, dtype="c16"), normal(3, 8, 2, dtype="c16", seed=1)
    factors = stub.Factorize(qr_request(a, q=pb.Q_MODE_COMPLETE, reflectors=True)).qr[0]
    q = array_of(factors.q)
    packed = pb.Reflectors(reflectors=factors.reflectors, tau=factors.tau)
    formed = stub.FormQ(pb.FormQRequest(factors=[packed], q=pb.Q_MODE_COMPLETE)).formed[0]
    np.testing.assert_allclose(array_of(formed.q), q, atol=1e-14)
    for side, op, expected in [(pb.SIDE_LEFT, pb.Q_OP_PLAIN, q @ c), (pb.SIDE_LEFT, pb.Q_OP_ADJOINT, q.conj().swapaxes(1, 2) @ c),
                               (pb.SIDE_RIGHT, pb.Q_OP_PLAIN, c.swapaxes(1, 2) @ q),
                               (pb.SIDE_RIGHT, pb.Q_OP_ADJOINT, c.swapaxes(1, 2) @ q.conj().swapaxes(1, 2))]:
        operand = tensor(c if side == pb.SIDE_LEFT else c.swapaxes(1, 2))
        applied = stub.ApplyQ(pb.ApplyQRequest(applications=[pb.Application(factors=packed, c=operand)], side=side, op=op))
        np.testing.assert_allclose(array_of(applied.applied[0].c), expected, atol=1e-13)


def test_zero_tau_means_identity(stub):
    packed = pb.Reflectors(reflectors=tensor(normal(5, 3, dtype="f8")), tau=tensor(np.zeros(3)))
    formed = stub.FormQ(pb.FormQRequest(factors=[packed])).formed[0]
    assert (array_of(formed.q) == np.eye(5, 3)).all()


def test_the_report_says_how_it_ran(stub):
    report = stub.Factorize(qr_request(normal(500, 32, 32))).report
    assert report.backend == pb.BACKEND_CPU and report.path == "simd"
    assert "32x32" in report.bucket and report.jobs >= 1 and 1 <= report.batch_matrices <= 500
    assert min(report.decode_ns, report.queue_ns, report.compute_ns, report.run_ns) > 0
    assert report.pack_ns == report.unpack_ns == 0  # the CPU's kernels work in place


def test_explain_needs_no_data_and_learns(stub):
    request = pb.ExplainRequest(factorize=qr_request(normal(40, 96, 80), data=False))
    stub.Factorize(qr_request(normal(40, 96, 80)))
    explanation = stub.Explain(request).explanations[0]
    assert explanation.measured and explanation.predicted_ns > 0
    assert explanation.input_bytes == 40 * 96 * 80 * 4
    assert explanation.backend == pb.BACKEND_CPU and explanation.reason
    assert code_of(lambda: stub.Explain(pb.ExplainRequest()))[0] == grpc.StatusCode.INVALID_ARGUMENT


def test_server_info(stub):
    info = stub.GetServerInfo(pb.GetServerInfoRequest())
    assert info.version and info.max_message_bytes == 64 << 20 and info.memory_budget_bytes == 2_000_000_000
    assert info.backends[0].backend == pb.BACKEND_CPU and info.backends[0].threads >= 1
    assert "FactorizeStream" in info.rpcs


def test_eighty_clients_get_their_own_results(server):
    def client(number):
        stub, bad = server.stub(), 0
        for call in range(50):
            a = number * np.eye(5, dtype="f8") + 1e-3 * normal(5, 5, dtype="f8", seed=call)
            r = array_of(stub.Factorize(qr_request(a)).qr[0].r)
            bad += abs(abs(r[0, 0]) - number) > 0.1
        return bad

    with concurrent.futures.ThreadPoolExecutor(80) as pool:
        assert sum(pool.map(client, range(1, 81))) == 0


def test_bits_do_not_depend_on_company(server):
    a = normal(64, 64)
    alone = server.stub().Factorize(qr_request(a)).qr[0]

    def client(number):
        batch = np.concatenate([normal(number, 64, 64, seed=number), a[None], normal(3, 64, 64, seed=7)])
        factors = server.stub().Factorize(qr_request(batch)).qr[0]
        return [array_of(t)[number].tobytes() for t in (factors.q, factors.r)]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for bits in pool.map(client, range(24)):
            assert bits == [alone.q.data, alone.r.data]


def test_health(server):
    stub = health_pb2_grpc.HealthStub(server.channel())
    for service in ("", "factord.v1.Factorization"):
        assert stub.Check(health_pb2.HealthCheckRequest(service=service)).status == health_pb2.HealthCheckResponse.SERVING
        watch = stub.Watch(health_pb2.HealthCheckRequest(service=service))
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        watch.cancel()
    code, _ = code_of(lambda: stub.Check(health_pb2.HealthCheckRequest(service="nobody")))
    assert code == grpc.StatusCode.NOT_FOUND


def test_reflection(server):
    stub = reflection_pb2_grpc.ServerReflectionStub(server.channel())
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    names = {s.name for s in next(stub.ServerReflectionInfo(iter([request]))).list_services_response.service}
    assert {"factord.v1.Factorization", "grpc.health.v1.Health"} <= names
    request = reflection_pb2.ServerReflectionRequest(file_containing_symbol="factord.v1.Factorization")
    assert next(stub.ServerReflectionInfo(iter([request]))).file_descriptor_response.file_descriptor_proto


def test_unix_socket_beside_tcp(tmp_path):
    path = f"unix:{tmp_path}/factord.sock"
    with running(f"--listen=127.0.0.1:0,{path}") as server:
        assert server.addresses[1] == path
        a = normal(5, 4)
        for target in server.addresses:
            factors = server.stub(target=target).Factorize(qr_request(a)).qr[0]
            check_qr(a, array_of(factors.q), array_of(factors.r))


@pytest.mark.parametrize("flag", ["--listen", "--metrics_listen"])
def test_a_taken_port_is_one_clear_sentence(flag):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = "127.0.0.1:%d" % taken.getsockname()[1]
        others = {"--listen": "127.0.0.1:0", "--metrics_listen": ""} | {flag: address}
        result = subprocess.run([os.environ["FACTORD_BINARY"], *(f"{k}={v}" for k, v in others.items())],
                                capture_output=True, text=True, timeout=60)
    assert result.returncode == 1
    assert address in result.stderr and "can not listen" in result.stderr
    assert "listening" not in result.stdout


def test_an_option_that_makes_no_sense_is_exit_code_2():
    result = subprocess.run([os.environ["FACTORD_BINARY"], "--chunk_bytes=0"], capture_output=True, text=True, timeout=60)
    assert result.returncode == 2 and "chunk_bytes: is 0; must be at least 1" in result.stderr


@pytest.mark.parametrize("wrong", [["--nosuch"], ["--cpu_threads=x"], ["--max_batch_cost=5"], ["serve"], ["tune", "x"]])
def test_wrong_command_line_is_one_sentence_and_exit_code_2(wrong):
    result = subprocess.run([os.environ["FACTORD_BINARY"], *wrong], capture_output=True, text=True, timeout=60)
    assert result.returncode == 2 and result.stdout == ""
    assert result.stderr.startswith("factord: ") and result.stderr.count("\n") == 1
    assert wrong[-1].lstrip("-").partition("=")[0] in result.stderr
