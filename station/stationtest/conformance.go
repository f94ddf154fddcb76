package stationtest

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/station/client"
	"thoth/station/wire"
)

// ConformanceOptions fit the conformance test to a model; the zero value fits
// the fake and small chatml models.
type ConformanceOptions struct {
	// Prompt is a plain prompt that the model answers greedily with more than
	// AnswerTokens tokens. Default "Tell me about rivers.".
	Prompt string
	// AnswerTokens is the length of the answers compared. Default 40.
	AnswerTokens int
	// Ends is a prompt whose greedy answer ends by itself within 256 tokens.
	// Default: a chatml turn that says "say:Hi".
	Ends *wire.Prompt
	// StopStride tests stop strings at every so many characters of the answer.
	// Default 1: at all of them.
	StopStride int
	// Clients is the number of concurrent requests. Default 16.
	Clients int
	// Wait bounds each call and each wait for a state. Default one minute.
	Wait time.Duration
	// Tolerance is the difference allowed between log-probabilities of the same
	// token computed in batches of other sizes. Default 0.02.
	Tolerance float64
	// NoKV is for a station that saves no KV sessions: kv_session is false in its
	// /health, and the /kv-session routes answer that it is unsupported.
	NoKV bool
}

// owner is the suite's session owner.
const owner = "conformance"

func (o ConformanceOptions) withDefaults() ConformanceOptions {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.AnswerTokens, 40)
	def(&o.StopStride, 1)
	def(&o.Clients, 16)
	if o.Prompt == "" {
		o.Prompt = "Tell me about rivers."
	}
	if o.Ends == nil {
		p := Chat("say:Hi")
		o.Ends = &p
	}
	if o.Wait == 0 {
		o.Wait = time.Minute
	}
	if o.Tolerance == 0 {
		o.Tolerance = 0.02
	}
	return o
}

// Chat is one user's turn in chatml, the user's text as a plain segment.
func Chat(user string) wire.Prompt {
	return wire.Prompt{Segments: []wire.Segment{
		{Text: textIMStart + "user\n", Special: true}, {Text: user}, {Text: textIMEnd + "\n" + textIMStart + "assistant\n", Special: true},
	}}
}

// Conformance tests the wire of a running station that has loaded its model and
// serves nobody else; of what the station has stored, nothing is left. base is http://host:port or unix:///path.sock.
func Conformance(t *testing.T, base string, o ConformanceOptions) {
	t.Helper()
	s := newSuite(t, base, o)

	for _, part := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"info", s.info}, {"tokens", s.tokens}, {"generate", s.generate}, {"sampling", s.sampling}, {"logprobs", s.logprobs},
		{"stop", s.stop}, {"characters", s.characters},
		{"grammar", s.grammar}, {"control text", s.controlText}, {"staged", s.staged}, {"sessions", s.sessions},
		{"fork", s.fork}, {"errors", s.errors}, {"unsupported", s.unsupported}, {"routes", s.routes}, {"context", s.context},
		{"cancel", s.cancel}, {"concurrent", s.concurrent}, {"kv", s.kv}, {"vectors", s.vectors}, {"scores", s.scores},
	} {
		if !t.Run(part.name, part.run) && t.Context().Err() != nil {
			return
		}
	}
	s.idle(t) // nothing of the above is left in the station
	s.noSessions(t)
}

// newSuite asks a station what it is.
func newSuite(t *testing.T, base string, o ConformanceOptions) *suite {
	t.Helper()
	c, err := client.New(base, client.Options{Owner: owner})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	s := &suite{c: c, raw: newRaw(base), o: o.withDefaults(), nonce: fmt.Sprintf("%08x", rand.Uint32())}
	t.Cleanup(s.raw.http.CloseIdleConnections)
	ctx, cancel := context.WithTimeout(t.Context(), s.o.Wait)
	defer cancel()
	s.health, err = c.Health(ctx)
	require.NoError(t, err)
	s.model, err = c.Model(ctx)
	require.NoError(t, err)
	return s
}

// suite is a station under test.
type suite struct {
	c      *client.Client
	raw    *raw
	o      ConformanceOptions
	health *wire.Health
	model  *wire.Model

	nonce  string // of this run, in the names of its scopes
	scopes int    // named so far
}

func (s *suite) ctx(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), s.o.Wait)
	t.Cleanup(cancel)
	return ctx
}

// answer is a whole stream.
type answer struct {
	text     string
	tokens   []int32
	logprobs []wire.TokenLogprob
	progress []wire.Progress
	done     *wire.Done
	forward  *wire.ForwardResponse
}

// read takes a stream to its end and checks what holds for all: every text
// frame is whole characters, and exactly one done frame comes last.
func (s *suite) read(t *testing.T, st *client.Stream, err error) *answer {
	t.Helper()
	require.NoError(t, err)
	defer st.Close()
	a := &answer{}
	for {
		f, err := st.Next()
		require.NoError(t, err)
		switch f.Type {
		case wire.FrameText:
			require.Nil(t, f.Done)
			require.NotEqual(t, "", f.Text+strings.Repeat("t", len(f.Tokens)+len(f.Logprobs)), "a text frame carries something")
			a.text += f.Text
			a.tokens = append(a.tokens, f.Tokens...)
			a.logprobs = append(a.logprobs, f.Logprobs...)
		case wire.FrameProgress:
			require.NotNil(t, f.Progress)
			require.Empty(t, a.tokens, "progress comes before the answer")
			a.progress = append(a.progress, *f.Progress)
		case wire.FrameDone:
			a.done, a.forward = f.Done, f.Forward
			_, err = st.Next()
			require.ErrorIs(t, err, io.EOF)
			return a
		default:
			require.Fail(t, "unknown frame", "%+v", f)
		}
	}
}

// ask generates and checks the counts of the done frame.
func (s *suite) ask(t *testing.T, r *wire.GenerateRequest) *answer {
	t.Helper()
	st, err := s.c.Generate(s.ctx(t), r)
	a := s.read(t, st, err)
	s.checkDone(t, a)
	require.Empty(t, a.done.Session, "/generate leaves no session")
	return a
}

func (s *suite) checkDone(t *testing.T, a *answer) {
	t.Helper()
	require.NotNil(t, a.done)
	require.Equal(t, len(a.tokens), a.done.CompletionTokens, "tokens in frames are those counted")
	require.Equal(t, a.done.Reason == wire.ReasonStop, a.done.StopString != "")
	require.Contains(t, []wire.Reason{wire.ReasonStop, wire.ReasonEOG, wire.ReasonLength}, a.done.Reason)
	tm := a.done.Timings
	for _, v := range []float64{tm.QueueMS, tm.TokenizeMS, tm.PrefillMS, tm.TTFTMS, tm.DecodeMS, tm.TokensPerSecond} {
		require.GreaterOrEqual(t, v, 0.0)
	}
	require.GreaterOrEqual(t, tm.TTFTMS+0.001, tm.PrefillMS, "the first token comes after the prefill")
	for _, e := range s.model.Special.EOG {
		require.NotContains(t, a.tokens, e, "end-of-generation tokens are not part of the answer")
	}
}

// greedy asks for n tokens of the model's most likely answer to the prompt.
func (s *suite) greedy(n int) *wire.GenerateRequest {
	return &wire.GenerateRequest{Prompt: wire.Prompt{Text: s.o.Prompt}, Sampling: wire.Sampling{Temperature: ptr[float32](0)}, MaxTokens: n}
}

func (s *suite) tokenize(t *testing.T, p wire.Prompt) []int32 {
	t.Helper()
	r, err := s.c.Tokenize(s.ctx(t), &wire.TokenizeRequest{Prompt: p})
	require.NoError(t, err)
	return r.Tokens
}

func (s *suite) stats(t *testing.T) *wire.Stats {
	t.Helper()
	st, err := s.c.Stats(s.ctx(t))
	require.NoError(t, err)
	return st
}

// idle waits until the station serves nobody.
func (s *suite) idle(t *testing.T) {
	t.Helper()
	s.eventually(t, "running, waiting and swapped are 0", func() bool {
		st := s.stats(t)
		return st.Running+st.Waiting+st.Swapped == 0
	})
}

// noSessions waits until no session lives. One whose end a part left to its lease would
// go while a later part counts them.
func (s *suite) noSessions(t *testing.T) {
	t.Helper()
	s.eventually(t, "no session lives", func() bool { return s.stats(t).Sessions == 0 })
}

// eventually polls a condition of another process.
func (s *suite) eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(s.o.Wait); !ok(); time.Sleep(2 * time.Millisecond) {
		require.True(t, time.Now().Before(end), "did not happen in %v: %s", s.o.Wait, what)
	}
}

func requireCode(t *testing.T, err error, code wire.Code) *wire.Error {
	t.Helper()
	var e *wire.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, code, e.Code, "%v", err)
	require.NotEmpty(t, e.Message)
	return e
}

func ptr[T any](v T) *T { return &v }

// raw sends what the client would not.
type raw struct {
	base string
	http *http.Client
}

func newRaw(base string) *raw {
	tr := &http.Transport{}
	if path, ok := strings.CutPrefix(base, "unix://"); ok {
		tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
		base = "http://station"
	}
	u, _ := url.Parse(base)
	return &raw{base: u.Scheme + "://" + u.Host, http: &http.Client{Transport: tr}}
}

func (r *raw) do(t *testing.T, method, path, body string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, r.base+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.http.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, string(b)
}
