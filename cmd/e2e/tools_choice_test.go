//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTools_ChoiceIsKept(t *testing.T) {
	defer shared.unharmed(t)()
	allowed := func(mode string, names ...string) obj {
		var tools []obj
		for _, name := range names {
			tools = append(tools, namedTool(name))
		}
		return obj{"type": "allowed_tools", "allowed_tools": obj{"mode": mode, "tools": tools}}
	}
	hello := obj{"messages": []obj{user("Hello, how are you?")}}
	for name, c := range map[string]struct {
		more obj
		may  []string // be called; nil: none is
	}{
		"required":            {obj{"tool_choice": "required"}, []string{"get_weather", "add", "get_time"}},
		"named":               {obj{"tool_choice": namedTool("add")}, []string{"add"}},
		"named, no arguments": {obj{"tool_choice": namedTool("get_time")}, []string{"get_time"}},
		"required of some":    {obj{"tool_choice": allowed("required", "add", "get_time")}, []string{"add", "get_time"}},
		"none":                {obj{"tool_choice": "none"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for seed, more := range []obj{{"temperature": 0}, {"temperature": 1, "seed": 1}, {"temperature": 1, "seed": 2, "parallel_tool_calls": false}} {
				said := shared.bothWays(t, needy(hello, c.more, more)...)
				if c.may == nil {
					require.Empty(t, said.Calls)
					require.NotEqual(t, "tool_calls", said.Finish)
					require.NotEmpty(t, said.text())
					continue
				}
				require.NotEmpty(t, said.Calls)
				require.Nil(t, said.Content, "calls and nothing else, content is null")
				require.Subset(t, c.may, said.names())
				callsAreValid(t, said)
				if seed == 2 || strings.HasPrefix(name, "named") { // who names the tool asks for one call
					require.Len(t, said.Calls, 1)
					require.Equal(t, "tool_calls", said.Finish)
				}
			}
		})
	}
}

// A call opens with its index, id and name, and its arguments follow in pieces.
func TestTools_DeltasOfAStream(t *testing.T) {
	defer shared.unharmed(t)()
	e := shared.stream(t, needy(obj{"tool_choice": namedTool("get_weather"), "parallel_tool_calls": false})...)
	require.True(t, e.Done)
	require.Equal(t, []string{"tool_calls"}, e.Finishes(0))
	var arguments string
	opened, pieces := 0, 0
	e.each(0, func(c obj) {
		calls, _ := c["delta"].(obj)["tool_calls"].([]any)
		for _, call := range calls {
			call, f := call.(obj), call.(obj)["function"].(obj)
			require.EqualValues(t, 0, call["index"])
			if call["id"] != nil {
				opened++
				require.Equal(t, "function", call["type"])
				require.Equal(t, "get_weather", f["name"])
				require.Regexp(t, `^call_[A-Za-z0-9]{24}$`, call["id"])
			} else {
				require.Len(t, call, 2, "index and function")
				require.Len(t, f, 1, "arguments")
				pieces++
			}
			arguments += f["arguments"].(string)
		}
	})
	require.Equal(t, 1, opened)
	require.Greater(t, pieces, 3, "arguments come as they are written")
	valid(t, weatherSchema, arguments)
	require.Empty(t, e.Text(0))
}

// Without parallel calls there is one; with them each has its own index and id.
func TestTools_ParallelCalls(t *testing.T) {
	defer shared.unharmed(t)()
	twice := obj{"messages": []obj{user("Use the tool twice: the weather of Paris and the weather of Oslo.")}, "tool_choice": "required", "max_tokens": 300}
	many := 0
	for seed := range 4 {
		more := obj{"temperature": 1, "seed": seed}
		said := shared.bothWays(t, needy(twice, more)...)
		callsAreValid(t, said)
		many = max(many, len(said.Calls))
		for _, mode := range []any{"required", namedTool("get_weather")} {
			one := shared.bothWays(t, needy(twice, more, obj{"parallel_tool_calls": false, "tool_choice": mode})...)
			require.Len(t, one.Calls, 1)
			require.Equal(t, "tool_calls", one.Finish)
			callsAreValid(t, one)
		}
	}
	require.Greater(t, many, 1, "one answer at least has several calls")
}

// A free choice is parsed: what a model writes as a call is one, also between
// text. Strict tools are held to their schema there too.
func TestTools_FreeChoice(t *testing.T) {
	defer shared.unharmed(t)()
	strict := allTools()
	for _, tool := range strict {
		tool["function"].(obj)["strict"] = true
	}
	// The model imitates what it sees, and so it calls.
	var history []obj
	for _, city := range []string{"Rome", "Kiel", "Bern", "Riga"} {
		history = append(history, user("What is the weather in "+city+"?"),
			obj{"role": "assistant", "content": nil, "tool_calls": []obj{callOf(city, "get_weather", `{"city": "`+city+`", "unit": "C"}`)}})
	}
	history = append(history, user("What is the weather in Oslo?"))
	called := 0
	for name, more := range map[string]obj{
		"auto":     {"tool_choice": "auto"},
		"absent":   {},
		"strict":   {"tools": strict},
		"one call": {"parallel_tool_calls": false},
	} {
		for seed := range 4 {
			said := shared.bothWays(t, needy(obj{"messages": history}, more, obj{"temperature": 0.7, "seed": seed})...)
			called += len(said.Calls)
			for _, c := range said.Calls {
				require.Contains(t, []string{"get_weather", "add", "get_time"}, c.Name, name)
				require.True(t, json.Valid([]byte(c.Arguments)) || said.Finish == "length", "%s: %q", name, c.Arguments)
			}
			if name == "strict" {
				callsAreValid(t, said)
			}
			if name == "one call" {
				require.LessOrEqual(t, len(said.Calls), 1)
			}
		}
	}
	require.Greater(t, called, 8, "the model calls")
	none := shared.bothWays(t, needy(obj{"messages": history, "tool_choice": "none"})...)
	require.Empty(t, none.Calls)
}

func callOf(id, name, arguments string) obj {
	return obj{"id": id, "type": "function", "function": obj{"name": name, "arguments": arguments}}
}

func TestTools_ChoicesThatAreNone(t *testing.T) {
	defer shared.unharmed(t)()
	tools := allTools()
	with := func(more obj) obj {
		if _, has := more["tools"]; !has {
			more["tools"] = tools
		}
		return more
	}
	for name, c := range map[string]struct {
		more  obj
		param string
	}{
		"an unknown tool":             {with(obj{"tool_choice": namedTool("no_such")}), "tool_choice.function.name"},
		"an unknown word":             {with(obj{"tool_choice": "any"}), "tool_choice"},
		"a number":                    {with(obj{"tool_choice": 5}), "tool_choice"},
		"required without tools":      {obj{"tool_choice": "required"}, "tool_choice"},
		"a name without tools":        {obj{"tool_choice": namedTool("add")}, "tool_choice"},
		"required with an empty list": {obj{"tools": []obj{}, "tool_choice": "required"}, "tool_choice"},
		"tools that are no list":      {obj{"tools": obj{}}, "tools"},
		"another type":                {obj{"tools": []obj{{"type": "web_search"}}}, "tools[0].type"},
		"no function":                 {obj{"tools": []obj{{"type": "function"}}}, "tools[0].function"},
		"a name with a space":         {obj{"tools": []obj{function("a b", nil)}}, "tools[0].function.name"},
		"a name twice":                {obj{"tools": []obj{function("a", nil), function("a", nil)}}, "tools[1].function.name"},
		"parameters of a string":      {obj{"tools": []obj{function("a", obj{"type": "string"})}}, "tools[0].function.parameters.type"},
		"parameters that are a list":  {obj{"tools": []obj{function("a", []int{})}}, "tools[0].function.parameters"},
		"functions":                   {obj{"functions": []obj{{"name": "get_time"}}}, "functions"},
		"a stop string":               {with(obj{"tool_choice": "required", "stop": "}"}), "stop"},
		"parallel of a number":        {with(obj{"parallel_tool_calls": 1}), "parallel_tool_calls"},
	} {
		e := refusal(t, 400, c.more)
		require.Equal(t, c.param, e["param"], "%s: %v", name, e)
	}
	require.Empty(t, shared.turn(t, obj{"tools": []obj{}, "tool_choice": "none"}).Calls)
	require.Empty(t, shared.turn(t, obj{"tools": null, "tool_choice": null, "parallel_tool_calls": null}).Calls)
}

// A schema that cannot be enforced is refused where a call is enforced, and does
// no harm where the model is free.
func TestTools_ParametersThatCannotBeEnforced(t *testing.T) {
	defer shared.unharmed(t)()
	odd := function("look", obj{"type": "object", "properties": obj{"at": obj{"not": obj{"type": "string"}}}})
	const param = "tools[0].function.parameters.properties.at.not"
	require.Equal(t, param, refusal(t, 400, obj{"tools": []obj{odd}, "tool_choice": "required"})["param"])
	require.NotEmpty(t, shared.bothWays(t, obj{"tools": []obj{odd}}).text())
	odd["function"].(obj)["strict"] = true
	require.Equal(t, param, refusal(t, 400, obj{"tools": []obj{odd}})["param"])
}

// A cap inside a call is a normal end.
func TestTools_CutCall(t *testing.T) {
	defer shared.unharmed(t)()
	for most := 1; most <= 24; most++ {
		said := shared.bothWays(t, needy(obj{"tool_choice": namedTool("get_weather"), "max_tokens": most, "parallel_tool_calls": false})...)
		if said.Finish == "tool_calls" {
			callsAreValid(t, said)
			require.Greater(t, most, 10)
			continue
		}
		require.Equal(t, "length", said.Finish)
		require.Empty(t, said.text(), "markers are no text, cut after %d tokens", most)
		require.LessOrEqual(t, len(said.Calls), 1)
		for _, c := range said.Calls {
			require.Equal(t, "get_weather", c.Name)
			g, err := compiled(jsonOf(t, weatherSchema))
			require.NoError(t, err)
			require.True(t, g.Prefix(c.Arguments), "%q", c.Arguments)
		}
	}
}

func jsonOf(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return b
}

func TestTools_SeveralChoices(t *testing.T) {
	defer shared.unharmed(t)()
	for _, stream := range []bool{false, true} {
		a := shared.talk(t, needy(obj{"n": 3, "temperature": 1, "seed": 2, "tool_choice": "required", "parallel_tool_calls": false, "stream": stream})...)
		require.Len(t, a.Turns, 3)
		for _, said := range a.Turns {
			require.Equal(t, "tool_calls", said.Finish)
			require.Len(t, said.Calls, 1)
			callsAreValid(t, said)
		}
	}
}

func TestTools_LogprobsAreOfAllTokens(t *testing.T) {
	defer shared.unharmed(t)()
	more := needy(obj{"tool_choice": namedTool("get_weather"), "parallel_tool_calls": false, "logprobs": true})
	said := shared.bothWays(t, more...)
	require.Len(t, said.Calls, 1)
	require.Contains(t, said.Logprobs, said.Calls[0].Arguments, "as the model wrote it")
	require.Contains(t, said.Logprobs, `"get_weather"`)
}

// With a free choice and a format the answer is either.
func TestTools_BesideAFormat(t *testing.T) {
	defer shared.unharmed(t)()
	for seed := range 6 {
		said := shared.bothWays(t, needy(schemaFormat(moodSchema), obj{"temperature": 1, "seed": seed})...)
		callsAreValid(t, said)
		if said.Finish == "stop" {
			valid(t, moodSchema, said.text())
		}
	}
	said := shared.bothWays(t, needy(schemaFormat(moodSchema), obj{"tool_choice": "none"})...)
	require.Empty(t, said.Calls)
	valid(t, moodSchema, said.text())
	said = shared.bothWays(t, needy(schemaFormat(moodSchema), obj{"tool_choice": "required", "parallel_tool_calls": false})...)
	require.Equal(t, "tool_calls", said.Finish)
	callsAreValid(t, said)
}

// Generated parameters, whole and streamed, many at a time.
func TestTools_ArgumentsAreInstances(t *testing.T) {
	defer shared.unharmed(t)()
	parallel(t, 32, func(ctx context.Context, i int) error {
		schema := generated(i)
		j, err := newJudge(schema)
		if err != nil {
			return err
		}
		tools := []obj{function("get_time", nil), function("use", schema)}
		a, err := shared.tryTalk(ctx, obj{"messages": []obj{user("Use it.")}, "tools": tools, "tool_choice": namedTool("use"), "parallel_tool_calls": false,
			"max_tokens": 200, "temperature": i % 2, "seed": i, "stream": i%4 < 2})
		if err != nil {
			return fmt.Errorf("%w: %s", err, schema)
		}
		said := a.Turns[0]
		switch {
		case said.Finish == "length":
			return nil
		case said.Finish != "tool_calls" || len(said.Calls) != 1 || said.Calls[0].Name != "use":
			return fmt.Errorf("%+v under %s", said, schema)
		}
		return j.check(said.Calls[0].Arguments)
	})
}
