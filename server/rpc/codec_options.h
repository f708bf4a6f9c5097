// The options of a request, checked. Part of the codec. Each: INVALID_ARGUMENT naming the field and
// its value.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "factord/v1/factord.pb.h"
#include "server/core/spec.h"
#include "server/rpc/codec.h"

namespace factord {

absl::Status DecodeRun(const v1::RunOptions& run, DecodedRequest& out, bool& fast);

absl::StatusOr<QMode> DecodeQMode(v1::QMode mode, QMode if_unspecified, absl::string_view field);

// Also that something is asked for, and that the sign goes with it.
absl::Status DecodeQr(const v1::QrOptions& qr, Spec& spec);

// `rcond` is set.
absl::StatusOr<double> DecodeRcond(double rcond);

absl::Status DecodeSideAndOp(const v1::ApplyQRequest& request, Spec& spec);

}  // namespace factord
