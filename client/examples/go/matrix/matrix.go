// Package matrix has what these examples need of row-major matrices: their bytes, and whether A = QR.
package matrix

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand"
)

// Element is what a matrix is made of.
type Element interface{ float32 | float64 }

// Normal returns count seeded normal numbers.
func Normal[T Element](count int, seed int64) []T {
	rng := rand.New(rand.NewSource(seed))
	values := make([]T, count)
	for i := range values {
		values[i] = T(rng.NormFloat64())
	}
	return values
}

// Encode returns the little-endian bytes of a Tensor's data.
func Encode[T Element](values []T) []byte {
	var data bytes.Buffer
	binary.Write(&data, binary.LittleEndian, values) // a Buffer takes everything
	return data.Bytes()
}

// Decode is Encode backwards.
func Decode[T Element](data []byte) ([]T, error) {
	var zero T
	values := make([]T, len(data)/binary.Size(zero))
	return values, binary.Read(bytes.NewReader(data), binary.LittleEndian, values)
}

// Residuals returns |A-QR|/|A| and |Q'Q-I|, Frobenius norms, of one m x n matrix, m >= n.
func Residuals[T Element](a, q, r []T, m, n int) (residual, orthogonality float64) {
	var difference, norm float64
	for i := 0; i < m; i++ {
		for j := 0; j < n; j++ {
			sum := float64(a[i*n+j])
			norm += sum * sum
			for k := 0; k <= j; k++ {
				sum -= float64(q[i*n+k]) * float64(r[k*n+j])
			}
			difference += sum * sum
		}
	}
	for i := 0; i < n; i++ {
		for j := 0; j < n; j++ {
			sum := 0.0
			if i == j {
				sum = -1
			}
			for k := 0; k < m; k++ {
				sum += float64(q[k*n+i]) * float64(q[k*n+j])
			}
			orthogonality += sum * sum
		}
	}
	return math.Sqrt(difference / norm), math.Sqrt(orthogonality)
}

// ResidualsOnVector is Residuals for a large matrix: |Ax-Q(Rx)|/|Ax| and |Q'(Qx)-x|/|x| with a random x.
func ResidualsOnVector(a, q, r []float64, m, n int) (residual, orthogonality float64) {
	x := Normal[float64](n, 99)
	ax := times(a, x, m, n)
	return distance(times(q, times(r, x, n, n), m, n), ax), distance(timesTransposed(q, times(q, x, m, n), m, n), x)
}

func times(a, x []float64, m, n int) []float64 {
	y := make([]float64, m)
	for i := range y {
		for j, value := range x {
			y[i] += a[i*n+j] * value
		}
	}
	return y
}

func timesTransposed(a, x []float64, m, n int) []float64 {
	y := make([]float64, n)
	for i := 0; i < m; i++ {
		for j := range y {
			y[j] += a[i*n+j] * x[i]
		}
	}
	return y
}

func distance(x, from []float64) float64 {
	var difference, norm float64
	for i := range x {
		difference += (x[i] - from[i]) * (x[i] - from[i])
		norm += from[i] * from[i]
	}
	return math.Sqrt(difference / norm)
}
