package host

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/host/anthropic"
	"thoth/host/openai"
	"thoth/host/responses"
	"thoth/station/wire"
)

// tables are those of all endpoints, by their names.
var tables = func() map[string]*openai.Table {
	all := map[string]*openai.Table{}
	for _, t := range []*openai.Table{openai.ChatParameters, openai.CompletionParameters, openai.EmbeddingParameters, openai.RerankParameters, anthropic.Parameters,
		openai.TokenizeParameters, openai.DetokenizeParameters, responses.Parameters()} {
		all[t.Endpoint] = t
	}
	return all
}()

// TestParameters_AreInTheDocument makes the tables of docs/api.md, each between a
// comment with its endpoint and one that says end. Run it with -update to write them.
func TestParameters_AreInTheDocument(t *testing.T) {
	const file = "../docs/api.md"
	was, err := os.ReadFile(file)
	require.NoError(t, err)
	seen := map[string]bool{}
	now := regexp.MustCompile(`(?s)<!-- parameters of ([^>]+) -->\n.*?<!-- end -->`).ReplaceAllStringFunc(string(was), func(section string) string {
		first, _, _ := strings.Cut(section, "\n")
		name := strings.TrimSuffix(strings.TrimPrefix(first, "<!-- parameters of "), " -->")
		require.NotNil(t, tables[name], "there is no table of %s", name)
		require.False(t, seen[name], "%s is there twice", name)
		seen[name] = true
		return first + "\n" + markdown(tables[name]) + "<!-- end -->"
	})
	for name := range tables {
		require.True(t, seen[name], "%s lacks the parameters of %s", file, name)
	}
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(now), 0o644))
		return
	}
	require.Equal(t, now, string(was), "%s is not up to date: go test ./host -run TestParameters_AreInTheDocument -update", file)
}

// markdown writes a table.
func markdown(t *openai.Table) string {
	var b strings.Builder
	b.WriteString("\n| parameter | treatment | allowed | remarks |\n|---|---|---|---|\n")
	refused := false
	for _, p := range t.Parameters {
		if p.Treatment == openai.Refused {
			refused = true
			continue
		}
		note := p.Note
		if p.Extension && strings.HasPrefix(t.Endpoint, "POST /v1/") {
			note = "Extension. " + note
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", p.Name, p.Treatment, p.Allowed, note)
	}
	if refused {
		b.WriteString("\n| refused by name | taken | the error says |\n|---|---|---|\n")
		for _, p := range t.Parameters {
			if p.Treatment != openai.Refused {
				continue
			}
			taken := ""
			if len(p.Taken) > 0 {
				taken = "`" + strings.Join(p.Taken, "`, `") + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", p.Name, taken, p.Note)
		}
	}
	return b.String() + "\n"
}

func TestServiceTier_IsSaidInAnswersThatWereAskedForOne(t *testing.T) {
	f, h := newModel(t, chatml)
	f.does(writes("Hi", 1, wire.ReasonEOG))
	var whole map[string]any
	require.NoError(t, json.Unmarshal([]byte(h.chat(`"service_tier":"priority"`).body), &whole))
	require.Equal(t, "default", whole["service_tier"])
	data, done := events(t, h.chat(`"service_tier":"auto","stream":true,"stream_options":{"include_usage":true}`).body)
	require.True(t, done)
	for _, e := range data {
		require.Equal(t, "default", e["service_tier"])
	}
	for _, fields := range []string{`"service_tier":null`, `"stream":true`} {
		require.NotContains(t, h.chat(fields).body, "service_tier")
	}
}

func TestVerbosity_IsHonouredOrRefused(t *testing.T) {
	f, plain := newModel(t, chatml)
	require.Equal(t, 200, plain.chat().status)
	usual := f.last().Prompt
	require.Equal(t, 200, plain.chat(`"verbosity":"medium"`).status, "it asks for nothing")
	require.Equal(t, usual, f.last().Prompt)
	for _, v := range []string{"low", "high"} {
		r := plain.chat(`"verbosity":"` + v + `"`)
		require.Equal(t, 400, r.status)
		require.Equal(t, "unsupported_parameter", r.code(t))
		require.Equal(t, "verbosity", param(t, r))
	}

	f, knows := newModel(t, strings.Replace(chatml, "{% for", "{% if verbosity is defined %}{{ 'Verbosity: ' + verbosity + '\n' }}{% endif %}"+
		"{% if reasoning_effort is defined %}{{ 'Reasoning: ' + reasoning_effort + '\n' }}{% endif %}{% for", 1))
	for fields, want := range map[string]string{
		`"verbosity":"low"`:                                               "Verbosity: low\n",
		`"verbosity":"medium"`:                                            "Verbosity: medium\n",
		`"verbosity":"high","reasoning_effort":"low"`:                     "Verbosity: high\nReasoning: low\n",
		`"verbosity":"high","chat_template_kwargs":{"verbosity":"terse"}`: "Verbosity: terse\n",
	} {
		require.Equal(t, 200, knows.chat(fields).status, fields)
		require.Contains(t, text(f.last().Prompt.Segments), want)
	}
}

func TestCountTokens_RefusesWhatMessagesRefuses(t *testing.T) {
	_, h := newModel(t, `{% for m in messages %}{{ '<|start|>' + m.role + '<|message|>' + m.content + '<|end|>' }}{% endfor %}{{ '<|start|>assistant' }}{# <|channel|> #}`)
	const prefilled = `"messages":[{"role":"user","content":"Say hi"},{"role":"assistant","content":"Hi"}]`
	message := h.do("POST", "/v1/messages", `{"model":"`+model+`","max_tokens":3,`+prefilled+`}`)
	require.Equal(t, 400, message.status)
	count := h.do("POST", "/v1/messages/count_tokens", `{"model":"`+model+`",`+prefilled+`}`)
	require.Equal(t, 400, count.status)
	require.Contains(t, count.body, "it cannot go on from there")
}

func TestStreamOptions_AHintForUsageInEveryEventLeavesItAtTheEnd(t *testing.T) {
	f, h := newModel(t, chatml)
	f.does(writes("Hi", 2, wire.ReasonEOG))
	for _, path := range []string{"/v1/chat/completions", "/v1/completions"} {
		stream := func(options string) string {
			r := h.do("POST", path, `{"model":"`+model+`",`+map[bool]string{true: `"messages":` + sayHi, false: `"prompt":"Say hi"`}[path == "/v1/chat/completions"]+
				`,"stream":true,"stream_options":{`+options+`}}`)
			require.Equal(t, 200, r.status, r.body)
			return steady(r.body)
		}
		for _, hint := range []string{`"continuous_usage_stats":true`, `"chunk_include_usage":true`} {
			require.Equal(t, stream(`"include_usage":true`), stream(`"include_usage":true,`+hint))
			require.Equal(t, stream(`"include_usage":false`), stream(hint))
		}
	}
	r := h.do("POST", "/v1/responses", `{"model":"`+model+`","input":"Say hi","store":false,"stream":true,"stream_options":{"continuous_usage_stats":true}}`)
	require.Equal(t, 200, r.status, r.body)
}
