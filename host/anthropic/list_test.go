package anthropic

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/host/openai"
)

const megabytes = 8 << 20

// Eight megabytes of the smallest entries are refused by name before they are kept.
func TestDecode_TooManyAreNotKept(t *testing.T) {
	const head, hello = `{"model":"m","max_tokens":1,`, `"messages":[{"role":"user","content":"x"}]`
	for _, c := range []struct{ before, entry, after, param, message string }{
		{head + `"messages":[`, `{}`, `]}`, "messages", "messages has more than 4096 entries"},
		{head + `"messages":[{"role":"user","content":[`, `{}`, `]}]}`, "messages[0].content", "at most 16384 content parts and tool calls"},
		{head + hello + `,"system":[`, `{}`, `]}`, "system", "at most 16384 content parts and tool calls"},
		{head + hello + `,"tools":[`, `{}`, `]}`, "tools", "tools has more than 128 entries"},
		{head + hello + `,"stop_sequences":[`, `""`, `]}`, "stop_sequences", "stop_sequences has more than 16 entries"},
	} {
		n := (megabytes - len(c.before) - len(c.after)) / (len(c.entry) + 1)
		body := []byte(c.before + c.entry + strings.Repeat(","+c.entry, n-1) + c.after)
		var e *openai.Error
		used := allocated(func() { _, e = Decode(body, openai.Limits{}, false) })
		require.NotNil(t, e, c.before)
		require.Equal(t, c.param, *e.Param)
		require.Contains(t, e.Message, c.message)
		require.Less(t, used, 3*len(body), c.before)
	}
}

func TestDecode_TheBoundIsOfAllBlocksTogether(t *testing.T) {
	block := `{"type":"text","text":"x"}`
	body := []byte(`{"model":"m","max_tokens":1,"system":[` + block + `],"messages":[{"role":"user","content":[` + block + `,` + block + `]}]}`)
	_, e := Decode(body, openai.Limits{Parts: 3}, false)
	require.Nil(t, e)
	_, e = Decode(body, openai.Limits{Parts: 2}, false)
	require.Equal(t, "messages[0].content", *e.Param)
	_, e = Decode(body, openai.Limits{Parts: 3}, false)
	require.Nil(t, e, "each request has it for itself")
}

func TestDecode_ManyBlocksAreJoinedOnce(t *testing.T) {
	for _, kind := range []string{"text", "thinking"} {
		block := `{"type":"` + kind + `","` + kind + `":"` + strings.Repeat("x", 450) + `"}`
		body := []byte(`{"model":"m","max_tokens":1,"messages":[{"role":"assistant","content":[` + block + strings.Repeat(","+block, 16_000) + `]},{"role":"user","content":"x"}]}`)
		used := allocated(func() {
			r, e := Decode(body, openai.Limits{}, false)
			require.Nil(t, e)
			m := r.Conversation.Messages[0]
			require.Len(t, m.Content+m.Reasoning, 450*16_001)
		})
		require.Less(t, used, 16*len(body))
	}
}

// allocated is how many bytes f allocates.
func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}
