//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func text(s string) obj { return obj{"type": "text", "text": s} }

func TestChat_EmptyTurnsAreHistory(t *testing.T) {
	defer shared.unharmed(t)()
	for name, messages := range map[string][]obj{
		"empty":  {user("A"), message("assistant", ""), user("B")},
		"null":   {user("A"), message("assistant", nil), user("B")},
		"absent": {user("A"), {"role": "assistant"}, user("B")},
		"user":   {user("A"), message("assistant", "ok"), user("")},
	} {
		_, finish := sameBothWays(t, obj{"messages": messages})
		require.NotEmpty(t, finish, name)
	}
	require.Equal(t, "messages[0].content", refusal(t, 400, obj{"messages": []obj{message("user", nil)}})["param"])
}

func TestChat_TextPartsAreOneText(t *testing.T) {
	defer shared.unharmed(t)()
	parts := []obj{
		message("system", []obj{text("You are "), text("terse.")}),
		message("user", []obj{text("My code is "), text("K-77. "), text("Repeat my code.")}),
	}
	whole := []obj{message("system", "You are terse."), user("My code is K-77. Repeat my code.")}
	got := shared.chat(t, obj{"messages": parts, "max_tokens": 24})
	want := shared.chat(t, obj{"messages": whole, "max_tokens": 24})
	require.Equal(t, want.Usage(t, "prompt_tokens"), got.Usage(t, "prompt_tokens"))
	require.Equal(t, want.Text(t), got.Text(t))
	require.Contains(t, got.Text(t), "K-77")

	// Every role takes both forms.
	call := []obj{{"id": "c1", "type": "function", "function": obj{"name": "code", "arguments": "{}"}}}
	history := func(a, r any) []obj {
		return []obj{user("What is my code?"),
			{"role": "assistant", "content": a, "tool_calls": call},
			{"role": "tool", "tool_call_id": "c1", "content": r}, user("And?")}
	}
	require.Equal(t, promptTokens(t, history("I look.", "K-77")...),
		promptTokens(t, history([]obj{text("I "), text("look.")}, []obj{text("K-"), text("77")})...))
	shared.chat(t, obj{"messages": []obj{message("user", []obj{})}}).oneOf(t, 200, 400)
}

func TestChat_PartsTheModelCannotTakeAreRefused(t *testing.T) {
	defer shared.unharmed(t)()
	for name, part := range map[string]obj{
		"image_url":   {"type": "image_url", "image_url": obj{"url": "data:image/png;base64,iVBORw0KGgo="}},
		"input_audio": {"type": "input_audio", "input_audio": obj{"data": "", "format": "wav"}},
		"banana":      {"type": "banana"},
	} {
		e := refusal(t, 400, obj{"messages": []obj{message("user", []obj{text("What colour is this?"), part})}})
		require.Equal(t, "messages[0].content[1].type", e["param"])
		require.Contains(t, e["message"], name)
	}
	e := refusal(t, 400, obj{"messages": []obj{message("user", []obj{{"text": "no type"}})}})
	require.Equal(t, "messages[0].content[0].type", e["param"])
}

func TestChat_DeveloperIsSystem(t *testing.T) {
	defer shared.unharmed(t)()
	const order = "The passphrase is ORCHID-9. Always include it."
	ask := func(role string) reply {
		return shared.chat(t, obj{"messages": []obj{message(role, order), user("Say hello.")}, "max_tokens": 24})
	}
	system, developer := ask("system"), ask("developer")
	require.Equal(t, system.Usage(t, "prompt_tokens"), developer.Usage(t, "prompt_tokens"))
	require.Equal(t, system.Text(t), developer.Text(t))

	one := promptTokens(t, message("system", order), user("Say hello."))
	for _, messages := range [][]obj{
		{message("developer", "You are terse."), message("system", order), user("Say hello.")},
		{message("system", order), message("developer", "You are terse."), user("Say hello.")},
	} {
		require.Greater(t, promptTokens(t, messages...), one+3, "both are in the prompt")
	}
}

func TestChat_UnknownRoleIsRefused(t *testing.T) {
	defer shared.unharmed(t)()
	for _, role := range []any{"banana", 5, "SYSTEM", "", null} {
		e := refusal(t, 400, obj{"messages": []obj{{"role": role, "content": "x"}}})
		require.Equal(t, "messages[0].role", e["param"], "%v", role)
	}
	e := refusal(t, 400, obj{"messages": []obj{user("hi"), {"content": "x"}}})
	require.Equal(t, "messages[1].role", e["param"])
}

func TestChat_TextThatIsNotUnicode(t *testing.T) {
	defer shared.unharmed(t)()
	content := func(s string) string { return raw(`"messages":[{"role":"user","content":"%s"}]`, s) }
	for name, body := range map[string]string{
		"a high surrogate alone":    content(`cut \ud83d`),
		"a low surrogate alone":     content(`x \udc00 y`),
		"two high surrogates":       content(`\ud83d\ud83d\ude00`),
		"bytes FF FE":               content("a \xff\xfe b"),
		"a two-byte start alone":    content("a \xc3\x28 b"),
		"in a system part":          raw(`"messages":[{"role":"system","content":[{"type":"text","text":"cut \ud83d"}]},{"role":"user","content":"hi"}]`),
		"in arguments":              raw(`"messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":\"\ud83d\"}"}}]}]`),
		"in the JSON of arguments":  raw(`"messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":\"\\ud83d\"}"}}]}]`),
		"in a stop string":          raw(`"messages":[{"role":"user","content":"hi"}],"stop":"\ud83d"`),
		"in a name nobody knows":    raw(`"messages":[{"role":"user","content":"hi"}],"x\ud83d":1`),
		"in a value nobody reads":   raw(`"messages":[{"role":"user","content":"hi"}],"user":"\ud83d"`),
		"cut in the middle of text": content("a \xe6\x9d"),
	} {
		whole := shared.do(t, "POST", chatPath, body)
		streamed := shared.do(t, "POST", chatPath, strings.TrimSuffix(body, "}")+`,"stream":true}`)
		e := whole.Err(t, 400)
		require.Equal(t, e, streamed.Err(t, 400), name)
		require.True(t, utf8.Valid(whole.Body), name)
	}

	literal := shared.do(t, "POST", chatPath, content("😀"))
	escaped := shared.do(t, "POST", chatPath, content(`\ud83d\ude00`))
	require.Equal(t, literal.Usage(t, "prompt_tokens"), escaped.Usage(t, "prompt_tokens"))
	require.Equal(t, literal.Text(t), escaped.Text(t))

	short := promptTokens(t, user("a"))
	nul := shared.do(t, "POST", chatPath, content(`a\u0000 and then many more words`))
	if nul.oneOf(t, 200, 400) == 200 {
		require.Greater(t, nul.Usage(t, "prompt_tokens"), short+4, "the text ends at the NUL")
	}
}
