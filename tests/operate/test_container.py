"""The image for CPUs, built and run for real: with podman, whatever engine others use."""

import functools
import json
import pathlib
import re
import subprocess
import urllib.request

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from harness import UNLIMITED, array_of, check_qr, normal, pb, qr_request, wait_until

from factord.v1 import factord_pb2_grpc

ROOT = pathlib.Path(__file__).parents[2]
IMAGE = "localhost/factord:cpu"
MOST_BYTES = 220e6


def podman(*arguments, check=True):
    return subprocess.run([ROOT / "deploy/podman", *arguments], capture_output=True, text=True, check=check, timeout=120)


class Container:
    """One, run as docs/containers.md says: nothing of its file system can be written."""

    def __init__(self, *options, command=()):
        # Ports of the host's choice, so that nothing else on it is in the way.
        self.id = podman("run", "--detach", "--read-only", "--read-only-tmpfs=false", "--cap-drop=all", "--security-opt=no-new-privileges",
                         "--publish=127.0.0.1::50051", "--publish=127.0.0.1::9464", *options, IMAGE,
                         *command).stdout.strip()

    def address(self, port):
        return podman("port", self.id, str(port)).stdout.strip()

    def channel(self):
        return grpc.insecure_channel(self.address(50051), [*UNLIMITED, ("grpc.use_local_subchannel_pool", 1)])

    def stub(self):
        return factord_pb2_grpc.FactorizationStub(self.channel())

    def metrics(self):
        with urllib.request.urlopen(f"http://{self.address(9464)}/metrics", timeout=10) as reply:
            return dict(line.rsplit(" ", 1) for line in reply.read().decode().splitlines() if line[:1] != "#")

    def execute(self, *command):
        return podman("exec", self.id, *command, check=False)

    def wait(self):
        return int(podman("wait", self.id).stdout)

    def logs(self):
        """Of both streams."""
        result = podman("logs", self.id)
        return result.stdout + result.stderr

    def remove(self):
        podman("rm", "--force", "--time=0", self.id)


@pytest.fixture(scope="module")
def image():
    subprocess.run([ROOT / "deploy/build_image", "cpu"], check=True, timeout=1500)
    return json.loads(podman("image", "inspect", IMAGE).stdout)[0]


@pytest.fixture
def run(image):
    """Starts containers that serve."""
    started = []

    def start(*options, command=()):
        container = Container(*options, command=command)
        started.append(container)
        wait_until(lambda: "metrics on" in container.logs())
        return container

    yield start
    for container in started:
        print(container.logs())
        container.remove()


def test_the_image_says_how_it_is_run(image):
    config = image["Config"]
    assert config["User"] == "10001:10001"
    assert config["Entrypoint"] == ["/usr/local/bin/factord"]
    assert sorted(config["ExposedPorts"]) == ["50051/tcp", "9464/tcp"]
    assert config["StopSignal"] in ("SIGTERM", "15")
    assert image["HealthCheck" if "HealthCheck" in image else "Healthcheck"]["Test"] == [
        "CMD", "/usr/local/bin/factord", "--probe=127.0.0.1:50051"]
    assert image["Labels"]["org.opencontainers.image.version"] == (ROOT / "VERSION").read_text().strip()
    assert re.fullmatch("[0-9a-f]{40}", image["Labels"]["org.opencontainers.image.revision"])


def test_the_image_is_small(image):
    print(f"{IMAGE}: {image['Size'] / 1e6:.0f} MB")
    assert 30e6 < image["Size"] < MOST_BYTES


def test_the_image_has_the_libraries_and_no_compiler(image):
    in_image = functools.partial(podman, "run", "--rm", "--read-only", "--network=none", "--entrypoint=/bin/sh", IMAGE, "-c")
    libraries = in_image("ldd /usr/local/bin/factord /usr/local/bin/factorctl").stdout
    assert "libgrpc++" in libraries and "libopenblas" in libraries and "not found" not in libraries
    found = in_image("for tool in cc gcc g++ c++ clang nvcc ld cmake ninja python3; do command -v $tool; done; echo end").stdout
    assert found == "end\n"
    assert in_image("factord --version").stdout.startswith("factord ")
    assert "Usage: factorctl" in in_image("factorctl info --help").stdout


def test_a_stock_stub_is_served_on_the_published_port(run):
    container = run()
    a = normal(100, 24, 16)

    reply = container.stub().Factorize(qr_request(a), timeout=60)

    check_qr(a, array_of(reply.qr[0].q), array_of(reply.qr[0].r))
    assert container.metrics()['factord_matrices_total{dtype="f32",op="factorize"}'] == "100"


def test_it_is_process_1_not_root_and_writes_nowhere(run):
    container = run()

    assert container.execute("cat", "/proc/1/comm").stdout == "factord\n"
    status = container.execute("cat", "/proc/1/status").stdout
    assert re.search(r"^Uid:\s10001\s10001\s10001\s10001$", status, re.M)
    assert re.search(r"^CapEff:\s0{16}$", status, re.M)
    for folder in ("/", "/tmp", "/usr/local/bin", "/var/tmp"):
        assert "Read-only file system" in container.execute("touch", f"{folder}/file").stderr


def test_sigterm_to_process_1_drains(run):
    container = run(command=("--listen=0.0.0.0:50051", "--metrics_listen=0.0.0.0:9464", "--cpu_threads=1"))
    stub = container.stub()
    watch = health_pb2_grpc.HealthStub(container.channel()).Watch(health_pb2.HealthCheckRequest())
    assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
    slow = stub.Factorize.future(qr_request(normal(1950, 1950, dtype="c16"), q=pb.Q_MODE_UNSPECIFIED))
    wait_until(lambda: float(container.metrics()["factord_running_jobs"]) > 0)

    podman("kill", "--signal=TERM", container.id)

    assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
    assert slow.result().qr[0].r.dims == [1950, 1950]
    assert container.wait() == 0
    assert "drained" in container.logs()


def test_the_probe_says_whether_it_serves(run):
    container = run()

    assert podman("healthcheck", "run", container.id, check=False).returncode == 0
    probe = container.execute("/usr/local/bin/factord", "--probe=127.0.0.1:50051")
    assert probe.returncode == 0 and "SERVING" in probe.stdout
    assert container.execute("/usr/local/bin/factord", "--probe=127.0.0.1:1").returncode == 1


def test_the_memory_limit_is_its_memory(run):
    container = run("--memory=1g")

    assert float(container.metrics()["factord_memory_budget_bytes"]) == (1 << 29)


def test_a_wrong_flag_ends_it_with_2(image):
    result = podman("run", "--rm", "--read-only", IMAGE, "--backend=abacus", check=False)
    assert result.returncode == 2 and "backend: is \"abacus\"" in result.stderr
