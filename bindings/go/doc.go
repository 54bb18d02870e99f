// Package tollgate asks the service of Tollgate, `tollgate serve`: may this go on?
//
//	client, err := tollgate.Open("http://127.0.0.1:8700")
//	decision, err := client.Check(ctx, tollgate.On("user:42", "10/s, 240/h"))
//
// A client over HTTP and one over the Redis protocol are one interface, [Client]. [Middleware]
// puts it before an http.Handler, and [Waiter] waits for a turn. The counts are in the store of
// the service, and all decisions are made there. docs/go.md of the project has the options.
package tollgate
