"""What the callers' words are on the wire."""

import numpy as np
import pytest
from factord import _options, _requests
from factord.v1 import factord_pb2 as pb

DEFAULTS = _options.run_options("auto", "strict", "normal", False)


def test_run_options():
    assert DEFAULTS == pb.RunOptions(precision=pb.PRECISION_STRICT, priority=pb.PRIORITY_NORMAL)
    assert _options.run_options("gpu", "fast", "low", True) == pb.RunOptions(
        backend=pb.BACKEND_GPU, precision=pb.PRECISION_FAST, priority=pb.PRIORITY_LOW, reproducible=True
    )
    assert _options.run_options("cpu", "fast", "low", True).backend == pb.BACKEND_CPU


@pytest.mark.parametrize(
    "mode, outputs",
    [
        ("reduced", {"q": pb.Q_MODE_REDUCED, "r": True}),
        ("complete", {"q": pb.Q_MODE_COMPLETE, "r": True}),
        ("r", {"r": True}),
        ("raw", {"reflectors": True}),
    ],
)
def test_qr(mode, outputs):
    call = _requests.qr(np.float32([[1, 2]]), mode, "nonnegative", "raise", DEFAULTS)
    data = np.float32([1, 2]).tobytes()
    tensor = pb.Tensor(dtype=pb.DTYPE_F32, dims=[1, 2], layout=pb.LAYOUT_ROW_MAJOR, data=data)
    assert call.whole_request() == pb.FactorizeRequest(
        a=[tensor], qr=pb.QrOptions(sign=pb.SIGN_NONNEGATIVE, **outputs), run=DEFAULTS
    )


def test_rcond_is_not_set_unless_given():
    assert not _requests.lstsq(np.eye(2), np.ones(2), None, "raise", DEFAULTS).request.HasField("rcond")
    assert _requests.lstsq(np.eye(2), np.ones(2), 0, "raise", DEFAULTS).request.HasField("rcond")


def test_reflectors_of_numpy_are_column_major_ones():
    h, tau = np.arange(6.0).reshape(2, 3), np.ones(2)
    (factors,) = _requests.form_q(h, tau, "reduced", "raise", DEFAULTS).whole_request().factors
    assert list(factors.reflectors.dims) == [3, 2]
    assert factors.reflectors.layout == pb.LAYOUT_COLUMN_MAJOR
    assert factors.reflectors.data == h.tobytes()
    assert list(factors.tau.dims) == [2]
