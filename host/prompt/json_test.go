package prompt

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTojson_WritesWhatPythonDoes(t *testing.T) {
	for expression, want := range map[string]string{
		// The value is {"b": [1, 1.0, 1e3], "a": "<é & '\"\\\n\x01\u2028>", "n": null, "t": true, "o": {}, "l": []}.
		`v | tojson`:           `{"b": [1, 1.0, 1e3], "a": "<é & '\"\\\n\u0001` + "\u2028" + `>", "n": null, "t": true, "o": {}, "l": []}`,
		`v.b|tojson(indent=2)`: "[\n  1,\n  1.0,\n  1e3\n]",
		`{'z': {'k': 1}, 'e': {} } | tojson(indent=4)`: "{\n    \"z\": {\n        \"k\": 1\n    },\n    \"e\": {}\n}",
		`v.b | tojson(separators=(',', ':'))`:          "[1,1.0,1e3]",
		`{'z': 1, 'a': 2} | tojson(sort_keys=true)`:    `{"a": 2, "z": 1}`,
		`v.a | tojson | length`:                        "22",
		`(1 / 2) | tojson`:                             "0.5",
		`(2 / 2) | tojson`:                             "1.0",
		`missing | tojson`:                             "null",
		`'x' |  tojson`:                                `"x"`,
	} {
		tpl := compileT(t, `{% for m in messages %}{{ m.content }}{% if m.tool_calls %}{% set c = m.tool_calls[0].function %}{{ c.name }}{% set v = c.arguments %}{% if 'b' in v %}{{ `+expression+` }}{% else %}{{ v | tojson }}{% endif %}{% endif %}{% endfor %}`)
		r, err := tpl.renderer(Conversation{Messages: []Message{{Role: Assistant, ToolCalls: []ToolCall{
			call("i", "", `{"b": [1, 1.0, 1e3], "a": "<é & '\"\\\n\u0001\u2028>", "n": null, "t": true, "o": {}, "l": []}`)}}}})
		require.NoError(t, err, expression)
		out, err := r.render(same)
		require.NoError(t, err, expression)
		require.Equal(t, want, out, expression)
	}
}

func TestValues_NumbersKeepTheirSpelling(t *testing.T) {
	for _, number := range []string{"0", "-0", "1", "1.0", "1e3", "1E3", "0.1", "-12.50", "9007199254740993", "18446744073709551616", "1e400", "100000.5", "1e-7", "1234567890.123"} {
		tpl := compileT(t, `{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.name }}{% for k, v in c.function.arguments | items %}({{ k }}={{ v }}|{{ v | tojson }}|{{ v | string }}){% endfor %}{% endfor %}{% endfor %}`)
		segs, err := tpl.Render(Conversation{Messages: []Message{{Role: Assistant, ToolCalls: []ToolCall{call("i", "f", `{"k":`+number+`}`)}}}})
		require.NoError(t, err)
		require.Equal(t, "f(k="+number+"|"+number+"|"+number+")", joined(segs))
	}
	// A variable stays a number the template can compare.
	tpl := compileT(t, `{% for m in messages %}{{ m.content }}{% endfor %}{% if limit is defined and limit > 1.5 %}over{% endif %}`)
	c := users("hi")
	c.Variables = []byte(`{"limit":2.0}`)
	segs, err := tpl.Render(c)
	require.NoError(t, err)
	require.Equal(t, "hiover", joined(segs))
}

func TestCompile_FiltersByAttributeWithoutATest(t *testing.T) {
	tpl := compileT(t, `{% for m in messages | rejectattr("tool_calls") %}{{ m.content }}{% endfor %}{{ messages | selectattr('tool_calls') | list | length }}`)
	segs, err := tpl.Render(users("a", "b"))
	require.NoError(t, err)
	require.Equal(t, "ab0", joined(segs))
}
