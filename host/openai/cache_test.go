package openai

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestChatRequest_CacheSumsUpWhatWasAsked(t *testing.T) {
	for fields, want := range map[string]CacheControl{
		``: {},
		`"prompt_cache_key":null,"prompt_cache_options":null,"prompt_cache_retention":null,"cache_salt":null`: {},
		`"prompt_cache_options":{}`:                                                 {},
		`"prompt_cache_options":{"mode":null,"ttl":null,"pin":null}`:                {},
		`"prompt_cache_key":""`:                                                     {},
		`"prompt_cache_key":"support:v2"`:                                           {Group: "support:v2"},
		`"prompt_cache_key":"` + strings.Repeat("é", 32) + `"`:                      {Group: strings.Repeat("é", 32)},
		`"cache_salt":"s"`:                                                          {Salt: "s"},
		`"cache_salt":"` + strings.Repeat("x", 256) + `"`:                           {Salt: strings.Repeat("x", 256)},
		`"prompt_cache_options":{"mode":"implicit"}`:                                {},
		`"prompt_cache_options":{"mode":"explicit"}`:                                {Explicit: true},
		`"prompt_cache_options":{"ttl":"30m"}`:                                      {TTL: 30 * time.Minute},
		`"prompt_cache_options":{"ttl":"5m"}`:                                       {TTL: 5 * time.Minute},
		`"prompt_cache_options":{"ttl":"1h"}`:                                       {TTL: time.Hour},
		`"prompt_cache_options":{"ttl":"12h"}`:                                      {TTL: 12 * time.Hour},
		`"prompt_cache_options":{"ttl":"24h"}`:                                      {TTL: 24 * time.Hour},
		`"prompt_cache_options":{"ttl":"1h30m"}`:                                    {TTL: 90 * time.Minute},
		`"prompt_cache_options":{"ttl":"1s"}`:                                       {TTL: time.Second},
		`"prompt_cache_options":{"ttl":"168h"}`:                                     {TTL: 168 * time.Hour},
		`"prompt_cache_options":{"mode":"explicit","ttl":"30m","pin":true}`:         {Explicit: true, TTL: 30 * time.Minute, Pin: true},
		`"prompt_cache_options":{"pin":false}`:                                      {},
		`"prompt_cache_retention":"in_memory"`:                                      {},
		`"prompt_cache_retention":"in-memory"`:                                      {},
		`"prompt_cache_retention":"24h"`:                                            {TTL: 24 * time.Hour},
		`"prompt_cache_retention":"24h","prompt_cache_options":{"mode":"explicit"}`: {Explicit: true, TTL: 24 * time.Hour},
		`"prompt_cache_retention":"24h","prompt_cache_options":{"ttl":null}`:        {TTL: 24 * time.Hour},
		`"prompt_cache_retention":null,"prompt_cache_options":{"ttl":"1h"}`:         {TTL: time.Hour},
	} {
		r, err := decode(t, fields)
		require.Nil(t, err, "%s: %v", fields, err)
		require.Equal(t, want, r.Cache(), fields)
	}
}

// D20: names from clients have bounds.
func TestDecodeChat_RefusesCacheParametersByNameAndSaysWhatIsAllowed(t *testing.T) {
	for fields, want := range map[string]struct {
		param string
		code  Code
		says  string
	}{
		`"prompt_cache_key":5`:                                                      {"prompt_cache_key", CodeInvalidType, "a string"},
		`"prompt_cache_key":"` + strings.Repeat("é", 33) + `"`:                      {"prompt_cache_key", CodeInvalidValue, "at most 64"},
		`"prompt_cache_key":"` + strings.Repeat("x", 65) + `"`:                      {"prompt_cache_key", CodeInvalidValue, "at most 64"},
		`"cache_salt":""`:                                                           {"cache_salt", CodeInvalidValue, "1 to 256 bytes"},
		`"cache_salt":"` + strings.Repeat("x", 257) + `"`:                           {"cache_salt", CodeInvalidValue, "1 to 256 bytes"},
		`"cache_salt":{}`:                                                           {"cache_salt", CodeInvalidType, "a string"},
		`"prompt_cache_options":"explicit"`:                                         {"prompt_cache_options", CodeInvalidType, "an object"},
		`"prompt_cache_options":{"mode":"auto"}`:                                    {"prompt_cache_options.mode", CodeInvalidValue, `"implicit" and "explicit"`},
		`"prompt_cache_options":{"mode":1}`:                                         {"prompt_cache_options.mode", CodeInvalidType, "a string"},
		`"prompt_cache_options":{"ttl":"soon"}`:                                     {"prompt_cache_options.ttl", CodeInvalidValue, "1s to 168h"},
		`"prompt_cache_options":{"ttl":""}`:                                         {"prompt_cache_options.ttl", CodeInvalidValue, "1s to 168h"},
		`"prompt_cache_options":{"ttl":"0s"}`:                                       {"prompt_cache_options.ttl", CodeInvalidValue, "1s to 168h"},
		`"prompt_cache_options":{"ttl":"-30m"}`:                                     {"prompt_cache_options.ttl", CodeInvalidValue, "1s to 168h"},
		`"prompt_cache_options":{"ttl":"169h"}`:                                     {"prompt_cache_options.ttl", CodeInvalidValue, "1s to 168h"},
		`"prompt_cache_options":{"ttl":"30"}`:                                       {"prompt_cache_options.ttl", CodeInvalidValue, "1s to 168h"},
		`"prompt_cache_options":{"ttl":"99999999999h"}`:                             {"prompt_cache_options.ttl", CodeInvalidValue, "1s to 168h"},
		`"prompt_cache_options":{"ttl":1800}`:                                       {"prompt_cache_options.ttl", CodeInvalidType, "a string"},
		`"prompt_cache_options":{"pin":"yes"}`:                                      {"prompt_cache_options.pin", CodeInvalidType, "a boolean"},
		`"prompt_cache_options":{"mode":"implicit","TTL":"30m"}`:                    {"prompt_cache_options.TTL", CodeUnsupported, "mode, ttl and pin"},
		`"prompt_cache_options":{"size":{"a":[1]}}`:                                 {"prompt_cache_options.size", CodeUnsupported, "mode, ttl and pin"},
		`"prompt_cache_options":{"ttl":"5m","ttl":"1h"}`:                            {"prompt_cache_options.ttl", CodeInvalidJSON, "twice"},
		`"prompt_cache_retention":"forever"`:                                        {"prompt_cache_retention", CodeInvalidValue, `"in_memory" and "24h"`},
		`"prompt_cache_retention":24`:                                               {"prompt_cache_retention", CodeInvalidType, "a string"},
		`"prompt_cache_retention":"24h","prompt_cache_options":{"ttl":"30m"}`:       {"prompt_cache_retention", CodeInvalidValue, "prompt_cache_options.ttl"},
		`"prompt_cache_retention":"in_memory","prompt_cache_options":{"ttl":"30m"}`: {"prompt_cache_retention", CodeInvalidValue, "one of them"},
	} {
		_, err := decode(t, fields)
		require.NotNil(t, err, fields)
		require.NotNil(t, err.Param, fields)
		require.Equal(t, want.param, *err.Param, fields)
		require.Equal(t, want.code, err.Code, fields)
		require.Contains(t, err.Message, want.param, fields)
		require.Contains(t, err.Message, want.says, fields)
	}
}

// marked is a message with one text part for each text; those with a bar at
// the end carry a breakpoint.
func marked(role string, texts ...string) string {
	var parts []string
	for _, text := range texts {
		part := `{"type":"text","text":"` + strings.TrimSuffix(text, "|") + `"`
		if strings.HasSuffix(text, "|") {
			part += `,"prompt_cache_breakpoint":{"mode":"explicit"}`
		}
		parts = append(parts, part+"}")
	}
	id := ""
	if role == "tool" {
		id = `"tool_call_id":"c",`
	}
	return `{"role":"` + role + `",` + id + `"content":[` + strings.Join(parts, ",") + `]}`
}

func decodeMessages(messages ...string) (*ChatRequest, *Error) {
	return DecodeChat([]byte(`{"model":"m","messages":[`+strings.Join(messages, ",")+`]}`), Limits{})
}

func TestDecodeChat_BreakpointsAreWhereTheirPartsEnd(t *testing.T) {
	call := `{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]}`
	for _, role := range []string{"system", "developer", "user", "assistant", "tool"} {
		r, err := decodeMessages(call, marked(role, "ab|", "cé", "|", "d|"), marked("user", "x"))
		require.Nil(t, err, "%s: %v", role, err)
		require.Equal(t, "abcéd", r.Messages[1].Content.Text)
		require.Equal(t, []int{2, 5, 6}, r.Messages[1].Content.Breakpoints, role)
		require.Nil(t, r.Messages[2].Content.Breakpoints)
		require.Equal(t, CacheControl{}, r.Cache(), "breakpoints alone ask for no lifetime")
	}
}

func TestDecodeChat_BreakpointsAreLimitedOverAllMessages(t *testing.T) {
	_, err := decodeMessages(marked("system", "a|", "b|"), marked("user", "c|", "d|", "e"))
	require.Nil(t, err)
	_, err = decodeMessages(marked("system", "a|", "b|"), marked("user", "c|", "d|", "e|"))
	require.NotNil(t, err)
	require.Equal(t, "messages", *err.Param)
	require.Contains(t, err.Message, "5 parts with prompt_cache_breakpoint")
	require.Contains(t, err.Message, "at most 4")
}

func TestChatRequest_LongestLifetimeCounts(t *testing.T) {
	part := func(ttl string) string {
		return `{"role":"user","content":[{"type":"text","text":"a","prompt_cache_breakpoint":{"mode":"explicit","ttl":` + ttl + `}}]}`
	}
	r, err := decodeMessages(part(`"1h"`), part(`"5m"`), part(`null`))
	require.Nil(t, err)
	require.Equal(t, time.Hour, r.Cache().TTL)
	r, err = DecodeChat([]byte(`{"model":"m","messages":[`+part(`"5m"`)+`],"prompt_cache_options":{"ttl":"30m"}}`), Limits{})
	require.Nil(t, err)
	require.Equal(t, 30*time.Minute, r.Cache().TTL)
}

func TestDecodeChat_RefusesBreakpointsByPath(t *testing.T) {
	const at = "messages[0].content[0].prompt_cache_breakpoint"
	for breakpoint, want := range map[string]struct{ param, says string }{
		`{}`:                                {at + ".mode", `"explicit"`},
		`{"mode":null}`:                     {at + ".mode", `"explicit"`},
		`{"mode":"implicit"}`:               {at + ".mode", `"explicit"`},
		`{"mode":5}`:                        {at + ".mode", "a string"},
		`"explicit"`:                        {at, "an object"},
		`true`:                              {at, "an object"},
		`{"mode":"explicit","ttl":"1y"}`:    {at + ".ttl", "1s to 168h"},
		`{"mode":"explicit","ttl":5}`:       {at + ".ttl", "a string"},
		`{"mode":"explicit","pin":true}`:    {at + ".pin", "mode and ttl"},
		`{"type":"ephemeral"}`:              {at + ".type", "mode and ttl"},
		`{"mode":"explicit","x":1,"y":[2]}`: {at + ".x", "mode and ttl"},
	} {
		_, err := decodeMessages(`{"role":"user","content":[{"type":"text","text":"a","prompt_cache_breakpoint":` + breakpoint + `}]}`)
		require.NotNil(t, err, breakpoint)
		require.NotNil(t, err.Param, breakpoint)
		require.Equal(t, want.param, *err.Param, breakpoint)
		require.Contains(t, err.Message, want.param, breakpoint)
		require.Contains(t, err.Message, want.says, breakpoint)
	}
	_, err := decodeMessages(`{"role":"user","content":[{"type":"text","text":"a","prompt_cache_breakpoint":null}]}`)
	require.Nil(t, err)
	_, err = decodeMessages(`{"role":"assistant","content":[{"type":"refusal","refusal":"no","prompt_cache_breakpoint":{"mode":"explicit"}}]}`)
	require.Equal(t, at, *err.Param)
	require.Contains(t, err.Message, "text parts")
}
