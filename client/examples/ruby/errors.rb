# frozen_string_literal: true

# What to do when a call fails: refused for good, refused for now, too late: errors.rb ADDRESS

require_relative 'connection'
require_relative 'matrix'
require 'google/protobuf/well_known_types' # Any#unpack
require 'google/rpc/error_details_pb'

include Factord::V1

# The error's detail of this kind; nil where the server sent none.
def detail(error, kind)
  packed = error.to_rpc_status&.details&.find { |any| any.is(kind) }
  packed&.unpack(kind)
end

# Tries again what was refused for now, after the delay that the server names, until the deadline. Counts in `refusals`.
def call_with_retries(deadline, refusals)
  backoff = 0.05
  begin
    yield deadline
  rescue GRPC::Unavailable => e # no other error goes away by itself
    delay = detail(e, Google::Rpc::RetryInfo)&.retry_delay
    wait = (delay ? delay.seconds + delay.nanos * 1e-9 : 0) + rand * backoff
    raise if Time.now + wait >= deadline

    refusals << e
    sleep wait
    backoff = [2 * backoff, 2].min
    retry
  end
end

def qr_request(numbers, m, n)
  FactorizeRequest.new(a: [Tensor.new(dtype: :DTYPE_F64, dims: [m, n], data: numbers.pack('E*'))],
                       qr: QrOptions.new(r: true))
end

def show_refusal(stub)
  stub.factorize(qr_request([0.0] * 12, 4, 4), deadline: Time.now + 10)
  abort 'refused: it was not'
rescue GRPC::InvalidArgument => e
  puts "refused: INVALID_ARGUMENT, #{detail(e, Google::Rpc::BadRequest).field_violations.first.field}"
end

# 16 calls at once: more than a server takes whose queue is short.
def show_busy(stub)
  request = qr_request(Matrix.normal(300 * 300, 3), 300, 300)
  refusals = Queue.new
  calls = Array.new(16) do
    Thread.new { call_with_retries(Time.now + 60, refusals) { |deadline| stub.factorize(request, deadline: deadline) } }
  end
  calls.each(&:value)
  puts "busy: #{calls.size} calls answered, #{refusals.size} refusals"
end

def show_deadline(stub)
  stub.factorize(qr_request([0.0] * 1_000_000, 1000, 1000), deadline: Time.now + 0.001)
  abort 'late: it was not'
rescue GRPC::DeadlineExceeded
  puts 'late: DEADLINE_EXCEEDED'
end

stub = Connection.stub(ARGV.fetch(0))
show_refusal(stub)
show_busy(stub)
show_deadline(stub)
