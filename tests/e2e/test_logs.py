"""Log lines, ids and traces."""

import collections
import concurrent.futures
import json
import os
import re
import signal
import subprocess

import grpc
import numpy as np
import pytest
from harness import normal, pb, qr_request, running, wait_until

Code = grpc.StatusCode
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-00"
BAD = pb.FactorizeRequest(a=[pb.Tensor(dtype=pb.DTYPE_F32, dims=[2, 2], data=b"123")], qr=pb.QrOptions(r=True))
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
STAGES = ["decode_ms", "queue_ms", "pack_ms", "compute_ms", "unpack_ms", "run_ms", "encode_ms", "total_ms"]


@pytest.fixture
def files(tmp_path):
    return tmp_path / "log", tmp_path / "traces"


def lines_of(log):
    """Every whole line is one JSON object; a later line may be half written."""
    text = log.read_text()
    lines = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
    assert all(isinstance(line, dict) for line in lines)
    return lines


def ended(log, **fields):
    """The lines of requests that ended and have these fields."""
    return [line for line in lines_of(log) if line["message"] == "request ended" and fields.items() <= line.items()]


def the_line(log, **fields):
    wait_until(lambda: ended(log, **fields))
    (line,) = ended(log, **fields)
    return line


def unary(server, request, metadata=(), rpc="Factorize"):
    """(status code, {trailing metadata}) of a call."""
    future = getattr(server.stub(), rpc).future(request, metadata=metadata, timeout=60)
    return future.code(), dict(future.trailing_metadata())


def stream(server, messages, metadata=()):
    """(status code, {trailing metadata}, {request id: code of its Done})."""
    call = server.stub().FactorizeStream(iter(messages), metadata=metadata, timeout=60)
    done = {}
    try:
        for message in call:
            if message.WhichOneof("message") == "done":
                done[message.done.request_id] = message.done.status.code
    except grpc.RpcError:
        pass
    return call.code(), dict(call.trailing_metadata()), done


def start(request_id, request):
    return pb.StreamRequest(start=pb.Start(request_id=request_id, factorize=request))


def spans_of(traces):
    """Every span in the file; the tests write little, so each line is whole once flushed."""
    spans = []
    for line in traces.read_text().splitlines():
        for resource in json.loads(line)["resourceSpans"]:
            attributes = {a["key"]: a["value"] for a in resource["resource"]["attributes"]}
            assert attributes["service.name"] == {"stringValue": "factord"}
            for scope in resource["scopeSpans"]:
                spans.extend(scope["spans"])
    return spans


def test_json_lines_say_what_a_request_was_and_where_its_time_went(files):
    log, _ = files
    with running("--log_format=json", "--log_level=debug", log=log) as server:
        request = qr_request(normal(30, 8, 5), normal(4, 4))
        unary(server, request, [("x-request-id", "req-1"), ("traceparent", UNSAMPLED), ("factord-client", "tenant \"7\"")])
        line = the_line(log, request_id="req-1")
        server.terminate()
        assert server.wait()[0] == 0
    assert line["level"] == "debug" and TIME.fullmatch(line["time"])
    assert line["trace_id"] == TRACE and re.fullmatch("[0-9a-f]{16}", line["span_id"]) and line["span_id"] != PARENT
    assert line["rpc"] == "Factorize" and line["client"] == 'tenant "7"' and line["code"] == "OK"
    assert line["shape"] == "f32 30x8x5, and 1 more" and line["backend"] == "cpu"
    assert all(line[stage] >= 0 for stage in STAGES) and line["compute_ms"] > 0
    assert all(line["total_ms"] >= line[stage] for stage in ["decode_ms", "queue_ms", "run_ms", "encode_ms"])
    levels = collections.Counter(entry["level"] for entry in lines_of(log))
    assert levels["info"] >= 3  # the engine; draining; drained
    assert [entry["message"] for entry in lines_of(log)][-1] == "drained"


def test_human_lines_have_the_same_fields(files):
    log, _ = files
    with running("--log_level=debug", log=log) as server:
        unary(server, qr_request(normal(3, 3)), [("x-request-id", "req-1"), ("factord-client", "a b")])
        wait_until(lambda: "request ended" in log.read_text())
        (line,) = [line for line in log.read_text().splitlines() if "request ended" in line]
    assert re.match(r"\[\d{4}-\d\d-\d\d [\d:.]+\] \[factord\] \[debug\] request ended request_id=req-1 trace_id=", line)
    assert ' client="a b" code=OK shape="f32 1x3x3" ' in line


def test_what_went_well_is_not_logged_by_default_and_what_was_refused_is(files):
    log, _ = files
    with running("--log_format=json", log=log) as server:
        unary(server, qr_request(normal(3, 3)), [("x-request-id", "good")])
        unary(server, BAD, [("x-request-id", "bad")])
        line = the_line(log, request_id="bad")
        assert not ended(log, request_id="good")
    assert line["level"] == "info" and line["code"] == "INVALID_ARGUMENT" and "a[0].data" in line["error"]
    assert "run_ms" not in line


@pytest.mark.parametrize("request_, code", [(qr_request(normal(3, 3)), Code.OK), (BAD, Code.INVALID_ARGUMENT)])
def test_ids_come_back_with_every_reply(server, request_, code):
    metadata = [("x-request-id", "!a~" * 40), ("traceparent", SAMPLED)]
    assert unary(server, request_, metadata)[0] == code
    trailing = unary(server, request_, metadata)[1]
    assert trailing["x-request-id"] == "!a~" * 40
    version, trace, span, flags = trailing["traceparent"].split("-")
    assert (version, trace, flags) == ("00", TRACE, "01") and span != PARENT and re.fullmatch("[0-9a-f]{16}", span)


@pytest.mark.parametrize("rpc, request_", [
    ("Explain", pb.ExplainRequest(factorize=qr_request(normal(3, 3), data=False))),
    ("GetServerInfo", pb.GetServerInfoRequest())])
def test_ids_come_back_from_what_computes_nothing(server, rpc, request_):
    code, trailing = unary(server, request_, [("x-request-id", "r")], rpc)
    assert code == Code.OK and trailing["x-request-id"] == "r" and trailing["traceparent"].startswith("00-")


@pytest.mark.parametrize("ids", [[], ["a b"], ["x" * 129], [""], ["a", "b"]])
def test_an_id_that_is_missing_or_malformed_is_replaced(server, ids):
    got = [unary(server, qr_request(normal(2, 2)), [("x-request-id", v) for v in ids])[1] for _ in range(2)]
    made = [trailing["x-request-id"] for trailing in got]
    assert all(re.fullmatch("[0-9a-f]{32}", one) for one in made) and made[0] != made[1]


@pytest.mark.parametrize("parents", [
    [], ["00"], [SAMPLED.upper()], [SAMPLED + "-x"], ["ff" + SAMPLED[2:]], [f"00-{'0' * 32}-{PARENT}-01"],
    [f"00-{TRACE}-{'0' * 16}-01"]])
def test_a_malformed_traceparent_is_ignored(server, parents):
    got = [unary(server, qr_request(normal(2, 2)), [("traceparent", v) for v in parents])[1] for _ in range(2)]
    made = [re.fullmatch("00-([0-9a-f]{32})-([0-9a-f]{16})-00", trailing["traceparent"]) for trailing in got]
    assert all(made) and len({m[1] for m in made} | {TRACE, "0" * 32}) == 4


def test_a_later_version_of_traceparent_is_taken_and_ours_returned(server):
    trailing = unary(server, qr_request(normal(2, 2)), [("traceparent", f"cc-{TRACE}-{PARENT}-01-more")])[1]
    assert re.fullmatch(f"00-{TRACE}-[0-9a-f]{{16}}-01", trailing["traceparent"])


def test_a_streams_ids_are_for_all_its_requests(files):
    log, _ = files
    with running("--log_format=json", "--log_level=debug", log=log) as server:
        metadata = [("x-request-id", "s"), ("traceparent", UNSAMPLED)]
        code, trailing, done = stream(server, [start("a", qr_request(normal(3, 3))), start("é\n\"", BAD)], metadata)
        assert code == Code.OK and done == {"a": 0, "é\n\"": Code.INVALID_ARGUMENT.value[0]}
        assert trailing["x-request-id"] == "s" and TRACE in trailing["traceparent"]
        good, bad = the_line(log, request_id="s/a"), the_line(log, request_id="s/é\n\"")
        assert good["code"] == "OK" and good["shape"] == "f32 1x3x3" and all(stage in good for stage in STAGES)
        assert bad["code"] == "INVALID_ARGUMENT" and bad["level"] == "info"
        assert good["trace_id"] == bad["trace_id"] == TRACE and good["span_id"] != bad["span_id"]
        wait_until(lambda: [e for e in lines_of(log) if e["message"] == "stream ended" and e["request_id"] == "s"])


def test_a_stream_that_is_refused_has_ids_too(server):
    code, trailing, _ = stream(server, [pb.StreamRequest()], [("x-request-id", "s")])
    assert code == Code.INVALID_ARGUMENT and trailing["x-request-id"] == "s" and "traceparent" in trailing


def check_tree(spans, root_parent):
    """One tree below the caller's span, whose children's times lie within their parents'."""
    by_id = {span["spanId"]: span for span in spans}
    assert len(by_id) == len(spans)
    (root,) = [span for span in spans if span.get("parentSpanId") == root_parent]
    for span in spans:
        assert span["traceId"] == root["traceId"]
        assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
        if span is not root:
            parent = by_id[span["parentSpanId"]]
            assert int(parent["startTimeUnixNano"]) <= int(span["startTimeUnixNano"])
            assert int(span["endTimeUnixNano"]) <= int(parent["endTimeUnixNano"])
    return root, collections.Counter(span["name"] for span in spans)


def attributes_of(span):
    return {a["key"]: next(iter(a["value"].values())) for a in span["attributes"]}


def test_spans_of_a_call_are_a_tree(files):
    log, traces = files
    with running(f"--trace_file={traces}", log=log) as server:
        ids = [("traceparent", SAMPLED), ("x-request-id", "r")]
        returned = unary(server, qr_request(normal(100, 8, 5)), ids)[1]["traceparent"].split("-")[2]
        unary(server, qr_request(normal(3, 3)), [("traceparent", UNSAMPLED)])
        unary(server, qr_request(normal(3, 3)))
        server.terminate()
        assert server.wait()[0] == 0
    root, names = check_tree(spans_of(traces), PARENT)
    assert root["spanId"] == returned and root["traceId"] == TRACE and root["kind"] == 2
    assert root["name"] == "factord.v1.Factorization/Factorize" and root["status"] == {}
    assert names == {root["name"]: 1, "decode": 1, "queue": 1, "run": 1, "encode": 1}
    attributes = attributes_of(root)
    assert attributes["rpc.system"] == "grpc" and attributes["rpc.grpc.status_code"] == "0"
    assert attributes["factord.request_id"] == "r" and attributes["factord.matrices"] == "100"
    (run,) = [span for span in spans_of(traces) if span["name"] == "run"]
    assert int(attributes_of(run)["factord.compute_ns"]) > 0 and attributes_of(run)["factord.backend"] == "cpu"


def test_spans_of_a_stream_are_a_tree(files):
    log, traces = files
    with running(f"--trace_file={traces}", log=log) as server:
        stream(server, [start("a", qr_request(normal(3, 3))), start("b", qr_request(normal(5, 2)))], [("traceparent", SAMPLED)])
        server.terminate()
        assert server.wait()[0] == 0
    root, names = check_tree(spans_of(traces), PARENT)
    assert root["name"] == "factord.v1.Factorization/FactorizeStream"
    assert names == {root["name"]: 1, "FactorizeStream request": 2, "decode": 2, "queue": 2, "run": 2, "encode": 2}


def test_requests_without_a_traceparent_are_sampled_by_ratio_and_failures_are_said(files):
    log, traces = files
    with running(f"--trace_file={traces}", "--trace_sample_ratio=1", log=log) as server:
        assert unary(server, BAD)[1]["traceparent"].endswith("-01")
        unary(server, qr_request(normal(3, 3)), [("traceparent", UNSAMPLED)])
        unary(server, qr_request(normal(3, 3)))
        server.terminate()
        assert server.wait()[0] == 0
    roots = [span for span in spans_of(traces) if "parentSpanId" not in span]
    assert sorted(attributes_of(root)["rpc.grpc.status_code"] for root in roots) == ["0", "3"]
    assert all(root["traceId"] != TRACE for root in roots)


def test_spans_are_dropped_not_waited_for_and_counted(files):
    log, _ = files
    with running("--trace_file=/dev/full", "--trace_sample_ratio=1", log=log) as server:
        for _ in range(3):
            assert unary(server, qr_request(normal(3, 3)))[0] == Code.OK
        wait_until(lambda: server.metrics()["factord_spans_dropped_total"] == 3 * 5)
        assert log.read_text().count("No space left on device") == 1


def test_sighup_opens_the_trace_file_anew(files):
    log, traces = files
    with running(f"--trace_file={traces}", "--trace_sample_ratio=1", log=log) as server:
        unary(server, qr_request(normal(3, 3)), [("x-request-id", "before")])
        wait_until(lambda: "before" in traces.read_text())
        moved = traces.rename(traces.with_suffix(".1"))
        server.process.send_signal(signal.SIGHUP)
        wait_until(traces.exists)
        unary(server, qr_request(normal(3, 3)), [("x-request-id", "after")])
        wait_until(lambda: "after" in traces.read_text())
        assert "after" not in moved.read_text() and "before" not in traces.read_text()


def test_signals_change_the_level(files):
    log, _ = files
    with running("--log_format=json", log=log) as server:
        def send(sent, level):
            server.process.send_signal(sent)
            wait_until(lambda: [e["log_level"] for e in lines_of(log) if "log_level" in e][-1:] == [level])

        send(signal.SIGUSR1, "debug")
        unary(server, qr_request(normal(3, 3)), [("x-request-id", "seen")])
        the_line(log, request_id="seen")
        send(signal.SIGUSR1, "trace")
        send(signal.SIGUSR2, "debug")
        send(signal.SIGUSR2, "info")
        send(signal.SIGUSR2, "warning")
        send(signal.SIGUSR2, "error")
        unary(server, BAD, [("x-request-id", "unseen")])
        send(signal.SIGUSR1, "warning")
        assert [e["request_id"] for e in ended(log)] == ["seen"]


def test_a_flood_of_refusals_is_a_few_lines_and_a_count(files):
    log, _ = files
    with running("--log_format=json", log=log) as server:
        stub = server.stub()
        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            codes = list(pool.map(lambda _: stub.Factorize.future(BAD, timeout=60).code(), range(500)))
        assert set(codes) == {Code.INVALID_ARGUMENT}
        server.terminate()
        assert server.wait()[0] == 0
    lines = len(ended(log))
    suppressed = sum(e["suppressed"] for e in lines_of(log) if "suppressed" in e)
    assert lines + suppressed == 500
    # 10 in 10 seconds, however long this took on a busy machine.
    times = [e["time"] for e in ended(log)]
    windows = 1 + (np.datetime64(times[-1][:-1]) - np.datetime64(times[0][:-1])) // np.timedelta64(10, "s")
    assert 10 <= lines <= 10 * windows


def test_neither_values_nor_credentials_are_written(files):
    log, traces = files
    secret = 1234567.890625
    a = np.full((3, 3), secret) + np.eye(3)
    broken = qr_request(a)
    broken.a[0].dims[0] = 4
    metadata = [("authorization", "Bearer hunter2"), ("traceparent", SAMPLED), ("other", "hunter3")]
    with running("--log_level=trace", "--log_format=json", f"--trace_file={traces}", log=log) as server:
        assert unary(server, qr_request(a), metadata)[0] == Code.OK
        assert unary(server, broken, metadata)[0] == Code.INVALID_ARGUMENT
        stream(server, [start("a", qr_request(a)), start("b", broken)], metadata)
        server.terminate()
        assert server.wait()[0] == 0
    assert len(ended(log)) == 4
    text = log.read_text() + traces.read_text()
    for leak in ("hunter2", "hunter3", "authorization", "Bearer", "1234567", "1234568"):
        assert leak not in text


@pytest.mark.parametrize("flag, said", [
    ("--log_format=xml", "log_format"), ("--log_level=loud", "log_level"), ("--trace_sample_ratio=2", "trace_sample_ratio"),
    ("--trace_sample_ratio=0.5", "trace_file")])
def test_wrong_flags_are_said(flag, said):
    run = subprocess.run([os.environ["FACTORD_BINARY"], "--listen=127.0.0.1:0", "--metrics_listen=", flag],
                         capture_output=True, text=True, timeout=60)
    assert run.returncode == 2 and said in run.stderr and run.stderr.count("\n") == 1


def test_a_trace_file_that_can_not_be_written_ends_the_start_in_json_too():
    run = subprocess.run([os.environ["FACTORD_BINARY"], "--listen=127.0.0.1:0", "--metrics_listen=", "--log_format=json",
                          "--trace_file=/nowhere/t"], capture_output=True, text=True, timeout=60)
    assert run.returncode == 1
    assert json.loads(run.stderr)["message"] == "trace_file: can not write to /nowhere/t: No such file or directory"


def test_a_second_signal_is_a_json_line_too(files):
    log, _ = files
    with running("--log_format=json", "--drain_delay=1h", log=log) as server:
        server.terminate()
        wait_until(lambda: [e for e in lines_of(log) if e["message"] == "asked to stop: draining"])
        server.terminate()
        assert server.wait()[0] == 1
    assert lines_of(log)[-1]["message"] == "second signal: leaving at once"
