//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChat_OnlyTheFirstEventHasTheRole(t *testing.T) {
	defer shared.unharmed(t)()
	e := shared.stream(t)
	require.Equal(t, "text/event-stream", strings.Split(e.Header.Get("Content-Type"), ";")[0])
	for i, o := range e.JSON {
		require.Equal(t, "chat.completion.chunk", o["object"])
		delta := o["choices"].([]any)[0].(obj)["delta"].(obj)
		role, has := delta["role"]
		if i == 0 {
			require.Equal(t, "assistant", role)
			require.IsType(t, "", delta["content"])
			continue
		}
		require.False(t, has, "event %d has a role", i)
		if content, has := delta["content"]; has {
			require.NotNil(t, content, "event %d", i)
		}
	}
	require.Greater(t, len(e.JSON), 2)
}

func TestChat_EveryStreamEndsWithOneFinishAndOneDone(t *testing.T) {
	defer shared.unharmed(t)()
	for name, c := range map[string]struct {
		merge  obj
		finish string
	}{
		"stop string": {obj{"messages": []obj{user(counting)}, "max_tokens": 64, "stop": "3"}, "stop"},
		"token cap":   {obj{"messages": []obj{user(counting)}}, "length"},
		"end of turn": {obj{"max_tokens": 64}, "stop"},
	} {
		e := shared.stream(t, c.merge)
		require.Equal(t, []string{c.finish}, e.Finishes(0), name)
		require.True(t, e.Done, name)
		require.True(t, bytes.HasSuffix(e.Raw, []byte("}\n\ndata: [DONE]\n\n")), "%s: %q", name, tail(e.Raw, 80))
		e.each(0, func(choice obj) {
			if choice["finish_reason"] != nil {
				require.Empty(t, choice["delta"].(obj)["content"], name)
			}
		})
	}
}

func TestChat_ConnectionIsReusedAfterAStream(t *testing.T) {
	defer shared.unharmed(t)()
	client := &http.Client{Timeout: patience, Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	post := func() (reused bool) {
		body, err := json.Marshal(P(obj{"stream": true}))
		require.NoError(t, err)
		trace := &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }}
		req, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodPost, shared.base+chatPath, bytes.NewReader(body))
		require.NoError(t, err)
		resp, err := client.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		_, err = io.ReadAll(resp.Body)
		require.NoError(t, err)
		return reused
	}
	require.False(t, post())
	require.True(t, post(), "the body of a stream ends")
}

func TestChat_NoUsageEventUnlessAskedFor(t *testing.T) {
	defer shared.unharmed(t)()
	for name, merge := range map[string]obj{
		"absent": {},
		"null":   {"stream_options": null},
		"false":  {"stream_options": obj{"include_usage": false}},
	} {
		e := shared.stream(t, merge)
		require.True(t, e.Done)
		for _, o := range e.JSON {
			require.NotEmpty(t, o["choices"], name)
			require.Nil(t, o["usage"], name)
		}
	}
}

func TestChat_UsageEventComesLast(t *testing.T) {
	defer shared.unharmed(t)()
	e := shared.stream(t, obj{"stream_options": obj{"include_usage": true}})
	require.True(t, e.Done)
	last, rest := e.JSON[len(e.JSON)-1], e.JSON[:len(e.JSON)-1]
	choices, is := last["choices"].([]any)
	require.True(t, is)
	require.Empty(t, choices)
	for _, o := range rest {
		require.NotEmpty(t, o["choices"])
		require.Nil(t, o["usage"])
		require.Equal(t, last["id"], o["id"])
		require.Equal(t, last["model"], o["model"])
	}
	require.NotNil(t, rest[len(rest)-1]["choices"].([]any)[0].(obj)["finish_reason"], "usage follows the finish event")
	whole := shared.chat(t)
	for _, name := range []string{"prompt_tokens", "completion_tokens", "total_tokens"} {
		n, is := last["usage"].(obj)[name].(float64)
		require.True(t, is, name)
		require.Equal(t, whole.Usage(t, name), int(n), name)
	}
}

func TestChat_StreamOptionsWithoutAStreamDoNoHarm(t *testing.T) {
	defer shared.unharmed(t)()
	shared.chat(t, obj{"stream": false, "stream_options": obj{"include_usage": true}}).oneOf(t, 200, 400)
}

func TestChat_CutAnswerReportsLength(t *testing.T) {
	defer shared.unharmed(t)()
	for _, most := range []int{1, 5} {
		merge := obj{"messages": []obj{user(counting)}, "max_tokens": most}
		r := shared.chat(t, merge)
		require.Equal(t, "length", r.Finish(t))
		require.Equal(t, most, r.Usage(t, "completion_tokens"))
		e := shared.stream(t, merge, obj{"stream_options": obj{"include_usage": true}})
		require.Equal(t, []string{"length"}, e.Finishes(0))
		require.EqualValues(t, most, e.JSON[len(e.JSON)-1]["usage"].(obj)["completion_tokens"])
		require.Equal(t, r.Text(t), e.Text(0))
	}
	text, finish := sameBothWays(t, obj{"max_tokens": 64})
	require.NotEmpty(t, text)
	require.Equal(t, "stop", finish)
}

func TestChat_SeveralChoices(t *testing.T) {
	defer shared.unharmed(t)()
	one := shared.chat(t, obj{"n": 1})
	require.Len(t, one.JSON(t)["choices"], 1)
	require.Len(t, shared.chat(t, obj{"n": null}).JSON(t)["choices"], 1)

	two := shared.chat(t, obj{"n": 2, "temperature": 1, "max_tokens": 16, "seed": 7})
	choices := two.JSON(t)["choices"].([]any)
	require.Len(t, choices, 2)
	for i, c := range choices {
		require.EqualValues(t, i, c.(obj)["index"])
		require.NotEmpty(t, c.(obj)["message"].(obj)["content"])
		require.NotEmpty(t, c.(obj)["finish_reason"])
	}
	require.NotEqual(t, choices[0].(obj)["message"], choices[1].(obj)["message"], "two answers, not one twice")
	require.Equal(t, one.Usage(t, "prompt_tokens"), two.Usage(t, "prompt_tokens"), "the prompt counts once")
	require.Greater(t, two.Usage(t, "completion_tokens"), 2)

	e := shared.stream(t, obj{"n": 2, "temperature": 1, "max_tokens": 16, "seed": 7})
	require.True(t, e.Done)
	for i := range 2 {
		require.Len(t, e.Finishes(i), 1)
		require.NotEmpty(t, e.Text(i))
		roles := 0
		e.each(i, func(c obj) {
			if c["delta"].(obj)["role"] != nil {
				roles++
			}
		})
		require.Equal(t, 1, roles, "each choice opens with its role")
	}

	require.Equal(t, "n", refusal(t, 400, obj{"n": 0})["param"])
}
