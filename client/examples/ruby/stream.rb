# frozen_string_literal: true

# Factorizes one large matrix over FactorizeStream, in chunks both ways, and checks the result: stream.rb ADDRESS

require_relative 'connection'
require_relative 'matrix'

include Factord::V1

M = 4000
N = 1000
CHUNK_BYTES = 1 << 20
REQUEST_ID = 'large'

# The request without its data, then the data. gRPC asks for the next message when the last one has left.
def messages(data)
  return enum_for(:messages, data) unless block_given?

  yield StreamRequest.new(start: Start.new(
    request_id: REQUEST_ID,
    timeout: Google::Protobuf::Duration.new(seconds: 60),
    factorize: FactorizeRequest.new(
      a: [Tensor.new(dtype: :DTYPE_F64, dims: [M, N])],
      qr: QrOptions.new(q: :Q_MODE_REDUCED, r: true)
    )
  ))
  (0...data.bytesize).step(CHUNK_BYTES) do |offset|
    piece = data.byteslice(offset, CHUNK_BYTES)
    yield StreamRequest.new(chunk: Chunk.new(request_id: REQUEST_ID, tensor: 0, offset: offset, data: piece))
  end
end

# The bytes of Q and R. A header says how large they are; their chunks come in any order; Done says how it ended.
def factors(replies)
  results = []
  missing = 0
  replies.each do |reply|
    case reply.message
    when :header
      header = reply.header.result.factorize.qr.first
      results = [header.q, header.r].map { |tensor| "\0".b * (8 * tensor.dims.reduce(:*)) }
      missing = results.sum(&:bytesize)
    when :chunk
      chunk = reply.chunk
      results[chunk.tensor][chunk.offset, chunk.data.bytesize] = chunk.data
      missing -= chunk.data.bytesize
    when :done
      abort "stream: #{reply.done.status.message}" unless reply.done.status.code.zero?
      abort "stream: #{missing} bytes are missing" unless missing.zero?
      return results
    end
  end
  abort 'stream: it ended without a result'
end

numbers = Matrix.normal(M * N, 2)
stub = Connection.stub(ARGV.fetch(0)) # default limits: no chunk is over 4 MiB
q, r = factors(stub.factorize_stream(messages(numbers.pack('E*')), deadline: Time.now + 120))

residual, orthogonality = Matrix.residuals_on_vector(numbers, q.unpack('E*'), r.unpack('E*'), N)
puts format("stream: #{M}x#{N}, |A-QR|/|A| %.1e, |Q'Q-I| %.1e", residual, orthogonality)
abort 'stream: the factors are wrong' unless residual < 1e-13 && orthogonality < 1e-13
