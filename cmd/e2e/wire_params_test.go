//go:build e2e

package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChat_MaxCompletionTokensIsTheCap(t *testing.T) {
	defer shared.unharmed(t)()
	long := obj{"messages": []obj{user(counting)}, "max_tokens": nil, "max_completion_tokens": 5}
	r := shared.chat(t, long)
	require.Equal(t, 5, r.Usage(t, "completion_tokens"))
	require.Equal(t, "length", r.Finish(t))
	_, finish := sameBothWays(t, long)
	require.Equal(t, "length", finish)

	e := refusal(t, 400, long, obj{"max_tokens": 9})
	require.Contains(t, e["message"], "max_tokens (9) and max_completion_tokens (5) differ")
	require.Equal(t, 5, shared.chat(t, long, obj{"max_tokens": 5}).Usage(t, "completion_tokens"), "the same cap twice is one cap")
}

func TestChat_CapsThatAreNone(t *testing.T) {
	defer shared.unharmed(t)()
	ends := obj{"max_tokens": 64}
	want := shared.chat(t, ends).Text(t)
	require.Equal(t, want, shared.chat(t, obj{"max_tokens": nil}).Text(t))
	require.Equal(t, want, shared.chat(t, obj{"max_tokens": null}).Text(t))

	before := memory(t, shared.child("fat-station"), "VmRSS")
	require.Equal(t, want, shared.chat(t, obj{"max_tokens": 100_000_000}).Text(t))
	require.Less(t, memory(t, shared.child("fat-station"), "VmRSS")-before, int64(64<<20), "nothing is reserved for the number")

	for _, bad := range []any{0, -1, "8", true} {
		require.Equal(t, "max_tokens", refusal(t, 400, obj{"max_tokens": bad})["param"], "%v", bad)
		e := refusal(t, 400, obj{"max_tokens": nil, "max_completion_tokens": bad})
		require.Equal(t, "max_completion_tokens", e["param"], "%v", bad)
	}
}

func TestChat_NumbersKeepTheirValue(t *testing.T) {
	defer shared.unharmed(t)()
	number := func(s string) json.RawMessage { return json.RawMessage(s) }
	drawn := func(seed string) string {
		merge := obj{"seed": number(seed), "temperature": 1.5, "max_tokens": 24, "messages": []obj{user(rivers)}}
		first := shared.chat(t, merge).Text(t)
		require.Equal(t, first, shared.chat(t, merge).Text(t), "seed %s is repeatable", seed)
		return first
	}
	require.NotEqual(t, drawn("9007199254740992"), drawn("9007199254740993"), "the seed passed through a float")
	for _, seed := range []string{"1000000000000000", "-1", "9223372036854775807", "-9223372036854775808"} {
		require.NotEmpty(t, drawn(seed))
	}
	require.Equal(t, "seed", refusal(t, 400, obj{"seed": number("18446744073709551615")})["param"])
	require.Equal(t, "seed", refusal(t, 400, obj{"seed": number("0.5")})["param"])

	require.Equal(t, shared.chat(t).Text(t), shared.chat(t, obj{"max_tokens": number("8.0"), "n": number("1.0")}).Text(t))
	require.Equal(t, 3, shared.chat(t, obj{"max_tokens": number("3.0e0")}).Usage(t, "completion_tokens"))
	require.Equal(t, "max_tokens", refusal(t, 400, obj{"max_tokens": number("8.5")})["param"])
}

func TestChat_LogitBiasIsKeyedByTokenIDs(t *testing.T) {
	defer shared.unharmed(t)()
	r := shared.chat(t, obj{"logprobs": true, "max_tokens": 1})
	plain := r.Text(t)
	var first strings.Builder
	for _, b := range r.choice(t)["logprobs"].(obj)["content"].([]any)[0].(obj)["bytes"].([]any) {
		first.WriteByte(byte(b.(float64)))
	}
	require.Equal(t, plain, first.String())

	banned, _ := sameBothWays(t, bias(t, first.String(), -100))
	require.NotEmpty(t, banned)
	require.False(t, strings.HasPrefix(banned, first.String()), "%q starts with %q", banned, first.String())
	forced, _ := sameBothWays(t, bias(t, "用", 100), obj{"max_tokens": 3})
	require.Equal(t, "用用用", forced)

	normal := shared.chat(t).Text(t)
	require.Equal(t, normal, shared.chat(t, obj{"logit_bias": obj{}}).Text(t))
	require.Equal(t, normal, shared.chat(t, obj{"logit_bias": null}).Text(t))
	for _, bad := range []obj{{"99999999": 1}, {"49152": 1}, {"abc": 1}, {"-1": 1}, {"1.5": 1}, {"5": 1000}, {"5": -100.5}} {
		require.Equal(t, "logit_bias", refusal(t, 400, obj{"logit_bias": bad})["param"], "%v", bad)
	}
	for _, bad := range []any{5, "5", []int{5}} {
		require.Equal(t, "logit_bias", refusal(t, 400, obj{"logit_bias": bad})["param"], "%v", bad)
	}
}

func TestChat_NamesAreCaseSensitive(t *testing.T) {
	defer shared.unharmed(t)()
	want := shared.chat(t).Text(t)
	require.Equal(t, want, shared.chat(t, obj{"STREAM": true}).Text(t))
	require.Equal(t, want, shared.chat(t, obj{"stream": false, "Stream": true}).Text(t))
	require.Equal(t, want, shared.chat(t, obj{"MESSAGES": []obj{user(counting)}, "Temperature": 9}).Text(t))
	r := shared.chat(t, obj{"messages": []obj{user(counting)}, "max_tokens": 3, "Max_Tokens": 500})
	require.Equal(t, 3, r.Usage(t, "completion_tokens"))
}

func TestChat_NameGivenTwiceIsRefused(t *testing.T) {
	defer shared.unharmed(t)()
	body := raw(`"messages":[{"role":"user","content":"Say hi"}],"max_tokens":3`)
	e := shared.do(t, "POST", chatPath, body).Err(t, 400)
	require.Contains(t, e["message"], "max_tokens")
	require.Contains(t, e["message"], "twice")
	body = raw(`"messages":[{"role":"user","content":"Say hi","role":"system"}]`)
	require.Contains(t, shared.do(t, "POST", chatPath, body).Err(t, 400)["message"], "role")
}
