package responses

import (
	"slices"
	"strings"

	"thoth/host/openai"
)

// Parameters is what this server does with each parameter of a request.
func Parameters() *openai.Table { return parameters }

// parameters has a field of [Request] for each that is not refused. What belongs to
// chats alone is refused with the name that it has here: to drop it would be to answer
// another question.
var parameters = openai.NewTable("POST /v1/responses", slices.Concat([]openai.Parameter{
	{Name: "model", Treatment: openai.Honoured, Allowed: "a served name or alias, see `GET /v1/models`", Note: "Required; at input_tokens it may be left out."},
	{Name: "input", Treatment: openai.Honoured, Allowed: "a string, or 1 to 4,096 items: message, function_call, function_call_output, reasoning, item_reference", Note: "Required without `previous_response_id`, but at input_tokens. See [input](responses.md)."},
	{Name: "instructions", Treatment: openai.Honoured, Allowed: "a string", Note: "A system message ahead of all items, those of earlier turns too; not carried over to the next turn."},
	{Name: "previous_response_id", Treatment: openai.Honoured, Allowed: "the id of a stored response", Note: "The items of that turn, and of those before it, come ahead of `input`."},
	{Name: "store", Treatment: openai.Honoured, Allowed: "true, false", Note: "Default true. Where there is no store, true is refused, and the default is false."},
	{Name: "background", Treatment: openai.Honoured, Allowed: "true, false", Note: "Answers at once; the response is made without its client."},
	{Name: "stream", Treatment: openai.Honoured, Allowed: "true, false", Note: "The answer comes as events."},
	{Name: "stream_options", Treatment: openai.Honoured, Allowed: "an object", Note: "Nothing in it changes what is sent."},
	{Name: "stream_options.include_obfuscation", Treatment: openai.Refused, Taken: []string{"false"}, Note: "events here have no padding"},
	{Name: "stream_options.include_usage", Treatment: openai.Refused, Taken: []string{"true", "false"}, Note: "the last event always has the usage", Extension: true},
	{Name: "stream_options.continuous_usage_stats", Treatment: openai.Refused, Taken: []string{"true", "false"}, Note: "the last event always has the usage", Extension: true},
	{Name: "stream_options.chunk_include_usage", Treatment: openai.Refused, Taken: []string{"true", "false"}, Note: "the last event always has the usage", Extension: true},
	{Name: "include", Treatment: openai.Honoured, Allowed: "`" + IncludeLogprobs + "`, `" + IncludeEncrypted + "`", Note: "The second gives reasoning items `encrypted_content`, which brings them back where `content` is dropped. The others are refused."},
	{Name: "top_logprobs", Treatment: openai.Honoured, Allowed: "0 to 20", Note: "Alternatives of each token; needs `include` to have `" + IncludeLogprobs + "`."},
	{Name: "max_output_tokens", Treatment: openai.Honoured, Allowed: "1 and up", Note: "Reasoning counts. The response is `incomplete` there. Absent: up to the context, or `THOTH_DEFAULT_MAX_TOKENS`."},
	{Name: "max_tool_calls", Treatment: openai.Accepted, Allowed: "1 and up", Note: "It bounds the calls of tools that the server runs, and none run here.", Taken: []string{"1", "10"}},
	{Name: "stop", Treatment: openai.Honoured, Allowed: "a string or up to 16, of at most 1,024 bytes", Note: "The earliest match ends the answer and is not part of it.", Extension: true},
	{Name: "ignore_eos", Treatment: openai.Honoured, Allowed: "true, false", Note: "Goes on past the end of the turn, for benchmarks.", Extension: true},
}, samplingParameters, []openai.Parameter{
	{Name: "tools", Treatment: openai.Honoured, Allowed: "up to 128 of type `function`, in the flat form", Note: "Default of `strict` is false. Tools that run at OpenAI are refused by their type."},
	{Name: "tool_choice", Treatment: openai.Honoured, Allowed: "`none`, `auto`, `required`, a named function, `allowed_tools`", Note: "In the flat form."},
	{Name: "parallel_tool_calls", Treatment: openai.Honoured, Allowed: "true, false", Note: "False: at most one call in an answer. Default true, and false where `tool_choice` names a function."},
	{Name: "text", Treatment: openai.Honoured, Allowed: "`format`: `text`, `json_object`, `json_schema`; `verbosity`", Note: "The format is enforced, whether `strict` is true or not. `verbosity` where the model's template knows it; `medium` always."},
	{Name: "reasoning", Treatment: openai.Honoured, Allowed: "`effort`, `summary`, `generate_summary`", Note: "`effort` as `reasoning_effort` of a chat. The others change nothing: the reasoning itself is in the response."},
	{Name: "reasoning.context", Treatment: openai.Refused, Taken: []string{`"auto"`}, Note: "the model's template says which reasoning it is shown again"},
	{Name: "reasoning.mode", Treatment: openai.Refused, Taken: []string{`"standard"`}, Note: "there is one mode"},
	{Name: "prompt_cache_key", Treatment: openai.Honoured, Allowed: "a string of at most 64 bytes", Note: "A label of what the request stores."},
	{Name: "prompt_cache_options", Treatment: openai.Honoured, Allowed: "`mode`, `ttl`; the extension `pin`", Note: "What is stored of the prompt, and for how long."},
	{Name: "prompt_cache_retention", Treatment: openai.Honoured, Allowed: "`in_memory`, `24h`", Note: "The older form of a ttl."},
	{Name: "cache_salt", Treatment: openai.Honoured, Allowed: "a string of 1 to 256 bytes", Note: "What is stored of the prompt is found only with the same salt.", Extension: true},
	{Name: "metadata", Treatment: openai.Accepted, Allowed: "up to 16 strings of at most 512 characters, under names of at most 64", Note: "Said back, and stored with the response.", Taken: []string{`{}`, `{"a":"b"}`}},
	{Name: "service_tier", Treatment: openai.Accepted, Allowed: "`auto`, `default`, `flex`, `scale`, `priority`", Note: "There is one tier: the response says `default`, as the reference has it where another tier served than the one asked for.", Taken: []string{`"auto"`, `"priority"`}},
	{Name: "safety_identifier", Treatment: openai.Accepted, Allowed: "a string of at most 64 characters", Note: "Said back.", Taken: []string{`"u"`}},
	{Name: "user", Treatment: openai.Accepted, Allowed: "a string of at most 512 characters", Note: "Said back; the older name of `safety_identifier` and `prompt_cache_key`.", Taken: []string{`"u"`}},
}, refusedParameters)...)

var samplingParameters = []openai.Parameter{
	{Name: "temperature", Treatment: openai.Honoured, Allowed: "0 to 2", Note: "Default 1; 0 is greedy."},
	{Name: "top_p", Treatment: openai.Honoured, Allowed: "0 to 1", Note: "Default 1."},
	{Name: "top_k", Treatment: openai.Honoured, Allowed: "0 and up", Note: "0 is off, the default.", Extension: true},
	{Name: "min_p", Treatment: openai.Honoured, Allowed: "0 to 1", Note: "Default 0.", Extension: true},
	{Name: "repeat_penalty", Treatment: openai.Honoured, Allowed: "above 0, to 2", Note: "1 is off, the default.", Extension: true},
	{Name: "presence_penalty", Treatment: openai.Honoured, Allowed: "-2 to 2", Note: "Default 0.", Extension: true},
	{Name: "frequency_penalty", Treatment: openai.Honoured, Allowed: "-2 to 2", Note: "Default 0.", Extension: true},
	{Name: "logit_bias", Treatment: openai.Honoured, Allowed: "an object: token id as a string, to -100..100", Note: "At most 1,024 entries.", Extension: true},
	{Name: "seed", Treatment: openai.Honoured, Allowed: "an integer of signed 64 bits", Note: "Default: a new one each time.", Extension: true},
}

var refusedParameters = []openai.Parameter{
	{Name: "truncation", Treatment: openai.Refused, Taken: []string{`"disabled"`}, Note: "input that is too long is an error, and what to leave out of it is the client's to say"},
	{Name: "conversation", Treatment: openai.Refused, Note: "use previous_response_id"},
	{Name: "prompt", Treatment: openai.Refused, Note: "no prompt templates are stored here; use instructions and input"},
	{Name: "moderation", Treatment: openai.Refused, Note: "nothing is moderated here"},
	{Name: "context_management", Treatment: openai.Refused, Taken: []string{"[]"}, Note: "items are taken as they are"},
	{Name: "background_options", Treatment: openai.Refused, Taken: []string{"{}", `{"completion_window":"soonest"}`}, Note: "a response in the background begins as soon as there is room"},
	{Name: "access_programs", Treatment: openai.Refused, Taken: []string{"{}"}, Note: "there are none here"},
	{Name: "image", Treatment: openai.Refused, Taken: []string{"{}"}, Note: "this model reads text"},
	{Name: "modalities", Treatment: openai.Refused, Taken: []string{"[]", `["text"]`}, Note: "this model writes text"},
	{Name: "personality", Treatment: openai.Refused, Note: "use instructions"},

	// Of chats.
	{Name: "messages", Treatment: openai.Refused, Note: "use input", Extension: true},
	{Name: "max_tokens", Treatment: openai.Refused, Note: "use max_output_tokens", Extension: true},
	{Name: "max_completion_tokens", Treatment: openai.Refused, Note: "use max_output_tokens", Extension: true},
	{Name: "n", Treatment: openai.Refused, Taken: []string{"1"}, Note: "a response is one answer", Extension: true},
	{Name: "logprobs", Treatment: openai.Refused, Taken: []string{"false"}, Note: `use include with "` + IncludeLogprobs + `"`, Extension: true},
	{Name: "response_format", Treatment: openai.Refused, Note: "use text.format", Extension: true},
	{Name: "reasoning_effort", Treatment: openai.Refused, Note: "use reasoning.effort", Extension: true},
	{Name: "verbosity", Treatment: openai.Refused, Note: "use text.verbosity", Extension: true},
	{Name: "functions", Treatment: openai.Refused, Taken: []string{"[]"}, Note: "use tools", Extension: true},
	{Name: "function_call", Treatment: openai.Refused, Taken: []string{`"none"`, `"auto"`}, Note: "use tool_choice", Extension: true},
	{Name: "chat_template_kwargs", Treatment: openai.Refused, Taken: []string{"{}"}, Note: "use reasoning.effort", Extension: true},
	{Name: "grammar", Treatment: openai.Refused, Taken: []string{`""`}, Note: "use text.format, or a chat", Extension: true},
	{Name: "guided_json", Treatment: openai.Refused, Note: "use text.format", Extension: true},
	{Name: "guided_regex", Treatment: openai.Refused, Note: "use text.format, or a chat", Extension: true},
	{Name: "guided_choice", Treatment: openai.Refused, Note: "use text.format, or a chat", Extension: true},
	{Name: "n_predict", Treatment: openai.Refused, Note: "use max_output_tokens", Extension: true},
	{Name: "repetition_penalty", Treatment: openai.Refused, Taken: []string{"1", "1.0"}, Note: "use repeat_penalty", Extension: true},
	{Name: "min_tokens", Treatment: openai.Refused, Taken: []string{"0"}, Note: "use ignore_eos with max_output_tokens", Extension: true},
	{Name: "stop_token_ids", Treatment: openai.Refused, Taken: []string{"[]"}, Note: "use stop", Extension: true},
	{Name: "include_stop_str_in_output", Treatment: openai.Refused, Taken: []string{"false"}, Note: "a stop string is never part of the answer", Extension: true},
}

// Param is this API's name of a parameter of a chat.
func Param(name string) string {
	switch name {
	case "messages":
		return "input"
	case "max_tokens":
		return "max_output_tokens"
	case "logprobs":
		return "include"
	case "reasoning_effort", "chat_template_kwargs":
		return "reasoning.effort"
	case "verbosity":
		return "text.verbosity"
	}
	return strings.Replace(name, ".function.", ".", 1)
}
