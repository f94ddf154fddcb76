package dialect

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestParser_Calls(t *testing.T) {
	const (
		args = `{"city": "Zürich </tool_call> \"x\" }", "days":1.0, "b": [1, {"c": 2}]}`
		one  = `«0 get_weather ` + args + `»`
		two  = one + `«1 clock {}»`
	)
	for name, test := range map[string]struct {
		dialect    *Dialect
		text, want string
	}{
		"hermes":                  {hermes(), "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": " + args + "}\n</tool_call>", one},
		"hermes, text and two":    {hermes(), "Let me see.\n\n<tool_call>{\"name\":\"get_weather\",\"arguments\":" + args + "}</tool_call>\n<tool_call>\n{\"name\": \"clock\"}\n</tool_call>\n", "Let me see." + two},
		"hermes, no end":          {hermes(), "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": " + args + "}", one},
		"hermes, text behind":     {hermes(), "<tool_call>{\"name\": \"clock\", \"arguments\": {}}</tool_call>\n\n So.\n", "«0 clock {}»So.\n"},
		"hermes, other order":     {hermes(), "<tool_call>{\"arguments\": " + args + ", \"name\": \"get_weather\"}</tool_call>", one},
		"hermes, string":          {hermes(), `<tool_call>{"name": "note", "arguments": "{\"done\":true}"}</tool_call>`, `«0 note {"done":true}»`},
		"llama":                   {llama(), ` {"name": "get_weather", "parameters": ` + args + `}`, one},
		"llama, two":              {llama(), `{"name": "get_weather", "parameters": ` + args + `}; {"name": "clock", "parameters": {}}`, two},
		"llama, two lines":        {llama(), `{"name": "get_weather", "parameters": ` + args + "}\n{\"name\": \"clock\", \"parameters\": {}}", two},
		"llama, tag":              {llama(), `<|python_tag|>{"type": "function", "name": "get_weather", "parameters": ` + args + `}`, one},
		"mistral":                 {mistral(false, false), `[TOOL_CALLS] [{"name": "get_weather", "arguments": ` + args + `, "id": "abcdefghi"}, {"name": "clock", "arguments": {}}]`, two},
		"mistral, args":           {mistral(true, false), `Well [TOOL_CALLS]get_weather[ARGS]` + args + `[TOOL_CALLS]clock[CALL_ID]abcdefghi[ARGS]{}`, "Well" + two},
		"deepseek":                {deepseek(false), "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>" + args + "<｜tool▁call▁end｜><｜tool▁call▁begin｜>clock<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>", two},
		"deepseek r1":             {deepseek(true), "Hm.\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n" + args + "\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>clock\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>", "Hm." + two},
		"phi":                     {phi(true), `<|tool_call|>[{"name": "get_weather", "arguments": ` + args + `},{"name": "clock", "arguments": {}}]<|/tool_call|>`, two},
		"phi, functools":          {phi(false), `functools[{"name": "get_weather", "arguments": ` + args + `}]`, one},
		"granite":                 {granite(), `<|tool_call|>[{"name": "get_weather", "arguments": ` + args + `}]`, one},
		"qwen3-coder":             {qwenCoder(), "Ok\n<tool_call>\n<function=get_weather>\n<parameter=city>\nZürich <b=1> & \"x\"\n</parameter>\n<parameter=days>\n3\n</parameter>\n<parameter=at>\n{\"tags\":[], \"lat\": 1.50}\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=clock>\n</function>\n</tool_call>", `Ok«0 get_weather {"city": "Zürich <b=1> & \"x\"", "days": 3, "at": {"tags":[], "lat": 1.50}}»«1 clock {}»`},
		"qwen3-coder, no tag":     {qwenCoder(), "<function=note>\n<parameter=text>\nnull\n</parameter>\n<parameter=done>\nTrue\n</parameter>\n</function>\n</tool_call>", `«0 note {"text": null, "done": true}»`},
		"qwen3-coder, lines":      {qwenCoder(), "<tool_call>\n<function=get_weather>\n<parameter=city>\n\nnull\n\n</parameter>\n</function>\n</tool_call>", `«0 get_weather {"city": "\nnull\n"}»`},
		"qwen3-coder, no numbers": {qwenCoder(), "<tool_call>\n<function=get_weather>\n<parameter=days>\n007\n</parameter>\n<parameter=unit>\n1_000\n</parameter>\n<parameter=at>\n+5\n</parameter>\n</function>\n</tool_call>", `«0 get_weather {"days": "007", "unit": "1_000", "at": "+5"}»`},
		"glm, lines":              {glm(), "<tool_call>get_weather<arg_key>city</arg_key><arg_value>\nOslo\n</arg_value><arg_key>days</arg_key><arg_value>\n3\n</arg_value></tool_call>", `«0 get_weather {"city": "\nOslo\n", "days": 3}»`},
		"glm, no numbers":         {glm(), "<tool_call>get_weather<arg_key>days</arg_key><arg_value>007</arg_value><arg_key>at</arg_key><arg_value>1_000</arg_value></tool_call>", `«0 get_weather {"days": "007", "at": "1_000"}»`},
		"glm":                     {glm(), "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>null</arg_value>\n<arg_key>days</arg_key><arg_value>3</arg_value>\n</tool_call>\n<tool_call>clock</tool_call>", `«0 get_weather {"city": "null", "days": 3}»«1 clock {}»`},
		"functiongemma":           {functionGemma(), "<start_function_call>call:get_weather{city:<escape>Zürich, {a:b}\n<escape>,days:3,at:{lat:1.5,tags:[<escape>x<escape>,<escape>y<escape>]}}<end_function_call><start_function_call>call:clock{}<end_function_call>", `«0 get_weather {"city": "Zürich, {a:b}\n", "days": 3, "at": {"lat": 1.5, "tags": ["x", "y"]}}»«1 clock {}»`},
		"functiongemma, nested":   {functionGemma(), "<start_function_call>call:note{text:[12345678901234567890, 1.50,-0,1e400,<escape>a,]\n<escape>,b c,[],{}],done:{k:{x:true},y:<escape>}<escape>}}<end_function_call>", `«0 note {"text": [12345678901234567890, 1.50, -0, 1e400, "a,]\n", "b c", [], {}], "done": {"k": {"x": true}, "y": "}"}}»`},
		"olmo3":                   {olmo(), "<function_calls>get_weather(city=\"Z)ü\\\"rich</function_calls>\", days=3, at={'lat': 1.5, 'tags': []})\nclock()</function_calls>", `«0 get_weather {"city": "Z)ü\"rich</function_calls>", "days": 3, "at": {"lat": 1.5, "tags": []}}»«1 clock {}»`},
		"olmo3, python's own":     {olmo(), "<function_calls>\nnote(text='Zü\\'\"rich\\n', done=True, more=[None, {'a': 'é'}, -1.50], word=Paris)\n</function_calls>", `«0 note {"text": "Zü'\"rich\n", "done": true, "more": [null, {"a": "é"}, -1.50], "word": "Paris"}»`},
		"gpt-oss":                 {harmony(), "<|channel|>analysis<|message|>I need it.<|end|><|start|>assistant<|channel|>commentary<|message|>Wait.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>" + args, "⟨I need it.⟩Wait." + one},
		"gpt-oss, role":           {harmony(), " to=functions.get_weather<|channel|>commentary json<|message|>" + args + "<|call|>", one},
		"gpt-oss, two":            {harmony(), "<|channel|>commentary to=functions.get_weather<|message|>" + args + "<|end|><|start|>assistant<|channel|>commentary to=functions.clock<|message|>{}", two},
		"gpt-oss, text":           {harmony(), "<|channel|>analysis<|message|>Hm <b>.<|end|><|start|>assistant<|channel|>final<|message|>Yes <|x|> no.\n<|return|>", "⟨Hm <b>.⟩Yes <|x|> no.\n"},
		"gpt-oss, without header": {harmony(), "Hello <|end|>", "Hello "},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want, parseAnyCut(t, test.dialect, auto(), false, test.text))
			for _, e := range parse(test.dialect, auto(), false, test.text) {
				if e.Kind == Call {
					require.Regexp(t, regexp.MustCompile(`^call_[A-Za-z0-9]{24}$`), e.ID)
				}
			}
		})
	}
}

func TestParser_WhatOnlyLooksLikeACallIsText(t *testing.T) {
	good := `<tool_call>{"name": "clock", "arguments": {}}</tool_call>`
	for name, test := range map[string]struct {
		dialect *Dialect
		text    string
		want    string // "" for the text itself
	}{
		"unknown name":         {hermes(), "So:\n <tool_call>\n{\"name\": \"clocks\", \"arguments\": {}}\n</tool_call>\n", ""},
		"bad JSON":             {hermes(), `<tool_call>{"name": "clock", "arguments": {,}}</tool_call>`, ""},
		"a key twice":          {hermes(), `<tool_call>{"name": "clock", "arguments": {"a": 1, "a": 2}}</tool_call>`, ""},
		"key's case":           {hermes(), `<tool_call>{"Name": "clock", "arguments": {}}</tool_call>`, ""},
		"no object":            {hermes(), `<tool_call>{"name": "clock", "arguments": [1]}</tool_call> <tool_call> </tool_call>`, ""},
		"cut":                  {hermes(), `<tool_call>{"name": "clock", "arguments": {"a": `, ""},
		"cut in the marker":    {hermes(), "a \n<tool_ca", ""},
		"prose":                {hermes(), "Use <tool_call> and </tool_call> tags.", ""},
		"a good one in it":     {hermes(), "Use <tool_call>\n" + good, "Use <tool_call>«0 clock {}»"},
		"a bad one behind":     {hermes(), good + `<tool_call>{}</tool_call>`, "«0 clock {}»<tool_call>{}</tool_call>"},
		"no thinking":          {hermes(), "<think>\nHm.\n</think>\n\nYes.", ""},
		"answer in JSON":       {llama(), `{"answer": {"name": "clock"}}`, ""},
		"answer in JSON, name": {llama(), `{"name": "Ada", "parameters": {}}`, ""},
		"JSON, no arguments":   {llama(), `{"name": "clock"}`, ""},
		"JSON, a reason":       {llama(), `{"name": "get_weather", "reason": "it rains"}`, ""},
		"JSON, one more":       {llama(), `{"name": "get_weather", "parameters": {}, "reason": "it rains"}`, ""},
		"JSON, both":           {llama(), `{"name": "get_weather", "parameters": {}, "arguments": {}}`, ""},
		"JSON, second":         {llama(), `{"name": "clock", "parameters": {}}; {"name": "clock"}`, `«0 clock {}»; {"name": "clock"}`},
		"no arguments but id":  {hermes(), `<tool_call>{"name": "clock", "id": "1"}</tool_call>`, ""},
		"a reason":             {hermes(), `<tool_call>{"name": "clock", "reason": "it is late"}</tool_call>`, ""},
		"later JSON":           {llama(), `See {"name": "clock", "parameters": {}}`, ""},
		"python":               {llama(), `<|python_tag|>print({"name": 1})`, ""},
		"list's second":        {phi(true), `<|tool_call|>[{"name": "clock", "arguments": {}}, {"name": "x", "arguments": {}}]<|/tool_call|>`, `«0 clock {}», {"name": "x", "arguments": {}}]<|/tool_call|>`},
		"mistral":              {mistral(true, false), "[TOOL_CALLS]clocks[ARGS]{} [TOOL_CALLS] [", ""},
		"deepseek":             {deepseek(false), "a <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>clock<｜tool▁sep｜>x<｜tool▁call▁end｜>", ""},
		"coder":                {qwenCoder(), "<tool_call>\n<function=clock>\n<parameter=a>\n1\n</function>\n</tool_call>", ""},
		"glm":                  {glm(), "<tool_call>clock {}</tool_call>", ""},
		"gemma":                {functionGemma(), "<start_function_call>call:clock{a}<end_function_call>", ""},
		"gemma, nested":        {functionGemma(), "<start_function_call>call:note{text:[1,]}<end_function_call>", ""},
		"gemma, key twice":     {functionGemma(), "<start_function_call>call:note{text:{a:1,a:2}}<end_function_call>", ""},
		"gemma, deep":          {functionGemma(), "<start_function_call>call:note{text:" + strings.Repeat("[", 1010) + strings.Repeat("]", 1010) + "}<end_function_call>", ""},
		"olmo":                 {olmo(), "<function_calls>clock(1)</function_calls>", ""},
		"gpt-oss":              {harmony(), "<|channel|>commentary to=functions.x<|message|>{}", ""},
		"gpt-oss, bad":         {harmony(), "<|channel|>commentary to=functions.clock<|message|>Hm", ""},
	} {
		t.Run(name, func(t *testing.T) {
			want := test.want
			if want == "" {
				want = test.text
			}
			require.Equal(t, want, parseAnyCut(t, test.dialect, auto(), false, test.text))
		})
	}
}

func TestParser_ModeAndAllowed(t *testing.T) {
	text := `<tool_call>{"name": "clock", "arguments": {}}</tool_call>` + "\n" + `<tool_call>{"name": "note", "arguments": {}}</tool_call>`
	none := auto()
	none.Mode = ModeNone
	require.Equal(t, text, parseAnyCut(t, hermes(), none, false, text))
	require.Equal(t, text, parseAnyCut(t, hermes(), Ask{Mode: ModeAuto, Parallel: true}, false, text), "no tools")
	one := auto()
	one.Parallel = false
	require.Equal(t, `«0 clock {}»<tool_call>{"name": "note", "arguments": {}}</tool_call>`, parseAnyCut(t, hermes(), one, false, text))
	other := auto()
	other.Allowed = []int{1}
	require.Equal(t, `<tool_call>{"name": "clock", "arguments": {}}</tool_call>«0 note {}»`, parseAnyCut(t, hermes(), other, false, text))
}

func TestParser_Reasoning(t *testing.T) {
	d := thoughtful(hermes())
	call := `<tool_call>{"name": "clock", "arguments": {}}</tool_call>`
	for name, test := range map[string]struct {
		tail, text string
		want       string
	}{
		"opened by the template":        {"assistant\n<think>\n", "\nHm <tool_call>.\n</think>\n\nYes.\n", "⟨Hm <tool_call>.⟩Yes.\n"},
		"opened by the model":           {"assistant\n", "<think>\n\nHm.\n</think>\n\n" + call, "⟨Hm.⟩«0 clock {}»"},
		"not opened":                    {"assistant\n", "\n Yes </think>.", "\n Yes </think>."},
		"not opened, then opened":       {"assistant\n", "\n<thin> <think>", "\n<thin> <think>"},
		"only space":                    {"assistant\n", " \n", " \n"},
		"opened, only space":            {"<think>", " \n", ""},
		"lines in it":                   {"<think>", "a\n\n\nb\n</think>", "⟨a\n\n\nb⟩"},
		"empty":                         {"assistant\n", "<think>\n\n</think>\n\nYes.", "Yes."},
		"closed at once":                {"<think>\n\n</think>\n\n", "<think>Yes.", "<think>Yes."},
		"closed, without opening":       {"<｜Assistant｜></think>", "Yes.", "Yes."},
		"cut in the reasoning":          {"<think>\n", "Hm.\n\nBut", "⟨Hm.\n\nBut⟩"},
		"cut in the reasoning, space":   {"<think>", "Hm.\n", "⟨Hm.\n⟩"},
		"cut in the closing tag":        {"<think>", "Hm.</thi", "⟨Hm.</thi⟩"},
		"cut in the opening tag":        {"", "<thi", "<thi"},
		"a call that is only reasoning": {"<think>", "Hm. " + call, "⟨Hm. " + call + "⟩"},
	} {
		t.Run(name, func(t *testing.T) {
			ask := auto()
			ask.Tail = test.tail
			require.Equal(t, test.want, parseAnyCut(t, d, ask, true, test.text))
		})
	}
}

func TestParser_ReasoningOfMistralWithItsOwnTags(t *testing.T) {
	d := Detect("[TOOL_CALLS] [THINK]", "llama")
	require.True(t, d.Thinks && d.ControlText())
	require.Equal(t, "⟨Hm.⟩Yes.", parseAnyCut(t, d, Ask{}, false, "[THINK]Hm.[/THINK]Yes."))
}

func TestParser_EnforcedCallsComeAsTheyAreWritten(t *testing.T) {
	ask := auto()
	ask.Mode = ModeRequired
	p := hermes().Parser(ask)
	require.Empty(t, p.Add("<tool_call>\n{\"name\": \"get_wea"))
	require.Empty(t, p.Add("ther\", \"arguments\": "))
	require.Equal(t, `«0 get_weather {"city": "Z»`, show(p.Add(`{"city": "Z`)))
	require.Empty(t, p.Add("\xc3"))
	require.Equal(t, []Event{{Kind: Arguments, Text: `ürich"`}}, p.Add("\xbcrich\""))
	require.Equal(t, []Event{{Kind: Arguments, Text: `}`}}, p.Add("}}"))
	require.Empty(t, p.Add("\n</tool_call>"))
	require.Empty(t, p.End(false))
}

func TestParser_CutCallIsACallWhenEnforced(t *testing.T) {
	ask := auto()
	ask.Mode = ModeRequired
	for name, test := range map[string]struct {
		dialect    *Dialect
		text, want string
	}{
		"hermes":        {hermes(), "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Zü", `«0 get_weather {"city": "Zü»`},
		"in the name":   {hermes(), "<tool_call>\n{\"name\": \"get_wea", ""},
		"in the marker": {hermes(), "<tool_c", ""},
		"mistral":       {mistral(true, false), "[TOOL_CALLS]note[ARGS]{\"te", `«0 note {"te»`},
		"deepseek":      {deepseek(true), "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>note\n```json\n{\"text\": 1", `«0 note {"text": 1»`},
		"qwen3-coder":   {qwenCoder(), "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n<parameter=days>\n4", `«0 get_weather {"city": "Oslo"»`},
		"glm":           {glm(), "<tool_call>clock", ""},
		"behind a call": {hermes(), "<tool_call>\n{\"name\": \"clock\", \"arguments\": {}}\n</tool_call>\n<tool", "«0 clock {}»"},
		"gpt-oss":       {harmony(), "<|channel|>commentary to=functions.note <|constrain|>json<|message|>{\"a", `«0 note {"a»`},
		"second":        {phi(true), `<|tool_call|>[{"name": "clock", "arguments": {}}, {"name": "note", "arguments": {"text": "a`, `«0 clock {}»«1 note {"text": "a»`},
		"functiongemma": {functionGemma(), "<start_function_call>call:note{text:<escape>a", `«0 note {»`},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want, parseAnyCut(t, test.dialect, ask, true, test.text))
		})
	}
}

// Only where nothing but calls may come is the beginning of a marker no text.
func TestParser_CutMarkerIsTextWhereTextMayCome(t *testing.T) {
	ask := auto()
	require.Equal(t, "1 <tool", parseAnyCut(t, hermes(), ask, true, "1 <tool"))
	ask.Tools[0].Strict = true
	require.Equal(t, "1 <tool", parseAnyCut(t, hermes(), ask, true, "1 <tool"))
	require.Equal(t, "1", parseAnyCut(t, hermes(), ask, true, "1 <tool_call>\n{\"name"), "and a whole marker opens a call that is enforced")
}

func TestParser_TextIsWholeCharacters(t *testing.T) {
	p := hermes().Parser(auto())
	text := "Zürich 東京 🙂"
	var got string
	for i := range len(text) {
		for _, e := range p.Add(text[i : i+1]) {
			require.True(t, utf8.ValidString(e.Text), "%q", e.Text)
			got += e.Text
		}
	}
	require.Equal(t, text, got+show(p.End(false)))
}

func TestParser_HoldsBackOnlyWhatMayBecomeAMarker(t *testing.T) {
	p := hermes().Parser(auto())
	require.Equal(t, "a", show(p.Add("a \n<tool_")))
	require.Equal(t, " \n<tool_x", show(p.Add("x ")))
	require.Equal(t, " ", show(p.End(false)))
}

// A call may stand in place of the content, and not in it.
func TestParser_MarkersInContentThatFollowsARuleAreContent(t *testing.T) {
	answers := map[string]string{
		"hermes":        "<tool_call>\n{\"name\": \"clock\", \"arguments\": {}}\n</tool_call>",
		"qwen3-coder":   "<tool_call>\n<function=clock>\n</function>\n</tool_call>",
		"glm":           "<tool_call>clock\n</tool_call>",
		"llama3":        `<|python_tag|>{"name": "clock", "parameters": {}}`,
		"mistral":       `[TOOL_CALLS][{"name": "clock", "arguments": {}}]`,
		"mistral-args":  `[TOOL_CALLS]clock[ARGS]{}`,
		"deepseek":      "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>clock<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
		"deepseek-r1":   "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>clock\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
		"gpt-oss":       "<|channel|>commentary to=functions.clock <|constrain|>json<|message|>{}",
		"phi-4-mini":    `<|tool_call|>[{"name": "clock", "arguments": {}}]<|/tool_call|>`,
		"phi-4-mini-2":  `functools[{"name": "clock", "arguments": {}}]`,
		"granite":       `<|tool_call|>[{"name": "clock", "arguments": {}}]`,
		"functiongemma": "<start_function_call>call:clock{}<end_function_call>",
		"olmo3":         "<function_calls>clock()</function_calls>",
	}
	for name, d := range all() {
		ask := auto()
		ask.Content = "content"
		call := answers[name]
		require.NotEmpty(t, call, name)
		require.Equal(t, "«0 clock {}»", parseAnyCut(t, d, ask, false, call), name)
		content := `{"text": "` + call + ` <think> ` + call + `"}`
		if d.harmony {
			content = strings.ReplaceAll(content, "<think>", "<|end|><|return|><|start|>assistant")
			require.Equal(t, "⟨Hm.⟩"+content, parseAnyCut(t, d, ask, false, "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final <|constrain|>json<|message|>"+content), name)
			continue
		}
		require.Equal(t, " "+content+"\n", parseAnyCut(t, d, ask, false, " "+content+"\n"), name)
		require.Equal(t, content, parseAnyCut(t, d, ask, true, content), name)
		require.Equal(t, "⟨Hm.⟩"+content, parseAnyCut(t, thoughtful(d), ask, false, "<think>\nHm.\n</think>\n\n"+content), name)
		require.Equal(t, "⟨Hm.⟩«0 clock {}»", parseAnyCut(t, d, ask, false, "<think>\nHm.\n</think>\n\n"+call), name)
	}
}

// JSON that follows the content's rule may begin like a bare call: nothing is one
// before it is whole.
func TestParser_ContentThatBeginsLikeABareCall(t *testing.T) {
	ask := auto()
	ask.Content = "content"
	for _, text := range []string{`{"name": "clock", "parameters": {}, "more": 1}`, `{"name": "clock", "parameters": {"a": 1`} {
		require.Equal(t, text, parseAnyCut(t, llama(), ask, true, text))
	}
	require.Equal(t, "«0 clock {}»", parseAnyCut(t, llama(), ask, false, `{"name": "clock", "parameters": {}}`))
}

// A model that runs wild in white space, or in one long argument, costs what its
// text costs: with work that grows with its square this would not end.
func TestParser_LongAnswersInSmallPieces(t *testing.T) {
	const n = 300_000
	feed := func(d *Dialect, ask Ask, head, piece, tail string) string {
		p := d.Parser(ask)
		events := p.Add(head)
		for range n {
			events = append(events, p.Add(piece)...)
		}
		events = append(events, p.Add(tail)...)
		return show(append(events, p.End(false)...))
	}
	long, lines := strings.Repeat("x", n), strings.Repeat("\n", n)
	require.Equal(t, "a"+lines+"b", feed(hermes(), auto(), "a", "\n", "b"))
	require.Equal(t, lines+"b", feed(thoughtful(hermes()), auto(), "", "\n", "b"))
	require.Equal(t, "⟨a"+lines+"b⟩c", feed(thoughtful(hermes()), auto(), "<think>a", "\n", "b</think>c"))
	require.Equal(t, "«0 clock {}»", feed(hermes(), auto(), "<tool_call>", "\n", `{"name": "clock", "arguments": {}}`))
	require.Equal(t, "«0 clock {}»b", feed(hermes(), auto(), `<tool_call>{"name": "clock", "arguments": {}}</tool_call>`, "\n", "b"))
	require.Equal(t, "«0 clock {}»", feed(hermes(), auto(), `<tool_call>{"name": "clock", "arguments": {}}`, "\n", "</tool_call>"))
	require.Equal(t, "«0 clock {}»", feed(mistral(true, false), auto(), `[TOOL_CALLS]clock[ARGS]`, "\n", "{}"))
	require.Equal(t, "«0 clock {}»", feed(glm(), auto(), "<tool_call>clock", "\n", "</tool_call>"))
	require.Equal(t, `«0 note {"text": "`+long+`"}»`, feed(hermes(), auto(), `<tool_call>{"name": "note", "arguments": {"text": "`, "x", `"}}</tool_call>`))
	require.Equal(t, `«0 note {"text": "`+long+`"}»`, feed(qwenCoder(), auto(), "<tool_call><function=note><parameter=text>", "x", "</parameter></function></tool_call>"))
	require.Equal(t, `«0 note {"text": "`+long+`"}»`, feed(olmo(), auto(), `<function_calls>note(text="`, "x", `")</function_calls>`))
	require.Equal(t, `«0 note {"text": "`+long+`"}»`, feed(functionGemma(), auto(), "<start_function_call>call:note{text:<escape>", "x", "<escape>}<end_function_call>"))
	require.Equal(t, `«0 note {"text": "`+long+`"}»`, feed(harmony(), auto(), "<|channel|>commentary to=functions.note<|message|>{\"text\": \"", "x", `"}`))
}
