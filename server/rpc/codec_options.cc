#include "server/rpc/codec_options.h"

#include "absl/strings/str_cat.h"
#include "server/core/errors.h"
#include "server/core/status_macros.h"

namespace factord {
namespace {

absl::Status UnknownEnum(absl::string_view field, int value) {
  return InvalidField(field, absl::StrCat("unknown value ", value));
}

}  // namespace

absl::Status DecodeRun(const v1::RunOptions& run, DecodedRequest& out, bool& fast) {
  switch (run.backend()) {
    case v1::BACKEND_UNSPECIFIED:
      break;
    case v1::BACKEND_CPU:
      out.backend = Backend::kCpu;
      break;
    case v1::BACKEND_GPU:
      out.backend = Backend::kGpu;
      break;
    default:
      return UnknownEnum("run.backend", run.backend());
  }
  switch (run.precision()) {
    case v1::PRECISION_UNSPECIFIED:
    case v1::PRECISION_STRICT:
      fast = false;
      break;
    case v1::PRECISION_FAST:
      fast = true;
      break;
    default:
      return UnknownEnum("run.precision", run.precision());
  }
  switch (run.priority()) {
    case v1::PRIORITY_UNSPECIFIED:
    case v1::PRIORITY_NORMAL:
      out.priority = Priority::kNormal;
      break;
    case v1::PRIORITY_LOW:
      out.priority = Priority::kLow;
      break;
    default:
      return UnknownEnum("run.priority", run.priority());
  }
  out.reproducible = run.reproducible();
  return absl::OkStatus();
}

absl::StatusOr<QMode> DecodeQMode(v1::QMode mode, QMode if_unspecified, absl::string_view field) {
  switch (mode) {
    case v1::Q_MODE_UNSPECIFIED:
      return if_unspecified;
    case v1::Q_MODE_REDUCED:
      return QMode::kReduced;
    case v1::Q_MODE_COMPLETE:
      return QMode::kComplete;
    default:
      return UnknownEnum(field, mode);
  }
}

absl::Status DecodeQr(const v1::QrOptions& qr, Spec& spec) {
  ASSIGN_OR_RETURN(spec.q, DecodeQMode(qr.q(), QMode::kNone, "qr.q"));
  spec.r = qr.r();
  spec.reflectors = qr.reflectors();
  if (spec.q == QMode::kNone && !spec.r && !spec.reflectors) {
    return InvalidField("qr", "asks for no output; set q, r or reflectors");
  }
  switch (qr.sign()) {
    case v1::SIGN_UNSPECIFIED:
    case v1::SIGN_LAPACK:
      spec.sign = Sign::kLapack;
      break;
    case v1::SIGN_NONNEGATIVE:
      spec.sign = Sign::kNonnegative;
      break;
    case v1::SIGN_SPECIAL_ORTHOGONAL:
      spec.sign = Sign::kSpecialOrthogonal;
      break;
    default:
      return UnknownEnum("qr.sign", qr.sign());
  }
  if (spec.reflectors && spec.sign != Sign::kLapack) {
    return InvalidField(
        "qr.sign",
        "only SIGN_LAPACK goes with reflectors: other signs are not a product of reflectors");
  }
  return absl::OkStatus();
}

absl::StatusOr<double> DecodeRcond(double rcond) {
  if (rcond >= 0 && rcond < 1) return rcond;
  return InvalidField("rcond", absl::StrCat("is ", rcond, "; must be in [0, 1)"));
}

absl::Status DecodeSideAndOp(const v1::ApplyQRequest& request, Spec& spec) {
  switch (request.side()) {
    case v1::SIDE_UNSPECIFIED:
    case v1::SIDE_LEFT:
      spec.side = Side::kLeft;
      break;
    case v1::SIDE_RIGHT:
      spec.side = Side::kRight;
      break;
    default:
      return UnknownEnum("side", request.side());
  }
  switch (request.op()) {
    case v1::Q_OP_UNSPECIFIED:
    case v1::Q_OP_PLAIN:
      spec.q_op = QOp::kPlain;
      break;
    case v1::Q_OP_ADJOINT:
      spec.q_op = QOp::kAdjoint;
      break;
    default:
      return UnknownEnum("op", request.op());
  }
  return absl::OkStatus();
}

}  // namespace factord
