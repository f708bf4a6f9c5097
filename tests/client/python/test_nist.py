"""lstsq on NIST's reference data sets, against the exact solutions of what float64 can hold of them."""

import json

import numpy as np
import pytest

# Digits that a backward-stable solver reaches on each, less one or two for the luck of the rounding.
DIGITS = {
    "Norris": 11,
    "Pontius": 11,
    "NoInt1": 13,
    "NoInt2": 13,
    "Filip": 6,
    "Longley": 9,
    "Wampler1": 7,
    "Wampler2": 11,
    "Wampler3": 7,
    "Wampler4": 6,
    "Wampler5": 4,
}


@pytest.fixture(params=DIGITS)
def problem(request, nist):
    """The data set's name, X, y and what is known of the solution."""
    table = np.loadtxt(nist / "csv" / f"{request.param}.csv", delimiter=",", skiprows=1, ndmin=2)
    facts = json.loads((nist / "certified.json").read_text())["datasets"][request.param]
    return request.param, table[:, 1:], table[:, 0], facts


def digits(x, exact):
    return -np.log10((np.abs(x - exact) / np.abs(exact)).max() + 1e-17)


@pytest.mark.parametrize("order", ["C", "F"])
def test_coefficients(client, problem, order):
    name, x, y, facts = problem
    result = client.lstsq(np.asarray(x, order=order), y)
    exact = facts["exact_float64_inputs"]
    assert digits(result.x, np.array(exact["beta"], float)) >= DIGITS[name]
    assert (result.rank, result.statuses) == (x.shape[1], [])
    rss = float(exact["rss"])
    assert np.allclose(result.residuals, [rss], rtol=1e-6, atol=1e-14 * (y @ y))


@pytest.mark.parametrize("order", ["C", "F"])
def test_q_and_r(client, problem, order):
    name, x, y, facts = problem
    q, r = client.qr(np.asarray(x, order=order))
    beta = np.linalg.solve(r, q.T @ y)
    assert digits(beta, np.array(facts["exact_float64_inputs"]["beta"], float)) >= DIGITS[name]


def test_all_at_once(client, nist):
    tables = [np.loadtxt(nist / "csv" / f"{name}.csv", delimiter=",", skiprows=1, ndmin=2)[:, 1:] for name in DIGITS]
    for x, r in zip(tables, client.qr_many(tables, "r")):
        assert r.shape == (x.shape[1], x.shape[1])
        assert np.allclose(np.linalg.norm(r, axis=0), np.linalg.norm(x, axis=0), rtol=1e-13)
