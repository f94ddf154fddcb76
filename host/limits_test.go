package host

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/host/openai"
)

func TestLimits_ErrorsNameTheLimitAndWhatWasSent(t *testing.T) {
	h := newHost(t, newFakeStation(t), func(o *Options) {
		o.BodyLimit = 600
		o.Limits = openai.Limits{Depth: 9, Messages: 2, Choices: 3, Stops: 4, StopBytes: 5, LogitBias: 1, Tools: 1}
	})
	const message = `{"role":"user","content":"x"}`
	tool := func(name string) string { return `{"type":"function","function":{"name":"` + name + `"}}` }
	for _, c := range []struct {
		status             int
		param, sent, limit string
		body               string
	}{
		{413, "", "the body has 601 bytes", "at most 600", `{"model":"` + strings.Repeat("x", 589) + `"}`},
		{400, "", "nested 10 levels deep", "at most 9", body(`"metadata":` + strings.Repeat("[", 9) + strings.Repeat("]", 9))},
		{400, "messages", "messages", "more than 2 entries", `{"model":"` + model + `","messages":[` + message + "," + message + "," + message + `]}`},
		{400, "n", "n is 4", "between 1 and 3", body(`"n":4`)},
		{400, "stop", "stop", "more than 4 entries", body(`"stop":["a","b","c","d","e"]`)},
		{400, "stop", "a string of 6 bytes", "at most 5", body(`"stop":"aaaaaa"`)},
		{400, "logit_bias", "has 2 entries", "at most 1", body(`"logit_bias":{"1":1,"2":1}`)},
		{400, "tools", "tools", "more than 1 entries", body(`"tools":[` + tool("a") + "," + tool("b") + `]`)},
	} {
		r := h.do("POST", "/v1/chat/completions", c.body)
		require.Equal(t, c.status, r.status, r.body)
		e := r.json(t)["error"].(map[string]any)
		require.Contains(t, e["message"], c.sent)
		require.Contains(t, e["message"], c.limit)
		if c.param != "" {
			require.Equal(t, c.param, e["param"])
		}
	}
	require.Equal(t, 200, h.chat(`"n":3,"stop":["a","b","c","ddddd"],"logit_bias":{"1":1},"tools":[`+tool("a")+`]`).status, "what is within is taken")
}
