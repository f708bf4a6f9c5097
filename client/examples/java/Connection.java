import io.grpc.CallCredentials;
import io.grpc.ChannelCredentials;
import io.grpc.CompositeChannelCredentials;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import io.grpc.TlsChannelCredentials;
import java.io.File;
import java.io.IOException;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;

/** A channel to a server, as these examples use it. */
final class Connection {
  private Connection() {}

  /** Encrypted where FACTORD_CA names a file; with a token where FACTORD_TOKEN holds one. */
  static ManagedChannelBuilder<?> to(String address) throws IOException {
    return Grpc.newChannelBuilder(address, credentials())
        .keepAliveTime(30, TimeUnit.SECONDS)
        .keepAliveTimeout(10, TimeUnit.SECONDS);
  }

  private static ChannelCredentials credentials() throws IOException {
    String ca = System.getenv("FACTORD_CA");
    if (ca == null) {
      return InsecureChannelCredentials.create();
    }
    TlsChannelCredentials.Builder tls = TlsChannelCredentials.newBuilder().trustManager(new File(ca));
    String certificate = System.getenv("FACTORD_CERT");
    if (certificate != null) { // mutual TLS
      tls.keyManager(new File(certificate), new File(System.getenv("FACTORD_KEY")));
    }
    String token = System.getenv("FACTORD_TOKEN");
    return token == null ? tls.build() : CompositeChannelCredentials.create(tls.build(), new Bearer(token));
  }

  /** A token, sent with every call. */
  private static final class Bearer extends CallCredentials {
    private static final Metadata.Key<String> AUTHORIZATION =
        Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);
    private final Metadata headers = new Metadata();

    Bearer(String token) {
      headers.put(AUTHORIZATION, "Bearer " + token);
    }

    @Override
    public void applyRequestMetadata(RequestInfo call, Executor executor, MetadataApplier applier) {
      applier.apply(headers);
    }

    @Override
    public void thisUsesUnstableApi() {}
  }
}
