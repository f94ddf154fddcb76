package host

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

// The bytes of each shape of stream and answer are pinned: what is random or
// measured in them is replaced first.

var update = flag.Bool("update", false, "write the golden files anew")

var (
	randomID   = regexp.MustCompile(`(chatcmpl|cmpl)-\w{26}`)
	messageID  = regexp.MustCompile(`msg_\w{26}`)
	requestID  = regexp.MustCompile(`"request_id":"req-\w+"`)
	callID     = regexp.MustCompile(`(call|toolu)_\w{24}`)
	created    = regexp.MustCompile(`"created":\d+`)
	gnosisPart = regexp.MustCompile(`"_gnosis":\{.*?"request_id":"[^"]*"\}`)
)

// steady replaces what differs from run to run.
func steady(raw string) string {
	raw = randomID.ReplaceAllString(raw, "$1-ID")
	raw = created.ReplaceAllString(raw, `"created":1`)
	raw = gnosisPart.ReplaceAllString(raw, `"_gnosis":{}`)
	ids := map[string]string{}
	raw = messageID.ReplaceAllString(raw, "msg_ID")
	raw = requestID.ReplaceAllString(raw, `"request_id":"req-ID"`)
	return callID.ReplaceAllStringFunc(raw, func(id string) string {
		if ids[id] == "" {
			kind, _, _ := strings.Cut(id, "_")
			ids[id] = fmt.Sprintf("%s_%d", kind, len(ids))
		}
		return ids[id]
	})
}

func TestGolden_BytesOfEveryShape(t *testing.T) {
	const strict = `"tools":[{"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false},"strict":true}}]`
	for name, c := range map[string]struct {
		template, fields string
		does             script
	}{
		"text":        {chatml, `"user":"u"`, writes("Hi 😀!", 3, wire.ReasonEOG)},
		"empty":       {chatml, `"user":"u"`, writes("", 3, wire.ReasonStop)},
		"usage":       {chatml, `"stream_options":{"include_usage":true}`, writes("Hi!", 3, wire.ReasonEOG)},
		"logprobs":    {chatml, `"logprobs":true`, writes("Hi!", 2, wire.ReasonEOG)},
		"reasoning":   {thinkingTemplate, `"stream_options":{"include_usage":true}`, writes("<think>\nTwo.\n</think>\n\nFour.", 4, wire.ReasonEOG)},
		"thought-cut": {thinkingTemplate, `"user":"u"`, writes("<think>\nTwo", 4, wire.ReasonLength)},
		"call":        {hermesTemplate, weatherTools, writes(oslo, 9, wire.ReasonEOG)},
		"call-bound":  {hermesTemplate, strict + `,"tool_choice":"required"`, writes(oslo, 9, wire.ReasonEOG)},
		"calls":       {hermesTemplate, weatherTools, writes("Both.\n"+oslo+"\n"+paris, 9, wire.ReasonEOG)},
		"call-cut":    {hermesTemplate, strict + `,"tool_choice":"required"`, writes(oslo[:len(oslo)-20], 9, wire.ReasonLength)},
		"json":        {chatml, `"response_format":{"type":"json_object"}`, writes(`{"a": "\"b"}`, 4, wire.ReasonEOG)},
	} {
		t.Run(name, func(t *testing.T) {
			f, h := newModel(t, c.template)
			f.does(c.does)
			golden(t, name+".json", h.chat(c.fields).body)
			golden(t, name+".sse", h.chat(c.fields, `"stream":true`).body)
		})
	}
}

func TestGolden_TwoChoicesOneAfterTheOther(t *testing.T) {
	f, h := newModel(t, hermesTemplate)
	told := make(chan struct{}) // the first choice's end
	f.does(func(ctx context.Context, q *wire.GenerateRequest, out *frames) {
		if *q.Sampling.Seed == 1 {
			writes(oslo, 1000, wire.ReasonEOG)(ctx, q, out)
			return
		}
		<-told
		writes("Rain.", 1000, wire.ReasonLength)(ctx, q, out)
	})
	l := h.open(weatherTools, `"n":2`, `"seed":1`)
	raw := ""
	for !strings.Contains(raw, "[DONE]") {
		line := l.next(t)
		raw += line + "\n\n"
		if strings.Contains(line, `"finish_reason":"tool_calls"`) {
			close(told)
		}
	}
	golden(t, "choices.sse", raw)
	golden(t, "choices.json", h.chat(weatherTools, `"n":2`, `"seed":1`).body)
}

func golden(t *testing.T, name, raw string) {
	t.Helper()
	raw = steady(raw)
	path := filepath.Join("testdata", "golden", name)
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(raw), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), raw)
}
