"""What the reports of the benchmarks share: results as JSON, one row a line, and as Markdown tables."""

import json
import pathlib


def merged(files):
    """The rows of all files; facts are the first file's, with what later ones add."""
    data = {}
    for file in files:
        part = json.loads(pathlib.Path(file).read_text())
        rows = data.pop("rows", []) + part.pop("rows")
        data = {**part, **data, "rows": rows}
    return data


def to_json(data):
    facts = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in data.items() if key != "rows"]
    rows = ",\n".join(json.dumps(row) for row in data["rows"])
    return "{" + ",\n".join(facts) + f',\n"rows": [\n{rows}\n]}}\n'


def facts(data):
    return "\n".join(f"- {key}: {value}" for key, value in data.items() if key != "rows")


def number(x):
    if x is None:
        return "–"
    return f"{x:,.0f}" if x >= 1000 else f"{x:.3g}"


def size(row):
    return f"{row['m']}²" if row["m"] == row["n"] else f"{row['m']} × {row['n']}"


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows])


def write(prefix, data, report):
    """PREFIX.json and PREFIX.md."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    prefix.with_name(prefix.name + ".json").write_text(to_json(data))
    prefix.with_name(prefix.name + ".md").write_text(report)
