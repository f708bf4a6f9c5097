# frozen_string_literal: true

# Factorizes 1000 matrices of 32 x 32 in one call, and checks the result: batch.rb ADDRESS

require_relative 'connection'
require_relative 'matrix'
require 'json'

include Factord::V1

COUNT = 1000
M = 32
N = 32

# The reply, Q and R, is 8 MB: more than the 4 MiB that a stub receives by default.
MESSAGE_BYTES = 64 << 20 # the server's own default limit

# gRPC's own retries: while a server restarts, say. They need a copy of the request. They do not know RetryInfo:
# errors.rb does.
SERVICE_CONFIG = JSON.generate(
  methodConfig: [{
    name: [{ service: 'factord.v1.Factorization' }],
    retryPolicy: { maxAttempts: 5, initialBackoff: '0.1s', maxBackoff: '2s', backoffMultiplier: 2,
                   retryableStatusCodes: ['UNAVAILABLE'] }
  }]
)

# pack: e is a little-endian binary32, E a binary64.
a = Matrix.normal(COUNT * M * N, 1).pack('e*')
request = FactorizeRequest.new(
  a: [Tensor.new(dtype: :DTYPE_F32, dims: [COUNT, M, N], data: a)],
  qr: QrOptions.new(q: :Q_MODE_REDUCED, r: true)
)
stub = Connection.stub(ARGV.fetch(0),
                       'grpc.max_receive_message_length' => MESSAGE_BYTES,
                       'grpc.service_config' => SERVICE_CONFIG,
                       'grpc.per_rpc_retry_buffer_size' => MESSAGE_BYTES)
factors = stub.factorize(request, deadline: Time.now + 60).qr.first

batches = [a, factors.q.data, factors.r.data].map { |data| data.unpack('e*').each_slice(M * N) }
residual, orthogonality = batches.first.zip(*batches.drop(1))
                                 .map { |one, q, r| Matrix.residuals(one, q, r, N) }
                                 .transpose.map(&:max)
puts format("batch: #{COUNT} of #{M}x#{N}, |A-QR|/|A| %.1e, |Q'Q-I| %.1e", residual, orthogonality)
abort 'batch: the factors are wrong' unless residual < 1e-5 && orthogonality < 1e-5
