#!/usr/bin/env bash
# The layer check finds each of these planted includes, and only these.
set -euo pipefail
tree=$(mktemp -d)
trap 'rm -r "$tree"' EXIT
plant() {
  mkdir -p "$tree/$(dirname "$1")"
  printf '#include <vector>\n#include "%s"\n' "$2" > "$tree/$1"
}

plant kernels/a.cu absl/status/status.h
plant server/core/a.h server/metrics/metrics.h
plant server/batching/a.cc server/engine/lane.h
plant server/batching/b.cc grpcpp/grpcpp.h
plant server/engine/a.cc server/batching/dispatcher.h
plant server/rpc/a.cc server/engine/lane.h
plant client/a.cc server/core/spec.h
plant server/rpc/good.cc server/batching/dispatcher.h
plant server/server.cc server/engine/lane.h

faults=$("$1" "$tree" || true)
echo "$faults"
[[ $(wc -l <<< "$faults") == 7 ]]
! grep -q 'good.cc\|server.cc' <<< "$faults"
