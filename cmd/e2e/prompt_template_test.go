//go:build e2e

package e2e

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

const plainTemplate = `{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}<|im_start|>assistant
`

func TestTemplate_BrokenOneIsNeverReady(t *testing.T) {
	for name, c := range map[string]struct{ template, hides string }{
		"does not compile": {`{% for m in messages %}{{ m.content }`, "m.content"},
		"unknown filter":   {`{% for m in messages %}{{ m.content | no_such_filter }}{% endfor %}`, "messages %}"},
		"always raises":    {`{{ raise_exception('not for chats') }}`, "{{"},
		"shows no message": {`a fixed text`, "a fixed text"},
	} {
		t.Run(name, func(t *testing.T) {
			s := hostBefore(t, standIn(t, wire.Model{Name: "m", Digest: "d", ChatTemplate: c.template}),
				"THOTH_MODEL_NAME=test-model", "THOTH_HEALTH_INTERVAL=20ms")
			told := func() reply { return s.do(t, http.MethodGet, "/readyz", nil) }
			eventually(t, "the reason", func() bool { r := told(); return r.Status == 503 && bytes.Contains(r.Body, []byte("chat template")) })
			for _, stream := range []bool{false, true} {
				e := s.chat(t, obj{"stream": stream}).Err(t, 503)
				require.Equal(t, "chat_template_broken", e["code"])
				require.NotContains(t, e["message"], c.hides, "no source in an error")
			}
			eventually(t, "a line in the log", func() bool { return strings.Contains(s.log(), "chat template") })
			require.Equal(t, 200, s.do(t, http.MethodGet, "/livez", nil).Status)
			require.Equal(t, 200, s.do(t, http.MethodGet, "/health", nil).Status)
			require.NotRegexp(t, crash, s.log())
			require.Equal(t, 503, told().Status, "still not ready")
		})
	}
}

func TestTemplate_ItsOwnRefusalIsTheClients(t *testing.T) {
	strict := `{% for m in messages %}{% if m.role == 'assistant' and loop.first %}{{ raise_exception('the user speaks first') }}{% endif %}` +
		`<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}`
	s := hostBefore(t, standIn(t, wire.Model{Name: "m", Digest: "d", ChatTemplate: strict}), "THOTH_MODEL_NAME=test-model")
	s.serves(t)
	require.NotEmpty(t, s.chat(t).Text(t))
	for _, stream := range []bool{false, true} {
		e := s.chat(t, obj{"messages": []obj{message("assistant", "hi"), user("hi")}, "stream": stream}).Err(t, 400)
		require.Equal(t, "template_refused", e["code"])
		require.Contains(t, e["message"], "the user speaks first")
	}
	require.NotEmpty(t, s.chat(t).Text(t))
}

func TestTemplate_OptionsOfARequest(t *testing.T) {
	defer shared.unharmed(t)()
	want := shared.chat(t)
	for _, kwargs := range []any{obj{"enable_thinking": false}, obj{"enable_thinking": "no"}, obj{"no_such_option": []int{1}}, obj{}, null} {
		got := shared.chat(t, obj{"chat_template_kwargs": kwargs})
		require.Equal(t, want.Usage(t, "prompt_tokens"), got.Usage(t, "prompt_tokens"), "%v", kwargs)
	}
	for _, kwargs := range []any{5, "enable_thinking", []string{"enable_thinking"}, true} {
		require.Equal(t, "chat_template_kwargs", refusal(t, 400, obj{"chat_template_kwargs": kwargs})["param"], "%v", kwargs)
	}
	// A client sets variables, never what the prompt is made of.
	for _, name := range []string{"messages", "chat_template", "bos_token", "add_generation_prompt", "raise_exception", "a b", ""} {
		e := refusal(t, 400, obj{"chat_template_kwargs": obj{name: "x"}})
		require.Equal(t, "chat_template_kwargs", e["param"], name)
	}
	require.Equal(t, "chat_template", refusal(t, 400, obj{"chat_template": "{{ messages }}"})["param"])
}

func TestTemplate_OptionIsHonouredWhereTheTemplateReadsIt(t *testing.T) {
	switched := `{% for m in messages %}{{ m.content }}{% endfor %}{% if enable_thinking is defined and not enable_thinking %}{{ raise_exception('thinking is off') }}{% endif %}`
	s := hostBefore(t, standIn(t, wire.Model{Name: "m", Digest: "d", ChatTemplate: switched}), "THOTH_MODEL_NAME=test-model")
	s.serves(t)
	require.NotEmpty(t, s.chat(t).Text(t))
	require.NotEmpty(t, s.chat(t, obj{"chat_template_kwargs": obj{"enable_thinking": true}}).Text(t))
	e := s.chat(t, obj{"chat_template_kwargs": obj{"enable_thinking": false}}).Err(t, 400)
	require.Contains(t, e["message"], "thinking is off")
}
