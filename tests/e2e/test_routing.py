"""Where requests run, on a machine without a GPU; `factord tune`."""

import os
import subprocess

import pytest
from harness import array_of, check_qr, normal, pb, qr_request, running

FACTORD = os.environ["FACTORD_BINARY"]
NO_GPU = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}  # where there is one


def run(*arguments):
    return subprocess.run([FACTORD, *arguments], capture_output=True, text=True, timeout=120, env=NO_GPU)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A table of this machine, and what was said while it was measured."""
    path = tmp_path_factory.mktemp("tune") / "routing.txt"
    return path, run("tune", "--tune_seconds=5", "--gpu=off", f"--output={path}")


def test_tune_writes_a_table_and_says_so(table):
    path, result = table
    assert result.returncode == 0, result.stderr
    assert f"--routing_table={path}" in result.stdout and "No GPU was measured" in result.stdout
    assert result.stderr.count("tune: ") >= 3  # progress
    rows = [line.split() for line in path.read_text().splitlines() if ":" not in line and line[:1] != "#"]
    assert len(rows) > 50
    assert {row[0] for row in rows} == {"factorize", "form_q", "apply_q", "solve"}
    assert {row[7] for row in rows} == {"-"}


def test_a_server_with_its_machines_table_predicts_by_measurement(table):
    explain = pb.ExplainRequest(factorize=qr_request(normal(100, 30, 30), data=False))
    with running(f"--routing_table={table[0]}", "--gpu=off") as server:
        one = server.stub().Explain(explain).explanations[0]
        info = server.stub().GetServerInfo(pb.GetServerInfoRequest())
        a = normal(100, 30, 30)
        factors = server.stub().Factorize(qr_request(a)).qr[0]
    check_qr(a, array_of(factors.q), array_of(factors.r))
    assert one.label == pb.ROUTE_LABEL_MEASURED and one.cpu_ns > 0 and one.gpu_ns == 0
    assert one.reason == "this server has only the cpu backend" and one.device == info.backends[0].name
    assert info.routing == pb.ROUTE_LABEL_MEASURED and info.backends[0].name in info.routing_table


def test_a_table_of_another_machine_estimates(table, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("".join("cpu: another\n" if line.startswith("cpu:") else line for line in table[0].open()))
    explain = pb.ExplainRequest(factorize=qr_request(normal(4, 4), data=False))
    with running(f"--routing_table={other}", "--gpu=off") as server:
        assert server.stub().Explain(explain).explanations[0].label == pb.ROUTE_LABEL_ESTIMATED


def test_without_a_table_there_is_a_rule_of_thumb(stub):
    one = stub.Explain(pb.ExplainRequest(factorize=qr_request(normal(4, 4), data=False))).explanations[0]
    assert one.label == pb.ROUTE_LABEL_DEFAULT and one.cpu_ns > 0


def test_a_table_with_a_fault_is_named(tmp_path):
    path = tmp_path / "bad.txt"
    path.write_text("device: x\nfactorize f32 q 4 4\n")
    result = run("--listen=127.0.0.1:0", "--metrics_listen=", f"--routing_table={path}")
    assert result.returncode == 2
    assert result.stderr.endswith(f"factord: routing_table: {path}:2: a row has 8 fields, this one has 5\n")


@pytest.mark.parametrize("flags,sentence", [(["--gpu=required"], "gpu: is required, but "),
                                            (["--backend=gpu"], "backend: is gpu, but "),
                                            (["--gpu_devices=0"], "gpu_devices: are named, but "),
                                            (["--routing_table=/nowhere"], "routing_table: can not read /nowhere: ")])
def test_what_the_machine_lacks_is_one_clear_sentence(flags, sentence):
    result = run("--listen=127.0.0.1:0", "--metrics_listen=", *flags)
    assert result.returncode == 1 and result.stdout == ""
    # That a build with CUDA finds no GPU is a warning of its own.
    lines = [line for line in result.stderr.splitlines() if "[warning]" not in line]
    assert len(lines) == 1 and lines[0].startswith(f"factord: {sentence}")


def test_a_build_with_cuda_warns_that_there_is_no_gpu(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    built = "no GPU engine" not in run("--gpu=required").stderr
    with running() as server:
        server.terminate()
        _, err = server.wait()
    assert err.count("all work runs on the CPU: CUDA finds no GPU") == (1 if built else 0)


@pytest.mark.parametrize("arguments,sentence", [(["tuna"], "expected flags, or the command tune; not tuna"),
                                                (["tune", "--gpu=no"], 'gpu: is "no"; must be one of auto, off, required'),
                                                (["tune", "--tune_seconds=0", "--gpu=off"], "tune_seconds: are too few")])
def test_a_command_that_makes_no_sense_is_exit_code_2(arguments, sentence):
    result = run(*arguments)
    assert result.returncode == 2 and sentence in result.stderr


def test_a_table_that_can_not_be_written_is_told_at_once():
    result = run("tune", "--output=/nowhere/table.txt")
    assert result.returncode == 1 and "output: can not write /nowhere/table.txt: No such file" in result.stderr
