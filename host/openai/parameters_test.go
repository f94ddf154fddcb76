package openai

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

// endpoints are the tables with their request's type and the least body it takes;
// rendered is all that a decoded request sends on.
var endpoints = []struct {
	table    *Table
	request  any
	least    string
	decode   func(body []byte) (any, *Error)
	rendered func(any) any
}{
	{ChatParameters, ChatRequest{}, hi, func(b []byte) (any, *Error) { return DecodeChat(b, Limits{}) },
		func(r any) any {
			q := r.(*ChatRequest)
			return []any{q.Generate([]wire.Segment{{Text: "x"}}, 0, 100, 0), q.Messages, q.Tools, q.Choice, q.Format, q.Cache(), q.Choices(), q.Parallel(), q.Stream, q.IncludeUsage()}
		}},
	{CompletionParameters, CompletionRequest{}, `"model":"m","prompt":"x"`, func(b []byte) (any, *Error) { return DecodeCompletion(b, Limits{}) },
		func(r any) any {
			q := r.(*CompletionRequest)
			return []any{q.Generate(wire.Prompt{}, 0, 100), q.Prompt, q.Suffix, q.Cache(), q.Choices(), q.Best(), q.Echo, q.Stream, q.IncludeUsage()}
		}},
	{EmbeddingParameters, EmbeddingRequest{}, `"model":"m","input":"x"`, func(b []byte) (any, *Error) { return DecodeEmbedding(b, Limits{}) },
		func(r any) any {
			q := r.(*EmbeddingRequest)
			return []any{q.Wire(), q.EncodingFormat, q.Dimensions}
		}},
	{RerankParameters, RerankRequest{}, `"model":"m","query":"q","documents":["x"]`, func(b []byte) (any, *Error) { return DecodeRerank(b, Limits{}) },
		func(r any) any {
			q := r.(*RerankRequest)
			return []any{q.Wire(), q.TopN, q.ReturnDocuments, q.RawScores}
		}},
	{TokenizeParameters, TokenizeRequest{}, `"content":"x"`, func(b []byte) (any, *Error) { return DecodeTokenize(b, Limits{}) }, func(r any) any { return r.(*TokenizeRequest).Wire() }},
	{DetokenizeParameters, DetokenizeRequest{}, `"tokens":[1]`, func(b []byte) (any, *Error) { return DecodeDetokenize(b, Limits{}) }, func(r any) any { return r.(*DetokenizeRequest).Wire() }},
}

func TestTable_HasTheFieldsOfTheRequest(t *testing.T) {
	for _, e := range endpoints {
		var fields []string
		for _, f := range reflect.VisibleFields(reflect.TypeOf(e.request)) {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
				fields = append(fields, name)
			}
		}
		var listed []string
		for _, p := range e.table.Parameters {
			require.NotEmpty(t, p.Note, p.Name)
			switch {
			case strings.Contains(p.Name, "."):
			case p.Treatment == Refused:
				require.NotContains(t, fields, p.Name, "%s: a refused parameter needs no field", e.table.Endpoint)
			default:
				require.NotEmpty(t, p.Allowed, p.Name)
				listed = append(listed, p.Name)
			}
			require.Equal(t, p.Treatment == Accepted, p.Treatment != Refused && len(p.Taken) > 0, "%s: what is without effect has examples, what is honoured none", p.Name)
		}
		slices.Sort(fields)
		slices.Sort(listed)
		require.Equal(t, fields, listed, e.table.Endpoint)
	}
}

// beside is what an object needs to be one that is taken.
var beside = map[string]string{"response_format": `"type":"text",`, "thinking": `"type":"enabled",`}

// with is a body with one parameter; a dot in its name leads into an object.
func with(least, name, value string) []byte {
	path := strings.Split(name, ".")
	slices.Reverse(path)
	for i, part := range path[:len(path)-1] {
		value = `{` + beside[path[i+1]] + `"` + part + `":` + value + `}`
	}
	return []byte(`{` + least + `,"` + path[len(path)-1] + `":` + value + `}`)
}

func TestTable_RefusesByNameWhatItSays(t *testing.T) {
	for _, e := range endpoints {
		plain, err := e.decode([]byte(`{` + e.least + `}`))
		require.Nil(t, err)
		for _, p := range e.table.Parameters {
			if p.Treatment != Refused {
				continue
			}
			for _, value := range []string{`{"x":1}`, `"x"`, `[7]`, `77`} {
				_, err := e.decode(with(e.least, p.Name, value))
				require.NotNil(t, err, "%s %s", e.table.Endpoint, p.Name)
				require.Equal(t, CodeUnsupported, err.Code)
				require.Equal(t, p.Name, *err.Param)
				require.Equal(t, p.Name+" is not supported: "+p.Note, err.Message)
			}
			for _, value := range append([]string{"null"}, p.Taken...) {
				got, err := e.decode(with(e.least, p.Name, " "+strings.ReplaceAll(value, ":", " : ")))
				require.Nil(t, err, "%s: %s %s", e.table.Endpoint, p.Name, value)
				if !strings.Contains(p.Name, ".") {
					require.Equal(t, e.rendered(plain), e.rendered(got), "%s %s", p.Name, value)
				}
			}
		}
	}
}

func TestTable_WhatIsAcceptedChangesNothing(t *testing.T) {
	for _, e := range endpoints {
		plain, err := e.decode([]byte(`{` + e.least + `}`))
		require.Nil(t, err)
		for _, p := range e.table.Parameters {
			if p.Treatment != Accepted {
				continue
			}
			for _, value := range append([]string{"null"}, p.Taken...) {
				got, err := e.decode(with(e.least, p.Name, value))
				require.Nil(t, err, "%s %s", p.Name, value)
				require.Equal(t, e.rendered(plain), e.rendered(got), "%s %s", p.Name, value)
			}
			_, err := e.decode(with(e.least, p.Name, `[1]`))
			require.NotNil(t, err, "%s is not checked", p.Name)
			require.Equal(t, p.Name, *err.Param)
		}
	}
}

// TestTable_NamesWhatIsHonouredByItsType sends every parameter a value that no type
// takes: what has no field is not read.
func TestTable_NamesWhatIsHonouredByItsType(t *testing.T) {
	for _, e := range endpoints {
		var least map[string]any
		require.NoError(t, json.Unmarshal([]byte(`{`+e.least+`}`), &least))
		for _, p := range e.table.Parameters {
			if p.Treatment != Honoured || least[p.Name] != nil || strings.Contains(p.Name, ".") {
				continue
			}
			wrong := `[[true]]`
			_, err := e.decode(with(e.least, p.Name, wrong))
			require.NotNil(t, err, "%s %s", e.table.Endpoint, p.Name)
			require.True(t, strings.HasPrefix(*err.Param, p.Name), "%s: %v", p.Name, err)
		}
	}
}

func TestTable_TakesWhatAsksForNothingHoweverItIsWritten(t *testing.T) {
	table := NewTable("POST /x", Parameter{Name: "one", Treatment: Refused, Note: "no", Taken: []string{"1", `{"b":[0],"a":"x"}`}}, Parameter{Name: "zero", Treatment: Refused, Note: "no", Taken: []string{"0"}})
	for _, rest := range []string{`{"one":1}`, `{"one":1.00}`, `{"one":10e-1}`, `{"one": {"a" : "\u0078", "b":[0.0] }}`, `{"zero":-0.0}`, `{"zero":0e5}`} {
		require.Nil(t, table.Refuse(jsontext.Value(rest)), rest)
	}
	for _, rest := range []string{`{"one":1.01}`, `{"one":"1"}`, `{"one":[1]}`, `{"one":true}`, `{"one":{"a":"x","b":[1]}}`, `{"one":{"a":"x"}}`, `{"zero":1e-300}`, `{"zero":false}`, `{"zero":""}`} {
		require.NotNil(t, table.Refuse(jsontext.Value(rest)), rest)
	}
}

func TestTable_WhatItDoesNotKnowIsReadNowhereAndRefusedInObjects(t *testing.T) {
	open, closed := NewTable("POST /x"), NewTable("POST /x", Parameter{Name: "list[].known", Treatment: Refused, Note: "no", Taken: []string{"false"}}).Closed()
	require.Nil(t, open.Refuse(jsontext.Value(`{"n":1}`)))
	require.Equal(t, "n", *closed.Refuse(jsontext.Value(`{"m":null,"n":1}`)).Param)
	require.Equal(t, "o.n", *open.RefuseIn("o", jsontext.Value(`{"n":1}`)).Param)
	e := closed.RefuseIn("list[12]", jsontext.Value(`{"known":true}`))
	require.Equal(t, "list[12].known", *e.Param)
	require.Equal(t, "list[12].known is not supported: no", e.Message)
	require.Nil(t, closed.RefuseIn("list[12]", jsontext.Value(`{"known":false}`)))
	for fields, want := range map[string]string{
		`"stream_options":{"every":1}`:                                                             "stream_options.every",
		`"response_format":{"type":"json_object","schema":{"type":"object"}}`:                      "response_format.schema",
		`"response_format":{"type":"text","x":1}`:                                                  "response_format.x",
		`"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{},"rule":1}}`: "response_format.json_schema.rule",
		`"reasoning":{"effort":"low","tokens":5}`:                                                  "reasoning.tokens",
		`"reasoning":{"max_tokens":5}`:                                                             "reasoning.max_tokens",
	} {
		_, err := decode(t, fields)
		require.NotNil(t, err, fields)
		require.Equal(t, CodeUnsupported, err.Code)
		require.Equal(t, want, *err.Param)
	}
	_, err := decode(t, `"of_my_client":{"a":1}`)
	require.Nil(t, err)
}

func TestDecodeChat_ReasoningIsTheEffort(t *testing.T) {
	for _, fields := range []string{`"reasoning":{"effort":"low"}`, `"reasoning":{"effort":"low","exclude":false},"reasoning_effort":"low"`, `"reasoning":{"effort":null},"reasoning_effort":"low"`} {
		r, err := decode(t, fields)
		require.Nil(t, err, fields)
		require.Equal(t, "low", *r.ReasoningEffort)
	}
	for _, fields := range []string{`"reasoning":{}`, `"reasoning":null`} {
		r, err := decode(t, fields)
		require.Nil(t, err, fields)
		require.Nil(t, r.ReasoningEffort)
	}
	for fields, want := range map[string]string{
		`"reasoning":{"effort":"low"},"reasoning_effort":"high"`: "reasoning.effort (low) and reasoning_effort (high) differ",
		`"reasoning":{"effort":"loud"}`:                          "reasoning.effort is",
		`"reasoning":"low"`:                                      "reasoning must be an object",
	} {
		_, err := decode(t, fields)
		require.NotNil(t, err, fields)
		require.Contains(t, err.Message, want)
	}
}

func TestSampling_NumbersThatNoFloatHoldsAndTokensTwice(t *testing.T) {
	_, err := decode(t, `"temperature":1e400`)
	require.Equal(t, "temperature", *err.Param)
	require.Contains(t, err.Message, "too large a number: at most 1.79")
	_, err = decode(t, `"logit_bias":{"5":1,"15":2}`)
	require.Nil(t, err)
	for _, key := range []string{"05", "+5", "-0", " 5", "5.0", "0x5", "", "-5"} {
		_, err := decode(t, `"logit_bias":{"`+key+`":1}`)
		require.NotNil(t, err, key)
		require.Contains(t, err.Message, "plain digits")
	}
}

func TestDecodeChat_ChecksWhatHasNoEffect(t *testing.T) {
	long := strings.Repeat("é", 65)
	sixteen := strings.TrimPrefix(strings.Join(slices.Collect(func(yield func(string) bool) {
		for i := range 16 {
			yield(`,"` + string(rune('a'+i)) + `":"v"`)
		}
	}), ""), ",")
	for _, fields := range []string{`"metadata":{` + sixteen + `}`, `"metadata":{"` + long[:128] + `":"` + strings.Repeat("é", 512) + `"}`, `"safety_identifier":"` + long[:128] + `"`,
		`"verbosity":"low"`, `"store":null`, `"service_tier":"priority"`} {
		_, err := decode(t, fields)
		require.Nil(t, err, fields)
	}
	for fields, want := range map[string]string{
		`"metadata":{` + sixteen + `,"q":"v"}`:                  "metadata",
		`"metadata":{"` + long + `":"v"}`:                       "metadata",
		`"metadata":{"a":"` + strings.Repeat("x", 513) + `"}`:   "metadata.a",
		`"metadata":{"a":1}`:                                    "metadata.a",
		`"safety_identifier":"` + long + `"`:                    "safety_identifier",
		`"verbosity":"loud"`:                                    "verbosity",
		`"service_tier":"gold"`:                                 "service_tier",
		`"store":true`:                                          "store",
		`"stream_options":{"include_obfuscation":true}`:         "stream_options.include_obfuscation",
		`"n_predict":5,"max_tokens":5`:                          "n_predict",
		`"messages":7,"functions":[{"name":"f"}],"x":1,"x":"2"`: "messages",
	} {
		_, err := decode(t, fields)
		require.NotNil(t, err, fields)
		require.Equal(t, want, *err.Param, fields)
		require.Contains(t, err.Message, want)
	}
}

func TestChatRequest_TierIsSaidWhereItWasNamed(t *testing.T) {
	r, err := decode(t, `"service_tier":"flex"`)
	require.Nil(t, err)
	require.Equal(t, "default", r.Tier())
	r, _ = decode(t, ``)
	require.Empty(t, r.Tier())
}
