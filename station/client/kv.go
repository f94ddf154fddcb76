package client

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	"thoth/station/wire"
)

// KVLoad restores the longest stored prefix of a session's staged tokens, at
// most prefix of them (0: as far as possible).
func (c *Client) KVLoad(ctx context.Context, session string, prefix int, r *wire.KVLoadRequest) (*wire.KVLoadResponse, error) {
	return kv[wire.KVLoadResponse](ctx, c, wire.VerbLoad, session, prefix, r)
}

// KVSave captures the first prefix tokens of a session.
func (c *Client) KVSave(ctx context.Context, session string, prefix int, r *wire.KVSaveRequest) (*wire.KVSaveResponse, error) {
	return kv[wire.KVSaveResponse](ctx, c, wire.VerbSave, session, prefix, r)
}

// KVDelete ends a session, where one is named, and drops what r names.
func (c *Client) KVDelete(ctx context.Context, session string, r *wire.KVDeleteRequest) (*wire.KVDeleteResponse, error) {
	return kv[wire.KVDeleteResponse](ctx, c, wire.VerbDelete, session, 0, r)
}

// KVLookup tells what of a prompt is stored.
func (c *Client) KVLookup(ctx context.Context, r *wire.KVLookupRequest) (*wire.KVLookupResponse, error) {
	return kv[wire.KVLookupResponse](ctx, c, wire.VerbLookup, "", 0, r)
}

// KVFlush writes down what only RAM has.
func (c *Client) KVFlush(ctx context.Context) (*wire.KVFlushResponse, error) {
	return kv[wire.KVFlushResponse](ctx, c, wire.VerbFlush, "", 0, struct{}{})
}

// KVIndex asks what is stored, in numbers.
func (c *Client) KVIndex(ctx context.Context) (*wire.KVIndex, error) {
	return get[wire.KVIndex](ctx, c, wire.RouteKVSession)
}

// KVSession posts to a /kv-session route with the original contract's headers
// and an empty body, and returns the raw answer. It is what the boot probe uses.
func (c *Client) KVSession(ctx context.Context, verb, session string, prefix int) (json.RawMessage, error) {
	raw, err := kv[json.RawMessage](ctx, c, verb, session, prefix, struct{}{})
	if err != nil {
		return nil, err
	}
	return *raw, nil
}

func kv[T any](ctx context.Context, c *Client, verb, session string, prefix int, body any) (*T, error) {
	req, err := c.request(ctx, http.MethodPost, wire.RouteKVSession+"/"+verb, body)
	if err != nil {
		return nil, err
	}
	if session != "" {
		req.Header.Set(wire.HeaderSessionID, session)
		req.Header.Set(wire.HeaderPrefixLength, strconv.Itoa(prefix))
	}
	resp, err := c.do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	v := new(T)
	b, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err != nil {
		return nil, transportError(ctx, err)
	}
	if len(b) == 0 { // an older station may answer without a body
		return v, nil
	}
	if err := json.Unmarshal(b, v); err != nil {
		return nil, &wire.Error{Code: wire.CodeUnavailable, Message: "the station's answer to " + verb + " is not understood", Retryable: true}
	}
	return v, nil
}
