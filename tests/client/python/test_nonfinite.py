"""NaN, Inf and overflow: one matrix's affair, reported by its index."""

import warnings

import checks
import factord
import numpy as np
import pytest


@pytest.fixture
def poisoned(rng):
    """A batch (2, 3) of which (0, 2) and (1, 0) are bad."""
    a = rng.standard_normal((2, 3, 5, 4))
    a[0, 2, 1, 1] = np.nan
    a[1, 0, 4, 3] = -np.inf
    return a


BAD = [(0, 2), (1, 0)]


@pytest.mark.parametrize("mode", checks.MODES)
def test_raise_names_the_matrices(client, streaming, poisoned, mode):
    for c in (client, streaming):
        with pytest.raises(factord.FactordError, match=r"NaN or Inf.*\[0, 2\], \[1, 0\]") as caught:
            c.qr(poisoned, mode)
        assert caught.value.code == "NONFINITE_INPUT"
        assert caught.value.indices == BAD


@pytest.mark.parametrize("mode", ["reduced", "complete", "raw"])
def test_nan_leaves_the_others_as_they_are(client, poisoned, mode):
    clean = np.nan_to_num(poisoned, nan=0.0, neginf=0.0)
    results = client.qr(poisoned, mode, on_nonfinite="nan", backend="cpu")
    for result, alone in zip(results, client.qr(clean, mode, backend="cpu")):
        for i in np.ndindex(2, 3):
            if i not in BAD:
                assert np.array_equal(result[i], alone[i])
            elif mode == "complete":
                assert np.isnan(result[i][:4]).all()  # below R NumPy's zeros are
            else:
                assert np.isnan(result[i]).all()


def test_single_matrix(client):
    with pytest.raises(factord.FactordError, match="the matrix") as caught:
        client.qr([[np.inf]])
    assert caught.value.indices == [()]


def test_many_has_the_arrays_number_in_front(client, poisoned):
    with pytest.raises(factord.FactordError) as caught:
        client.qr_many([np.eye(2), poisoned, np.full((3, 3), np.nan)])
    assert caught.value.indices == [(1, 0, 2), (1, 1, 0), (2,)]


def test_message_stays_short(client):
    with pytest.raises(factord.FactordError, match=r"\[4\] and 95 more$") as caught:
        client.qr(np.full((100, 1, 1), np.nan))
    assert len(caught.value.indices) == 100


def test_lstsq(client, poisoned, rng):
    b = rng.standard_normal((2, 3, 5, 1))
    with pytest.raises(factord.FactordError) as caught:
        client.lstsq(poisoned, b)
    assert caught.value.indices == BAD
    result = client.lstsq(poisoned, b, on_nonfinite="nan")
    assert [(s.index, s.code) for s in result.statuses] == [(i, "NONFINITE_INPUT") for i in BAD]
    for i in np.ndindex(2, 3):
        assert np.isnan(result.x[i]).all() == np.isnan(result.residuals[i]).all() == (i in BAD)
        assert result.rank[i] == (-1 if i in BAD else 4)


def test_reflectors(client, rng):
    h, tau = client.qr(rng.standard_normal((2, 5, 3)), "raw")
    c = rng.standard_normal((2, 5, 1))
    c[1, 0, 0] = np.nan
    tau[0, 1] = np.inf
    with pytest.raises(factord.FactordError) as caught:
        client.apply_q(h, tau, c)
    assert caught.value.indices == [(0,), (1,)]
    with pytest.raises(factord.FactordError) as caught:
        client.form_q(h, tau)
    assert caught.value.indices == [(0,)]
    q = client.form_q(h, tau, on_nonfinite="nan")
    assert np.isnan(q[0]).all() and np.isfinite(q[1]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_overflow_warns_and_never_raises(client, dtype):
    a = np.ones((2, 4, 1), dtype)
    a[1] *= np.finfo(dtype).max
    with pytest.warns(RuntimeWarning, match=r"exceeds the type's range in matrix \[1\]"):
        q, r = client.qr(a)
    assert np.isinf(r[1, 0, 0])
    assert np.allclose(np.abs(q), 0.5, rtol=1e-6) and np.isclose(abs(r[0, 0, 0]), 2)


def test_no_warning_without_cause(client, rng):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        client.qr(rng.standard_normal((3, 4, 4)))
