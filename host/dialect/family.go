package dialect

// Dialect is one family's way of writing reasoning and tool calls. It is
// immutable and may be shared.
type Dialect struct {
	Name   string // of the family, for logs
	Thinks bool   // answers may begin with reasoning

	think   tags
	blocks  []block
	bare    *block // begins with a { at the head of the answer
	control bool
	generic bool
	single  bool // the template shows one call a turn and fails on more
	harmony bool
	write   writer

	origin string // a hash of what the dialect was found by
}

// Fingerprint tells dialects apart that share a family's name and do not read and
// write alike. It is the same for the same model.
func (d *Dialect) Fingerprint() string { return d.origin }

// ControlText tells whether markers of the family are control tokens, which the
// station must therefore write as text.
func (d *Dialect) ControlText() bool { return d.control }

// Generic tells whether the prompt must explain the format of calls, which is
//
//	<tool_call>
//	{"name": "...", "arguments": {...}}
//	</tool_call>
//
// because the model's template knows none that this package knows.
func (d *Dialect) Generic() bool { return d.generic }

// Markers are the texts of which one opens every block of calls; none where a
// call is bare JSON.
func (d *Dialect) Markers() []string {
	if d.bare != nil {
		return nil
	}
	return d.openers()
}

func (d *Dialect) openers() []string {
	if d.harmony {
		return []string{harmonyCall}
	}
	var out []string
	for i, b := range d.blocks {
		if i == 0 || b.open != d.blocks[i-1].open {
			out = append(out, b.open)
		}
	}
	return out
}

// block is where calls stand. White space may stand between all of its parts.
type block struct {
	open    string   // the marker
	lead    string   // before the first call
	between string   // before each further call
	close   []string // after the last call, one after the other; models forget them
	call    func(types typesOf) reader
}

// A reader follows one call while its text grows. The text given to read is all
// that follows the block's marker and lead, or its separator, and begins with
// what was given before. Whatever read once says other than growing holds for
// every longer text.
type reader interface {
	read(text string, over bool) reading
}

// state of a reading.
type state int

const (
	growing  state = iota // more text is needed
	complete              // the call is over
	broken                // this is no call
)

// reading is what is known of a call.
type reading struct {
	state     state
	length    int    // bytes of the text that are the call's; when broken, those its arguments so far stand for
	name      string // "" as long as it may grow
	arguments string // JSON; the beginning of it while growing, "" when nothing is sure
}

// openTags are the tags of most thinking models.
var openTags = tags{"<think>", "</think>"}

// Markers of the families.
const (
	toolCall    = "<tool_call>"
	toolCallEnd = "</tool_call>"

	mistralCalls = "[TOOL_CALLS]"
	mistralArgs  = "[ARGS]"
	mistralID    = "[CALL_ID]"

	deepseekCalls    = "<｜tool▁calls▁begin｜>"
	deepseekCallsEnd = "<｜tool▁calls▁end｜>"
	deepseekCall     = "<｜tool▁call▁begin｜>"
	deepseekCallEnd  = "<｜tool▁call▁end｜>"
	deepseekSep      = "<｜tool▁sep｜>"

	pythonTag = "<|python_tag|>"

	phiCall    = "<|tool_call|>"
	phiCallEnd = "<|/tool_call|>"
	functools  = "functools"

	gemmaCall    = "<start_function_call>"
	gemmaCallEnd = "<end_function_call>"
	gemmaEscape  = "<escape>"

	olmoCalls    = "<function_calls>"
	olmoCallsEnd = "</function_calls>"
)

func jsonReader(typesOf) reader { return &jsonCall{} }

// The families. Their blocks are what the parser accepts, a little more than
// their grammars write.
func hermes() *Dialect {
	return &Dialect{
		Name:   "hermes",
		blocks: []block{{open: toolCall, close: []string{toolCallEnd}, call: jsonReader}},
		write:  listWriter{before: toolCall + "\n", after: "\n" + toolCallEnd, between: "\n", call: named("arguments")},
	}
}

func qwenCoder() *Dialect {
	call := func(types typesOf) reader { return &taggedCall{form: coderTags, types: types} }
	return &Dialect{
		Name: "qwen3-coder",
		blocks: []block{
			{open: toolCall, lead: "<function=", close: []string{toolCallEnd}, call: call},
			{open: "<function=", close: []string{toolCallEnd}, call: call}, // the model often forgets the outer tag
		},
		write: taggedWriter{form: coderTags, before: toolCall + "\n<function=", name: ">\n", after: "</function>\n" + toolCallEnd,
			valueOpen: "\n", valueShut: "\n</parameter>\n"},
	}
}

func glm() *Dialect {
	call := func(types typesOf) reader { return &taggedCall{form: glmTags, types: types} }
	return &Dialect{
		Name:   "glm",
		blocks: []block{{open: toolCall, close: []string{toolCallEnd}, call: call}},
		write: taggedWriter{form: glmTags, before: toolCall, name: "\n", after: toolCallEnd,
			valueOpen: "\n<arg_value>", valueShut: "</arg_value>\n"},
	}
}

func llama() *Dialect {
	return &Dialect{
		Name:    "llama3",
		blocks:  []block{{open: pythonTag, between: ";", call: jsonReader}},
		bare:    &block{between: ";", call: func(typesOf) reader { return &jsonCall{bare: true} }},
		control: true,
		write:   listWriter{between: "; ", call: named("parameters")},
	}
}

// mistral writes calls as a list, or each behind its name; between the marker and
// the list some versions have a space.
func mistral(args, space bool) *Dialect {
	open := mistralCalls + "["
	if space {
		open = mistralCalls + " ["
	}
	d := &Dialect{
		Name: "mistral",
		blocks: []block{
			{open: mistralCalls, lead: "[", between: ",", close: []string{"]"}, call: jsonReader},
			{open: mistralCalls, call: func(typesOf) reader { return &argsCall{} }},
		},
		control: true,
		write:   listWriter{open: open, between: ", ", close: "]", call: named("arguments"), id: true},
	}
	if args {
		d.Name = "mistral-args"
		d.write = listWriter{before: mistralCalls, call: func(name string) (string, string) { return name + mistralArgs, "" }}
	}
	return d
}

func deepseek(fenced bool) *Dialect {
	d := &Dialect{
		Name: "deepseek",
		blocks: []block{{
			open: deepseekCalls, lead: deepseekCall, between: deepseekCall, close: []string{deepseekCallsEnd},
			call: func(typesOf) reader { return &deepseekReader{} },
		}},
		control: true,
		write: listWriter{open: deepseekCalls, close: deepseekCallsEnd, before: deepseekCall, after: deepseekCallEnd,
			call: func(name string) (string, string) { return name + deepseekSep, "" }},
	}
	if fenced {
		d.Name = "deepseek-r1"
		d.write = listWriter{open: deepseekCalls, close: deepseekCallsEnd, before: deepseekCall, after: deepseekCallEnd, between: "\n",
			call: func(name string) (string, string) {
				return "function" + deepseekSep + name + "\n```json\n", "\n```"
			}}
	}
	return d
}

func harmony() *Dialect {
	return &Dialect{Name: "gpt-oss", Thinks: true, harmony: true, control: true}
}

func phi(tagged bool) *Dialect {
	array := func(open string) block {
		return block{open: open, lead: "[", between: ",", close: []string{"]", phiCallEnd}, call: jsonReader}
	}
	d := &Dialect{
		Name: "phi-4-mini",
		blocks: []block{
			array(phiCall),
			{open: phiCall, close: []string{phiCallEnd}, call: jsonReader},
			array(functools),
		},
		control: true,
		write:   listWriter{open: functools + "[", between: ", ", close: "]", call: named("arguments")},
	}
	if tagged {
		d.write = listWriter{open: phiCall + "[", between: ", ", close: "]" + phiCallEnd, call: named("arguments")}
	}
	return d
}

func granite() *Dialect {
	d := phi(false)
	d.Name = "granite"
	d.blocks = d.blocks[:2]
	d.write = listWriter{open: phiCall + "[", between: ", ", close: "]", call: named("arguments")}
	return d
}

func functionGemma() *Dialect {
	return &Dialect{
		Name: "functiongemma",
		blocks: []block{{open: gemmaCall, lead: "call:", close: []string{gemmaCallEnd},
			call: func(typesOf) reader { return &pairsCall{form: gemmaPairs} }}},
		control: true,
		write:   gemmaWriter{},
	}
}

func olmo() *Dialect {
	return &Dialect{
		Name: "olmo3",
		blocks: []block{{open: olmoCalls, between: "\n", close: []string{olmoCallsEnd},
			call: func(typesOf) reader { return &pairsCall{form: pythonPairs} }}},
		write: pythonWriter{},
	}
}
