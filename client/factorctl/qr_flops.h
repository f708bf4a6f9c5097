#ifndef FACTORD_CLIENT_FACTORCTL_QR_FLOPS_H_
#define FACTORD_CLIENT_FACTORCTL_QR_FLOPS_H_

#include "client/factorctl/shapes.h"
#include "factord/v1/factord.pb.h"

namespace factord::client {

// LAPACK's operation count of what `qr` asks for, over the whole batch: geqrf, 2mn^2 - 2n^3/3 for m
// >= n, and orgqr where Q is asked for; four times as much for complex types.
double QrFlops(const Dims& dims, v1::DType dtype, const v1::QrOptions& qr);

}  // namespace factord::client

#endif  // FACTORD_CLIENT_FACTORCTL_QR_FLOPS_H_
