// Factorizes one large matrix over FactorizeStream, in chunks both ways, and checks the result: stream ADDRESS
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"example.com/factord-examples/connection"
	factordv1 "example.com/factord-examples/factord/v1"
	"example.com/factord-examples/matrix"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	m, n       = 4000, 1000
	chunkBytes = 1 << 20
	requestID  = "large"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		log.Fatal("stream: ", err)
	}
}

func run(address string) error {
	conn, err := connection.Open(address) // default limits: no chunk is over 4 MiB
	if err != nil {
		return err
	}
	defer conn.Close()
	// Leaving early cancels the stream, and with it the sender.
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	stream, err := factordv1.NewFactorizationClient(conn).FactorizeStream(ctx)
	if err != nil {
		return err
	}

	a := matrix.Normal[float64](m*n, 2)
	go send(stream, matrix.Encode(a)) // beside receiving: a refusal comes while chunks are still going out
	factors, err := receive(stream)
	if err != nil {
		return err
	}
	q, err := matrix.Decode[float64](factors[0])
	if err != nil {
		return err
	}
	r, err := matrix.Decode[float64](factors[1])
	if err != nil {
		return err
	}
	residual, orthogonality := matrix.ResidualsOnVector(a, q, r, m, n)
	fmt.Printf("stream: %dx%d, |A-QR|/|A| %.1e, |Q'Q-I| %.1e\n", m, n, residual, orthogonality)
	if !(residual < 1e-13 && orthogonality < 1e-13) {
		return errors.New("the factors are wrong")
	}
	return nil
}

// The request without its data, then the data. Send waits while the server does not read. An error ends the stream:
// the receiver learns why.
func send(stream factordv1.Factorization_FactorizeStreamClient, data []byte) {
	start := &factordv1.Start{
		RequestId: requestID,
		Timeout:   durationpb.New(time.Minute),
		Operation: &factordv1.Start_Factorize{Factorize: &factordv1.FactorizeRequest{
			A: []*factordv1.Tensor{{Dtype: factordv1.DType_DTYPE_F64, Dims: []int64{m, n}}},
			Factorization: &factordv1.FactorizeRequest_Qr{
				Qr: &factordv1.QrOptions{Q: factordv1.QMode_Q_MODE_REDUCED, R: true},
			},
		}},
	}
	if stream.Send(&factordv1.StreamRequest{Message: &factordv1.StreamRequest_Start{Start: start}}) != nil {
		return
	}
	for offset := 0; offset < len(data); offset += chunkBytes {
		end := offset + chunkBytes
		if end > len(data) {
			end = len(data)
		}
		chunk := &factordv1.Chunk{RequestId: requestID, Tensor: 0, Offset: int64(offset), Data: data[offset:end]}
		if stream.Send(&factordv1.StreamRequest{Message: &factordv1.StreamRequest_Chunk{Chunk: chunk}}) != nil {
			return
		}
	}
	stream.CloseSend()
}

// The bytes of Q and R. A header says how large they are; their chunks come in any order; Done says how it ended.
func receive(stream factordv1.Factorization_FactorizeStreamClient) ([2][]byte, error) {
	var factors [2][]byte
	missing := 0
	for {
		reply, err := stream.Recv()
		if err == io.EOF {
			return factors, errors.New("the stream ended without a result")
		}
		if err != nil {
			return factors, err
		}
		switch message := reply.Message.(type) {
		case *factordv1.StreamResponse_Header:
			result := message.Header.GetResult().GetFactorize().Qr[0]
			for i, tensor := range []*factordv1.Tensor{result.Q, result.R} {
				factors[i] = make([]byte, 8*tensor.Dims[0]*tensor.Dims[1])
				missing += len(factors[i])
			}
		case *factordv1.StreamResponse_Chunk:
			missing -= copy(factors[message.Chunk.Tensor][message.Chunk.Offset:], message.Chunk.Data)
		case *factordv1.StreamResponse_Done:
			if err := status.ErrorProto(message.Done.Status); err != nil {
				return factors, err
			}
			if missing != 0 {
				return factors, fmt.Errorf("%d bytes are missing", missing)
			}
			return factors, nil
		}
	}
}
