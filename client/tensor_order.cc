#include "client/tensor_order.h"

namespace factord::client {
namespace {

using Tensors = std::vector<v1::Tensor*>;

void AppendReflectors(v1::Reflectors* factors, Tensors* tensors) {
  if (factors->has_reflectors()) tensors->push_back(factors->mutable_reflectors());
  if (factors->has_tau()) tensors->push_back(factors->mutable_tau());
}

}  // namespace

Tensors TensorsOf(v1::FactorizeRequest* message) {
  Tensors tensors;
  for (v1::Tensor& a : *message->mutable_a()) tensors.push_back(&a);
  return tensors;
}

Tensors TensorsOf(v1::FormQRequest* message) {
  Tensors tensors;
  for (v1::Reflectors& factors : *message->mutable_factors()) AppendReflectors(&factors, &tensors);
  return tensors;
}

Tensors TensorsOf(v1::ApplyQRequest* message) {
  Tensors tensors;
  for (v1::Application& application : *message->mutable_applications()) {
    if (application.has_factors()) AppendReflectors(application.mutable_factors(), &tensors);
    if (application.has_c()) tensors.push_back(application.mutable_c());
  }
  return tensors;
}

Tensors TensorsOf(v1::SolveRequest* message) {
  Tensors tensors;
  for (v1::LeastSquaresProblem& problem : *message->mutable_problems()) {
    if (problem.has_a()) tensors.push_back(problem.mutable_a());
    if (problem.has_b()) tensors.push_back(problem.mutable_b());
  }
  return tensors;
}

Tensors TensorsOf(v1::FactorizeResponse* message) {
  Tensors tensors;
  for (v1::QrFactors& qr : *message->mutable_qr()) {
    if (qr.has_q()) tensors.push_back(qr.mutable_q());
    if (qr.has_r()) tensors.push_back(qr.mutable_r());
    if (qr.has_reflectors()) tensors.push_back(qr.mutable_reflectors());
    if (qr.has_tau()) tensors.push_back(qr.mutable_tau());
  }
  return tensors;
}

Tensors TensorsOf(v1::FormQResponse* message) {
  Tensors tensors;
  for (v1::FormedQ& formed : *message->mutable_formed()) {
    if (formed.has_q()) tensors.push_back(formed.mutable_q());
  }
  return tensors;
}

Tensors TensorsOf(v1::ApplyQResponse* message) {
  Tensors tensors;
  for (v1::AppliedQ& applied : *message->mutable_applied()) {
    if (applied.has_c()) tensors.push_back(applied.mutable_c());
  }
  return tensors;
}

Tensors TensorsOf(v1::SolveResponse* message) {
  Tensors tensors;
  for (v1::LeastSquaresSolution& solution : *message->mutable_solutions()) {
    if (solution.has_x()) tensors.push_back(solution.mutable_x());
    if (solution.has_residual_norm()) tensors.push_back(solution.mutable_residual_norm());
  }
  return tensors;
}

Tensors TensorsOf(v1::Start* start) {
  switch (start->operation_case()) {
    case v1::Start::kFactorize:
      return TensorsOf(start->mutable_factorize());
    case v1::Start::kFormQ:
      return TensorsOf(start->mutable_form_q());
    case v1::Start::kApplyQ:
      return TensorsOf(start->mutable_apply_q());
    case v1::Start::kSolve:
      return TensorsOf(start->mutable_solve());
    case v1::Start::OPERATION_NOT_SET:
      return {};
  }
  return {};
}

Tensors TensorsOf(v1::StreamResult* result) {
  switch (result->result_case()) {
    case v1::StreamResult::kFactorize:
      return TensorsOf(result->mutable_factorize());
    case v1::StreamResult::kFormQ:
      return TensorsOf(result->mutable_form_q());
    case v1::StreamResult::kApplyQ:
      return TensorsOf(result->mutable_apply_q());
    case v1::StreamResult::kSolve:
      return TensorsOf(result->mutable_solve());
    case v1::StreamResult::RESULT_NOT_SET:
      return {};
  }
  return {};
}

}  // namespace factord::client
