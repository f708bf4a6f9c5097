# frozen_string_literal: true

require 'factord/v1/factord_services_pb'

# A stub for a server, as these examples use it.
module Connection
  KEEPALIVE = { 'grpc.keepalive_time_ms' => 30_000, 'grpc.keepalive_timeout_ms' => 10_000 }.freeze

  module_function

  # Encrypted where FACTORD_CA names a file; with a token where FACTORD_TOKEN holds one.
  def stub(address, channel_args = {})
    Factord::V1::Factorization::Stub.new(address, credentials, channel_args: KEEPALIVE.merge(channel_args))
  end

  def credentials
    ca, key, certificate = %w[FACTORD_CA FACTORD_KEY FACTORD_CERT].map { |name| ENV[name] && File.read(ENV[name]) }
    return :this_channel_is_insecure unless ca

    tls = GRPC::Core::ChannelCredentials.new(ca, key, certificate) # key and certificate are for mutual TLS, or nil
    ENV['FACTORD_TOKEN'] ? tls.compose(bearer(ENV['FACTORD_TOKEN'])) : tls
  end

  # A token, sent with every call.
  def bearer(token)
    GRPC::Core::CallCredentials.new(proc { { authorization: "Bearer #{token}" } })
  end
end
