package client_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/client"
	"thoth/station/wire"
)

// read is an answer as a call gives it and as encoding/json reads it.
func read[T any](call func(context.Context, *client.Client) (*T, error)) func(*testing.T, *client.Client, string) {
	return func(t *testing.T, c *client.Client, text string) {
		want := new(T)
		require.NoError(t, json.Unmarshal([]byte(text), want))
		got, err := call(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

// The station writes with encoding/json; the client reads with another package, and
// must not find anything else in it, in any field there is.
func TestClient_ReadsWhatAStationWrites(t *testing.T) {
	for name, read := range map[string]func(*testing.T, *client.Client, string){
		"health":            read(func(x context.Context, c *client.Client) (*wire.Health, error) { return c.Health(x) }),
		"health-loading":    read(func(x context.Context, c *client.Client) (*wire.Health, error) { return c.Health(x) }),
		"model":             read(func(x context.Context, c *client.Client) (*wire.Model, error) { return c.Model(x) }),
		"stats":             read(func(x context.Context, c *client.Client) (*wire.Stats, error) { return c.Stats(x) }),
		"kv-index":          read(func(x context.Context, c *client.Client) (*wire.KVIndex, error) { return c.KVIndex(x) }),
		"tokenize-response": read(func(x context.Context, c *client.Client) (*wire.TokenizeResponse, error) { return c.Tokenize(x, nil) }),
		"detokenize-response": read(func(x context.Context, c *client.Client) (*wire.DetokenizeResponse, error) {
			return c.Detokenize(x, nil)
		}),
		"embed-response": read(func(x context.Context, c *client.Client) (*wire.EmbedResponse, error) {
			return c.Embed(x, &wire.EmbedRequest{})
		}),
		"vectors-response": read(func(x context.Context, c *client.Client) (*wire.VectorsResponse, error) {
			return c.Vectors(x, &wire.EmbedRequest{})
		}),
		"rerank-response":  read(func(x context.Context, c *client.Client) (*wire.RerankResponse, error) { return c.Rerank(x, nil) }),
		"forward-response": read(func(x context.Context, c *client.Client) (*wire.ForwardResponse, error) { return c.Forward(x, nil) }),
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile(filepath.Join("..", "wire", "testdata", name+".json"))
			require.NoError(t, err)
			news := strings.Replace(string(raw), "{", `{"of_a_later_version":{"x":[1,2]},`, 1)
			for _, text := range []string{string(raw), news} {
				read(t, serve(t, answer(200, text), client.Options{}), text)
			}
		})
	}
}

// Bytes that are no UTF-8 do not cost the whole answer.
func TestClient_TakesTextThatIsNoUTF8(t *testing.T) {
	c := serve(t, answer(200, "{\"text\":\"a\xff\"}"), client.Options{})
	got, err := c.Detokenize(t.Context(), &wire.DetokenizeRequest{})
	require.NoError(t, err)
	require.Equal(t, "a\ufffd", got.Text)
}
