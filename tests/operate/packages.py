"""What the tests of packages share."""

import pathlib
import subprocess

ROOT = pathlib.Path(__file__).parents[2]
VERSION = (ROOT / "VERSION").read_text().strip()


def output_of(*command, **kwargs):
    result = subprocess.run(command, capture_output=True, text=True, timeout=600, **kwargs)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout
