"""Generates the gRPC stubs from proto/ into the wheel; pyproject.toml says all the rest."""

import subprocess
import sys
import tempfile
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

PROTO = Path(__file__).resolve().parent / "proto"


class BuildWithStubs(build_py):
    def run(self) -> None:
        super().run()
        outputs = [f"--{kind}_out={self.build_lib}" for kind in ("python", "pyi", "grpc_python")]
        protoc = [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTO}", *outputs, "factord/v1/factord.proto"]
        subprocess.run(protoc, check=True)


# Builds away from the sources, which may be read-only and stay clean.
with tempfile.TemporaryDirectory() as scratch:
    setup(
        cmdclass={"build_py": BuildWithStubs},
        options={"build": {"build_base": scratch}, "egg_info": {"egg_base": scratch}},
    )
