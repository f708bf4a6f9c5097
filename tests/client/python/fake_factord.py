"""A factord server in this process, for tests where there is no real one: NumPy behind the API.

It is written from factord.proto alone and shares nothing with the client. To see what the client makes of trouble, put
a `Fault` into `faults`: the next request ends with it. `seen` holds the RPCs that came, with their metadata;
`row_messages` what ReduceRows got.
"""

import threading
from collections import deque
from concurrent import futures
from dataclasses import dataclass, field
from math import prod

import fake_numerics as numerics
import grpc
import numpy as np
from factord.v1 import factord_pb2 as pb
from factord.v1 import factord_pb2_grpc as pb_grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

DTYPES = {
    pb.DTYPE_F32: np.dtype("<f4"),
    pb.DTYPE_F64: np.dtype("<f8"),
    pb.DTYPE_C64: np.dtype("<c8"),
    pb.DTYPE_C128: np.dtype("<c16"),
}
REPLY_CHUNK_BYTES = 1000  # no multiple of an element's size, to make the client's life hard


@dataclass
class Fault(Exception):
    """A request's end with an error; as a fault that was put in, in-band where the request came by stream."""

    code: grpc.StatusCode
    message: str
    details: list = field(default_factory=list)  # messages of google.rpc

    def status(self):
        status = status_pb2.Status(code=self.code.value[0], message=self.message)
        for detail in self.details:
            packed = any_pb2.Any()
            packed.Pack(detail)
            status.details.append(packed)
        return status


def invalid(field_path, message):
    violation = error_details_pb2.BadRequest.FieldViolation(field=field_path, description=message)
    bad_request = error_details_pb2.BadRequest(field_violations=[violation])
    return Fault(grpc.StatusCode.INVALID_ARGUMENT, f"{field_path}: {message}", [bad_request])


def unavailable(retry_delay=None):
    details = []
    if retry_delay is not None:
        details.append(error_details_pb2.RetryInfo())
        details[0].retry_delay.FromNanoseconds(int(retry_delay * 1e9))
    return Fault(grpc.StatusCode.UNAVAILABLE, "the queue is full", details)


# ------------------------------------------------------------------------------------------------ tensors


def decode(tensor, name, vectors=False):
    """The tensor as an array (batch, m, n), and its batch dims."""
    if tensor.dtype not in DTYPES:
        raise invalid(f"{name}.dtype", "not given")
    dtype, dims = DTYPES[tensor.dtype], tuple(tensor.dims)
    core = 1 if vectors else 2
    if len(dims) < core:
        raise invalid(f"{name}.dims", f"{len(dims)} dims, {core} at least")
    if prod(dims) * dtype.itemsize != len(tensor.data):
        raise invalid(f"{name}.data", f"{len(tensor.data)} bytes, {prod(dims) * dtype.itemsize} by its dims")
    batch = dims[:-core]
    flat = np.frombuffer(tensor.data, dtype).reshape(prod(batch), prod(dims[-core:]))
    if vectors:
        return flat.reshape(prod(batch), dims[-1]), batch
    m, n = dims[-2:]
    if tensor.layout == pb.LAYOUT_COLUMN_MAJOR:
        return flat.reshape(prod(batch), n, m).swapaxes(1, 2), batch
    return flat.reshape(prod(batch), m, n), batch


def encode(matrices, shape, batch, like, dtype=None, vectors=False):
    """A list of matrices of one shape as a tensor of the layout and, unless told, the type of `like`."""
    dtype = dtype or DTYPES[like.dtype]
    wire = {v: k for k, v in DTYPES.items()}[dtype]
    with np.errstate(over="ignore", invalid="ignore"):
        stacked = np.array(matrices, dtype).reshape(len(matrices), *shape)
    column_major = like.layout == pb.LAYOUT_COLUMN_MAJOR and not vectors
    data = stacked.swapaxes(1, 2) if column_major else stacked
    layout = like.layout or pb.LAYOUT_ROW_MAJOR
    return pb.Tensor(dtype=wire, dims=(*batch, *shape), layout=layout, data=np.ascontiguousarray(data).tobytes())


def statuses(inputs, outputs):
    """What became of each matrix, from all that went in and all that came out of it."""
    found = []
    for i, (arrays, results) in enumerate(zip(inputs, outputs)):
        if not all(np.isfinite(a).all() for a in arrays):
            found.append(pb.MatrixStatus(index=i, code=pb.MATRIX_CODE_NONFINITE_INPUT))
        elif not all(np.isfinite(r).all() for r in results):
            found.append(pb.MatrixStatus(index=i, code=pb.MATRIX_CODE_RESULT_OUT_OF_RANGE))
    return found


def in_range(array, dtype):
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(dtype)


# ------------------------------------------------------------------------------------------------ the operations


def factorize(request):
    if request.WhichOneof("factorization") is None:
        raise invalid("factorization", "not set")
    if request.run.backend == pb.BACKEND_GPU:
        raise Fault(grpc.StatusCode.FAILED_PRECONDITION, "run.backend: no GPU here")
    qr = [factorize_tensor(tensor, f"a[{i}]", request.qr) for i, tensor in enumerate(request.a)]
    return pb.FactorizeResponse(qr=qr)


def factorize_tensor(tensor, name, options):
    a, batch = decode(tensor, name)
    m, n = a.shape[1:]
    k = min(m, n)
    if options.sign not in (pb.SIGN_UNSPECIFIED, pb.SIGN_LAPACK) and options.reflectors:
        raise invalid("qr.sign", "reflectors have LAPACK's signs only")
    if options.sign == pb.SIGN_SPECIAL_ORTHOGONAL and (m != n or np.iscomplexobj(a)):
        raise invalid("qr.sign", f"SPECIAL_ORTHOGONAL is for real square matrices: {name} is {m} x {n}")
    columns = m if options.q == pb.Q_MODE_COMPLETE else k
    qs, rs, packeds, taus = (
        zip(*(factorize_matrix(x, columns, options.sign, tensor) for x in a)) if len(a) else [()] * 4
    )
    out = pb.QrFactors(statuses=statuses([(x,) for x in a], zip(qs, rs)))
    if options.q != pb.Q_MODE_UNSPECIFIED:
        out.q.CopyFrom(encode(qs, (m, columns), batch, tensor))
    if options.r:
        out.r.CopyFrom(encode(rs, (k, n), batch, tensor))
    if options.reflectors:
        out.reflectors.CopyFrom(encode(packeds, (m, n), batch, tensor))
        out.tau.CopyFrom(encode(taus, (k,), batch, tensor, vectors=True))
    return out


def factorize_matrix(a, columns, sign, tensor):
    m, n = a.shape
    k = min(m, n)
    if not np.isfinite(a).all():
        return tuple(np.full(shape, np.nan) for shape in ((m, columns), (k, n), (m, n), (k,)))
    packed, tau = numerics.geqrf(a.astype(numerics.working(a.dtype)))
    q, r = numerics.form_q(packed, tau, columns), np.triu(packed[:k])
    if sign == pb.SIGN_NONNEGATIVE:
        q, r = numerics.make_nonnegative(q, r)
    elif sign == pb.SIGN_SPECIAL_ORTHOGONAL:
        q, r = numerics.make_special_orthogonal(q, r)
    return q, in_range(r, DTYPES[tensor.dtype]), packed, tau


def decode_reflectors(factors, name):
    packed, batch = decode(factors.reflectors, f"{name}.reflectors")
    tau, tau_batch = decode(factors.tau, f"{name}.tau", vectors=True)
    k = min(packed.shape[1:])
    if (tau_batch, tau.shape[1]) != (batch, k):
        raise invalid(f"{name}.tau.dims", f"{list(factors.tau.dims)} instead of {[*batch, k]}")
    if factors.tau.dtype != factors.reflectors.dtype:
        raise invalid(f"{name}.tau.dtype", "not the reflectors'")
    return packed.astype(numerics.working(packed.dtype)), tau.astype(numerics.working(tau.dtype)), batch


def form_q(request):
    formed = []
    for i, factors in enumerate(request.factors):
        packed, tau, batch = decode_reflectors(factors, f"factors[{i}]")
        m, n = packed.shape[1:]
        columns = m if request.q == pb.Q_MODE_COMPLETE else min(m, n)
        inputs = list(zip(map(np.tril, packed), tau))
        qs = [
            numerics.form_q(p, t, columns) if all_finite(x) else np.full((m, columns), np.nan)
            for p, t, x in zip(packed, tau, inputs)
        ]
        q = encode(qs, (m, columns), batch, factors.reflectors)
        formed.append(pb.FormedQ(q=q, statuses=statuses(inputs, [(q,) for q in qs])))
    return pb.FormQResponse(formed=formed)


def apply_q(request):
    applied = []
    adjoint, right = request.op == pb.Q_OP_ADJOINT, request.side == pb.SIDE_RIGHT
    for i, item in enumerate(request.applications):
        name = f"applications[{i}]"
        packed, tau, batch = decode_reflectors(item.factors, f"{name}.factors")
        c, c_batch = decode(item.c, f"{name}.c")
        rows = c.shape[2] if right else c.shape[1]
        if c_batch != batch or rows != packed.shape[1]:
            raise invalid(
                f"{name}.c.dims", f"{list(item.c.dims)} does not go with {list(item.factors.reflectors.dims)}"
            )
        inputs = list(zip(map(np.tril, packed), tau, c))
        results = [apply_one(*x, adjoint, right) if all_finite(x) else np.full(c.shape[1:], np.nan) for x in inputs]
        narrow = [(in_range(r, c.dtype),) for r in results]
        applied.append(pb.AppliedQ(c=encode(results, c.shape[1:], batch, item.c), statuses=statuses(inputs, narrow)))
    return pb.ApplyQResponse(applied=applied)


def apply_one(packed, tau, c, adjoint, right):
    if right:  # C Q = (Q^H C^H)^H
        return numerics.apply_reflectors(packed, tau, c.conj().T, not adjoint).conj().T
    return numerics.apply_reflectors(packed, tau, c, adjoint)


def all_finite(arrays):
    return all(np.isfinite(a).all() for a in arrays)


def solve(request):
    return pb.SolveResponse(
        solutions=[
            solve_problem(problem, f"problems[{i}]", request.rcond if request.HasField("rcond") else None)
            for i, problem in enumerate(request.problems)
        ]
    )


def solve_problem(problem, name, rcond):
    a, batch = decode(problem.a, f"{name}.a")
    b, b_batch = decode(problem.b, f"{name}.b")
    if rcond is not None and not 0 <= rcond < 1:
        raise invalid("rcond", f"{rcond} is not in [0, 1)")
    if b_batch != batch or b.shape[1] != a.shape[1]:
        raise invalid(f"{name}.b.dims", f"{list(problem.b.dims)} does not go with {list(problem.a.dims)}")
    m, n = a.shape[1:]
    nrhs = b.shape[2]
    if rcond is None:
        rcond = 2 * max(m, n) * np.finfo(a.dtype).eps / 2
    wide = numerics.working(a.dtype)
    xs, norms, ranks = [], [], []
    for matrix, right in zip(a, b):
        if all_finite((matrix, right)):
            x, norm, rank = numerics.gels(matrix.astype(wide), right.astype(wide), rcond)
        else:
            x, norm, rank = np.full((n, nrhs), np.nan), np.full(nrhs, np.nan), -1
        xs.append(x), norms.append(norm), ranks.append(rank)
    deficient = [
        pb.MatrixStatus(index=i, code=pb.MATRIX_CODE_RANK_DEFICIENT)
        for i, rank in enumerate(ranks)
        if 0 <= rank < min(m, n)
    ]
    return pb.LeastSquaresSolution(
        x=encode(xs, (n, nrhs), batch, problem.b),
        residual_norm=encode(norms, (nrhs,), batch, problem.b, np.finfo(a.dtype).dtype, vectors=True),
        rank=ranks,
        statuses=statuses(zip(a, b), [(in_range(x, a.dtype),) for x in xs]) + deficient,
    )


OPERATIONS = {"factorize": factorize, "form_q": form_q, "apply_q": apply_q, "solve": solve}


# ------------------------------------------------------------------------------------------------ the stream


def request_tensors(operation, request):
    if operation == "factorize":
        return list(request.a)
    if operation == "form_q":
        return [t for f in request.factors for t in (f.reflectors, f.tau)]
    if operation == "apply_q":
        return [t for a in request.applications for t in (a.factors.reflectors, a.factors.tau, a.c)]
    return [t for p in request.problems for t in (p.a, p.b)]


def response_tensors(operation, response):
    if operation == "factorize":
        fields = ("q", "r", "reflectors", "tau")
        return [getattr(f, name) for f in response.qr for name in fields if f.HasField(name)]
    if operation == "form_q":
        return [f.q for f in response.formed]
    if operation == "apply_q":
        return [a.c for a in response.applied]
    return [t for s in response.solutions for t in (s.x, s.residual_norm)]


def tensor_bytes(tensor):
    return prod(tensor.dims) * DTYPES[tensor.dtype].itemsize


def receive(messages):
    """The one request of a stream, whole: its Start, operation and request."""
    start = next(messages).start
    operation = start.WhichOneof("operation")
    request = getattr(start, operation)
    tensors = request_tensors(operation, request)
    received = [bytearray(t.data) for t in tensors]
    while any(len(data) < tensor_bytes(t) for data, t in zip(received, tensors)):
        chunk = next(messages).chunk
        if chunk.request_id != start.request_id or chunk.offset != len(received[chunk.tensor]):
            raise invalid("chunk.offset", f"{chunk.offset} after {len(received[chunk.tensor])} bytes")
        received[chunk.tensor] += chunk.data
    for tensor, data in zip(tensors, received):
        tensor.data = bytes(data)
    return start, operation, request


def reply(request_id, operation, response):
    """Header, the tensors' data last byte first, Done."""
    chunks = [
        pb.Chunk(request_id=request_id, tensor=i, offset=offset, data=tensor.data[offset : offset + REPLY_CHUNK_BYTES])
        for i, tensor in enumerate(response_tensors(operation, response))
        for offset in range(0, len(tensor.data), REPLY_CHUNK_BYTES)
    ]
    for tensor in response_tensors(operation, response):
        tensor.ClearField("data")
    result = pb.StreamResult(**{operation: response})
    yield pb.StreamResponse(header=pb.Header(request_id=request_id, result=result))
    for chunk in reversed(chunks):
        yield pb.StreamResponse(chunk=chunk)
    yield pb.StreamResponse(done=pb.Done(request_id=request_id, result=result))


# ------------------------------------------------------------------------------------------------ rows

BLOCK_ROWS = 64


class RowBlocks:
    """The rows of one ReduceRows, reduced block by block."""

    def __init__(self, start):
        if start.dtype not in DTYPES:
            raise invalid("start.dtype", "not given")
        if start.n < 1 or start.nrhs < 0:
            raise invalid("start.n", f"{start.n} columns of A, {start.nrhs} of B")
        if (start.solve and not start.nrhs) or (start.standard_errors and not start.solve):
            raise invalid("start.solve", "there is nothing to solve")
        self.start = start
        self.dtype = DTYPES[start.dtype]
        if start.standard_errors and self.dtype.kind == "c":
            raise invalid("start.standard_errors", "of a complex type")
        self.columns = start.n + start.nrhs
        self.waiting = bytearray()
        self.rows = 0
        self.nonfinite = []
        self.r = np.zeros((0, self.columns), numerics.working(self.dtype))

    def add(self, data):
        self.waiting += data
        block = BLOCK_ROWS * self.columns * self.dtype.itemsize
        while len(self.waiting) >= block:
            self._reduce(self.waiting[:block])
            del self.waiting[:block]

    def merge(self, reduced):
        self.flush("reduced")
        (r,), _ = decode(reduced.r, "reduced.r")
        if reduced.r.dtype != self.start.dtype or r.shape != (min(reduced.rows, self.columns), self.columns):
            raise invalid("reduced.r", f"{list(reduced.r.dims)} of {reduced.rows} rows and {self.columns} columns")
        self._stack(r, reduced.rows)

    def flush(self, what):
        if len(self.waiting) % (self.columns * self.dtype.itemsize):
            raise invalid("rows", f"{what} in the middle of a row")
        self._reduce(self.waiting)
        self.waiting.clear()

    def _reduce(self, data):
        rows = np.frombuffer(bytes(data), self.dtype).reshape(-1, self.columns)
        self._stack(rows, len(rows))

    def _stack(self, block, rows):
        if not np.isfinite(block).all():
            self.nonfinite.append(pb.RowRange(first=self.rows, count=rows))
        elif not self.nonfinite and len(block):
            self.r = np.linalg.qr(np.vstack([self.r, block]), "r")
        self.rows += rows

    def result(self):
        self.flush("the end")
        n, rank = self.start.n, 0
        r = np.triu(self.r)
        if self.nonfinite:
            r, rank = np.full((min(self.rows, self.columns), self.columns), np.nan), -1
        result = pb.ReduceRowsResult(nonfinite=self.nonfinite)
        result.reduced.CopyFrom(pb.ReducedRows(rows=self.rows, r=self._tensor(r)))
        if self.nonfinite:
            result.code = pb.MATRIX_CODE_NONFINITE_INPUT
        if self.start.solve:
            rcond = self.start.rcond if self.start.HasField("rcond") else max(self.rows, n) * np.finfo(self.dtype).eps
            x, norms = np.full((n, self.start.nrhs), np.nan), np.full(self.start.nrhs, np.nan)
            if not self.nonfinite:
                x, norms, rank = numerics.gels(r[:, :n], r[:, n:], rcond)
                if rank < min(self.rows, n):
                    result.code = pb.MATRIX_CODE_RANK_DEFICIENT
            result.x.CopyFrom(self._tensor(x))
            result.residual_norm.CopyFrom(self._tensor(norms.real))
            result.rank = rank
            if self.start.standard_errors:
                result.standard_errors.CopyFrom(self._tensor(self._standard_errors(r, norms, rank)))
        return result

    def _standard_errors(self, r, norms, rank):
        n = self.start.n
        if rank < n or self.rows <= n:
            return np.full((n, len(norms)), np.nan)
        spread = np.sqrt((np.linalg.inv(r[:n, :n]) ** 2).sum(axis=1))
        return spread[:, np.newaxis] * norms / np.sqrt(self.rows - n)

    def _tensor(self, array):
        dtype = self.dtype if np.iscomplexobj(array) or self.dtype.kind == "f" else np.finfo(self.dtype).dtype
        wire = {v: k for k, v in DTYPES.items()}[dtype]
        return pb.Tensor(dtype=wire, dims=array.shape, data=in_range(array, dtype).tobytes())


def reduce_rows(messages):
    """The replies: progress, and at the end the result."""
    first = next(messages, None)
    if first is None or first.WhichOneof("message") != "start":
        raise invalid("start", "not the first message")
    blocks, told = RowBlocks(first.start), 0
    for message in messages:
        kind = message.WhichOneof("message")
        if kind == "rows":
            blocks.add(message.rows)
        elif kind == "reduced":
            blocks.merge(message.reduced)
        else:
            raise invalid("message", f"{kind} in the middle")
        if 0 < first.start.progress_rows <= blocks.rows - told:
            told = blocks.rows
            yield pb.ReduceRowsResponse(progress=pb.ReduceRowsProgress(rows=told))
    yield pb.ReduceRowsResponse(result=blocks.result())


# ------------------------------------------------------------------------------------------------ the service


class Service(pb_grpc.FactorizationServicer):
    def __init__(self):
        self.faults = deque()
        self.seen = []
        self.stream_timeouts = []
        self.row_messages = []  # of ReduceRows
        self.stalled = False  # leave every request without an answer until its client gives up

    def Factorize(self, request, context):
        return self._unary("Factorize", factorize, request, context)

    def FormQ(self, request, context):
        return self._unary("FormQ", form_q, request, context)

    def ApplyQ(self, request, context):
        return self._unary("ApplyQ", apply_q, request, context)

    def Solve(self, request, context):
        return self._unary("Solve", solve, request, context)

    def Explain(self, request, context):
        return self._unary("Explain", explain, request, context)

    def GetServerInfo(self, request, context):
        return self._unary("GetServerInfo", info, request, context)

    def FactorizeStream(self, request_iterator, context):
        self._admit("FactorizeStream", context)
        if self.faults:
            start = next(request_iterator).start
            yield pb.StreamResponse(done=pb.Done(request_id=start.request_id, status=self.faults.popleft().status()))
            return
        start, operation, request = receive(request_iterator)
        self.stream_timeouts.append(start.timeout.ToNanoseconds() * 1e-9 if start.HasField("timeout") else None)
        try:
            yield from reply(start.request_id, operation, OPERATIONS[operation](request))
        except Fault as fault:
            yield pb.StreamResponse(done=pb.Done(request_id=start.request_id, status=fault.status()))

    def ReduceRows(self, request_iterator, context):
        self._admit("ReduceRows", context)
        try:
            if self.faults:
                raise self.faults.popleft()
            yield from reduce_rows(map(self._watched, request_iterator))
        except Fault as fault:
            self._abort(fault, context)

    def _watched(self, message):
        self.row_messages.append(message)
        return message

    def _unary(self, rpc, operation, request, context):
        self._admit(rpc, context)
        try:
            if self.faults:
                raise self.faults.popleft()
            return operation(request)
        except Fault as fault:
            self._abort(fault, context)

    @staticmethod
    def _abort(fault, context):
        context.set_trailing_metadata([("grpc-status-details-bin", fault.status().SerializeToString())])
        context.abort(fault.code, fault.message)

    def _admit(self, rpc, context):
        self.seen.append((rpc, dict(context.invocation_metadata())))
        if self.stalled:
            gone = threading.Event()
            if context.add_callback(gone.set):
                gone.wait()


def explain(request, *_):
    (tensor,) = request.factorize.a
    if tensor.data:
        raise invalid("factorize.a[0].data", "must be empty")
    explanation = pb.Explanation(
        bucket="fake", backend=pb.BACKEND_CPU, path="numpy", jobs=1, input_bytes=tensor_bytes(tensor), reason="no other"
    )
    return pb.ExplainResponse(explanations=[explanation])


def info(request, *_):
    backend = pb.BackendInfo(backend=pb.BACKEND_CPU, name="fake", library="numpy", threads=1, lanes=1, healthy=True)
    limits = dict(max_message_bytes=64 << 20, max_matrix_elements=1 << 30, max_tensors=1 << 16, max_reduced_columns=1024)
    return pb.GetServerInfoResponse(version="fake", backends=[backend], **limits, rpcs=["Factorize"])


class Server:
    """A running fake, on a port of its own or at `address`; a context manager."""

    def __init__(self, address="127.0.0.1:0"):
        limits = [("grpc.max_receive_message_length", 64 << 20), ("grpc.max_send_message_length", 64 << 20)]
        self.service = Service()
        self._server = grpc.server(futures.ThreadPoolExecutor(16), options=limits)
        pb_grpc.add_FactorizationServicer_to_server(self.service, self._server)
        port = self._server.add_insecure_port(address)
        self.target = address if address.startswith("unix:") else f"127.0.0.1:{port}"

    def __enter__(self):
        self._server.start()
        return self

    def __exit__(self, *exc_info):
        self._server.stop(grace=None).wait()
