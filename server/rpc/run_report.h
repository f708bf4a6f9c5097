// How a request ran, gathered from its jobs.
#pragma once

#include "server/core/job.h"
#include "server/rpc/codec.h"

namespace factord {

// Adds a job that ended with OK: to the report, and, where the request is traced, to the runs.
void AddJob(const Job& job, bool traced, Outcome& outcome);

}  // namespace factord
