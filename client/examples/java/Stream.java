import com.google.protobuf.ByteString;
import com.google.protobuf.Duration;
import factord.v1.Chunk;
import factord.v1.DType;
import factord.v1.FactorizationGrpc;
import factord.v1.FactorizeRequest;
import factord.v1.QMode;
import factord.v1.QrFactors;
import factord.v1.QrOptions;
import factord.v1.Start;
import factord.v1.StreamRequest;
import factord.v1.StreamResponse;
import factord.v1.Tensor;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** Factorizes one large matrix over FactorizeStream, in chunks both ways, and checks the result: Stream ADDRESS */
final class Stream {
  private static final int M = 4000;
  private static final int N = 1000;
  private static final int CHUNK_BYTES = 1 << 20;
  private static final String REQUEST_ID = "large";

  public static void main(String[] args) throws Exception {
    double[] a = Matrix.normal(M * N, 2);
    ByteBuffer data = ByteBuffer.allocate(Double.BYTES * a.length).order(ByteOrder.LITTLE_ENDIAN);
    data.asDoubleBuffer().put(a);

    ManagedChannel channel = Connection.to(args[0]).build(); // default limits: no chunk is over 4 MiB
    try {
      Exchange exchange = new Exchange(data);
      FactorizationGrpc.newStub(channel).withDeadlineAfter(120, TimeUnit.SECONDS).factorizeStream(exchange);
      ByteBuffer[] factors = exchange.factors.get();
      check(a, decode(factors[0]), decode(factors[1]));
    } finally {
      channel.shutdownNow();
    }
  }

  /** Sends whenever gRPC has room; puts what comes together. */
  private static final class Exchange implements ClientResponseObserver<StreamRequest, StreamResponse> {
    /** Q and R, or why there are none. */
    final CompletableFuture<ByteBuffer[]> factors = new CompletableFuture<>();

    private final ByteBuffer data;
    private final ByteBuffer[] results = new ByteBuffer[2];
    private ClientCallStreamObserver<StreamRequest> call;
    private boolean started;
    private boolean closed;
    private int missing;

    Exchange(ByteBuffer data) {
      this.data = data;
    }

    @Override
    public void beforeStart(ClientCallStreamObserver<StreamRequest> call) {
      this.call = call;
      call.setOnReadyHandler(this::send);
    }

    /** The request without its data, then the data; each time as much as there is room for. */
    private void send() {
      while (call.isReady() && !closed) {
        if (!started) {
          started = true;
          call.onNext(StreamRequest.newBuilder().setStart(start()).build());
        } else if (data.hasRemaining()) {
          call.onNext(StreamRequest.newBuilder().setChunk(nextChunk()).build());
        } else {
          closed = true;
          call.onCompleted();
        }
      }
    }

    private static Start start() {
      return Start.newBuilder()
          .setRequestId(REQUEST_ID)
          .setTimeout(Duration.newBuilder().setSeconds(60))
          .setFactorize(FactorizeRequest.newBuilder()
              .addA(Tensor.newBuilder().setDtype(DType.DTYPE_F64).addAllDims(List.of((long) M, (long) N)))
              .setQr(QrOptions.newBuilder().setQ(QMode.Q_MODE_REDUCED).setR(true)))
          .build();
    }

    private Chunk nextChunk() {
      int offset = data.position();
      return Chunk.newBuilder()
          .setRequestId(REQUEST_ID)
          .setTensor(0)
          .setOffset(offset)
          .setData(ByteString.copyFrom(data, Math.min(CHUNK_BYTES, data.remaining())))
          .build();
    }

    /** A header says how large Q and R are; their chunks come in any order; Done says how it ended. */
    @Override
    public void onNext(StreamResponse reply) {
      switch (reply.getMessageCase()) {
        case HEADER -> {
          QrFactors header = reply.getHeader().getResult().getFactorize().getQr(0);
          results[0] = allocate(header.getQ());
          results[1] = allocate(header.getR());
          missing = results[0].capacity() + results[1].capacity();
        }
        case CHUNK -> {
          Chunk chunk = reply.getChunk();
          ByteBuffer place = results[chunk.getTensor()].duplicate().position((int) chunk.getOffset());
          chunk.getData().copyTo(place);
          missing -= chunk.getData().size();
        }
        case DONE -> {
          if (reply.getDone().getStatus().getCode() != 0) {
            factors.completeExceptionally(StatusProto.toStatusRuntimeException(reply.getDone().getStatus()));
          } else if (missing != 0) {
            factors.completeExceptionally(new IllegalStateException(missing + " bytes are missing"));
          } else {
            factors.complete(results);
          }
        }
        default -> {} // a newer server's message
      }
    }

    private static ByteBuffer allocate(Tensor tensor) {
      return ByteBuffer.allocate(Math.toIntExact(Double.BYTES * tensor.getDims(0) * tensor.getDims(1)));
    }

    @Override
    public void onError(Throwable error) {
      factors.completeExceptionally(error);
    }

    @Override
    public void onCompleted() {
      factors.completeExceptionally(Status.INTERNAL.withDescription("no result").asRuntimeException());
    }
  }

  private static double[] decode(ByteBuffer data) {
    double[] values = new double[data.capacity() / Double.BYTES];
    data.order(ByteOrder.LITTLE_ENDIAN).asDoubleBuffer().get(values);
    return values;
  }

  private static void check(double[] a, double[] q, double[] r) {
    double[] residuals = Matrix.residualsOnVector(a, q, r, M, N);
    System.out.printf("stream: %dx%d, |A-QR|/|A| %.1e, |Q'Q-I| %.1e%n", M, N, residuals[0], residuals[1]);
    if (!(residuals[0] < 1e-13 && residuals[1] < 1e-13)) {
      throw new AssertionError("the factors are wrong");
    }
  }
}
