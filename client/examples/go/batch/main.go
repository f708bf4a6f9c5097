// Factorizes 1000 matrices of 32 x 32 in one call, and checks the result: batch ADDRESS
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"os"
	"time"

	"example.com/factord-examples/connection"
	factordv1 "example.com/factord-examples/factord/v1"
	"example.com/factord-examples/matrix"
	"google.golang.org/grpc"
)

const count, m, n = 1000, 32, 32

// The reply, Q and R, is 8 MB: more than the 4 MiB that a client receives by default.
const messageBytes = 64 << 20 // the server's own default limit

// gRPC's own retries: while a server restarts, say. They need a copy of the request. They do not know RetryInfo:
// errors/main.go does. Before grpc-go 1.40 only where GRPC_GO_RETRY=on.
const serviceConfig = `{"methodConfig": [{
	"name": [{"service": "factord.v1.Factorization"}],
	"retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.1s", "maxBackoff": "2s", "backoffMultiplier": 2,
	                "retryableStatusCodes": ["UNAVAILABLE"]}
}]}`

func main() {
	if err := run(os.Args[1]); err != nil {
		log.Fatal("batch: ", err)
	}
}

func run(address string) error {
	conn, err := connection.Open(address,
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(messageBytes),
			grpc.MaxRetryRPCBufferSize(messageBytes)),
		grpc.WithDefaultServiceConfig(serviceConfig))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	a := matrix.Normal[float32](count*m*n, 1)
	response, err := factordv1.NewFactorizationClient(conn).Factorize(ctx, &factordv1.FactorizeRequest{
		A: []*factordv1.Tensor{{
			Dtype: factordv1.DType_DTYPE_F32,
			Dims:  []int64{count, m, n},
			Data:  matrix.Encode(a),
		}},
		Factorization: &factordv1.FactorizeRequest_Qr{
			Qr: &factordv1.QrOptions{Q: factordv1.QMode_Q_MODE_REDUCED, R: true},
		},
	})
	if err != nil {
		return err
	}
	return check(a, response.Qr[0])
}

func check(a []float32, factors *factordv1.QrFactors) error {
	q, err := matrix.Decode[float32](factors.Q.Data)
	if err != nil {
		return err
	}
	r, err := matrix.Decode[float32](factors.R.Data)
	if err != nil {
		return err
	}
	var residual, orthogonality float64
	for i := 0; i < count; i++ {
		from, to := i*m*n, (i+1)*m*n
		one, two := matrix.Residuals(a[from:to], q[from:to], r[from:to], m, n)
		residual, orthogonality = math.Max(residual, one), math.Max(orthogonality, two)
	}
	fmt.Printf("batch: %d of %dx%d, |A-QR|/|A| %.1e, |Q'Q-I| %.1e\n", count, m, n, residual, orthogonality)
	if !(residual < 1e-5 && orthogonality < 1e-5) {
		return errors.New("the factors are wrong")
	}
	return nil
}
