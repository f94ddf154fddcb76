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
	honoured("tools", "up to 128 with an `input_schema`", "`strict`, too; `eager_input_streaming` is how every input is streamed. Tools that run at Anthropic (`web_search_…`, `bash_…`) are refused by their type."),
	refused("tools[].allowed_callers", "the model alone calls tools", `["direct"]`),
	refused("tools[].defer_loading", "all tools are shown to the model", "false"),
	refused("tools[].input_examples", "put examples into the description", "[]"),
	honoured("tool_choice", "`auto`, `any`, `tool`, `none`", "With `disable_parallel_tool_use`, which is true by default where a `tool` is named."),
	honoured("thinking", "`enabled`, `disabled`, `adaptive`", "`enabled` needs a model that reasons; where its template has a switch, the model reasons only when this, or `adaptive`, is asked for. `disabled` is refused by a model that cannot do without. `budget_tokens` is checked and does not bind the model: `max_tokens` does."),
	honoured("thinking.display", "`summarized`, `omitted`", "`omitted`: the text of `thinking` blocks is empty, and a stream has no `thinking_delta`; the reasoning is made, and counted, all the same. `summarized` is as none: the blocks have the reasoning itself."),
	refused("thinking.block_binding", "thinking blocks are not signed here"),
	honoured("output_config", "`format`, `effort`", "`format` with a `json_schema` is enforced, see [structured output](http-api.md#structured-output). `effort` where the template knows the value; `high` always."),
	refused("output_config.task_budget", "max_tokens bounds the answer, and there are no tasks here"),
	honoured("output_format", "a `json_schema`", "The older name of `output_config.format`."),
	honoured("cache_control", "`ephemeral`, with a `ttl` of `5m` or `1h`", "Also on tools, `system` and blocks, at most 4: the prompt is stored up to there, too, and kept for its `ttl`; the longest counts for all. A mark on a tool or a call stands at the end of the text after it. A prompt without marks is stored as any other, without a promise of time."),
	openai.Parameter{Name: "metadata", Treatment: openai.Accepted, Allowed: "`user_id` of at most 256 bytes", Note: "Names the end user to Anthropic.", Taken: []string{`{}`, `{"user_id":"u"}`}},
	openai.Parameter{Name: "service_tier", Treatment: openai.Accepted, Allowed: "`auto`, `standard_only`", Note: "There is one tier.", Taken: []string{`"auto"`, `"standard_only"`}},
	refused("container", "there are no containers here", none...),
	refused("mcp_servers", "this server calls no others: give their tools as tools", none...),
	refused("context_management", "the messages are taken as they are", "{}", "[]", `{"edits":[]}`, `{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]}`),
	refused("compaction", "the messages are taken as they are", none...),
	refused("thread", "no messages are stored here: give them all", none...),
	refused("diagnostics", "X-Thoth-Liquid-Miss-Reason tells why nothing was restored", "{}", `{"previous_message_id":null}`),
	refused("fallbacks", "there is no other model to fall back on", none...),
	refused("fallback_credit_token", "nothing is billed here"),
	refused("billing_policy", "nothing is billed here", none...),
	refused("inference_geo", "there is one place: this server", none...),
	refused("speed", "there is one speed", `"standard"`),
	refused("betas", "they are named in the header anthropic-beta", "[]"),
	refused("user_profile_id", "it is given in the header anthropic-user-profile-id"),
	refused("workspace_id", "it is given in the header anthropic-workspace-id"),

	// Of OpenAI's API and of other servers.
	foreign("prompt", "use messages"),
	foreign("stop", "use stop_sequences", "[]"),
	foreign("max_completion_tokens", "use max_tokens"),
	foreign("n", "an answer is one message", "1"),
	foreign("seed", "draws cannot be repeated in this API: use temperature 0, or a chat"),
	foreign("min_p", "use top_p or top_k", "0"),
	foreign("repeat_penalty", "use a chat", "1"),
	foreign("presence_penalty", "use a chat", "0"),
	foreign("frequency_penalty", "use a chat", "0"),
	foreign("logit_bias", "use a chat", "{}"),
	foreign("logprobs", "use a chat", "false"),
	foreign("response_format", "use output_config.format"),
	foreign("grammar", "use output_config.format, or a chat", `""`),
	foreign("reasoning_effort", "use output_config.effort"),
	foreign("effort", "use output_config.effort"),
	foreign("parallel_tool_calls", "use tool_choice.disable_parallel_tool_use", "true"),
).Closed()

// none are the values of an object or array that has nothing in it.
var none = []string{"[]", "{}"}

func honoured(name, allowed, note string) openai.Parameter {
	return openai.Parameter{Name: name, Treatment: openai.Honoured, Allowed: allowed, Note: note}
}

// refused is a parameter that asks for something, unless it is one of taken.
func refused(name, note string, taken ...string) openai.Parameter {
	return openai.Parameter{Name: name, Treatment: openai.Refused, Note: note, Taken: taken}
}

// foreign is one that the reference does not have.
func foreign(name, note string, taken ...string) openai.Parameter {
	p := refused(name, note, taken...)
	p.Extension = true
	return p
}
