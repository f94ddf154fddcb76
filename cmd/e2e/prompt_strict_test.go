//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

// Templates stricter than the test model's, in the ways their makers publish.
const (
	// systemFirst allows one system message, at the head.
	systemFirst = `{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('system must be first') }}{% endif %}` +
		"<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
	// alternating knows user and assistant, in turns, and nothing else.
	alternating = `{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}` +
		`{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}` +
		"<start_of_turn>{{ 'model' if m['role'] == 'assistant' else m['role'] }}\n{{ m['content'] | trim }}<end_of_turn>\n{% endfor %}<start_of_turn>model\n"
	// thinking drops old reasoning and opens a new one.
	thinking = `{% for m in messages %}{% set text = m.content %}{% if m.role == 'assistant' and '</think>' in text %}{% set text = text.split('</think>')[-1] %}{% endif %}` +
		"<|im_start|>{{ m.role }}\n{{ text }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n<think>\n"
)

// seen is the prompt the station got, by a template.
func seen(t *testing.T, template string) func(messages ...obj) string {
	t.Helper()
	s := hostBefore(t, standIn(t, wire.Model{Name: "m", Digest: "d", ChatTemplate: template}), "THOTH_MODEL_NAME=test-model")
	s.serves(t)
	return func(messages ...obj) string {
		said := s.turn(t, obj{"messages": messages})
		return said.Reasoning + said.text() // the prompt is not to be taken for an answer
	}
}

func TestPrompt_StrictTemplatesGetEverySystemMessage(t *testing.T) {
	late := []obj{message("system", "A=1"), user("hi"), message("assistant", "ok"), message("system", "B=2"), user("Give A and B.")}
	head := []obj{message("system", "A=1"), message("developer", "B=2"), user("Give A and B.")}
	for name, template := range map[string]string{"system first": systemFirst, "alternating": alternating, "thinking": thinking, "plain": plainTemplate} {
		prompt := seen(t, template)
		for _, messages := range [][]obj{late, head} {
			got := prompt(messages...)
			for _, want := range []string{"A=1", "B=2", "Give A and B."} {
				require.Equal(t, 1, strings.Count(got, want), "%s: %q", name, got)
			}
		}
	}
}

func TestPrompt_TemplateWithoutToolsShowsTheirResults(t *testing.T) {
	for name, template := range map[string]string{"system first": systemFirst, "alternating": alternating, "plain": plainTemplate} {
		got := seen(t, template)(lookup(`{"city":"Oslo","n":2}`, "4217")...)
		for _, want := range []string{"<tool_call>\n{\"name\": \"get_weather\", \"arguments\": ", `{"city":"Oslo","n":2}`, "<tool_response>\n4217\n</tool_response>"} {
			require.Equal(t, 1, strings.Count(got, want), "%s: %q in %q", name, want, got)
		}
	}
}

func TestPrompt_ThinkingTemplateTakesAnyHistory(t *testing.T) {
	prompt := seen(t, thinking)
	for _, begun := range []string{"Snow on", ""} {
		got := prompt(user("Write a haiku."), message("assistant", begun))
		require.True(t, strings.HasSuffix(got, "<|im_start|>assistant\n"+begun+"<|im_end|>\n<|im_start|>assistant\n<think>\n"), "%q", got)
	}
	for _, turn := range []obj{
		{"role": "assistant", "content": "4", "reasoning_content": "2+2"},
		{"role": "assistant", "content": "4", "reasoning": "2+2"},
		{"role": "assistant", "content": "4", "reasoning_content": nil},
		message("assistant", "<think>\n2+2\n</think>\n4"),
	} {
		require.Contains(t, prompt(user("2+2?"), turn, user("Sure?")), "4<|im_end|>", "%v", turn)
	}
}
