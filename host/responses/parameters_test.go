package responses

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"thoth/host/openai"
	"thoth/station/wire"
)

const least = `"model":"m","input":"x"`

// decode decodes the least request with more fields.
func decode(t *testing.T, fields string) (*Request, *openai.Error) {
	t.Helper()
	return Decode([]byte(`{`+strings.TrimSuffix(least+`,`+fields, ",")+`}`), openai.Limits{}, false)
}

// with is one parameter; a dot in its name leads into an object.
func with(name, value string) string {
	path := strings.Split(name, ".")
	slices.Reverse(path)
	for _, part := range path[:len(path)-1] {
		value = `{"` + part + `":` + value + `}`
	}
	return `"` + path[len(path)-1] + `":` + value
}

// meaning is all that a request sends on.
func meaning(r *Request) any {
	r.Input[0].ID = "" // it is random
	return []any{r.Generate([]wire.Segment{{Text: "x"}}, 0, 100, 0), r.Input, r.Instructions, r.Tools, r.Choice, r.Format, r.Cache(), r.Parallel(), r.Effort(), r.Verbosity(),
		r.Stream, r.Background, r.Store, r.Include}
}

func TestParameters_HaveTheFieldsOfTheRequest(t *testing.T) {
	var fields, listed []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Request]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			fields = append(fields, name)
		}
	}
	for _, p := range Parameters().Parameters {
		require.NotEmpty(t, p.Note, p.Name)
		switch {
		case p.Treatment == openai.Refused:
			require.NotContains(t, fields, p.Name)
		default:
			require.NotEmpty(t, p.Allowed, p.Name)
			require.Equal(t, p.Treatment == openai.Accepted, len(p.Taken) > 0, p.Name)
			listed = append(listed, p.Name)
		}
	}
	slices.Sort(fields)
	slices.Sort(listed)
	require.Equal(t, fields, listed)
}

func TestParameters_AreRefusedOrTakenAsTheySay(t *testing.T) {
	plain, e := decode(t, "")
	require.Nil(t, e)
	for _, p := range Parameters().Parameters {
		if p.Treatment == openai.Honoured {
			continue
		}
		for _, value := range append([]string{"null"}, p.Taken...) {
			r, e := decode(t, with(p.Name, " "+strings.ReplaceAll(value, ":", " : ")))
			require.Nil(t, e, "%s %s", p.Name, value)
			require.Equal(t, meaning(plain), meaning(r), "%s %s", p.Name, value)
		}
		_, e := decode(t, with(p.Name, `[[1]]`))
		require.NotNil(t, e, p.Name)
		require.True(t, strings.HasPrefix(*e.Param, p.Name), e.Message)
		if p.Treatment == openai.Refused {
			require.Equal(t, openai.CodeUnsupported, e.Code)
			require.Equal(t, p.Name+" is not supported: "+p.Note, e.Message)
		}
	}
}

func TestParameters_AreReadWhereTheyAreHonoured(t *testing.T) {
	given := map[string]any{}
	require.NoError(t, json.Unmarshal([]byte(`{`+least+`}`), &given))
	for _, p := range Parameters().Parameters {
		if p.Treatment != openai.Honoured || given[p.Name] != nil {
			continue
		}
		_, e := decode(t, with(p.Name, `[[true]]`))
		require.NotNil(t, e, p.Name)
		require.True(t, strings.HasPrefix(*e.Param, p.Name), e.Message)
	}
}

func TestParam_NamesWhatAChatCallsOtherwise(t *testing.T) {
	for chat, own := range map[string]string{
		"messages": "input", "max_tokens": "max_output_tokens", "tools[3].function.parameters.type": "tools[3].parameters.type", "text.format.schema": "text.format.schema",
		"chat_template_kwargs": "reasoning.effort", "verbosity": "text.verbosity", "logprobs": "include", "seed": "seed",
	} {
		require.Equal(t, own, Param(chat))
	}
}
