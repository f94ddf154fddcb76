//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/internal/gguf/gguftest"
	"thoth/station/client"
	"thoth/station/wire"
)

// gnosis is the _gnosis object of an answer, as far as liquid memory goes.
type gnosis struct {
	Memory  string  `json:"liquid_memory"`
	Saved   bool    `json:"liquid_kv_saved"`
	Reason  *string `json:"liquid_miss_reason"`
	Prefix  int     `json:"liquid_prefix_tokens"`
	Tiers   tiers   `json:"liquid_tokens_by_tier"`
	Stored  int     `json:"liquid_saved_tokens"`
	Durable bool    `json:"liquid_durable"`
	Path    string  `json:"path"`
}

type tiers struct{ Hot, Warm, Cold int }

// said is an answer, token for token, and what liquid memory did for it.
type said struct {
	Text, Finish                        string
	Tokens                              []string // the bytes of each
	Prompt, Completion, Cached, Written int
	Gnosis                              gnosis
	Header, Trailer                     http.Header
}

// off is the header of a request that reuses nothing and stores nothing.
var off = []string{"X-Thoth-Liquid", "off"}

// spoken is the JSON of an answer, or of a stream's event.
type spoken struct {
	Choices []struct {
		Message, Delta struct{ Content string }
		Logprobs       *struct {
			Content []struct{ Bytes []int }
		}
		FinishReason *string `json:"finish_reason"`
	}
	Usage *struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
		Details          struct {
			CachedTokens     int `json:"cached_tokens"`
			CacheWriteTokens int `json:"cache_write_tokens"`
		} `json:"prompt_tokens_details"`
	}
	Gnosis *gnosis `json:"_gnosis"`
}

func (a *said) add(b []byte) error {
	var o spoken
	if err := json.Unmarshal(b, &o); err != nil {
		return fmt.Errorf("%w: %s", err, b)
	}
	for _, c := range o.Choices {
		a.Text += c.Message.Content + c.Delta.Content
		if c.Logprobs != nil {
			for _, token := range c.Logprobs.Content {
				raw := make([]byte, len(token.Bytes))
				for i, v := range token.Bytes {
					raw[i] = byte(v)
				}
				a.Tokens = append(a.Tokens, string(raw))
			}
		}
		if c.FinishReason != nil {
			a.Finish = *c.FinishReason
		}
	}
	if u := o.Usage; u != nil {
		a.Prompt, a.Completion, a.Cached, a.Written = u.PromptTokens, u.CompletionTokens, u.Details.CachedTokens, u.Details.CacheWriteTokens
	}
	if o.Gnosis != nil {
		a.Gnosis = *o.Gnosis
	}
	return nil
}

// trySay posts P with merge, whole or streamed, and reads a whole answer with its
// tokens. It is safe on any goroutine; what is told of liquid memory must agree
// with itself.
func (s *server) trySay(ctx context.Context, merge obj, header ...string) (a said, err error) {
	q := P(merge, obj{"logprobs": true})
	streamed := q["stream"] == true
	if streamed {
		q["stream_options"] = obj{"include_usage": true}
	}
	resp, err := s.open(ctx, http.MethodPost, chatPath, q, header...)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	a.Header, a.Trailer = resp.Header, resp.Trailer
	switch {
	case err != nil:
		return a, err
	case resp.StatusCode != http.StatusOK:
		return a, fmt.Errorf("status %d: %s", resp.StatusCode, raw)
	case !streamed:
		err = a.add(raw)
	default:
		for _, block := range bytes.Split(raw, []byte("\n\n")) {
			data, ok := bytes.CutPrefix(block, []byte("data: "))
			if ok && string(data) != "[DONE]" {
				err = errors.Join(err, a.add(data))
			}
		}
		if !bytes.HasSuffix(raw, []byte("data: [DONE]\n\n")) {
			err = fmt.Errorf("the stream is not whole: %s", tail(raw, 300))
		}
	}
	g := a.Gnosis
	switch {
	case err != nil:
	case a.Finish == "":
		err = fmt.Errorf("no whole answer: %s", raw)
	case g.Prefix != a.Cached || g.Tiers.Hot+g.Tiers.Warm+g.Tiers.Cold != g.Prefix:
		err = fmt.Errorf("usage says %d cached tokens, _gnosis says %+v", a.Cached, g)
	case a.Cached >= a.Prompt:
		err = fmt.Errorf("%d tokens of %d are cached: one at least is evaluated", a.Cached, a.Prompt)
	}
	return a, err
}

// say is trySay for the test's own goroutine.
func (s *server) say(t *testing.T, merge obj, header ...string) said {
	t.Helper()
	a, err := s.trySay(t.Context(), merge, header...)
	require.NoError(t, err)
	return a
}

// same tells how an answer differs from the one it must be equal to.
func (want said) same(got said) error {
	switch {
	case got.Prompt != want.Prompt:
		return fmt.Errorf("the prompt has %d tokens, and had %d", got.Prompt, want.Prompt)
	case got.Text != want.Text || got.Finish != want.Finish || !slices.Equal(got.Tokens, want.Tokens) || got.Completion != want.Completion:
		return fmt.Errorf("with %+v of %d prompt tokens:\n%q %q (%s)\nand fresh:\n%q %q (%s)", got.Gnosis.Tiers, got.Prompt,
			got.Text, got.Tokens, got.Finish, want.Text, want.Tokens, want.Finish)
	}
	return nil
}

// fresh is the answer computed in full.
func (s *server) fresh(t *testing.T, merge obj, header ...string) said {
	t.Helper()
	a := s.say(t, merge, append(header, off...)...)
	require.Equal(t, "bypass", a.Gnosis.Memory)
	require.Equal(t, "native", a.Gnosis.Path)
	require.Zero(t, a.Cached)
	return a
}

// restored asks again and wants what fresh was, with some of it restored.
func (s *server) restored(t *testing.T, want said, merge obj, header ...string) said {
	t.Helper()
	a := s.say(t, merge, header...)
	require.NoError(t, want.same(a))
	require.Positive(t, a.Cached, "%+v", a.Gnosis)
	return a
}

// kv is the station's index in numbers.
func (s *server) kv(t *testing.T) wire.KVIndex {
	t.Helper()
	return *s.station(t).KV
}

// station are the numbers of a station that saves KV, from itself: the host shows
// them to admin keys only.
func (s *server) station(t *testing.T) wire.Stats {
	t.Helper()
	c, err := client.New(s.stationAddress(t), client.Options{})
	require.NoError(t, err)
	defer c.Close()
	stats, err := c.Stats(t.Context())
	require.NoError(t, err)
	require.NotNil(t, stats.KV)
	return *stats
}

// stationAddress is where entrypoint told its station to listen.
func (s *server) stationAddress(t *testing.T) string {
	t.Helper()
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", s.child("fat-station")))
	require.NoError(t, err)
	address := ""
	for _, kv := range strings.Split(string(env), "\x00") {
		if v, ok := strings.CutPrefix(kv, "THOTH_STATION_LISTEN="); ok {
			address = v
		}
	}
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	return address
}

// written waits until all that was saved is in the store.
func (s *server) written(t *testing.T) {
	t.Helper()
	eventually(t, "everything to be written down", func() bool {
		x := s.kv(t)
		return x.Pending == 0 && x.Dirty == 0
	})
}

// key is the header of an API key.
func key(k string) []string { return []string{"Authorization", "Bearer " + k} }

// storeIn is the setting of a store in a folder.
func storeIn(dir string) string { return "THOTH_KV_STORE=file://" + dir }

// stored are the blocks in a folder: path and size of each file.
func stored(t *testing.T, dir string) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // gone while we look
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if info, err := d.Info(); err == nil {
			all[path] = info.Size()
		}
		return nil
	})
	require.NoError(t, err)
	return all
}

func sum(sizes map[string]int64) (n int64) {
	for _, size := range sizes {
		n += size
	}
	return n
}

// plainWords are words that are about a token each.
var plainWords = strings.Fields(`river stone cloud seven green bread window north music paper garden winter silver market
	letter island summer engine bridge doctor mountain yellow simple orange forest travel kitchen morning planet pocket
	school ticket valley writer animal bottle castle danger energy family honest jacket ladder memory nature office people
	quick road shadow table under village water year young zero apple bird coat door east field glass house iron joke king
	lamp moon night open party queen rain star tree uncle voice wheel train mirror cotton drum flag horse leaf map nest`)

// words are n words; other seeds give others, and n+1 words begin like n.
func words(seed uint64, n int) string {
	r := rand.New(rand.NewPCG(seed, 7))
	list := make([]string, n)
	for i := range list {
		list[i] = plainWords[r.IntN(len(plainWords))]
	}
	return strings.Join(list, " ")
}

func system(text string) obj    { return message("system", text) }
func assistant(text string) obj { return message("assistant", text) }

const chatml = `{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`

// ownModel are the settings of a server with a model of the test's own, whose
// digest the user's cache need not remember.
func ownModel(t *testing.T, path string) []string {
	t.Helper()
	return []string{"THOTH_MODEL=" + path, "THOTH_CACHE=" + t.TempDir()}
}

// windowModel are the settings of a server with a small model of random weights
// with sliding-window attention, whose tokens are bytes. Its weights are F32, for
// which equal answers have to be asked for.
func windowModel(t *testing.T, template string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "window.gguf")
	require.NoError(t, os.WriteFile(path, gguftest.Window(gguftest.Set("tokenizer.chat_template", template)), 0o644))
	return append(ownModel(t, path), "THOTH_CONTEXT_LENGTH=2048", "THOTH_EXACT=1")
}

// quantized writes the test model with other weights.
func quantized(t *testing.T, kind string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), kind+".gguf")
	c := exec.Command(binary(stationProgram), "--quantize-to", path, "--quantize-type", kind)
	c.Env = append(os.Environ(), "THOTH_MODEL="+model())
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}
