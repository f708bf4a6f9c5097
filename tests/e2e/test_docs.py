"""The documents say what the programs do."""

import os
import pathlib
import re
import subprocess
import textwrap

import pytest

ROOT = pathlib.Path(__file__).parents[2]
BIN = pathlib.Path(os.environ["FACTORD_BINARY"]).parent


def flags_of_factord():
    """{flag: default} by --help."""
    result = subprocess.run([os.environ["FACTORD_BINARY"], "--help"], capture_output=True, text=True)
    assert result.returncode == 0 and result.stderr == ""
    text = result.stdout.partition("\nHelp:\n")[0]
    return dict(re.findall(r"^  --(\w+).*?Default:\s+(.*?)\.$", text, re.M | re.S))


def test_every_flag_is_documented_and_every_documented_one_exists():
    documented = re.findall(r"^\| `--(\w+)` \|", (ROOT / "docs" / "operations.md").read_text(), re.M)
    assert sorted(documented) == sorted(flags_of_factord())


def test_help_gives_defaults_that_say_loopback():
    flags = flags_of_factord()
    assert flags["listen"] == "127.0.0.1:50051" and flags["metrics_listen"] == "127.0.0.1:9464"


def test_files_that_the_documents_name_exist():
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "client" / "python" / "README.md"]:
        text = document.read_text()
        linked = {document.parent / link for link in re.findall(r"\]\(((?!http)[^)#\s]+)\)", text)}
        named = {ROOT / path for path in re.findall(r"`((?:tests|server|client|tools|bench|docs|proto)/[\w./]+)`", text)}
        missing = [str(path) for path in linked | named if not path.exists() and not list(path.parent.glob(path.name + "*"))]
        assert missing == []


@pytest.mark.parametrize("command", ["qr", "solve", "reduce", "info", "explain", "bench"])
def test_factorctl_explains_each_command(command):
    result = subprocess.run([BIN / "factorctl", command, "--help"], capture_output=True, text=True)
    assert result.returncode == 0 and "Default" in result.stdout


def is_quote(block, lines):
    """Whether these lines hold the block, wherever it is indented to there."""
    count = block.count("\n")
    return any(textwrap.dedent("".join(lines[at : at + count])) == block for at in range(len(lines)))


QUOTING = [*sorted((ROOT / "docs" / "clients").glob("*.md")), ROOT / "docs" / "reduce_rows.md"]


@pytest.mark.parametrize("page", QUOTING, ids=lambda page: page.stem)
def test_code_that_a_page_quotes_is_in_the_example(page):
    quotes = re.findall(r"^<!-- from (\S+) -->\n```\w*\n(.*?)^```$", page.read_text(), re.M | re.S)
    assert len(quotes) == page.read_text().count("<!-- from ")
    assert quotes or page.stem == "README"
    strays = [block for file, block in quotes if not is_quote(block, (ROOT / file).read_text().splitlines(keepends=True))]
    assert strays == []
