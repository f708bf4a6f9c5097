"""The Python packages, built as for a release, each alone in an environment of its own."""

import email.parser
import os
import sys
import tarfile
import venv
import zipfile

import pytest
from harness import running
from packages import ROOT, VERSION, output_of

STRANGER = """
import sys, numpy as np, factord
a = np.random.default_rng(0).standard_normal((3, 8, 4))
with factord.Client(sys.argv[1]) as client:
    q, r = client.qr(a)
assert np.allclose(q @ r, a) and np.allclose(q, np.linalg.qr(a)[0])
print(factord.__version__, factord.__file__)
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """{suffix: file} of an sdist, and of the wheel that was built from that sdist alone."""
    folder = tmp_path_factory.mktemp("dist")
    output_of(sys.executable, "-m", "build", "--outdir", folder, ROOT / "client" / "python")
    built = {path.suffix: path for path in folder.iterdir()}
    assert set(built) == {".gz", ".whl"}
    return built


def metadata_of(packages):
    with zipfile.ZipFile(packages[".whl"]) as wheel:
        text = wheel.read(f"factord-{VERSION}.dist-info/METADATA").decode()
    return email.parser.Parser().parsestr(text)


def test_names_say_the_version_and_that_no_platform_is_needed(packages):
    assert packages[".gz"].name == f"factord-{VERSION}.tar.gz"
    assert packages[".whl"].name == f"factord-{VERSION}-py3-none-any.whl"


def test_wheel_has_stubs_types_and_licence(packages):
    with zipfile.ZipFile(packages[".whl"]) as wheel:
        names = set(wheel.namelist())
        licence = wheel.read(f"factord-{VERSION}.dist-info/licenses/LICENSE")
    assert {"factord/py.typed", "factord/v1/factord_pb2.py", "factord/v1/factord_pb2.pyi",
            "factord/v1/factord_pb2_grpc.py"} <= names
    assert licence == (ROOT / "LICENSE").read_bytes()


def test_sdist_carries_the_api_and_the_licence_as_files(packages):
    with tarfile.open(packages[".gz"]) as sdist:
        members = {member.name.partition("/")[2]: member for member in sdist.getmembers()}
    for name in ["LICENSE", "VERSION", "README.md", "proto/factord/v1/factord.proto", "proto/google/rpc/status.proto"]:
        assert members[name].isfile(), name


def test_metadata_is_complete(packages):
    metadata = metadata_of(packages)
    assert metadata["Version"] == VERSION and metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.9" and "Typing :: Typed" in metadata.get_all("Classifier")
    output_of(sys.executable, "-m", "twine", "check", "--strict", *packages.values())


@pytest.mark.parametrize("kind", [".whl", ".gz"])
def test_installs_in_a_clean_environment_and_factorizes(packages, kind, tmp_path):
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    output_of(python, "-m", "pip", "install", "--quiet", packages[kind], env=environment)
    output_of(python, "-m", "pip", "check", env=environment)
    with running() as server:
        version, file = output_of(python, "-c", STRANGER, server.target, cwd=tmp_path, env=environment).split()
    assert version == VERSION and file.startswith(str(tmp_path))
