package anthropic

import "thoth/host/openai"

// Parameters are those of a message; count_tokens takes them, too, and there
// max_tokens may be left out.
var Parameters = openai.NewTable("POST /v1/messages",
	honoured("model", "a served name or alias, see `GET /v1/models`", "Required."),
	honoured("messages", "1 to 4,096 messages of `user` and `assistant`", "Required. Blocks: `text`, `thinking`, `tool_use`, `tool_result` (with text; `is_error` puts `Error: ` in front). `image`, `document` and the others are refused by name. Turns of one role are one message. Each `tool_use` needs its `tool_result` in the next message, before any text. The answer goes on from the text of a last `assistant` message; not with gpt-oss, a model whose template opens its reasoning, a required tool or a schema."),
	honoured("max_tokens", "1 and up", "Required. More than fits ends at the context."),
	honoured("system", "a string or text blocks", "Blocks become paragraphs."),
	honoured("temperature", "0 to 1", "Default 1; 0 is greedy."),
	honoured("top_p", "0 to 1", "Default 1."),
	honoured("top_k", "0 and up", "0 is off."),
	honoured("stop_sequences", "up to 16 strings of at most 1,024 bytes", "Not with what must be whole: a schema, or `tool_choice` `any` or `tool`."),
	honoured("stream", "true, false", "The answer comes as events."),
	honoured("tools", "up to 128 with an `input_schema`", "`strict`, too. Tools that run at Anthropic (`web_search_…`, `bash_…`), `defer_loading` and `input_examples` are refused."),
	honoured("tool_choice", "`auto`, `any`, `tool`, `none`", "With `disable_parallel_tool_use`."),
	honoured("thinking", "`enabled`, `disabled`, `adaptive`", "`enabled` needs a model that reasons; where its template has a switch, the model reasons only when this, or `adaptive`, is asked for. `disabled` is refused by a model that cannot do without. `budget_tokens` is checked and does not bind the model: `max_tokens` does."),
	honoured("output_config", "`format`, `effort`", "`format` with a `json_schema` is enforced, see [structured output](http-api.md#structured-output). `effort` where the template knows the value; `high` always."),
	honoured("output_format", "a `json_schema`", "The older name of `output_config.format`."),
	honoured("cache_control", "`ephemeral`, with a `ttl` of `5m` or `1h`", "Also on tools, `system` and blocks, at most 4: the prompt is stored up to there, too, and kept for its `ttl`; the longest counts for all. A mark on a tool or a call stands at the end of the text after it. A prompt without marks is stored as any other, without a promise of time."),
	openai.Parameter{Name: "metadata", Treatment: openai.Accepted, Allowed: "`user_id` of at most 256 bytes", Note: "Names the end user to Anthropic.", Taken: []string{`{}`, `{"user_id":"u"}`}},
	openai.Parameter{Name: "service_tier", Treatment: openai.Accepted, Allowed: "`auto`, `standard_only`", Note: "There is one tier.", Taken: []string{`"auto"`, `"standard_only"`}},
	refused("container", "there are no containers here"),
	refused("mcp_servers", "this server calls no others: give their tools as tools"),
	refused("context_management", "the messages are taken as they are"),
	refused("inference_geo", "there is one place: this server"),
	refused("speed", "there is one speed"),
)

func honoured(name, allowed, note string) openai.Parameter {
	return openai.Parameter{Name: name, Treatment: openai.Honoured, Allowed: allowed, Note: note}
}

// refused is a parameter that asks for something by what is in it.
func refused(name, note string) openai.Parameter {
	return openai.Parameter{Name: name, Treatment: openai.Refused, Note: note, Taken: []string{"[]", "{}"}}
}
