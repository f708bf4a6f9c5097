// PlanQuery: what would run for a shape, asked in a URL's query.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "factord/v1/factord.pb.h"
#include "server/rpc/service_context.h"

namespace factord {

// From op (factorize, form_q, apply_q, solve; default factorize), m, n, batch (default 1), dtype
// (f32, f64, c64, c128; default f32), q (factorize, form_q: none, reduced, complete; default
// reduced) and p (apply_q, solve: columns of C or B; default 1). INVALID_ARGUMENT: one sentence
// that names the argument.
absl::StatusOr<v1::ExplainRequest> ParsePlanQuery(
    const std::map<std::string, std::string>& arguments);

// The Explain RPC's answer to such a query. INVALID_ARGUMENT or RESOURCE_EXHAUSTED: likewise.
absl::StatusOr<v1::ExplainResponse> AnswerPlanQuery(
    const std::map<std::string, std::string>& arguments, const ServiceContext& context);

}  // namespace factord
