// What to do when a call fails: refused for good, refused for now, too late: errors ADDRESS
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand"
	"os"
	"sync/atomic"
	"time"

	"example.com/factord-examples/connection"
	factordv1 "example.com/factord-examples/factord/v1"
	"example.com/factord-examples/matrix"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var refusals int64

// How long the server asks to wait before the next try; 0 where it did not say.
func retryDelay(err error) time.Duration {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			return time.Duration(info.RetryDelay.GetSeconds())*time.Second + time.Duration(info.RetryDelay.GetNanos())
		}
	}
	return 0
}

// The field that the server refused; empty where it named none.
func refusedField(err error) string {
	for _, detail := range status.Convert(err).Details() {
		if bad, ok := detail.(*errdetails.BadRequest); ok && len(bad.FieldViolations) > 0 {
			return bad.FieldViolations[0].Field
		}
	}
	return ""
}

// Tries again what was refused for now, after the delay that the server names, until the context's deadline.
func callWithRetries(ctx context.Context, call func(context.Context) error) error {
	for backoff := 50 * time.Millisecond; ; {
		err := call(ctx)
		if status.Code(err) != codes.Unavailable {
			return err // no other error goes away by itself
		}
		wait := time.NewTimer(retryDelay(err) + time.Duration(rand.Int63n(int64(backoff))))
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return err
		}
		atomic.AddInt64(&refusals, 1)
		if backoff *= 2; backoff > 2*time.Second {
			backoff = 2 * time.Second
		}
	}
}

func qrRequest(a []float64, m, n int64) *factordv1.FactorizeRequest {
	return &factordv1.FactorizeRequest{
		A: []*factordv1.Tensor{{
			Dtype: factordv1.DType_DTYPE_F64, Dims: []int64{m, n}, Data: matrix.Encode(a),
		}},
		Factorization: &factordv1.FactorizeRequest_Qr{Qr: &factordv1.QrOptions{R: true}},
	}
}

func showRefusal(client factordv1.FactorizationClient) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err := client.Factorize(ctx, qrRequest(make([]float64, 12), 4, 4))
	fmt.Printf("refused: %v, %v\n", status.Code(err), refusedField(err))
	if status.Code(err) != codes.InvalidArgument {
		return fmt.Errorf("not refused as expected: %v", err)
	}
	return nil
}

// 16 calls at once: more than a server takes whose queue is short.
func showBusy(client factordv1.FactorizationClient) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	request := qrRequest(matrix.Normal[float64](300*300, 3), 300, 300)
	results := make(chan error, 16)
	for i := 0; i < cap(results); i++ {
		go func() {
			results <- callWithRetries(ctx, func(ctx context.Context) error {
				_, err := client.Factorize(ctx, request)
				return err
			})
		}()
	}
	for i := 0; i < cap(results); i++ {
		if err := <-results; err != nil {
			return err
		}
	}
	fmt.Printf("busy: %d calls answered, %d refusals\n", cap(results), atomic.LoadInt64(&refusals))
	return nil
}

func showDeadline(client factordv1.FactorizationClient) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err := client.Factorize(ctx, qrRequest(make([]float64, 1000*1000), 1000, 1000))
	fmt.Printf("late: %v\n", status.Code(err))
	if status.Code(err) != codes.DeadlineExceeded {
		return errors.New("not late as expected")
	}
	return nil
}

func main() {
	conn, err := connection.Open(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	client := factordv1.NewFactorizationClient(conn)
	for _, show := range []func(factordv1.FactorizationClient) error{showRefusal, showBusy, showDeadline} {
		if err := show(client); err != nil {
			log.Fatal("errors: ", err)
		}
	}
}
