import com.google.protobuf.Any;
import com.google.protobuf.ByteString;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.rpc.BadRequest;
import com.google.rpc.RetryInfo;
import factord.v1.DType;
import factord.v1.FactorizationGrpc;
import factord.v1.FactorizationGrpc.FactorizationBlockingStub;
import factord.v1.FactorizeRequest;
import factord.v1.FactorizeResponse;
import factord.v1.QrOptions;
import factord.v1.Tensor;
import io.grpc.Deadline;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** What to do when a call fails: refused for good, refused for now, too late: Errors ADDRESS */
final class Errors {
  private static final AtomicInteger refusals = new AtomicInteger();

  /** The error's detail of this kind, if the server sent one. */
  private static <T extends Message> Optional<T> detail(StatusRuntimeException error, Class<T> kind)
      throws InvalidProtocolBufferException {
    com.google.rpc.Status status = StatusProto.fromThrowable(error);
    for (Any packed : status == null ? List.<Any>of() : status.getDetailsList()) {
      if (packed.is(kind)) {
        return Optional.of(packed.unpack(kind));
      }
    }
    return Optional.empty();
  }

  /** Tries again what was refused for now, after the delay that the server names, until the deadline. */
  private static FactorizeResponse factorizeWithRetries(
      FactorizationBlockingStub stub, FactorizeRequest request, Deadline deadline) throws Exception {
    for (long backoff = 50; ; backoff = Math.min(2 * backoff, 2000)) {
      long wait;
      try {
        return stub.withDeadline(deadline).factorize(request);
      } catch (StatusRuntimeException error) {
        if (error.getStatus().getCode() != Status.Code.UNAVAILABLE) {
          throw error; // no other error goes away by itself
        }
        var delay = detail(error, RetryInfo.class).orElse(RetryInfo.getDefaultInstance()).getRetryDelay();
        wait = 1000 * delay.getSeconds() + delay.getNanos() / 1_000_000 + ThreadLocalRandom.current().nextLong(1, backoff);
        if (wait >= deadline.timeRemaining(TimeUnit.MILLISECONDS)) {
          throw error;
        }
      }
      refusals.incrementAndGet();
      Thread.sleep(wait);
    }
  }

  private static FactorizeRequest qrRequest(double[] a, long m, long n) {
    ByteBuffer bytes = ByteBuffer.allocate(Double.BYTES * a.length).order(ByteOrder.LITTLE_ENDIAN);
    bytes.asDoubleBuffer().put(a);
    return FactorizeRequest.newBuilder()
        .addA(Tensor.newBuilder()
            .setDtype(DType.DTYPE_F64)
            .addAllDims(List.of(m, n))
            .setData(ByteString.copyFrom(bytes)))
        .setQr(QrOptions.newBuilder().setR(true))
        .build();
  }

  private static void showRefusal(FactorizationBlockingStub stub) throws Exception {
    try {
      stub.withDeadlineAfter(10, TimeUnit.SECONDS).factorize(qrRequest(new double[12], 4, 4));
      throw new AssertionError("not refused");
    } catch (StatusRuntimeException error) {
      String field = detail(error, BadRequest.class)
          .map(bad -> bad.getFieldViolations(0).getField())
          .orElse("no field");
      System.out.printf("refused: %s, %s%n", error.getStatus().getCode(), field);
      if (error.getStatus().getCode() != Status.Code.INVALID_ARGUMENT) {
        throw error;
      }
    }
  }

  /** 16 calls at once: more than a server takes whose queue is short. */
  private static void showBusy(FactorizationBlockingStub stub) throws Exception {
    FactorizeRequest request = qrRequest(Matrix.normal(300 * 300, 3), 300, 300);
    Deadline deadline = Deadline.after(60, TimeUnit.SECONDS);
    Callable<FactorizeResponse> call = () -> factorizeWithRetries(stub, request, deadline);
    ExecutorService threads = Executors.newFixedThreadPool(16);
    try {
      List<Future<FactorizeResponse>> answers = threads.invokeAll(Collections.nCopies(16, call));
      for (Future<FactorizeResponse> answer : answers) {
        answer.get();
      }
      System.out.printf("busy: %d calls answered, %d refusals%n", answers.size(), refusals.get());
    } finally {
      threads.shutdown();
    }
  }

  private static void showDeadline(FactorizationBlockingStub stub) {
    FactorizeRequest request = qrRequest(new double[1000 * 1000], 1000, 1000);
    try {
      stub.withDeadlineAfter(1, TimeUnit.MILLISECONDS).factorize(request);
      throw new AssertionError("not late");
    } catch (StatusRuntimeException error) {
      System.out.printf("late: %s%n", error.getStatus().getCode());
      if (error.getStatus().getCode() != Status.Code.DEADLINE_EXCEEDED) {
        throw error;
      }
    }
  }

  public static void main(String[] args) throws Exception {
    ManagedChannel channel = Connection.to(args[0]).build();
    try {
      FactorizationBlockingStub stub = FactorizationGrpc.newBlockingStub(channel);
      showRefusal(stub);
      showBusy(stub);
      showDeadline(stub);
    } finally {
      channel.shutdownNow();
    }
  }
}
