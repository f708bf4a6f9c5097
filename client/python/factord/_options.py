"""The words that callers use for options, and what they are on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeVar

from .v1 import factord_pb2 as pb

Mode = Literal["reduced", "complete", "r", "raw"]
QMode = Literal["reduced", "complete"]
Sign = Literal["lapack", "nonnegative", "special_orthogonal"]
Side = Literal["left", "right"]
Backend = Literal["auto", "cpu", "gpu"]
Precision = Literal["strict", "fast"]
Priority = Literal["normal", "low"]
OnNonfinite = Literal["raise", "nan"]

_OUTPUTS = {
    "reduced": pb.QrOptions(q=pb.Q_MODE_REDUCED, r=True),
    "complete": pb.QrOptions(q=pb.Q_MODE_COMPLETE, r=True),
    "r": pb.QrOptions(r=True),
    "raw": pb.QrOptions(reflectors=True),
}
_Q_MODES = {"reduced": pb.Q_MODE_REDUCED, "complete": pb.Q_MODE_COMPLETE}
_SIGNS = {
    "lapack": pb.SIGN_LAPACK,
    "nonnegative": pb.SIGN_NONNEGATIVE,
    "special_orthogonal": pb.SIGN_SPECIAL_ORTHOGONAL,
}
_SIDES = {"left": pb.SIDE_LEFT, "right": pb.SIDE_RIGHT}
_BACKENDS = {"auto": pb.BACKEND_UNSPECIFIED, "cpu": pb.BACKEND_CPU, "gpu": pb.BACKEND_GPU}
_PRECISIONS = {"strict": pb.PRECISION_STRICT, "fast": pb.PRECISION_FAST}
_PRIORITIES = {"normal": pb.PRIORITY_NORMAL, "low": pb.PRIORITY_LOW}
_ON_NONFINITE = {"raise": True, "nan": False}

T = TypeVar("T")


def _lookup(option: str, words: Mapping[str, T], word: str) -> T:
    try:
        return words[word]
    except (KeyError, TypeError):
        raise ValueError(f"Unrecognized {option} {word!r}: one of {', '.join(words)}") from None


def qr_options(mode: Mode, sign: Sign) -> pb.QrOptions:
    options = pb.QrOptions()
    options.CopyFrom(_lookup("mode", _OUTPUTS, mode))
    options.sign = _lookup("sign", _SIGNS, sign)
    return options


def q_mode(mode: QMode) -> pb.QMode:
    return _lookup("mode", _Q_MODES, mode)


def side(word: Side) -> pb.Side:
    return _lookup("side", _SIDES, word)


def raises_on_nonfinite(word: OnNonfinite) -> bool:
    return _lookup("on_nonfinite", _ON_NONFINITE, word)


def run_options(backend: Backend, precision: Precision, priority: Priority, reproducible: bool) -> pb.RunOptions:
    return pb.RunOptions(
        backend=_lookup("backend", _BACKENDS, backend),
        precision=_lookup("precision", _PRECISIONS, precision),
        priority=_lookup("priority", _PRIORITIES, priority),
        reproducible=reproducible,
    )
