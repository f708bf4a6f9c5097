// Explain and GetServerInfo: what the server would do, and what it is.
#pragma once

#include "absl/status/statusor.h"
#include "factord/v1/factord.pb.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/rpc/service_context.h"

namespace factord {

// Of a request without payloads: shapes alone.
absl::StatusOr<v1::ExplainResponse> ExplainShapes(const v1::ExplainRequest& request,
                                                  const ServiceContext& context);

absl::StatusOr<v1::ExplainResponse> Explain(const grpc::ByteBuffer& request,
                                            const ServiceContext& context);

absl::StatusOr<v1::GetServerInfoResponse> GetServerInfo(const grpc::ByteBuffer& request,
                                                        const ServiceContext& context);

}  // namespace factord
