package openai

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDecodeChat_ASwitchThatIsOffIsAnEffortOfNone(t *testing.T) {
	for fields, param := range map[string]string{
		`"think":false`:                                          "think",
		`"enable_thinking":false`:                                "enable_thinking",
		`"thinking":{"type":"disabled"}`:                         "thinking.type",
		`"reasoning":{"enabled":false}`:                          "reasoning.enabled",
		`"think":false,"reasoning_effort":"none"`:                "think",
		`"reasoning":{"enabled":false,"effort":"none"}`:          "reasoning.enabled",
		`"think":false,"enable_thinking":false,"reasoning":null`: "enable_thinking",
	} {
		r, err := decode(t, fields)
		require.Nil(t, err, fields)
		require.Equal(t, "none", *r.ReasoningEffort, fields)
		require.Equal(t, &Switch{Param: param}, r.Switch, fields)
	}
	for _, fields := range []string{`"think":true`, `"enable_thinking":true`, `"thinking":{"type":"enabled"}`, `"reasoning":{"enabled":true}`} {
		r, err := decode(t, fields)
		require.Nil(t, err, fields)
		require.Nil(t, r.ReasoningEffort, fields)
		require.True(t, r.Switch.On, fields)
		r, err = decode(t, fields+`,"reasoning_effort":"low"`)
		require.Nil(t, err, fields)
		require.Equal(t, "low", *r.ReasoningEffort)
	}
	for _, fields := range []string{`"think":null,"enable_thinking":null,"thinking":null`, `"reasoning":{"enabled":null}`} {
		r, err := decode(t, fields)
		require.Nil(t, err, fields)
		require.Nil(t, r.Switch, fields)
	}
}

func TestDecodeChat_SwitchesThatDifferAreRefusedByBothNames(t *testing.T) {
	for fields, want := range map[string]string{
		`"think":false,"reasoning_effort":"low"`:                      "think (false) and reasoning_effort (low) differ",
		`"thinking":{"type":"enabled"},"reasoning_effort":"none"`:     "thinking.type (enabled) and reasoning_effort (none) differ",
		`"reasoning":{"enabled":false,"effort":"high"}`:               "reasoning.enabled (false) and reasoning.effort (high) differ",
		`"think":true,"enable_thinking":false`:                        "think (true) and enable_thinking (false) differ",
		`"thinking":{"type":"disabled"},"reasoning":{"enabled":true}`: "reasoning.enabled (true) and thinking.type (disabled) differ",
		`"thinking":{"type":"loud"}`:                                  `thinking.type is "loud": allowed are enabled and disabled`,
		`"thinking":{}`:                                               "thinking.type is missing",
		`"thinking":{"type":"enabled","budget_tokens":2048}`:          "thinking.budget_tokens is not supported",
		`"thinking":{"type":"enabled","keep":1}`:                      "thinking.keep is not a parameter",
		`"think":"high"`:                                              "think must be",
		`"reasoning":{"enabled":1}`:                                   "reasoning.enabled must be",
	} {
		_, err := decode(t, fields)
		require.NotNil(t, err, fields)
		require.Contains(t, err.Message, want)
	}
}
