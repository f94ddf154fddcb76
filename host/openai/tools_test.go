package openai

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const weather = `{"type":"function","function":{"name":"get_weather","description":"Of a city.","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]},"strict":true},"x":1}`

// tool is a tool of a name and nothing else.
func tool(name string) string {
	return fmt.Sprintf(`{"type":"function","function":{"name":%q}}`, name)
}

// refused checks the error a request of these fields gets.
func refused(t *testing.T, fields, param string, code Code) *Error {
	t.Helper()
	_, err := decode(t, fields)
	require.NotNil(t, err, fields)
	require.NotNil(t, err.Param, fields)
	require.Equal(t, param, *err.Param, "%s: %s", fields, err.Message)
	require.Equal(t, code, err.Code, "%s: %s", fields, err.Message)
	require.Equal(t, 400, err.Status())
	return err
}

func TestDecodeChat_ToolsKeepTheirTextAndChoice(t *testing.T) {
	tools := `"tools":[` + weather + `,` + tool("b") + `,` + tool("c-1_X") + `]`
	named := func(names ...string) string {
		for i, n := range names {
			names[i] = tool(n)
		}
		return strings.Join(names, ",")
	}
	for fields, want := range map[string]ToolChoice{
		``:                                     {Mode: ToolNone},
		`"tools":null`:                         {Mode: ToolNone},
		`"tools":[]`:                           {Mode: ToolNone},
		`"tools":[],"tool_choice":"auto"`:      {Mode: ToolNone},
		`"tool_choice":null`:                   {Mode: ToolNone},
		tools:                                  {Mode: ToolAuto},
		tools + `,"tool_choice":null`:          {Mode: ToolAuto},
		tools + `,"tool_choice":"auto"`:        {Mode: ToolAuto},
		tools + `,"tool_choice":"none"`:        {Mode: ToolNone},
		tools + `,"tool_choice":"required"`:    {Mode: ToolRequired},
		tools + `,"tool_choice":` + named("b"): {Mode: ToolRequired, Allowed: []int{1}, Named: true},
		tools + `,"parallel_tool_calls":true,"tool_choice":` + named("b"):                                                                                       {Mode: ToolRequired, Allowed: []int{1}, Named: true},
		tools + `,"parallel_tool_calls":false`:                                                                                                                  {Mode: ToolAuto},
		tools + `,"stop":"x","ignore_eos":true,"tool_choice":"none","parallel_tool_calls":false`:                                                                {Mode: ToolNone},
		tools + `,"stop":"x","ignore_eos":true,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[` + named("b") + `]}}`:             {Mode: ToolAuto, Allowed: []int{1}},
		tools + `,"grammar":"","tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[` + named("c-1_X", "get_weather", "c-1_X") + `]}}`: {Mode: ToolAuto, Allowed: []int{0, 2}},
		tools + `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[` + named("b") + `]}}`:                                      {Mode: ToolRequired, Allowed: []int{1}},
	} {
		r, err := decode(t, fields)
		require.Nil(t, err, "%s: %v", fields, err)
		require.Equal(t, want, r.Choice, fields)
		one := strings.Contains(fields, "false") || (want.Named && !strings.Contains(fields, `"parallel_tool_calls":true`))
		require.Equal(t, !one, r.Parallel(), fields)
		if len(r.Tools) > 0 {
			require.Equal(t, "get_weather", r.Tools[0].Name)
			require.Equal(t, "Of a city.", r.Tools[0].Description)
			require.True(t, r.Tools[0].Strict)
			require.Equal(t, weather, string(r.Tools[0].Definition), "not a byte differs, or the prompt would")
			require.JSONEq(t, `{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`, string(r.Tools[0].Parameters))
			require.Nil(t, r.Tools[1].Parameters)
		}
	}
}

func TestDecodeChat_BadToolsAreRefusedByPath(t *testing.T) {
	function := func(f string) string { return `"tools":[{"type":"function","function":` + f + `}]` }
	const name = "tools[0].function.name"
	for fields, want := range map[string]struct {
		param string
		code  Code
	}{
		`"tools":{}`:                     {"tools", CodeInvalidType},
		`"tools":"all"`:                  {"tools", CodeInvalidType},
		`"tools":[null]`:                 {"tools[0]", CodeInvalidType},
		`"tools":["get_time"]`:           {"tools[0]", CodeInvalidType},
		`"tools":[` + tool("a") + `,{}]`: {"tools[1].type", CodeMissing},
		`"tools":[{"type":5}]`:           {"tools[0].type", CodeInvalidType},
		`"tools":[{"type":"custom","custom":{"name":"x"}}]`:                {"tools[0].type", CodeUnsupported},
		`"tools":[{"type":"web_search"}]`:                                  {"tools[0].type", CodeUnsupported},
		`"tools":[{"type":"function"}]`:                                    {"tools[0].function", CodeMissing},
		function(`null`):                                                   {"tools[0].function", CodeMissing},
		function(`[]`):                                                     {"tools[0].function", CodeInvalidType},
		function(`{}`):                                                     {name, CodeMissing},
		function(`{"name":null}`):                                          {name, CodeMissing},
		function(`{"name":5}`):                                             {name, CodeInvalidType},
		function(`{"name":""}`):                                            {name, CodeInvalidValue},
		function(`{"name":"get time"}`):                                    {name, CodeInvalidValue},
		function(`{"name":"gét"}`):                                         {name, CodeInvalidValue},
		function(`{"name":"a\n"}`):                                         {name, CodeInvalidValue},
		function(`{"name":"` + strings.Repeat("a", 65) + `"}`):             {name, CodeInvalidValue},
		`"tools":[` + tool("a") + `,` + tool("a") + `]`:                    {"tools[1].function.name", CodeInvalidValue},
		function(`{"name":"a","description":5}`):                           {"tools[0].function.description", CodeInvalidType},
		function(`{"name":"a","strict":"yes"}`):                            {"tools[0].function.strict", CodeInvalidType},
		function(`{"name":"a","parameters":5}`):                            {"tools[0].function.parameters", CodeInvalidType},
		function(`{"name":"a","parameters":"{}"}`):                         {"tools[0].function.parameters", CodeInvalidType},
		function(`{"name":"a","parameters":{"type":"string"}}`):            {"tools[0].function.parameters.type", CodeInvalidValue},
		function(`{"name":"a","parameters":{"type":["object"]}}`):          {"tools[0].function.parameters.type", CodeInvalidValue},
		`"tools":[` + strings.Repeat(tool("a")+",", 128) + tool("b") + `]`: {"tools", CodeInvalidValue},
		`"parallel_tool_calls":"no"`:                                       {"parallel_tool_calls", CodeInvalidType},
		`"functions":[{"name":"x"}]`:                                       {"functions", CodeUnsupported},
		`"function_call":{"name":"x"}`:                                     {"function_call", CodeUnsupported},
	} {
		refused(t, fields, want.param, want.code)
	}
	// A name given twice anywhere, also in what is kept as text.
	_, err := decode(t, function(`{"name":"a","parameters":{"properties":{"x":{},"x":{}}}}`))
	require.Equal(t, CodeInvalidJSON, err.Code)
	require.Contains(t, refused(t, `"functions":[{}]`, "functions", CodeUnsupported).Message, "use tools")
}

func TestDecodeChat_BadToolChoicesAreRefusedByPath(t *testing.T) {
	with := func(choice string) string { return `"tools":[` + tool("a") + `],"tool_choice":` + choice }
	const strict = `"tools":[{"type":"function","function":{"name":"b"}},{"type":"function","function":{"name":"a","strict":true}}]`
	allowed := func(in string) string { return with(`{"type":"allowed_tools","allowed_tools":` + in + `}`) }
	for fields, want := range map[string]struct {
		param string
		code  Code
	}{
		`"tool_choice":"required"`:                             {"tool_choice", CodeInvalidValue},
		`"tools":[],"tool_choice":"required"`:                  {"tool_choice", CodeInvalidValue},
		`"tool_choice":` + tool("a"):                           {"tool_choice", CodeInvalidValue},
		`"tool_choice":5`:                                      {"tool_choice", CodeInvalidType},
		`"tool_choice":[]`:                                     {"tool_choice", CodeInvalidType},
		with(`true`):                                           {"tool_choice", CodeInvalidType},
		with(`"any"`):                                          {"tool_choice", CodeInvalidValue},
		with(`{}`):                                             {"tool_choice.type", CodeMissing},
		with(`{"type":5}`):                                     {"tool_choice.type", CodeInvalidType},
		with(`{"type":"custom"}`):                              {"tool_choice.type", CodeUnsupported},
		with(`{"type":"function"}`):                            {"tool_choice.function.name", CodeMissing},
		with(`{"type":"function","name":"a"}`):                 {"tool_choice.function.name", CodeMissing},
		with(`{"type":"function","function":"a"}`):             {"tool_choice.function", CodeInvalidType},
		with(tool("no_such")):                                  {"tool_choice.function.name", CodeInvalidValue},
		with(`{"type":"allowed_tools"}`):                       {"tool_choice.allowed_tools", CodeMissing},
		allowed(`{"tools":[` + tool("a") + `]}`):               {"tool_choice.allowed_tools.mode", CodeMissing},
		allowed(`{"mode":"none","tools":[` + tool("a") + `]}`): {"tool_choice.allowed_tools.mode", CodeInvalidValue},
		allowed(`{"mode":"auto"}`):                             {"tool_choice.allowed_tools.tools", CodeMissing},
		allowed(`{"mode":"auto","tools":[]}`):                  {"tool_choice.allowed_tools.tools", CodeMissing},
		allowed(`{"mode":"auto","tools":{}}`):                  {"tool_choice.allowed_tools.tools", CodeInvalidType},
		allowed(`{"mode":"auto","tools":[{"type":"mcp"}]}`):    {"tool_choice.allowed_tools.tools[0].type", CodeUnsupported},
		allowed(`{"mode":"auto","tools":[` + tool("a") + `,` + tool("b") + `]}`): {"tool_choice.allowed_tools.tools[1].function.name", CodeInvalidValue},
		with(`"required"`) + `,"stop":"x"`:                                       {"stop", CodeInvalidValue},
		with(`"required"`) + `,"ignore_eos":true`:                                {"ignore_eos", CodeInvalidValue},
		with(`"auto"`) + `,"stop":"x","parallel_tool_calls":false`:               {"stop", CodeInvalidValue},
		with(`"auto"`) + `,"ignore_eos":true,"parallel_tool_calls":false`:        {"ignore_eos", CodeInvalidValue},
		strict + `,"stop":"x"`:                                                   {"stop", CodeInvalidValue},
		strict + `,"ignore_eos":true`:                                            {"ignore_eos", CodeInvalidValue},
		with(`"auto"`) + `,"grammar":"root ::= \"a\""`:                           {"grammar", CodeInvalidValue},
	} {
		refused(t, fields, want.param, want.code)
	}
	require.Contains(t, refused(t, strict+`,"stop":"x"`, "stop", CodeInvalidValue).Message, "tools[1].function.strict")
	require.Contains(t, refused(t, with(tool("no_such")), "tool_choice.function.name", CodeInvalidValue).Message, "no_such")
}

func TestDecodeChat_FormatsAreSummedUp(t *testing.T) {
	const schema = `{"type": "object", "properties": {"b": {}, "a": {}}}`
	for fields, want := range map[string]Format{
		``: {},
		`"response_format":null,"grammar":null,"guided_regex":null,"guided_json":null,"guided_choice":null`:                            {},
		`"response_format":{"type":"text"},"grammar":""`:                                                                               {},
		`"response_format":{"type":"json_object"}`:                                                                                     {Kind: FormatObject, Param: "response_format"},
		`"response_format":{"type":"json_schema","json_schema":{"name":"m","description":"d","schema":` + schema + `,"strict":false}}`: {Kind: FormatSchema, Param: "response_format.json_schema.schema", Text: schema},
		`"response_format":{"type":"json_schema","json_schema":{"name":"m","schema":` + schema + `}},"grammar":""`:                     {Kind: FormatSchema, Param: "response_format.json_schema.schema", Text: schema},
		`"guided_json":` + schema:                                      {Kind: FormatSchema, Param: "guided_json", Text: schema},
		`"guided_regex":"a+"`:                                          {Kind: FormatRegex, Param: "guided_regex", Text: "a+"},
		`"guided_choice":["yes","no"]`:                                 {Kind: FormatChoice, Param: "guided_choice", Choices: []string{"yes", "no"}},
		`"grammar":"root ::= \"a\""`:                                   {Kind: FormatGrammar, Param: "grammar", Text: `root ::= "a"`},
		`"response_format":{"type":"text"},"guided_regex":"a"`:         {Kind: FormatRegex, Param: "guided_regex", Text: "a"},
		`"tools":[` + weather + `],"tool_choice":"none","grammar":"x"`: {Kind: FormatGrammar, Param: "grammar", Text: "x"},
	} {
		r, err := decode(t, fields)
		require.Nil(t, err, "%s: %v", fields, err)
		require.Equal(t, want, r.Format, fields)
	}
}

func TestDecodeChat_BadFormatsAreRefusedByPath(t *testing.T) {
	schema := func(in string) string { return `"response_format":{"type":"json_schema","json_schema":` + in + `}` }
	const object = `"response_format":{"type":"json_object"}`
	const at = "response_format.json_schema"
	for fields, want := range map[string]struct {
		param string
		code  Code
	}{
		`"response_format":"json"`:                             {"response_format", CodeInvalidType},
		`"response_format":["json_object"]`:                    {"response_format", CodeInvalidType},
		`"response_format":{}`:                                 {"response_format.type", CodeMissing},
		`"response_format":{"type":null}`:                      {"response_format.type", CodeMissing},
		`"response_format":{"type":5}`:                         {"response_format.type", CodeInvalidType},
		`"response_format":{"type":"yaml"}`:                    {"response_format.type", CodeInvalidValue},
		`"response_format":{"type":"json_schema"}`:             {at, CodeMissing},
		`"response_format":{"type":"json_schema","schema":{}}`: {"response_format.schema", CodeUnsupported},
		schema(`"s"`):                                                 {at, CodeInvalidType},
		schema(`{"schema":{}}`):                                       {at + ".name", CodeMissing},
		schema(`{"name":"a b","schema":{}}`):                          {at + ".name", CodeInvalidValue},
		schema(`{"name":7,"schema":{}}`):                              {at + ".name", CodeInvalidType},
		schema(`{"name":"m"}`):                                        {at + ".schema", CodeMissing},
		schema(`{"name":"m","schema":null}`):                          {at + ".schema", CodeMissing},
		schema(`{"name":"m","schema":5}`):                             {at + ".schema", CodeInvalidType},
		schema(`{"name":"m","schema":true}`):                          {at + ".schema", CodeInvalidType},
		schema(`{"name":"m","schema":{},"strict":1}`):                 {at + ".strict", CodeInvalidType},
		schema(`{"name":"m","schema":{},"description":1}`):            {at + ".description", CodeInvalidType},
		`"guided_json":5`:                                             {"guided_json", CodeInvalidType},
		`"guided_json":"{}"`:                                          {"guided_json", CodeInvalidType},
		`"guided_regex":5`:                                            {"guided_regex", CodeInvalidType},
		`"guided_regex":""`:                                           {"guided_regex", CodeInvalidValue},
		`"guided_choice":"yes"`:                                       {"guided_choice", CodeInvalidType},
		`"guided_choice":[]`:                                          {"guided_choice", CodeInvalidValue},
		`"guided_choice":["a",5]`:                                     {"guided_choice[1]", CodeInvalidType},
		`"guided_choice":["a",""]`:                                    {"guided_choice[1]", CodeInvalidValue},
		`"guided_choice":["` + strings.Repeat("x", 64<<10) + `","y"]`: {"guided_choice", CodeInvalidValue},
		`"guided_choice":[` + strings.Repeat(`"x",`, 1000) + `"y"]`:   {"guided_choice", CodeInvalidValue},
		`"grammar":{}`:                                                {"grammar", CodeInvalidType},
		`"guided_grammar":"root ::= \"a\""`:                           {"guided_grammar", CodeUnsupported},
		`"json_schema":{}`:                                            {"json_schema", CodeUnsupported},
		object + `,"grammar":"x"`:                                     {"grammar", CodeInvalidValue},
		object + `,"guided_json":{}`:                                  {"guided_json", CodeInvalidValue},
		`"guided_regex":"a","guided_choice":["a"]`:                    {"guided_choice", CodeInvalidValue},
		object + `,"stop":"}"`:                                        {"stop", CodeInvalidValue},
		`"guided_regex":"a+","stop":["a"]`:                            {"stop", CodeInvalidValue},
		object + `,"ignore_eos":true`:                                 {"ignore_eos", CodeInvalidValue},
	} {
		refused(t, fields, want.param, want.code)
	}
	require.Contains(t, refused(t, object+`,"grammar":"x"`, "grammar", CodeInvalidValue).Message, "response_format")
	require.Contains(t, refused(t, object+`,"stop":"}"`, "stop", CodeInvalidValue).Message, "response_format")
}

func TestDecodeChat_ToolResultsNameACallBeforeThem(t *testing.T) {
	call := func(ids ...string) string {
		var calls []string
		for _, id := range ids {
			calls = append(calls, fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":"f","arguments":"{}"}}`, id))
		}
		return `{"role":"assistant","content":null,"tool_calls":[` + strings.Join(calls, ",") + `]}`
	}
	result := func(id string) string { return fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":"1"}`, id) }
	const user = `{"role":"user","content":"hi"}`
	for _, c := range []struct {
		messages []string
		param    string // "": accepted
	}{
		{[]string{user, call("a"), result("a")}, ""},
		{[]string{user, call("a", "b"), result("b"), result("a")}, ""},
		{[]string{user, call("a"), user}, ""},                                      // trimmed by a client
		{[]string{user, call("a"), user, result("a")}, ""},                         // somebody spoke in between
		{[]string{user, call("a"), result("a"), result("a")}, ""},                  // corrected
		{[]string{user, call("a"), result("a"), call("a"), result("a"), user}, ""}, // ids counted per turn
		{[]string{user, result("a")}, "messages[1].tool_call_id"},
		{[]string{result("a"), call("a")}, "messages[0].tool_call_id"},
		{[]string{user, call("a"), result("b")}, "messages[2].tool_call_id"},
		{[]string{user, call("a"), `{"role":"tool","content":"1"}`}, "messages[2].tool_call_id"},
		{[]string{user, call("a"), `{"role":"tool","tool_call_id":5,"content":"1"}`}, "messages[2].tool_call_id"},
		{[]string{user, call("a", "a")}, "messages[1].tool_calls[1].id"},
		{[]string{user, call("")}, "messages[1].tool_calls[0].id"},
		{[]string{user, call("a"), `{"role":"tool","tool_call_id":"a"}`}, "messages[2].content"},
		{[]string{user, `{"role":"assistant","tool_calls":"f"}`}, "messages[1].tool_calls"},
		{[]string{user, `{"role":"assistant","tool_calls":[{"id":"a","type":"custom"}]}`}, "messages[1].tool_calls[0].type"},
		{[]string{user, `{"role":"assistant","tool_calls":[{"id":"a","type":"function"}]}`}, "messages[1].tool_calls[0].function.name"},
	} {
		body := `{"model":"m","messages":[` + strings.Join(c.messages, ",") + `]}`
		_, err := DecodeChat([]byte(body), Limits{})
		if c.param == "" {
			require.Nil(t, err, "%s: %v", body, err)
			continue
		}
		require.NotNil(t, err, body)
		require.Equal(t, c.param, *err.Param, body)
		require.Contains(t, err.Message, c.param)
	}
}
