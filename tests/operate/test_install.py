"""What `cmake --install` installs works without the repository."""

import os
import pathlib
import re
import subprocess

import pytest
from harness import running
from packages import ROOT, VERSION, output_of

BUILD = pathlib.Path(os.environ["FACTORD_BINARY"]).parents[1]


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    # Moved after it was installed: nothing may remember where.
    installed = tmp_path_factory.mktemp("install") / "first"
    output_of("cmake", "--install", BUILD, "--prefix", installed)
    return installed.rename(installed.parent / "moved")


def test_programs_say_the_version(prefix):
    for program in ["factord", "factorctl"]:
        assert output_of(prefix / "bin" / program, "--version") == f"{program} {VERSION}\n"


def test_papers_api_and_dashboards_are_there(prefix):
    documents = prefix / "share" / "doc" / "factord"
    assert "Apache License" in (documents / "LICENSE").read_text() and (documents / "CHANGELOG.md").exists()
    shared = prefix / "share" / "factord"
    for name in ["proto/factord/v1/factord.proto", "proto/google/rpc/status.proto"]:
        assert (shared / name).read_bytes() == (ROOT / name).read_bytes()
    for name in ["grafana/dashboards/factord.json", "prometheus/prometheus.yml", "prometheus/rules/alerts.yml"]:
        assert (shared / name).read_bytes() == (ROOT / "deploy" / name).read_bytes()
    assert not (shared / "prometheus" / "tests").exists()


def test_a_component_is_installed_alone(tmp_path):
    output_of("cmake", "--install", BUILD, "--prefix", tmp_path, "--component", "runtime")
    assert {path.name for path in tmp_path.iterdir()} == {"bin", "share"}
    assert {path.name for path in (tmp_path / "bin").iterdir()} == {"factord", "factorctl"}


def test_headers_include_only_what_is_installed(prefix):
    root = prefix / "include"
    for header in root.rglob("*.h"):
        text = header.read_text()
        ours = re.findall(r'#include "((?:client|server|factord|google/rpc)/[^"]+)"', text)
        assert [name for name in ours if not any((base / name).exists() for base in [root, root / "factord" / "proto"])] == []
        if header.parent.name == "client":  # differs from the repository's in nothing but that
            source = (ROOT / "client" / header.name).read_text()
            assert text.replace('"factord/client/', '"client/') == source


def test_a_project_outside_builds_and_calls_a_server(prefix, tmp_path):
    output_of("cmake", "-G", "Ninja", "-S", ROOT / "tests" / "operate" / "consumer", "-B", tmp_path,
              f"-DCMAKE_PREFIX_PATH={prefix}")
    output_of("cmake", "--build", tmp_path)
    with running() as server:
        assert output_of(tmp_path / "consumer", server.target) == "x = 3 2\nrefused: rcond\n"


def test_another_minor_version_is_not_taken(prefix, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(other LANGUAGES CXX)\nfind_package(factord 0.0 REQUIRED)\n")
    result = subprocess.run(["cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}"],
                            capture_output=True, text=True, timeout=600)
    assert result.returncode != 0 and f"version: {VERSION}" in result.stderr


@pytest.mark.parametrize("program", ["factord", "factorctl"])
def test_manual_page_is_well_formed_and_has_every_flag(prefix, program):
    page = prefix / "share" / "man" / "man1" / f"{program}.1"
    output_of("mandoc", "-Tlint", "-W", "error", page)
    text = re.sub(".\b", "", output_of("mandoc", "-Tutf8", page))
    help = output_of(prefix / "bin" / program, "--help")
    commands = re.findall(r"^  (\w+)  ", help, re.M)
    assert bool(commands) == (program == "factorctl")
    helps = [help, *(output_of(prefix / "bin" / program, command, "--help") for command in commands)]
    flags = {flag for help in helps for flag in re.findall(r"^  (--\w+)", help, re.M)}
    assert len(flags) > 25 and flags <= set(re.findall(r"--\w+", text))
    for heading in ["NAME", "SYNOPSIS", "EXIT STATUS", "SEE ALSO"]:
        assert re.search(f"^{heading}$", text, re.M)
