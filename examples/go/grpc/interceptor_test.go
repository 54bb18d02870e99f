// The interceptors before a server of gRPC; a test of the program `tollgate` runs it.

package limited

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	"github.com/golang/protobuf/ptypes"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"tollgate.example/tollgate"
)

// serve is a client of a server with both interceptors.
func serve(t *testing.T, url string, options Options) grpc_health_v1.HealthClient {
	t.Helper()
	client, err := tollgate.Open(url, tollgate.WithTimeout(20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(
		grpc.UnaryInterceptor(Unary(client, options)),
		grpc.StreamInterceptor(Stream(client, options)))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	connection, err := grpc.Dial(listener.Addr().String(), grpc.WithInsecure())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return grpc_health_v1.NewHealthClient(connection)
}

func failures(t *testing.T, rule tollgate.Rule) *tollgate.Failures {
	t.Helper()
	made, err := tollgate.NewFailures(rule, func(line string) { t.Log(line) })
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestCallsAreLimited(t *testing.T) {
	url := os.Getenv("TOLLGATE_URL")
	if url == "" {
		t.Skip("TOLLGATE_URL names no service")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	client := serve(t, url, Options{Limits: "2/h", Failures: failures(t, tollgate.Deny)})
	for i := 0; i < 2; i++ {
		if _, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	refused := status.Convert(err)
	if refused.Code() != codes.ResourceExhausted || len(refused.Details()) != 1 {
		t.Fatal(err)
	}
	wait, err := ptypes.Duration(refused.Details()[0].(*errdetails.RetryInfo).RetryDelay)
	if err != nil || wait < 50*time.Minute || wait > time.Hour {
		t.Error(wait)
	}
	stream, err := client.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.ResourceExhausted {
		t.Error(err)
	}
}

func TestTheRuleAnswersWithoutAService(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for rule, expected := range map[tollgate.Rule]codes.Code{
		tollgate.Allow: codes.OK, tollgate.Deny: codes.Unavailable,
	} {
		// Nobody listens on this port.
		options := Options{Limits: "2/h", Failures: failures(t, rule)}
		client := serve(t, "http://127.0.0.1:1", options)
		_, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		if status.Code(err) != expected {
			t.Error(rule, err)
		}
	}
	nobody := Options{Limits: "2/h", Failures: failures(t, tollgate.Allow),
		Key: func(context.Context, string) string { return "" }}
	_, err := serve(t, "http://127.0.0.1:1", nobody).Check(
		ctx, &grpc_health_v1.HealthCheckRequest{})
	if status.Code(err) != codes.InvalidArgument {
		t.Error(err)
	}
}
