import com.google.protobuf.ByteString;
import factord.v1.DType;
import factord.v1.FactorizationGrpc;
import factord.v1.FactorizeRequest;
import factord.v1.FactorizeResponse;
import factord.v1.QMode;
import factord.v1.QrOptions;
import factord.v1.Tensor;
import io.grpc.ManagedChannel;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** Factorizes 1000 matrices of 32 x 32 in one call, and checks the result: Batch ADDRESS */
final class Batch {
  private static final int COUNT = 1000;
  private static final int M = 32;
  private static final int N = 32;

  // The reply, Q and R, is 8 MB: more than the 4 MiB that a channel receives by default.
  private static final int MESSAGE_BYTES = 64 << 20; // the server's own default limit

  // gRPC's own retries: while a server restarts, say. They need a copy of the request. They do not know RetryInfo:
  // Errors.java does.
  private static final Map<String, Object> SERVICE_CONFIG = Map.of("methodConfig", List.of(Map.of(
      "name", List.of(Map.of("service", "factord.v1.Factorization")),
      "retryPolicy", Map.of(
          "maxAttempts", 5.0, "initialBackoff", "0.1s", "maxBackoff", "2s", "backoffMultiplier", 2.0,
          "retryableStatusCodes", List.of("UNAVAILABLE")))));

  public static void main(String[] args) throws Exception {
    float[] a = new float[COUNT * M * N];
    double[] numbers = Matrix.normal(a.length, 1);
    for (int i = 0; i < a.length; i++) {
      a[i] = (float) numbers[i];
    }
    FactorizeRequest request = FactorizeRequest.newBuilder()
        .addA(Tensor.newBuilder()
            .setDtype(DType.DTYPE_F32)
            .addAllDims(List.of((long) COUNT, (long) M, (long) N))
            .setData(encode(a)))
        .setQr(QrOptions.newBuilder().setQ(QMode.Q_MODE_REDUCED).setR(true))
        .build();
    ManagedChannel channel = Connection.to(args[0])
        .maxInboundMessageSize(MESSAGE_BYTES)
        .defaultServiceConfig(SERVICE_CONFIG)
        .enableRetry()
        .perRpcBufferLimit(MESSAGE_BYTES)
        .retryBufferSize(MESSAGE_BYTES)
        .build();
    try {
      FactorizeResponse response = FactorizationGrpc.newBlockingStub(channel)
          .withDeadlineAfter(60, TimeUnit.SECONDS)
          .factorize(request);
      check(a, decode(response.getQr(0).getQ().getData()), decode(response.getQr(0).getR().getData()));
    } finally {
      channel.shutdownNow();
    }
  }

  /** A tensor's bytes are little-endian; a ByteBuffer is big-endian until told. */
  private static ByteString encode(float[] values) {
    ByteBuffer bytes = ByteBuffer.allocate(Float.BYTES * values.length).order(ByteOrder.LITTLE_ENDIAN);
    bytes.asFloatBuffer().put(values);
    return ByteString.copyFrom(bytes);
  }

  private static float[] decode(ByteString data) {
    float[] values = new float[data.size() / Float.BYTES];
    data.asReadOnlyByteBuffer().order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer().get(values);
    return values;
  }

  private static void check(float[] a, float[] q, float[] r) {
    double residual = 0;
    double orthogonality = 0;
    for (int i = 0; i < COUNT; i++) {
      double[] one = Matrix.residuals(a, q, r, i * M * N, M, N);
      residual = Math.max(residual, one[0]);
      orthogonality = Math.max(orthogonality, one[1]);
    }
    System.out.printf("batch: %d of %dx%d, |A-QR|/|A| %.1e, |Q'Q-I| %.1e%n", COUNT, M, N, residual, orthogonality);
    if (!(residual < 1e-5 && orthogonality < 1e-5)) {
      throw new AssertionError("the factors are wrong");
    }
  }
}
