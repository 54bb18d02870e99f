// Package limited has interceptors for servers of gRPC-Go that ask Tollgate. Copy this file into
// your program: Tollgate's module has no dependency, and so it has no interceptor.
package limited

import (
	"context"
	"net"

	"github.com/golang/protobuf/ptypes"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"tollgate.example/tollgate"
)

// Options are those of the interceptors.
type Options struct {
	// Limits of each subject: `100/m`.
	Limits string
	// Key is the subject of a call; without it the address of the peer. An empty one is refused.
	Key func(ctx context.Context, method string) string
	// Failures says what happens without a decision: tollgate.NewFailures makes them.
	Failures *tollgate.Failures
}

// Unary limits calls with one request.
func Unary(client tollgate.Client, options Options) grpc.UnaryServerInterceptor {
	return func(
		ctx context.Context, request interface{}, info *grpc.UnaryServerInfo,
		handler grpc.UnaryHandler,
	) (interface{}, error) {
		if err := options.judge(ctx, client, info.FullMethod); err != nil {
			return nil, err
		}
		return handler(ctx, request)
	}
}

// Stream limits the beginning of streams.
func Stream(client tollgate.Client, options Options) grpc.StreamServerInterceptor {
	return func(
		server interface{}, stream grpc.ServerStream, info *grpc.StreamServerInfo,
		handler grpc.StreamHandler,
	) error {
		if err := options.judge(stream.Context(), client, info.FullMethod); err != nil {
			return err
		}
		return handler(server, stream)
	}
}

func (o *Options) judge(ctx context.Context, client tollgate.Client, method string) error {
	subject := o.subject(ctx, method)
	if subject == "" || len(subject) > tollgate.MaxTextBytes {
		return status.Error(codes.InvalidArgument, "this call names no client")
	}
	question := tollgate.On(subject, o.Limits)
	question.OnFailure = o.Failures.Rule()
	decision, err := client.Check(ctx, question)
	switch {
	case err != nil && ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	case err != nil:
		if o.Failures.Lost(err) {
			return nil
		}
		return status.Error(codes.Unavailable, "calls cannot be counted at the moment")
	}
	o.Failures.Heard(decision)
	switch {
	case decision.Allowed:
		return nil
	case decision.RetryAfter > 0:
		refused := status.New(codes.ResourceExhausted, "ask again later")
		// With google.golang.org/protobuf it is durationpb.New.
		wait := &errdetails.RetryInfo{RetryDelay: ptypes.DurationProto(decision.RetryAfter)}
		if detailed, err := refused.WithDetails(wait); err == nil {
			refused = detailed
		}
		return refused.Err()
	case decision.Outcome == "banned":
		return status.Error(codes.PermissionDenied, "this client is banned")
	case decision.Outcome == "never":
		return status.Error(codes.InvalidArgument, "this call costs more than its limit")
	}
	return status.Error(codes.Unavailable, "calls cannot be counted at the moment")
}

func (o *Options) subject(ctx context.Context, method string) string {
	if o.Key != nil {
		return o.Key(ctx, method)
	}
	from, known := peer.FromContext(ctx)
	if !known {
		return ""
	}
	// A peer at a Unix socket has no address.
	host, _, err := net.SplitHostPort(from.Addr.String())
	if err != nil {
		return ""
	}
	return "ip:" + host
}
