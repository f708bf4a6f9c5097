"""What the server refuses, as FactordError: the same by message and by stream."""

import pickle

import factord
import grpc
import numpy as np
import pytest
from fake_factord import Fault, invalid
from google.rpc import error_details_pb2


@pytest.fixture(params=["unary", "streaming"])
def either(request, target):
    with factord.Client(target, stream_threshold=-1 if request.param == "streaming" else 4 << 20) as client:
        yield client


def refused(call, code=grpc.StatusCode.INVALID_ARGUMENT):
    with pytest.raises(factord.FactordError, match=f"^{code.name}: ") as caught:
        call()
    assert caught.value.code is code
    return caught.value


def test_signs_that_reflectors_can_not_have(either):
    assert "sign" in refused(lambda: either.qr(np.eye(3), "raw", sign="nonnegative")).field


def test_special_orthogonal_of_a_rectangle(either):
    assert "sign" in refused(lambda: either.qr(np.ones((3, 2)), sign="special_orthogonal")).field


def test_right_side_of_other_height(either):
    assert "problems[0].b" in refused(lambda: either.lstsq(np.ones((3, 2)), np.ones((4, 1)))).field


def test_right_side_of_another_batch(either):
    assert "problems[0].b" in refused(lambda: either.lstsq(np.ones((2, 3, 2)), np.ones((3, 3, 1)))).field


@pytest.mark.parametrize("rcond", [-1.0, 1.0, np.nan])
def test_rcond_out_of_range(either, rcond):
    assert "rcond" in refused(lambda: either.lstsq(np.ones((3, 2)), np.ones((3, 1)), rcond=rcond)).field


def test_tau_of_another_length(either):
    error = refused(lambda: either.form_q(np.ones((2, 3)), np.ones(3)))
    assert "factors[0].tau" in error.field


def test_c_of_another_height(either):
    error = refused(lambda: either.apply_q(np.ones((2, 3)), np.ones(2), np.ones((2, 2))))
    assert "applications[0].c" in error.field


def test_a_backend_that_is_not_there(either):
    if not any(backend.backend == "gpu" for backend in either.info().backends):
        refused(lambda: either.qr(np.eye(2), backend="gpu"), grpc.StatusCode.FAILED_PRECONDITION)
    else:
        assert either.qr(np.eye(2), backend="gpu").R.shape == (2, 2)


def test_no_time_at_all(either):
    refused(lambda: either.qr(np.eye(2), timeout=0), grpc.StatusCode.DEADLINE_EXCEEDED)


def test_a_call_after_an_error_works(either):
    refused(lambda: either.qr(np.ones((3, 2)), sign="special_orthogonal"))
    assert either.qr(np.eye(2)).R.shape == (2, 2)


# ------------------------------------------------------------------------------------------------ from a fake


@pytest.fixture(params=["unary", "streaming"])
def faulty(request, fake):
    threshold = -1 if request.param == "streaming" else 4 << 20
    with factord.Client(fake.target, stream_threshold=threshold, retry=factord.RetryPolicy(max_attempts=1)) as client:
        yield client, fake.service


@pytest.mark.parametrize("code", [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK])
def test_every_code(faulty, code):
    client, service = faulty
    service.faults.append(Fault(code, "so it is"))
    error = refused(lambda: client.qr(np.eye(2)), code)
    assert str(error) == f"{code.name}: so it is"
    assert (error.field, error.retry_delay, error.indices) == (None, None, [])


def test_details(faulty):
    client, service = faulty
    retry = error_details_pb2.RetryInfo()
    retry.retry_delay.FromMilliseconds(1250)
    fault = invalid("a[0].dims", "4 dims")
    fault.details = [error_details_pb2.ErrorInfo(reason="DIMS"), *fault.details, retry]
    service.faults.append(fault)
    error = refused(lambda: client.qr(np.eye(2)))
    assert (error.field, error.retry_delay) == ("a[0].dims", 1.25)


def test_timeout_of_a_server_that_does_not_answer(faulty):
    client, service = faulty
    service.stalled = True
    refused(lambda: client.qr(np.eye(2), timeout=0.05), grpc.StatusCode.DEADLINE_EXCEEDED)


def test_refusal_half_way_ends_a_large_upload(fake):
    """The server answers the Start; what follows must neither block nor be waited for."""
    fake.service.faults.append(Fault(grpc.StatusCode.RESOURCE_EXHAUSTED, "too large"))
    with factord.Client(fake.target) as client:
        refused(lambda: client.qr(np.zeros((64, 500, 500)), "r"), grpc.StatusCode.RESOURCE_EXHAUSTED)


def test_client_name_is_in_the_metadata(fake):
    for threshold in (-1, 4 << 20):
        with factord.Client(fake.target, client_name="radar-7", stream_threshold=threshold) as client:
            client.qr(np.eye(2))
    with factord.Client(fake.target) as client:
        client.qr(np.eye(2))
    assert [metadata.get("factord-client") for _, metadata in fake.service.seen] == ["radar-7", "radar-7", None]


def test_token_is_in_the_metadata(fake):
    for threshold in (-1, 4 << 20):
        with factord.Client(fake.target, token="c2VjcmV0\n", stream_threshold=threshold) as client:
            client.qr(np.eye(2))
    assert [metadata["authorization"] for _, metadata in fake.service.seen] == ["Bearer c2VjcmV0"] * 2


def test_tls_credentials_need_a_whole_pair(tmp_path):
    with pytest.raises(ValueError, match="need each other"):
        factord.tls_credentials(cert=tmp_path / "client.crt")
    with pytest.raises(FileNotFoundError):
        factord.tls_credentials(ca=tmp_path / "ca.crt")


def test_errors_can_be_pickled():
    error = factord.FactordError("no", grpc.StatusCode.ABORTED, field="a", retry_delay=1.0, indices=[(1,)])
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), vars(copy)) == (str(error), vars(error))
