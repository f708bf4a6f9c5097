#!/usr/bin/env python3
"""Checks that includes only point down the layers: a folder may include itself and what its row names, nothing else."""

import pathlib
import re
import sys

# layer: (our folders it may include, prefixes of outside headers it must not see)
LAYERS = {
    "kernels": ([], ["absl/", "grpc", "google/", "spdlog/", "prometheus/"]),
    "server/core": ([], ["grpc", "google/", "prometheus/", "cuda", "spdlog/", "lapacke"]),
    "server/metrics": (["server/core"], ["grpc", "google/", "cuda", "lapacke"]),
    "server/logging": (["server/core"], ["google/", "prometheus/", "cuda", "lapacke"]),
    "server/trace": (["server/core", "server/metrics"], ["grpc", "google/", "cuda", "lapacke"]),
    "server/batching": (["server/core", "server/metrics"], ["grpc", "google/", "cuda", "lapacke"]),
    "server/engine": (["server/core", "server/metrics", "kernels"], ["grpc", "google/", "prometheus/"]),
    "server/reduction": (["server/core", "server/metrics"], ["grpc", "google/", "cuda", "lapacke", "cblas"]),
    "server/security": (["server/core", "server/metrics", "factord/v1"], ["google/", "cuda", "lapacke", "cblas"]),
    "server/rpc": (
        ["server/core", "server/metrics", "server/logging", "server/trace", "server/batching", "server/reduction",
         "server/security", "factord/v1", "google/rpc"],
        ["cuda", "lapacke", "cblas"],
    ),
    "server/http": (
        ["server/core", "server/metrics", "server/batching", "server/rpc", "factord/v1"],
        ["cuda", "lapacke", "cblas", "grpc", "spdlog/"],
    ),
    "server": (
        ["server/core", "server/metrics", "server/logging", "server/trace", "server/batching", "server/engine",
         "server/security", "server/rpc", "server/http", "factord/v1"],
        ["cuda", "lapacke", "cblas"],
    ),
    "client": (["factord/v1", "google/rpc"], ["cuda", "prometheus/", "lapacke"]),
}
OURS = ("kernels/", "server/", "client/", "factord/", "google/rpc/")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')


def layer_of(path: str) -> str | None:
    """The longest layer that holds `path`, a file or an include."""
    fits = [layer for layer in LAYERS if path.startswith(layer + "/")]
    return max(fits, key=len, default=None)


def faults_in(root: pathlib.Path, file: pathlib.Path) -> list[str]:
    path = file.relative_to(root).as_posix()
    layer = layer_of(path)
    if layer is None:
        return []
    allowed, forbidden = LAYERS[layer]
    faults = []
    for number, line in enumerate(file.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        header = match[1]
        folder = layer_of(header) or str(pathlib.PurePosixPath(header).parent)
        if header.startswith(OURS):
            bad = folder != layer and folder not in allowed
        else:
            bad = header.startswith(tuple(forbidden))
        if bad:
            faults.append(f"{path}:{number}: {layer} must not include {header}")
    return faults


def main() -> int:
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    files = [f for folder in ("kernels", "server", "client") for f in sorted((root / folder).rglob("*"))
             if f.suffix in {".h", ".cc", ".cu", ".cuh"}]
    faults = [fault for file in files for fault in faults_in(root, file)]
    print("\n".join(faults) or f"layers: {len(files)} files, no fault")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
