package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// structuredServer answers by a schema where one is given; spoil changes its texts.
func structuredServer(t *testing.T, free *atomic.Int64, bound *atomic.Int64, spoil func(text string) string) string {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/models" {
			fmt.Fprint(w, `{"data":[{"id":"m"}]}`)
			return
		}
		var req struct {
			MaxTokens int  `json:"max_tokens"`
			IgnoreEOS bool `json:"ignore_eos"`
			TopK      int  `json:"top_k"`
			Format    *struct {
				Type   string
				Schema struct {
					Name   string
					Strict bool
					Schema struct {
						Properties map[string]any
					}
				} `json:"json_schema"`
			} `json:"response_format"`
		}
		if r.URL.Path != "/v1/chat/completions" || json.NewDecoder(r.Body).Decode(&req) != nil || req.Format != nil && (req.IgnoreEOS || !req.Format.Schema.Strict) {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		pieces, finish := strings.Split(strings.Repeat("word ", req.MaxTokens), " ")[:req.MaxTokens], "length"
		switch {
		case req.Format == nil:
			free.Add(1)
		case req.Format.Schema.Schema.Properties["orders"] != nil:
			bound.Add(1)
			pieces[0] = spoil(`{"orders": [{"id": 1, "customer": {"name": "`)
		default:
			pieces, finish = []string{spoil(`{"title": "t", "priority": "low", "open": true}`)}, "stop"
		}
		for _, p := range pieces {
			b, _ := json.Marshal(p)
			fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":%s}}]}\n\n", b)
			_ = http.NewResponseController(w).Flush()
		}
		fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{},\"finish_reason\":%q}]}\n\ndata: {\"choices\":[],\"usage\":{\"completion_tokens\":%d}}\n\ndata: [DONE]\n\n", finish, len(pieces))
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestRunStructured_ComparesAnswersOfOneLength(t *testing.T) {
	var free, bound atomic.Int64
	url := structuredServer(t, &free, &bound, func(s string) string { return s })
	rep, err := RunStructured(t.Context(), StructuredOptions{Target: Target{URL: url}, Rounds: 2, Tokens: 12, Clients: []int{1, 3}, idleWatch: time.Millisecond})
	require.NoError(t, err)
	require.Len(t, rep.Cohorts, 6)
	require.Equal(t, free.Load(), bound.Load())
	require.EqualValues(t, (2+1)*3*(1+3), free.Load(), "two rounds, and one to warm up")
	for _, c := range rep.Cohorts {
		require.Len(t, c.Metrics[0].Ratio.Values, 2, c.Name)
	}
	var table, doc bytes.Buffer
	require.NoError(t, rep.WriteTable(&table))
	require.NoError(t, rep.WriteJSON(&doc))
	require.Regexp(t, `clients_3_top_k_40\s+decode_tok_s`, table.String())
	require.True(t, json.Valid(doc.Bytes()))
}

func TestRunStructured_LooksAtTheAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		from, to, said string
	}{
		"not JSON":       {`{"orders": [`, `{"orders": [,`, "does not begin as JSON"},
		"not the schema": {`"low"`, `"lowest"`, "is no ticket"},
		"one more":       {`"open": true}`, `"open": true, "x": 1}`, "is no ticket"},
		"one less":       {`"title": "t", `, ``, "is no ticket"},
		"more behind":    {`true}`, `true} Sure!`, "is no ticket"},
	} {
		t.Run(name, func(t *testing.T) {
			var free, bound atomic.Int64
			url := structuredServer(t, &free, &bound, func(s string) string { return strings.Replace(s, c.from, c.to, 1) })
			rep, err := RunStructured(t.Context(), StructuredOptions{Target: Target{URL: url}, Rounds: 1, Tokens: 12, Clients: []int{1}, idleWatch: time.Millisecond})
			require.ErrorIs(t, err, ErrBad)
			require.Contains(t, strings.Join(rep.Errors, "\n"), c.said)
		})
	}
}

func TestRunStructured_RefusesWhatItCannotDo(t *testing.T) {
	for said, o := range map[string]StructuredOptions{
		"server address":   {Target: Target{URL: "nowhere"}},
		"tokens 1":         {Target: Target{URL: "http://h"}, Tokens: 1},
		"tokens 5000":      {Target: Target{URL: "http://h"}, Tokens: 5000},
		"rounds -1":        {Target: Target{URL: "http://h"}, Rounds: -1},
		"clients 0: want":  {Target: Target{URL: "http://h"}, Clients: []int{0}},
		"timeout -1s: wan": {Target: Target{URL: "http://h"}, Timeout: -time.Second},
	} {
		_, err := RunStructured(t.Context(), o)
		require.ErrorContains(t, err, said)
	}
}
