import java.util.Random;

/** What these examples need of row-major matrices: whether A = QR. */
final class Matrix {
  private Matrix() {}

  static double[] normal(int count, long seed) {
    Random random = new Random(seed);
    double[] values = new double[count];
    for (int i = 0; i < count; i++) {
      values[i] = random.nextGaussian();
    }
    return values;
  }

  /** |A-QR|/|A| and |Q'Q-I|, Frobenius norms, of the m x n matrices that begin at `at`, m >= n. */
  static double[] residuals(float[] a, float[] q, float[] r, int at, int m, int n) {
    double difference = 0;
    double norm = 0;
    for (int i = 0; i < m; i++) {
      for (int j = 0; j < n; j++) {
        double sum = a[at + i * n + j];
        norm += sum * sum;
        for (int k = 0; k <= j; k++) {
          sum -= (double) q[at + i * n + k] * r[at + k * n + j];
        }
        difference += sum * sum;
      }
    }
    double orthogonality = 0;
    for (int i = 0; i < n; i++) {
      for (int j = 0; j < n; j++) {
        double sum = i == j ? -1 : 0;
        for (int k = 0; k < m; k++) {
          sum += (double) q[at + k * n + i] * q[at + k * n + j];
        }
        orthogonality += sum * sum;
      }
    }
    return new double[] {Math.sqrt(difference / norm), Math.sqrt(orthogonality)};
  }

  /** The same for a large matrix: |Ax-Q(Rx)|/|Ax| and |Q'(Qx)-x|/|x| with a random x. */
  static double[] residualsOnVector(double[] a, double[] q, double[] r, int m, int n) {
    double[] x = normal(n, 99);
    double[] ax = times(a, x, m, n);
    return new double[] {
      distance(times(q, times(r, x, n, n), m, n), ax),
      distance(timesTransposed(q, times(q, x, m, n), m, n), x)
    };
  }

  private static double[] times(double[] a, double[] x, int m, int n) {
    double[] y = new double[m];
    for (int i = 0; i < m; i++) {
      for (int j = 0; j < n; j++) {
        y[i] += a[i * n + j] * x[j];
      }
    }
    return y;
  }

  private static double[] timesTransposed(double[] a, double[] x, int m, int n) {
    double[] y = new double[n];
    for (int i = 0; i < m; i++) {
      for (int j = 0; j < n; j++) {
        y[j] += a[i * n + j] * x[i];
      }
    }
    return y;
  }

  private static double distance(double[] x, double[] from) {
    double difference = 0;
    double norm = 0;
    for (int i = 0; i < x.length; i++) {
      difference += (x[i] - from[i]) * (x[i] - from[i]);
      norm += from[i] * from[i];
    }
    return Math.sqrt(difference / norm);
  }
}
