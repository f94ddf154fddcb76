package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"thoth/station/wire"
)

// DefaultURL is where a station listens unless told otherwise.
const DefaultURL = "http://127.0.0.1:8000"

// asV1 has the other decoder give what encoding/json gives, in half the time: that one
// would be most of what a long prompt costs its caller, who is given the id of each token.
// It reads a text twice to tell its syntax errors first; here an error is an error.
var asV1 = jsonv2.JoinOptions(jsonv1.DefaultOptionsV1(), jsonv1.ReportErrorsWithLegacySemantics(false))

// Client speaks to one station. It is safe for concurrent use.
type Client struct {
	base  string
	http  *pool
	owner string
}

// Options of a client; the zero value is usable.
type Options struct {
	Owner string // session owner; sent as X-Thoth-Owner
	// MaxConns bounds connections kept for reuse; default 256.
	MaxConns int
	// DialTimeout bounds one connection attempt; default 2 s.
	DialTimeout time.Duration
}

// New makes a client for an address: http://host:port or unix:///path.sock.
func New(address string, o Options) (*Client, error) {
	if o.MaxConns == 0 {
		o.MaxConns = 256
	}
	if o.DialTimeout == 0 {
		o.DialTimeout = 2 * time.Second
	}
	dialer := &net.Dialer{Timeout: o.DialTimeout, KeepAlive: 30 * time.Second}
	carry := &pool{most: o.MaxConns, keep: 90 * time.Second}
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("station address %q: %w", address, err)
	}
	base := strings.TrimRight(address, "/")
	switch u.Scheme {
	case "http":
		if u.Host == "" {
			return nil, fmt.Errorf("station address %q has no host", address)
		}
		host := u.Host
		if u.Port() == "" {
			host = net.JoinHostPort(u.Hostname(), "80")
		}
		carry.dial = func(ctx context.Context) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", host) }
	case "unix":
		path := u.Path
		if path == "" {
			return nil, fmt.Errorf("station address %q has no socket path", address)
		}
		carry.dial = func(ctx context.Context) (net.Conn, error) { return dialer.DialContext(ctx, "unix", path) }
		base = "http://station"
	default:
		return nil, fmt.Errorf("station address %q: want http://host:port or unix:///path.sock", address)
	}
	return &Client{base: base, http: carry, owner: o.Owner}, nil
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Health asks for /health. A loading or failed station answers too.
func (c *Client) Health(ctx context.Context) (*wire.Health, error) {
	return get[wire.Health](ctx, c, wire.RouteHealth)
}

// Model asks for /model.
func (c *Client) Model(ctx context.Context) (*wire.Model, error) {
	return get[wire.Model](ctx, c, wire.RouteModel)
}

// Stats asks for /stats.
func (c *Client) Stats(ctx context.Context) (*wire.Stats, error) {
	return get[wire.Stats](ctx, c, wire.RouteStats)
}

// Tokenize gives the tokens of a prompt.
func (c *Client) Tokenize(ctx context.Context, r *wire.TokenizeRequest) (*wire.TokenizeResponse, error) {
	return post[wire.TokenizeResponse](ctx, c, wire.RouteTokenize, r)
}

// Detokenize gives the text of tokens.
func (c *Client) Detokenize(ctx context.Context, r *wire.DetokenizeRequest) (*wire.DetokenizeResponse, error) {
	return post[wire.DetokenizeResponse](ctx, c, wire.RouteDetokenize, r)
}

// Embed stages tokens in a session.
func (c *Client) Embed(ctx context.Context, r *wire.EmbedRequest) (*wire.EmbedResponse, error) {
	return post[wire.EmbedResponse](ctx, c, wire.RouteEmbed, r)
}

// Vectors gives the pooled vectors of r.Input or r.InputTokens.
func (c *Client) Vectors(ctx context.Context, r *wire.EmbedRequest) (*wire.VectorsResponse, error) {
	return post[wire.VectorsResponse](ctx, c, wire.RouteEmbed, r)
}

// Rerank gives the documents' scores.
func (c *Client) Rerank(ctx context.Context, r *wire.RerankRequest) (*wire.RerankResponse, error) {
	return post[wire.RerankResponse](ctx, c, wire.RouteRerank, r)
}

// Forward evaluates staged tokens and waits for the end.
func (c *Client) Forward(ctx context.Context, r *wire.ForwardRequest) (*wire.ForwardResponse, error) {
	return post[wire.ForwardResponse](ctx, c, wire.RouteForward, r)
}

// ForwardStream is Forward with progress frames; r.Stream is set.
func (c *Client) ForwardStream(ctx context.Context, r *wire.ForwardRequest) (*Stream, error) {
	q := *r
	q.Stream = true
	return c.stream(ctx, wire.RouteForward, &q, 1)
}

// Generate starts prefill and decode in one call.
func (c *Client) Generate(ctx context.Context, r *wire.GenerateRequest) (*Stream, error) {
	return c.stream(ctx, wire.RouteGenerate, r, r.Answers())
}

// DecodeNext samples from a session.
func (c *Client) DecodeNext(ctx context.Context, r *wire.DecodeRequest) (*Stream, error) {
	return c.stream(ctx, wire.RouteDecodeNext, r, r.Answers())
}

func get[T any](ctx context.Context, c *Client, route string) (*T, error) {
	return roundTrip[T](ctx, c, http.MethodGet, route, nil)
}

func post[T any](ctx context.Context, c *Client, route string, body any) (*T, error) {
	return roundTrip[T](ctx, c, http.MethodPost, route, body)
}

func roundTrip[T any](ctx context.Context, c *Client, method, route string, body any) (*T, error) {
	req, err := c.request(ctx, method, route, body)
	if err != nil {
		return nil, err
	}
	resp, err := c.do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	v := new(T)
	if err := jsonv2.UnmarshalRead(resp.Body, v, asV1); err != nil { // to the end, or the connection is not reused
		return nil, transportError(ctx, err)
	}
	return v, nil
}

func (c *Client) request(ctx context.Context, method, route string, body any) (*http.Request, error) {
	var rd io.Reader
	if body != nil {
		b, err := encode(body)
		if err != nil {
			return nil, &wire.Error{Code: wire.CodeInvalid, Message: "request cannot be encoded: " + err.Error()}
		}
		rd = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+route, rd)
	if err != nil {
		return nil, &wire.Error{Code: wire.CodeInternal, Message: err.Error()}
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if repeatableCall(body) {
		req.Header[headerRepeatable] = nil
	}
	if c.owner != "" {
		req.Header.Set(wire.HeaderOwner, c.owner)
	}
	if id := RequestID(ctx); id != "" {
		req.Header.Set(wire.HeaderRequestID, id)
	}
	return req, nil
}

// encode is json.Marshal without the escapes for HTML: prompts and grammars are full of
// angle brackets, and each would be six bytes.
func encode(body any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(body); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// repeatableCall tells that a call does no harm when the station gets it twice, the
// first time over a connection that has ended since. What reads is such a call. So is
// one that generates: the station drops it, and all it has made, with its connection,
// but for stored KV, which is the same after two.
// After two saves or deletes there is what there is after one, and who is told the
// second time that the session is gone already knows all he needs. Not so the other
// steps of a session: tokens would be staged twice, or an answer go on from a token that
// nobody was given.
func repeatableCall(body any) bool {
	switch r := body.(type) {
	case *wire.GenerateRequest, *wire.TokenizeRequest, *wire.DetokenizeRequest, *wire.RerankRequest,
		*wire.KVLookupRequest, *wire.KVSaveRequest, *wire.KVDeleteRequest:
		return true
	case *wire.EmbedRequest:
		return r.Input != nil || r.InputTokens != nil
	}
	return false
}

// do sends the request and turns every answer of 400 and above into an error.
func (c *Client) do(req *http.Request) (*http.Response, error) {
	resp, err := c.http.RoundTrip(req)
	if err != nil {
		return nil, transportError(req.Context(), err)
	}
	if resp.StatusCode < 400 {
		return resp, nil
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	var eb wire.ErrorBody
	if json.Unmarshal(b, &eb) == nil && eb.Error != nil && eb.Error.Code != "" {
		return nil, eb.Error
	}
	code := wire.CodeInternal
	switch resp.StatusCode {
	case http.StatusNotFound:
		code = wire.CodeNoRoute
	case http.StatusMethodNotAllowed:
		code = wire.CodeMethod
	case http.StatusGone:
		code = wire.CodeGone
	case http.StatusServiceUnavailable, http.StatusBadGateway:
		code = wire.CodeUnavailable
	case http.StatusTooManyRequests:
		code = wire.CodeOverloaded
	case http.StatusBadRequest:
		code = wire.CodeInvalid
	}
	return nil, &wire.Error{Code: code, Retryable: resp.StatusCode == 429 || resp.StatusCode >= 502,
		Taken:   resp.StatusCode == http.StatusBadGateway, // a proxy had a connection, or none: who knows
		Message: fmt.Sprintf("the station answered %s to %s", resp.Status, req.URL.Path)}
}

// transportError names what broke the connection, the caller's own end first.
func transportError(ctx context.Context, err error) *wire.Error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &wire.Error{Code: wire.CodeTimeout, Message: "the request's time ran out", Retryable: true}
	case ctx.Err() != nil:
		return &wire.Error{Code: wire.CodeCancelled, Message: "the caller went away"}
	}
	return &wire.Error{Code: wire.CodeUnavailable, Message: "the station cannot be reached: " + err.Error(), Retryable: true, Taken: taken(err)}
}

// taken tells whether the station may have had the request when its connection broke.
func taken(err error) bool {
	var u *unanswered
	if errors.As(err, &u) {
		return !u.cut
	}
	var op *net.OpError
	return !errors.As(err, &op) || op.Op != "dial"
}

type requestIDKey struct{}

// WithRequestID makes calls under ctx carry X-Request-Id.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestIDKey{}, id)
}

// RequestID is the id of [WithRequestID], or "".
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}
