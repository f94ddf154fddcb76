//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// rivers is a question whose answer is longer than any cap used here, and
// counting one whose answer is longer still.
const (
	rivers   = "Tell me about rivers."
	counting = "Count from 1 to 200, one per line."
)

// crash is what the end of a process, or of a goroutine of one, looks like in a log.
var crash = regexp.MustCompile(`(?m)^(panic:|fatal error:|SIG[A-Z]+:)|panic serving|GGML_ASSERT|segmentation fault|bus error|aborted|illegal instruction`)

// unharmed returns what holds after every case: the plain request answers, the
// log has no new crash line, and the processes are the same. Defer the call.
func (s *server) unharmed(t *testing.T) func() {
	t.Helper()
	seen := len(s.log())
	programs := []string{"openai-server", "fat-station"}
	before := map[string]int{}
	for _, p := range programs {
		before[p] = s.child(p)
	}
	return func() {
		t.Helper()
		s.answersAgain(t)
		for _, p := range programs {
			require.Equal(t, before[p], s.child(p), "%s was started anew", p)
		}
		require.NotRegexp(t, crash, s.log()[min(seen, len(s.log())):])
	}
}

// promptTokens is the length of the prompt these messages make.
func promptTokens(t *testing.T, messages ...obj) int {
	t.Helper()
	return shared.chat(t, obj{"messages": messages, "max_tokens": 1}).Usage(t, "prompt_tokens")
}

// oneOf checks for an answer or a refusal where both are right. It returns the
// status.
func (r reply) oneOf(t *testing.T, statuses ...int) int {
	t.Helper()
	require.Contains(t, statuses, r.Status, "%s", r.Body)
	if r.Status == http.StatusOK {
		r.Text(t)
	} else {
		r.Err(t, r.Status)
	}
	require.True(t, utf8.Valid(r.Body))
	return r.Status
}

// refusal posts the same body whole and streamed and wants the same error of
// both, before any event. It returns the error object.
func refusal(t *testing.T, status int, merge ...obj) obj {
	t.Helper()
	whole := shared.chat(t, merge...).Err(t, status)
	streamed := shared.chat(t, append(merge, obj{"stream": true})...).Err(t, status)
	require.Equal(t, whole, streamed)
	return whole
}

// raw is a chat body in which text stands as it is, for what an encoder would
// not write.
func raw(format string, args ...any) string {
	return `{"model":"test-model","max_tokens":8,"temperature":0,` + fmt.Sprintf(format, args...) + `}`
}

// sameBothWays posts a body whole and streamed and wants the same text and
// finish reason of both.
func sameBothWays(t *testing.T, merge ...obj) (text, finish string) {
	t.Helper()
	whole := shared.chat(t, merge...)
	e := shared.stream(t, merge...)
	require.True(t, e.Done)
	require.Equal(t, whole.Text(t), e.Text(0))
	require.Equal(t, []string{whole.Finish(t).(string)}, e.Finishes(0))
	return whole.Text(t), e.Finishes(0)[0]
}

// parallel runs f for 0 to n-1, some at a time, and reports the first error.
// The requests inside must be those that are safe on any goroutine.
func parallel(t *testing.T, n int, f func(ctx context.Context, i int) error) {
	t.Helper()
	const atOnce = 8
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(n, atOnce) {
		workers.Go(func() {
			for i := range next {
				if err := f(ctx, i); err != nil {
					cancel(fmt.Errorf("request %d of %d: %w", i, n, err))
				}
			}
		})
	}
	for i := 0; i < n && ctx.Err() == nil; i++ {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	workers.Wait()
	require.NoError(t, context.Cause(ctx))
}

// answer is what both forms of a reply tell, read on any goroutine.
type answer struct {
	Text, Finish string
	Pieces       []string // of the stream, as they came
	Raw          []byte
}

// ask posts P whole or streamed; anything but a whole answer in valid UTF-8 is
// an error.
func ask(ctx context.Context, stream bool, merge ...obj) (answer, error) {
	if stream {
		e, err := shared.tryStream(ctx, merge...)
		switch {
		case err != nil:
			return answer{}, err
		case !e.Done || len(e.Finishes(0)) != 1:
			return answer{}, fmt.Errorf("the stream is not complete: %s", tail(e.Raw, 200))
		case !utf8.Valid(e.Raw):
			return answer{}, fmt.Errorf("the stream is not UTF-8: %q", e.Raw)
		}
		a := answer{Text: e.Text(0), Finish: e.Finishes(0)[0], Raw: e.Raw}
		e.each(0, func(c obj) {
			if s, _ := c["delta"].(obj)["content"].(string); s != "" {
				a.Pieces = append(a.Pieces, s)
			}
		})
		return a, nil
	}
	r, err := shared.try(ctx, http.MethodPost, chatPath, P(merge...))
	if err != nil {
		return answer{}, err
	}
	var body struct {
		Choices []struct {
			Message      struct{ Content *string }
			FinishReason string `json:"finish_reason"`
		}
	}
	switch err := json.Unmarshal(r.Body, &body); {
	case r.Status != http.StatusOK || err != nil || len(body.Choices) != 1 || body.Choices[0].Message.Content == nil:
		return answer{}, fmt.Errorf("status %d: %s", r.Status, r.Body)
	case !utf8.Valid(r.Body):
		return answer{}, fmt.Errorf("the answer is not UTF-8: %q", r.Body)
	}
	return answer{Text: *body.Choices[0].Message.Content, Finish: body.Choices[0].FinishReason, Raw: r.Body}, nil
}

// upTo is text before the first occurrence of any stop; cut tells whether there
// is one.
func upTo(text string, stops ...string) (before string, cut bool) {
	at := len(text)
	for _, s := range stops {
		if i := strings.Index(text, s); i >= 0 && i < at {
			at, cut = i, true
		}
	}
	return text[:at], cut
}
