package anthropic

import (
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
		if p.Treatment != openai.Refused {
			listed = append(listed, p.Name)
		}
	}
	slices.Sort(fields)
	slices.Sort(listed)
	require.Equal(t, fields, listed)
}

func TestParameters_AreRefusedOrTakenAsTheySay(t *testing.T) {
	ask := func(name, value string) (*Request, *openai.Error) {
		return Decode([]byte(`{"model":"m","max_tokens":3,"messages":[{"role":"user","content":"x"}],"`+name+`":`+value+`}`), openai.Limits{}, false)
	}
	plain, e := ask("x", "1")
	require.Nil(t, e)
	for _, p := range Parameters.Parameters {
		if p.Treatment == openai.Honoured {
			continue
		}
		for _, value := range append([]string{"null"}, p.Taken...) {
			r, e := ask(p.Name, value)
			require.Nil(t, e, p.Name)
			require.Equal(t, plain.Generate(nil, 0, 100, 0), r.Generate(nil, 0, 100, 0))
			require.Equal(t, plain.Conversation, r.Conversation)
		}
		_, e := ask(p.Name, `["x"]`)
		require.NotNil(t, e, p.Name)
		require.Equal(t, p.Name, *e.Param)
		if p.Treatment == openai.Refused {
			require.Equal(t, p.Name+" is not supported: "+p.Note, e.Message)
		}
	}
}
