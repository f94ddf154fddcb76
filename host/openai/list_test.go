package openai

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const megabytes = 8 << 20

// junk is a body of eight megabytes, most of it a list of entries between two texts.
func junk(before, entry, after string) []byte {
	n := (megabytes - len(before) - len(after)) / (len(entry) + 1)
	return []byte(before + entry + strings.Repeat(","+entry, n-1) + after)
}

// Eight megabytes of the smallest entries are refused by name before they are kept.
func TestListOf_TooManyAreNotKept(t *testing.T) {
	chat := func(b []byte) *Error { _, e := DecodeChat(b, Limits{}); return e }
	template := func(b []byte) *Error { _, e := DecodeTemplate(b, Limits{}, "m"); return e }
	completion := func(b []byte) *Error { _, e := DecodeCompletion(b, Limits{}); return e }
	const head, user = `{"model":"m",`, `"messages":[{"role":"user","content":"x"}]`
	for _, c := range []struct {
		before, entry, after string
		decode               func([]byte) *Error
		param, message       string
		copies               float64 // of the body; what is first kept as text is one
	}{
		{head + `"messages":[`, `{}`, `]}`, chat, "messages", "messages has more than 4096 entries", 0.75},
		{head + `"messages":[`, `0`, `]}`, chat, "messages[0]", "messages[0] must be an object", 0.75},
		{head + `"messages":[`, `{}`, `]}`, template, "messages", "messages has more than 4096 entries", 0.75},
		{head + `"messages":[{"role":"user","content":[`, `{}`, `]}]}`, chat, "messages[0].content", "at most 16384 content parts and tool calls are allowed", 0.5},
		{head + `"messages":[{"role":"assistant","tool_calls":[`, `{}`, `]}]}`, chat, "messages[0].tool_calls", "at most 16384 content parts and tool calls are allowed", 1},
		{head + user + `,"stop":[`, `""`, `]}`, chat, "stop", "stop has more than 16 entries", 0.5},
		{head + `"prompt":"x","stop":[`, `""`, `]}`, completion, "stop", "stop has more than 16 entries", 0.5},
		{head + user + `,"guided_choice":[`, `""`, `]}`, chat, "guided_choice", "guided_choice has more than 1000 entries", 0.5},
		{head + user + `,"tools":[`, `{}`, `]}`, chat, "tools", "tools has more than 128 entries", 1.5},
		{head + user + `,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[`, `{}`, `]}}}`, chat,
			"tool_choice.allowed_tools.tools", "tool_choice.allowed_tools.tools has more than 128 entries", 1.5},
		{head + user + `,"nobody":[`, `{}`, `]}`, chat, "", "", 2.5},
	} {
		body := junk(c.before, c.entry, c.after)
		var e *Error
		used := allocated(func() { e = c.decode(body) })
		require.Less(t, float64(used), c.copies*float64(len(body)), c.before)
		if c.message == "" {
			require.Nil(t, e)
			continue
		}
		require.NotNil(t, e, c.before)
		require.Equal(t, c.param, *e.Param)
		require.Contains(t, e.Message, c.message)
	}
}

// The decoder keeps all names of an object to find one that stands there twice.
func TestExtent_ObjectsOfManyNamesAreNotRead(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"model":"m","messages":[{"role":"user","content":"x"}],"metadata":{"a":":"`)
	for i := 0; b.Len() < megabytes; i++ {
		fmt.Fprintf(&b, `,"%x":""`, i)
	}
	b.WriteString(`}}`)
	body := []byte(b.String())
	var e *Error
	used := allocated(func() { _, e = DecodeChat(body, Limits{}) })
	require.NotNil(t, e)
	require.Contains(t, e.Message, "at most 16384 are allowed")
	require.Less(t, used, 1<<20)

	deepest, widest := extent([]byte(`{"a:":{"b":1,"c":"\":"},"d":[{"e":1},{"f":1}]}]]`))
	require.Equal(t, 3, deepest)
	require.Equal(t, 2, widest)
	deepest, _ = extent([]byte(strings.Repeat("[", 1000) + ":" + strings.Repeat("]", 2000) + ":"))
	require.Equal(t, 1000, deepest)
}

func TestListOf_TheBoundIsOfAllMessagesTogether(t *testing.T) {
	l := Limits{Parts: 4}
	message := func(parts int) string {
		return `{"role":"user","content":[` + strings.TrimSuffix(strings.Repeat(`{"type":"text","text":"x"},`, parts), ",") + `]}`
	}
	body := func(messages ...string) []byte {
		return []byte(`{"model":"m","messages":[` + strings.Join(messages, ",") + `]}`)
	}
	r, e := DecodeChat(body(message(2), message(2)), l)
	require.Nil(t, e)
	require.Equal(t, "xx", r.Messages[1].Content.Text)
	_, e = DecodeChat(body(message(2), message(1), message(2)), l)
	require.Equal(t, "messages[2].content", *e.Param)
	require.Contains(t, e.Message, "at most 4 content parts and tool calls are allowed in a request")
	require.Equal(t, CodeInvalidValue, e.Code)
	_, e = DecodeChat(body(message(2), message(3), `{"role":5}`), l)
	require.Equal(t, "messages[1].content", *e.Param)
	_, e = DecodeChat([]byte(`{"model":"m","messages":[`+message(5)+`,x]}`), l)
	require.Equal(t, CodeInvalidValue, e.Code, "the list ended before")
	_, e = DecodeChat([]byte(`{"model":"m","messages":[{"role":"user","content":[{},{},{},{},{},x]}]}`), l)
	require.Equal(t, CodeInvalidJSON, e.Code, "what is no JSON is said to be none")
}

func TestContent_ManyPartsAreJoinedOnce(t *testing.T) {
	part := `{"type":"text","text":"` + strings.Repeat("x", 450) + `"}`
	body := []byte(`{"model":"m","messages":[{"role":"user","content":[` + part + strings.Repeat(","+part, 16_383) + `]}]}`)
	used := allocated(func() {
		r, e := DecodeChat(body, Limits{})
		require.Nil(t, e)
		require.Len(t, r.Messages[0].Content.Text, 450*16_384)
	})
	require.Less(t, used, 10*len(body))
}

func TestDecodeChat_TemplateVariablesAreBounded(t *testing.T) {
	kwargs := func(bytes int) []byte {
		return []byte(`{"model":"m","messages":[{"role":"user","content":"x"}],"chat_template_kwargs":{"a":"` + strings.Repeat("x", bytes-len(`{"a":""}`)) + `"}}`)
	}
	_, e := DecodeChat(kwargs(maxTemplateBytes), Limits{})
	require.Nil(t, e)
	_, e = DecodeChat(kwargs(maxTemplateBytes+1), Limits{})
	require.Equal(t, "chat_template_kwargs", *e.Param)
	require.Contains(t, e.Message, "has 1048577 bytes: at most 1048576 are allowed")
}

func TestDecodeDetokenize_AListTakesAFewTimesItsBody(t *testing.T) {
	body := []byte(`{"tokens":[1` + strings.Repeat(",1", MaxDetokenized-1) + `]}`)
	used := allocated(func() {
		r, e := DecodeDetokenize(body, Limits{})
		require.Nil(t, e)
		require.Len(t, r.Tokens, MaxDetokenized)
	})
	require.Less(t, used, 4*len(body))
	body = junk(`{"tokens":[`, `1`, `]}`)
	used = allocated(func() {
		_, e := DecodeDetokenize(body, Limits{})
		require.Equal(t, "tokens", *e.Param)
		require.Contains(t, e.Message, "more than 1048576 entries")
	})
	require.Less(t, used, 2*len(body))
}

// Decoders are used again: bodies at the same time, and those after each other, are held
// to their own limits.
func TestListOf_EachBodyHasItsOwnBound(t *testing.T) {
	body := func(n int) []byte {
		return []byte(`{"model":"m","messages":[` + strings.TrimPrefix(strings.Repeat(`,{"role":"user","content":[{"type":"text","text":"x"}]}`, n), ",") + `]}`)
	}
	var all sync.WaitGroup
	for most := 1; most <= 8; most++ {
		all.Go(func() {
			for i := range 200 {
				n, want := 1+i%8, ""
				switch {
				case n > most && most <= 4:
					want = fmt.Sprintf("messages has more than %d entries: so many are allowed", most)
				case n > 4:
					want = "messages[4].content is one list too long: at most 4 content parts and tool calls are allowed in a request"
				}
				_, e := DecodeChat(body(n), Limits{Messages: most, Parts: 4})
				if want == "" {
					assert.Nil(t, e)
				} else if assert.NotNil(t, e) {
					assert.Equal(t, want, e.Message)
				}
			}
		})
	}
	all.Wait()
}
