//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// events is a stream read to its end and checked: every event is data with one
// JSON, the last is [DONE].
type events struct {
	Raw    []byte
	Header http.Header
	JSON   []obj
	Done   bool
	Error  obj // an error event, which ends the stream without [DONE]
}

// stream posts P with stream set and reads it all.
func (s *server) stream(t *testing.T, merge ...obj) events {
	t.Helper()
	e, err := s.tryStream(t.Context(), merge...)
	require.NoError(t, err)
	return e
}

// tryStream is stream on any goroutine.
func (s *server) tryStream(ctx context.Context, merge ...obj) (events, error) {
	resp, err := s.open(ctx, http.MethodPost, chatPath, P(append(merge, obj{"stream": true})...))
	if err != nil {
		return events{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return events{Raw: raw, Header: resp.Header}, err
	}
	if resp.StatusCode != 200 {
		return events{Raw: raw, Header: resp.Header}, fmt.Errorf("status %d: %s", resp.StatusCode, raw)
	}
	e, err := parseEvents(raw)
	e.Header = resp.Header
	return e, err
}

func parseEvents(raw []byte) (events, error) {
	e := events{Raw: raw}
	if !bytes.HasSuffix(raw, []byte("\n\n")) {
		return e, fmt.Errorf("last event not terminated: %q", tail(raw, 80))
	}
	for _, block := range bytes.Split(bytes.TrimSuffix(raw, []byte("\n\n")), []byte("\n\n")) {
		if bytes.HasPrefix(block, []byte(":")) {
			continue
		}
		data, ok := bytes.CutPrefix(block, []byte("data: "))
		if !ok || bytes.ContainsRune(data, '\n') || e.Done || e.Error != nil {
			return e, fmt.Errorf("not one data line, or behind the end: %q", block)
		}
		if string(data) == "[DONE]" {
			e.Done = true
			continue
		}
		var o obj
		if err := json.Unmarshal(data, &o); err != nil {
			return e, fmt.Errorf("event %q: %w", data, err)
		}
		if bad, ok := o["error"].(obj); ok {
			e.Error = bad
			continue
		}
		e.JSON = append(e.JSON, o)
	}
	return e, nil
}

func tail(b []byte, n int) []byte { return b[max(0, len(b)-n):] }

// Text joins the content of one choice's deltas.
func (e events) Text(index int) string {
	var sb strings.Builder
	e.each(index, func(c obj) {
		if s, ok := c["delta"].(obj)["content"].(string); ok {
			sb.WriteString(s)
		}
	})
	return sb.String()
}

// Finishes lists the finish reasons of one choice that are not null.
func (e events) Finishes(index int) []string {
	var all []string
	e.each(index, func(c obj) {
		if r, ok := c["finish_reason"].(string); ok {
			all = append(all, r)
		}
	})
	return all
}

func (e events) each(index int, f func(choice obj)) {
	for _, o := range e.JSON {
		choices, _ := o["choices"].([]any)
		for _, c := range choices {
			if c := c.(obj); int(c["index"].(float64)) == index {
				f(c)
			}
		}
	}
}
