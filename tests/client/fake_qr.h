#ifndef FACTORD_TESTS_CLIENT_FAKE_QR_H_
#define FACTORD_TESTS_CLIENT_FAKE_QR_H_

#include <vector>

#include "factord/v1/factord.pb.h"

namespace factord::client {

// The answers of a factord server, by textbook Householder QR in complex double whatever the type,
// with LAPACK's conventions. Requests must be valid; Solve takes tall matrices of full rank only.
v1::FactorizeResponse FakeFactorize(const v1::FactorizeRequest& request);
v1::FormQResponse FakeFormQ(const v1::FormQRequest& request);
v1::ApplyQResponse FakeApplyQ(const v1::ApplyQRequest& request);
v1::SolveResponse FakeSolve(const v1::SolveRequest& request);
// Of all messages of one stream.
v1::ReduceRowsResult FakeReduceRows(const std::vector<v1::ReduceRowsRequest>& messages);

}  // namespace factord::client

#endif  // FACTORD_TESTS_CLIENT_FAKE_QR_H_
