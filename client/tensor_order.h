#ifndef FACTORD_CLIENT_TENSOR_ORDER_H_
#define FACTORD_CLIENT_TENSOR_ORDER_H_

#include <vector>

#include "factord/v1/factord.pb.h"

namespace factord::client {

// The tensors of a message in the order in which a stream counts them: field by field as declared,
// skipping those that are not set. The pointers are valid as long as the message is unchanged.
std::vector<v1::Tensor*> TensorsOf(v1::FactorizeRequest* message);
std::vector<v1::Tensor*> TensorsOf(v1::FormQRequest* message);
std::vector<v1::Tensor*> TensorsOf(v1::ApplyQRequest* message);
std::vector<v1::Tensor*> TensorsOf(v1::SolveRequest* message);
std::vector<v1::Tensor*> TensorsOf(v1::FactorizeResponse* message);
std::vector<v1::Tensor*> TensorsOf(v1::FormQResponse* message);
std::vector<v1::Tensor*> TensorsOf(v1::ApplyQResponse* message);
std::vector<v1::Tensor*> TensorsOf(v1::SolveResponse* message);

// Of whichever operation is set; empty if none is.
std::vector<v1::Tensor*> TensorsOf(v1::Start* start);
std::vector<v1::Tensor*> TensorsOf(v1::StreamResult* result);

}  // namespace factord::client

#endif  // FACTORD_CLIENT_TENSOR_ORDER_H_
