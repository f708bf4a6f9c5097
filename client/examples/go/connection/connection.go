// Package connection opens a connection to a server, as these examples use it.
package connection

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
)

// Open is encrypted where FACTORD_CA names a file; with a token where FACTORD_TOKEN holds one.
func Open(address string, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	options = append(options, grpc.WithKeepaliveParams(keepalive.ClientParameters{
		Time: 30 * time.Second, Timeout: 10 * time.Second,
	}))
	ca := os.Getenv("FACTORD_CA")
	if ca == "" {
		return grpc.Dial(address, append(options, grpc.WithInsecure())...)
	}
	config, err := tlsConfig(ca, os.Getenv("FACTORD_CERT"), os.Getenv("FACTORD_KEY"))
	if err != nil {
		return nil, err
	}
	options = append(options, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if token := os.Getenv("FACTORD_TOKEN"); token != "" {
		options = append(options, grpc.WithPerRPCCredentials(bearer(token)))
	}
	return grpc.Dial(address, options...)
}

func tlsConfig(ca, certificate, key string) (*tls.Config, error) {
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: no certificate in it", ca)
	}
	if certificate != "" { // mutual TLS
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// A token, sent with every call; never without TLS.
type bearer string

func (token bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(token)}, nil
}

func (bearer) RequireTransportSecurity() bool { return true }
