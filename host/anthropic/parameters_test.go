package anthropic

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/host/openai"
)

func TestParameters_HaveTheFieldsOfTheRequest(t *testing.T) {
	var fields, listed []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Request]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			fields = append(fields, name)
		}
	}
	for _, p := range Parameters.Parameters {
		if p.Treatment != openai.Refused && !strings.Contains(p.Name, ".") {
			listed = append(listed, p.Name)
		}
	}
	slices.Sort(fields)
	slices.Sort(listed)
	require.Equal(t, fields, listed)
}

// ask sends the least request with one parameter more, which may be one of an object.
func ask(name, value string) (*Request, *openai.Error) {
	name = strings.ReplaceAll(name, "[0]", "[]")
	if object, member, ok := strings.Cut(name, "."); ok {
		has := map[string]string{
			"tools[]":       `[{"name":"t","input_schema":{"type":"object"},%s}]`,
			"tool_choice":   `{"type":"none",%s}`,
			"thinking":      `{"type":"disabled",%s}`,
			"output_format": `{"type":"json_schema","schema":{},%s}`,
			"output_config": `{"effort":"high",%s}`,
			"metadata":      `{"user_id":"u",%s}`,
		}[object]
		name, value = strings.TrimSuffix(object, "[]"), fmt.Sprintf(has, `"`+member+`":`+value)
	}
	return Decode([]byte(`{"model":"m","max_tokens":3,"messages":[{"role":"user","content":"x"}],"`+name+`":`+value+`}`), openai.Limits{}, false)
}

func TestParameters_AreRefusedOrTakenAsTheySay(t *testing.T) {
	for _, p := range Parameters.Parameters {
		if p.Treatment == openai.Honoured {
			continue
		}
		plain, e := ask(p.Name, "null")
		require.Nil(t, e, p.Name)
		for _, value := range p.Taken {
			r, e := ask(p.Name, value)
			require.Nil(t, e, p.Name)
			require.Equal(t, plain.Generate(nil, 0, 100, 0), r.Generate(nil, 0, 100, 0))
			require.Equal(t, plain.Conversation, r.Conversation)
		}
		_, e = ask(p.Name, `["x"]`)
		require.NotNil(t, e, p.Name)
		name := strings.ReplaceAll(p.Name, "[]", "[0]")
		require.Equal(t, name, *e.Param)
		if p.Treatment == openai.Refused {
			require.Equal(t, name+" is not supported: "+p.Note, e.Message)
		}
	}
}

func TestParameters_WhatIsUnknownIsRefusedByName(t *testing.T) {
	for _, name := range []string{"n_predict", "Temperature", "tools[0].parameters", "tool_choice.function", "thinking.effort", "output_config.schema", "output_format.name", "metadata.team"} {
		for _, value := range []string{"1", "false", `""`, "{}"} {
			_, e := ask(name, value)
			require.NotNil(t, e, name)
			require.Equal(t, openai.CodeUnsupported, e.Code)
			require.Equal(t, name, *e.Param)
			require.Equal(t, name+" is not a parameter of POST /v1/messages: extra ones are not permitted", e.Message)
		}
		_, e := ask(name, "null")
		require.Nil(t, e, name)
	}
}

// TestParameters_WhatClientsSendIsTaken has what coding agents send beyond the basics.
func TestParameters_WhatClientsSendIsTaken(t *testing.T) {
	_, e := Decode([]byte(`{"model":"m","max_tokens":2048,"stream":true,"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],
		"messages":[{"role":"user","content":[{"type":"text","text":"x","citations":null}]}],"metadata":{"user_id":"u"},"temperature":1,"service_tier":"auto",
		"tools":[{"type":"custom","name":"t","description":"d","input_schema":{"type":"object","$schema":"s"},"eager_input_streaming":true,"strict":null,"defer_loading":false,"allowed_callers":["direct"]}],
		"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"high"},"speed":"standard","betas":[],
		"context_management":{"edits":[{"keep":"all","type":"clear_thinking_20251015"}]},"diagnostics":{"previous_message_id":null}}`), openai.Limits{}, false)
	require.Nil(t, e, "%v", e)
}

func TestRequest_ANamedToolIsCalledOnce(t *testing.T) {
	for choice, parallel := range map[string]bool{
		`null`:                       true,
		`{"type":"auto"}`:            true,
		`{"type":"any"}`:             true,
		`{"type":"tool","name":"t"}`: false,
		`{"type":"tool","name":"t","disable_parallel_tool_use":false}`: true,
		`{"type":"auto","disable_parallel_tool_use":true}`:             false,
	} {
		r, e := Decode([]byte(`{"model":"m","max_tokens":3,"messages":[{"role":"user","content":"x"}],"tools":[{"name":"t","input_schema":{"type":"object"}}],"tool_choice":`+choice+`}`), openai.Limits{}, false)
		require.Nil(t, e, choice)
		require.Equal(t, parallel, r.Parallel(), choice)
	}
}
