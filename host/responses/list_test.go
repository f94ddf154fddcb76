package responses

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/host/openai"
)

// Eight megabytes of the smallest entries are refused by name before they are kept.
// Their text is kept first: input, an item of it, and what the item consists of.
func TestDecode_TooManyAreNotKept(t *testing.T) {
	const head, most = `{"model":"m",`, 8 << 20
	for _, c := range []struct {
		before, entry, after, param, message string
		copies                               int
	}{
		{head + `"input":[`, `{}`, `]}`, "input", "input has more than 4096 entries", 2},
		{head + `"input":[{"role":"user","content":[`, `{}`, `]}]}`, "input[0].content", "at most 16384 content parts and tool calls", 4},
		{head + `"input":[{"type":"function_call_output","call_id":"c","output":[`, `{}`, `]}]}`, "input[0].output", "at most 16384 content parts and tool calls", 4},
		{head + `"input":[{"type":"reasoning","summary":[`, `{}`, `]}]}`, "input[0].summary", "at most 16384 content parts and tool calls", 4},
		{head + `"input":"x","tools":[`, `{}`, `]}`, "tools", "tools has more than 128 entries", 2},
		{head + `"input":"x","tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[`, `{}`, `]}}`,
			"tool_choice.tools", "tool_choice.tools has more than 128 entries", 2},
		{head + `"input":"x","include":[`, `""`, `]}`, "include", "include has more than 64 entries", 2},
		{head + `"input":"x","stop":[`, `""`, `]}`, "stop", "stop has more than 16 entries", 2},
	} {
		n := (most - len(c.before) - len(c.after)) / (len(c.entry) + 1)
		body := []byte(c.before + c.entry + strings.Repeat(","+c.entry, n-1) + c.after)
		var e *openai.Error
		used := allocated(func() { _, e = Decode(body, openai.Limits{}, false) })
		require.NotNil(t, e, c.before)
		require.Equal(t, c.param, *e.Param)
		require.Contains(t, e.Message, c.message)
		require.Less(t, used, c.copies*len(body), c.before)
	}
}

func TestDecode_TheBoundIsOfAllItemsTogether(t *testing.T) {
	item := `{"role":"user","content":[{"type":"input_text","text":"x"},{"type":"input_text","text":"x"}]}`
	body := []byte(`{"model":"m","input":[` + item + `,` + item + `]}`)
	_, e := Decode(body, openai.Limits{Parts: 4}, false)
	require.Nil(t, e)
	_, e = Decode(body, openai.Limits{Parts: 3}, false)
	require.Equal(t, "input[1].content", *e.Param)
	var stored Item
	require.NoError(t, json.Unmarshal([]byte(`{"role":"user","content":[`+strings.Repeat(`{"type":"input_text","text":"x"},`, 20_000)+`{"type":"input_text","text":"x"}]}`), &stored),
		"what was stored by another setting is read")
}

// allocated is how many bytes f allocates.
func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}
