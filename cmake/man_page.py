#!/usr/bin/env python3
"""Writes the manual page of factord or factorctl from what the program's --help says: man_page.py PROGRAM OUTPUT."""

import pathlib
import re
import subprocess
import sys

SUMMARIES = {
    "factord": "batched matrix factorization as a service",
    "factorctl": "factorize matrices in files, and inspect and measure a factord server",
}
DESCRIPTIONS = {
    "factord": "Serves QR factorizations and least squares over gRPC: gathers what many clients send into batches, and runs "
               "those on the CPU or on a GPU. Serves on loopback alone unless told otherwise.",
    "factorctl": "Each command has flags of its own.",
}
# What --help does not say, by section.
ENDS = {
    "factord": [
        ("EXIT STATUS", "0: all accepted work was finished. 1: it was not, or the server could not start. "
                        "2: there is no such flag or command, or a flag's value makes no sense. "
                        "One sentence on stderr says which. With --probe, 0: the server there serves; 1: anything else."),
        ("SIGNALS", "SIGTERM and SIGINT ask for a drain: requests that were accepted finish, new ones are refused. "
                    "A second one ends the process at once. SIGUSR1 makes the log one level more verbose, SIGUSR2 one less. "
                    "SIGHUP opens the trace file anew."),
        ("SEE ALSO", "factorctl(1)"),
    ],
    "factorctl": [
        ("EXIT STATUS", "0: done. 1: the server or a file stood in the way. 2: a mistake in the arguments. "
                        "One sentence on stderr says which."),
        ("SEE ALSO", "factord(1)"),
    ],
}


def help_of(*command):
    return subprocess.run([*command, "--help"], capture_output=True, text=True, check=True).stdout


def escaped(text):
    return re.sub(r"^(?=[.'])", r"\\&", text.replace("\\", r"\e").replace("-", r"\-"), flags=re.M)


def entries_of(lines):
    """Each entry's head is indented by 2; its text, if not on the same line, by more."""
    for line in lines:
        if line.startswith("   "):
            yield escaped(line.strip())
        else:
            head, _, text = line.strip().partition("  ")
            yield f".TP\n\\fB{escaped(head)}\\fR"
            if text:
                yield escaped(text.strip())


def body_of(text, heading):
    """The paragraphs and lists of a help text, but for its usage and its program's name."""
    for block in text.strip().split("\n\n"):
        lines = block.splitlines()
        if lines[0].startswith("Usage:") or re.match(r"factord: ", lines[0]):
            continue
        if lines[0].endswith(":") and all(line.startswith("  ") for line in lines[1:]):
            yield heading(lines[0][:-1])
            yield from entries_of(lines[1:])
        else:
            yield from [".PP", *map(escaped, lines)]


def usage_of(text):
    block = next(block for block in text.split("\n\n") if block.startswith("Usage:"))
    return [line.removeprefix("Usage:").strip() for line in block.splitlines()]


def page_of(program):
    name = pathlib.Path(program).name
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    text = help_of(program)
    yield f'.TH {name.upper()} 1 "" "{version}" "factord"'
    yield f".SH NAME\n{name} \\- {SUMMARIES[name]}"
    yield ".SH SYNOPSIS\n.nf"
    yield from map(escaped, usage_of(text))
    yield f".fi\n.SH DESCRIPTION\n{DESCRIPTIONS[name]}"
    yield from body_of(text, lambda title: f".SS {title}")
    for command in re.findall(r"^  (\w+)  ", text.partition("\nCommands:\n")[2], re.M):
        text = help_of(program, command)
        yield f".SH {command.upper()}\n.B {escaped(usage_of(text)[0])}"
        yield from body_of(text, lambda title: f".SS {title}")
    for title, text in ENDS[name]:
        yield f".SH {title}\n{escaped(text)}"


program, output = sys.argv[1:]
pathlib.Path(output).write_text("\n".join(page_of(program)) + "\n")
