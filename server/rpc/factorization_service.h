// FactorizationService: factord.v1.Factorization, on raw messages: each RPC gets the bytes as they
// came and hands out bytes to send (wire.h), so that matrices never pass through protobuf. To
// clients it is an ordinary protobuf service.
#pragma once

#include "factord/v1/factord.grpc.pb.h"
#include "server/rpc/service_context.h"
#include "server/rpc/stream_registry.h"

namespace factord {

namespace internal {

template <template <typename> class... Raw>
struct WithRaw;
template <template <typename> class First, template <typename> class... Rest>
struct WithRaw<First, Rest...> {
  using Type = First<typename WithRaw<Rest...>::Type>;
};
template <>
struct WithRaw<> {
  using Type = v1::Factorization::Service;
};

using RawService = WithRaw<v1::Factorization::WithRawCallbackMethod_Factorize,
                           v1::Factorization::WithRawCallbackMethod_FactorizeStream,
                           v1::Factorization::WithRawCallbackMethod_FormQ,
                           v1::Factorization::WithRawCallbackMethod_ApplyQ,
                           v1::Factorization::WithRawCallbackMethod_Solve,
                           v1::Factorization::WithRawCallbackMethod_ReduceRows,
                           v1::Factorization::WithRawCallbackMethod_Explain,
                           v1::Factorization::WithRawCallbackMethod_GetServerInfo>::Type;

}  // namespace internal

// Thread-safe. The context outlives the service.
class FactorizationService final : public internal::RawService {
 public:
  explicit FactorizationService(ServiceContext& context);

  // From now on everything new is refused with UNAVAILABLE; streams end when their requests have.
  void BeginDrain();

 private:
  using Unary = grpc::ServerUnaryReactor;
  using Context = grpc::CallbackServerContext;
  using Bytes = grpc::ByteBuffer;

  Unary* Factorize(Context* context, const Bytes* request, Bytes* response) override;
  Unary* FormQ(Context* context, const Bytes* request, Bytes* response) override;
  Unary* ApplyQ(Context* context, const Bytes* request, Bytes* response) override;
  Unary* Solve(Context* context, const Bytes* request, Bytes* response) override;
  Unary* Explain(Context* context, const Bytes* request, Bytes* response) override;
  Unary* GetServerInfo(Context* context, const Bytes* request, Bytes* response) override;
  grpc::ServerBidiReactor<Bytes, Bytes>* FactorizeStream(Context* context) override;

  grpc::ServerBidiReactor<Bytes, Bytes>* ReduceRows(Context* context) override;

  ServiceContext& context_;
  StreamRegistry streams_;
};

}  // namespace factord
