package dialect

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

// weather and note are the tools of most tests.
var weather = Tool{
	Name: "get_weather",
	Parameters: jsontext.Value(`{"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 0, "maximum": 9}, ` +
		`"unit": {"enum": ["C", "F"]}, "at": {"$ref": "#/$defs/point"}}, "required": ["city", "days"], "additionalProperties": false, ` +
		`"$defs": {"point": {"type": "object", "properties": {"lat": {"type": "number"}, "tags": {"type": "array", "items": {"type": "string"}}}, "required": ["lat", "tags"], "additionalProperties": false}}}`),
}

var note = Tool{Name: "note", Parameters: jsontext.Value(`{"type": "object", "properties": {"text": {"type": ["string", "null"]}, "done": {"type": "boolean"}}}`)}

var clock = Tool{Name: "clock"}

func auto(tools ...Tool) Ask {
	if tools == nil {
		tools = []Tool{weather, note, clock}
	}
	return Ask{Tools: tools, Mode: ModeAuto, Parallel: true}
}

// all are the families with a chat template's worth of reasoning tags.
func all() map[string]*Dialect {
	out := map[string]*Dialect{}
	for _, d := range []*Dialect{hermes(), qwenCoder(), glm(), llama(), mistral(false, false), mistral(true, false),
		deepseek(false), deepseek(true), harmony(), phi(true), phi(false), granite(), functionGemma(), olmo()} {
		name := d.Name
		if out[name] != nil {
			name += "-2"
		}
		out[name] = d
	}
	return out
}

func thoughtful(d *Dialect) *Dialect {
	d.Thinks, d.think = true, openTags
	return d
}

// show writes joined events for people: content as it is, reasoning in ⟨⟩, calls
// as «index name arguments».
func show(events []Event) string {
	var out strings.Builder
	kind := Content
	leave := func() {
		switch kind {
		case Reasoning:
			out.WriteString("⟩")
		case Call, Arguments:
			out.WriteString("»")
		}
		kind = Content
	}
	for _, e := range events {
		if e.Kind != kind && !(kind == Call && e.Kind == Arguments) || e.Kind == Call {
			leave()
			switch e.Kind {
			case Reasoning:
				out.WriteString("⟨")
			case Call:
				fmt.Fprintf(&out, "«%d %s ", e.Index, e.Name)
			}
		}
		kind = e.Kind
		out.WriteString(e.Text)
	}
	leave()
	return out.String()
}

// parse gives the text in these pieces to a new parser.
func parse(d *Dialect, ask Ask, cut bool, pieces ...string) []Event {
	p := d.Parser(ask)
	var events []Event
	for _, piece := range pieces {
		events = append(events, p.Add(piece)...)
	}
	return append(events, p.End(cut)...)
}

// parseAnyCut also checks that the pieces do not matter.
func parseAnyCut(t *testing.T, d *Dialect, ask Ask, cut bool, text string) string {
	t.Helper()
	want := show(parse(d, ask, cut, text))
	for i := range len(text) {
		require.Equal(t, want, show(parse(d, ask, cut, text[:i], text[i:])), "cut at %d: %q | %q", i, text[:i], text[i:])
	}
	require.Equal(t, want, show(parse(d, ask, cut, strings.Split(text, "")...)), "one character at a time")
	bytes := make([]string, len(text))
	for i := range bytes {
		bytes[i] = text[i : i+1]
	}
	require.Equal(t, want, show(parse(d, ask, cut, bytes...)), "one byte at a time")
	return want
}
