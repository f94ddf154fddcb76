package openai

import "slices"

// What requests of several endpoints have in common.

const modelAllowed = "a served name or alias, see `GET /v1/models`"

var samplingParameters = []Parameter{
	{Name: "temperature", Treatment: Honoured, Allowed: "0 to 2", Note: "Default 1; 0 is greedy."},
	{Name: "top_p", Treatment: Honoured, Allowed: "0 to 1", Note: "Default 1."},
	{Name: "top_k", Treatment: Honoured, Allowed: "0 and up", Note: "0 is off, the default.", Extension: true},
	{Name: "min_p", Treatment: Honoured, Allowed: "0 to 1", Note: "Default 0.", Extension: true},
	{Name: "repeat_penalty", Treatment: Honoured, Allowed: "above 0, to 2", Note: "1 is off, the default.", Extension: true},
	{Name: "presence_penalty", Treatment: Honoured, Allowed: "-2 to 2", Note: "Default 0."},
	{Name: "frequency_penalty", Treatment: Honoured, Allowed: "-2 to 2", Note: "Default 0."},
	{Name: "logit_bias", Treatment: Honoured, Allowed: "an object: token id as a string, to -100..100", Note: "At most 1,024 entries."},
	{Name: "seed", Treatment: Honoured, Allowed: "an integer of signed 64 bits", Note: "Choice i of `n` uses seed + i."},
}

var streamParameters = []Parameter{
	{Name: "stream", Treatment: Honoured, Allowed: "true, false", Note: "The answer comes as events."},
	{Name: "stream_options", Treatment: Honoured, Allowed: "an object", Note: "Without effect unless the answer is streamed."},
	{Name: "stream_options.include_usage", Treatment: Honoured, Allowed: "true, false", Note: "One more event at the end has the token counts."},
	{Name: "stream_options.include_obfuscation", Treatment: Refused, Taken: []string{"false"}, Note: "events here have no padding"},
}

var cachingParameters = []Parameter{
	{Name: "prompt_cache_key", Treatment: Honoured, Allowed: "a string of at most 64 bytes", Note: "A label of what the request stores."},
	{Name: "prompt_cache_options", Treatment: Honoured, Allowed: "`mode`, `ttl`; the extension `pin`", Note: "What is stored, and for how long."},
	{Name: "prompt_cache_retention", Treatment: Honoured, Allowed: "`in_memory`, `24h`", Note: "The older form of a ttl."},
	{Name: "cache_salt", Treatment: Honoured, Allowed: "a string of 1 to 256 bytes", Note: "What is stored is found only with the same salt.", Extension: true},
}

// foreignParameters are those of llama-server and vLLM that would change an answer,
// under names that this API does not have.
var foreignParameters = []Parameter{
	{Name: "n_predict", Treatment: Refused, Note: "use max_tokens", Extension: true},
	{Name: "n_probs", Treatment: Refused, Taken: []string{"0"}, Note: "use logprobs", Extension: true},
	{Name: "repetition_penalty", Treatment: Refused, Taken: []string{"1", "1.0"}, Note: "use repeat_penalty", Extension: true},
	{Name: "min_tokens", Treatment: Refused, Taken: []string{"0"}, Note: "use ignore_eos with max_tokens", Extension: true},
	{Name: "stop_token_ids", Treatment: Refused, Taken: []string{"[]"}, Note: "use stop", Extension: true},
	{Name: "include_stop_str_in_output", Treatment: Refused, Taken: []string{"false"}, Note: "a stop string is never part of the answer", Extension: true},
	{Name: "bad_words", Treatment: Refused, Taken: []string{"[]"}, Note: "use logit_bias", Extension: true},
	{Name: "allowed_token_ids", Treatment: Refused, Taken: []string{"[]"}, Note: "use a grammar, or logit_bias", Extension: true},
	{Name: "logits_processors", Treatment: Refused, Taken: []string{"[]"}, Note: "no code of a request runs here", Extension: true},
	{Name: "use_beam_search", Treatment: Refused, Taken: []string{"false"}, Note: "tokens are drawn one by one", Extension: true},
	{Name: "length_penalty", Treatment: Refused, Taken: []string{"1", "1.0"}, Note: "there is no beam search here", Extension: true},
	{Name: "typical_p", Treatment: Refused, Taken: []string{"1", "1.0"}, Note: "use top_p or min_p", Extension: true},
	{Name: "mirostat", Treatment: Refused, Taken: []string{"0"}, Note: "use temperature with top_p or min_p", Extension: true},
	{Name: "dry_multiplier", Treatment: Refused, Taken: []string{"0", "0.0"}, Note: "use frequency_penalty or presence_penalty", Extension: true},
	{Name: "xtc_probability", Treatment: Refused, Taken: []string{"0", "0.0"}, Note: "use temperature", Extension: true},
	{Name: "samplers", Treatment: Refused, Note: "their order is fixed", Extension: true},
	{Name: "guided_grammar", Treatment: Refused, Note: "use grammar, in a chat", Extension: true},
	{Name: "structured_outputs", Treatment: Refused, Note: "use response_format, in a chat", Extension: true},
	{Name: "prompt_logprobs", Treatment: Refused, Taken: []string{"0", "false"}, Note: "use echo with logprobs, at /v1/completions", Extension: true},
	{Name: "truncate_prompt_tokens", Treatment: Refused, Note: "a prompt is taken whole", Extension: true},
	{Name: "lora", Treatment: Refused, Taken: []string{"[]"}, Note: "adapters belong to the model", Extension: true},
}

// ChatParameters are those of a chat. /apply-template takes them, too, and its model
// may be left out.
var ChatParameters = NewTable("POST /v1/chat/completions", slices.Concat([]Parameter{
	{Name: "model", Treatment: Honoured, Allowed: modelAllowed, Note: "Required."},
	{Name: "messages", Treatment: Honoured, Allowed: "1 to 4,096 messages", Note: "Required. See [messages](http-api.md#messages)."},
	{Name: "max_completion_tokens", Treatment: Honoured, Allowed: "1 and up", Note: "The most tokens of each choice. More than fits ends at the context with `length`. Absent: up to the context, or `THOTH_DEFAULT_MAX_TOKENS`."},
	{Name: "max_tokens", Treatment: Honoured, Allowed: "1 and up", Note: "The older name of `max_completion_tokens`; both with different values are refused."},
	{Name: "stop", Treatment: Honoured, Allowed: "a string or up to 16, of at most 1,024 bytes", Note: "The earliest match ends the answer and is not part of it."},
	{Name: "n", Treatment: Honoured, Allowed: "1 to 16", Note: "So many choices; prompt tokens count once."},
	{Name: "logprobs", Treatment: Honoured, Allowed: "true, false", Note: "Of the model's own distribution, before temperature and penalties; in streams, too."},
	{Name: "top_logprobs", Treatment: Honoured, Allowed: "0 to 20", Note: "Alternatives of each token; needs `logprobs`."},
}, samplingParameters, streamParameters, []Parameter{
	{Name: "tools", Treatment: Honoured, Allowed: "up to 128 of type `function`", Note: "See [tools](http-api.md#tools)."},
	{Name: "tool_choice", Treatment: Honoured, Allowed: "`none`, `auto`, `required`, a named tool, `allowed_tools`", Note: "See [tools](http-api.md#tools)."},
	{Name: "parallel_tool_calls", Treatment: Honoured, Allowed: "true, false", Note: "False: at most one call in an answer."},
	{Name: "response_format", Treatment: Honoured, Allowed: "`text`, `json_object`, `json_schema`", Note: "Enforced. See [structured output](http-api.md#structured-output)."},
	{Name: "reasoning_effort", Treatment: Honoured, Allowed: "`none`, `minimal`, `low`, `medium`, `high`, `xhigh`", Note: "Those that the model's template knows; `none` also where it has a switch for thinking, or the model does not think. The others are refused, and the error names those it knows."},
	{Name: "verbosity", Treatment: Honoured, Allowed: "`low`, `medium`, `high`", Note: "Those that the model's template knows, and `medium`, which asks for what a model does by itself. The others are refused."},
	{Name: "service_tier", Treatment: Accepted, Allowed: "`auto`, `default`, `flex`, `scale`, `priority`", Note: "There is one tier: the answer says `default`, as the reference has it where another tier served than the one asked for.", Taken: []string{`"auto"`, `"default"`, `"flex"`, `"scale"`, `"priority"`}},
	{Name: "metadata", Treatment: Accepted, Allowed: "up to 16 strings of at most 512 characters, under names of at most 64", Note: "It belongs to stored answers.", Taken: []string{`{}`, `{"a":"b"}`}},
	{Name: "store", Treatment: Refused, Taken: []string{"false"}, Note: "chat completions are not stored here; leave it out, or POST /v1/responses, which stores"},
	{Name: "safety_identifier", Treatment: Accepted, Allowed: "a string of at most 64 characters", Note: "Names the end user to OpenAI.", Taken: []string{`"u"`}},
	{Name: "user", Treatment: Accepted, Allowed: "a string", Note: "The older name of `safety_identifier` and `prompt_cache_key`.", Taken: []string{`"u"`}},
}, cachingParameters, []Parameter{
	{Name: "chat_template_kwargs", Treatment: Honoured, Allowed: "an object", Note: "Variables of the model's template, such as `enable_thinking`; unknown ones have no effect.", Extension: true},
	{Name: "grammar", Treatment: Honoured, Allowed: "GBNF with the symbol `root`", Note: "What the whole answer must be.", Extension: true},
	{Name: "guided_json", Treatment: Honoured, Allowed: "a JSON Schema", Note: "As `response_format`, without a name.", Extension: true},
	{Name: "guided_regex", Treatment: Honoured, Allowed: "a regular expression", Note: "The text matches it as a whole.", Extension: true},
	{Name: "guided_choice", Treatment: Honoured, Allowed: "1 to 1,000 strings", Note: "The text is one of them.", Extension: true},
	{Name: "ignore_eos", Treatment: Honoured, Allowed: "true, false", Note: "Goes on past the end of the turn, for benchmarks.", Extension: true},
	{Name: "functions", Treatment: Refused, Taken: []string{"[]"}, Note: "use tools"},
	{Name: "function_call", Treatment: Refused, Taken: []string{`"none"`, `"auto"`}, Note: "use tool_choice"},
	{Name: "modalities", Treatment: Refused, Taken: []string{"[]", `["text"]`}, Note: `this model writes text: only ["text"] is supported`},
	{Name: "audio", Treatment: Refused, Note: "this model writes text"},
	{Name: "prediction", Treatment: Refused, Note: "this version has no predicted outputs"},
	{Name: "web_search_options", Treatment: Refused, Note: "there is no web search here"},
	{Name: "prompt", Treatment: Refused, Note: "use messages, or POST /v1/completions", Extension: true},
	{Name: "best_of", Treatment: Refused, Taken: []string{"1"}, Note: "use n, or POST /v1/completions", Extension: true},
	{Name: "echo", Treatment: Refused, Taken: []string{"false"}, Note: "an answer is the model's alone", Extension: true},
	{Name: "chat_template", Treatment: Refused, Note: "the template belongs to the model and cannot be replaced by a request", Extension: true},
	{Name: "continue_final_message", Treatment: Refused, Taken: []string{"false"}, Note: "an answer is always a fresh turn", Extension: true},
	{Name: "add_generation_prompt", Treatment: Refused, Taken: []string{"true"}, Note: "an answer is always a fresh turn", Extension: true},
	{Name: "documents", Treatment: Refused, Taken: []string{"[]"}, Note: "give them in messages", Extension: true},
	{Name: "json_schema", Treatment: Refused, Note: "use response_format", Extension: true},
}, foreignParameters)...)

// CompletionParameters are those of /v1/completions.
var CompletionParameters = NewTable("POST /v1/completions", slices.Concat([]Parameter{
	{Name: "model", Treatment: Honoured, Allowed: modelAllowed, Note: "Required."},
	{Name: "prompt", Treatment: Honoured, Allowed: "a text, an array of texts, an array of token ids, or an array of such arrays", Note: "Required. A text never becomes a control token; give tokens for that. The model's begin-of-sequence token is put in front of a text where the model wants one, of tokens never. `\"\"` is the beginning of a text."},
	{Name: "suffix", Treatment: Honoured, Allowed: "a string", Note: "What stands after the answer, for models that have tokens to fill in the middle (Qwen, StarCoder, DeepSeek, CodeGemma, GLM); the others refuse it."},
	{Name: "max_tokens", Treatment: Honoured, Allowed: "0 and up", Note: "16 when absent. 0 makes no answer: with `echo` and `logprobs` it scores a text."},
	{Name: "stop", Treatment: Honoured, Allowed: "a string or up to 16, of at most 1,024 bytes", Note: "The earliest match ends the answer and is not part of it."},
	{Name: "n", Treatment: Honoured, Allowed: "1 to 16", Note: "So many choices of each prompt; they come by prompt, then by choice. Prompts times `best_of` is at most 64 (`THOTH_MAX_ANSWERS`)."},
	{Name: "best_of", Treatment: Honoured, Allowed: "`n` to 16", Note: "So many answers are made of each prompt, and the `n` of the highest mean log-probability per token given, the best first. Above `n` it cannot be streamed."},
	{Name: "echo", Treatment: Honoured, Allowed: "true, false", Note: "The answer begins with its prompt. Not with `suffix`."},
	{Name: "logprobs", Treatment: Honoured, Allowed: "0 to 5", Note: "So many alternatives of each token, in the older shape: `tokens`, `token_logprobs`, `top_logprobs`, `text_offset`. The token itself is always among them. With `echo` the prompt's tokens are told, too; the first token of all has nothing before it, so its entries are `null`. Offsets count the characters of the choice's `text`; a token that is no whole text is written as `bytes:\\xe2\\x80`."},
}, samplingParameters, streamParameters, []Parameter{
	{Name: "user", Treatment: Accepted, Allowed: "a string", Note: "Names the end user to OpenAI.", Taken: []string{`"u"`}},
}, cachingParameters, []Parameter{
	{Name: "ignore_eos", Treatment: Honoured, Allowed: "true, false", Note: "Goes on past the end of the text, for benchmarks.", Extension: true},
	{Name: "messages", Treatment: Refused, Note: useChat, Extension: true},
	{Name: "tools", Treatment: Refused, Taken: []string{"[]"}, Note: useChat, Extension: true},
	{Name: "response_format", Treatment: Refused, Taken: []string{`{"type":"text"}`}, Note: useChat, Extension: true},
	{Name: "grammar", Treatment: Refused, Taken: []string{`""`}, Note: useChat, Extension: true},
	{Name: "json_schema", Treatment: Refused, Note: useChat, Extension: true},
	{Name: "guided_json", Treatment: Refused, Note: useChat, Extension: true},
	{Name: "guided_regex", Treatment: Refused, Note: useChat, Extension: true},
	{Name: "guided_choice", Treatment: Refused, Note: useChat, Extension: true},
	{Name: "max_completion_tokens", Treatment: Refused, Note: "use max_tokens", Extension: true},
	{Name: "top_logprobs", Treatment: Refused, Note: "logprobs is the number of alternatives here", Extension: true},
	{Name: "add_special_tokens", Treatment: Refused, Taken: []string{"true"}, Note: "give the prompt as tokens", Extension: true},
}, foreignParameters)...)

const useChat = "use POST /v1/chat/completions"

// EmbeddingParameters are those of /v1/embeddings.
var EmbeddingParameters = NewTable("POST /v1/embeddings",
	Parameter{Name: "model", Treatment: Honoured, Allowed: modelAllowed, Note: "Required."},
	Parameter{Name: "input", Treatment: Honoured, Allowed: "a text, up to 2,048 texts, an array of token ids, or up to 2,048 such arrays", Note: "Required. An empty one is refused."},
	Parameter{Name: "encoding_format", Treatment: Honoured, Allowed: "`float`, `base64`", Note: "Default `float`; `base64` is that of little-endian 32-bit floats."},
	Parameter{Name: "dimensions", Treatment: Honoured, Allowed: "1 to those of the model's vectors", Note: "A vector is cut to so many, and scaled to length 1."},
	Parameter{Name: "user", Treatment: Accepted, Allowed: "a string", Note: "Names the end user to OpenAI.", Taken: []string{`"u"`}},
	Parameter{Name: "content", Treatment: Refused, Note: "use input", Extension: true},
	Parameter{Name: "messages", Treatment: Refused, Note: "use input", Extension: true},
	Parameter{Name: "embd_normalize", Treatment: Refused, Taken: []string{"2"}, Note: "vectors have length 1", Extension: true},
	Parameter{Name: "truncate_prompt_tokens", Treatment: Refused, Note: "an input is taken whole", Extension: true},
)

// TokenizeParameters are those of /tokenize.
var TokenizeParameters = NewTable("POST /tokenize",
	Parameter{Name: "model", Treatment: Honoured, Allowed: modelAllowed, Note: "May be left out.", Extension: true},
	Parameter{Name: "content", Treatment: Honoured, Allowed: "a string", Note: "The text; exactly one of the three names is required.", Extension: true},
	Parameter{Name: "prompt", Treatment: Honoured, Allowed: "a string", Note: "As `content`.", Extension: true},
	Parameter{Name: "input", Treatment: Honoured, Allowed: "a string", Note: "As `content`.", Extension: true},
	Parameter{Name: "add_special", Treatment: Honoured, Allowed: "true, false", Note: "Begin with the model's begin-of-sequence token; default false.", Extension: true},
	Parameter{Name: "parse_special", Treatment: Honoured, Allowed: "true, false", Note: "Texts of control tokens become those tokens; default true.", Extension: true},
	Parameter{Name: "with_pieces", Treatment: Honoured, Allowed: "true, false", Note: "Also the text of each token; default false.", Extension: true},
	Parameter{Name: "messages", Treatment: Refused, Note: "POST /apply-template makes text of them", Extension: true},
	Parameter{Name: "add_special_tokens", Treatment: Refused, Note: "use add_special", Extension: true},
	Parameter{Name: "return_token_strs", Treatment: Refused, Note: "use with_pieces", Extension: true},
)

// DetokenizeParameters are those of /detokenize.
var DetokenizeParameters = NewTable("POST /detokenize",
	Parameter{Name: "model", Treatment: Honoured, Allowed: modelAllowed, Note: "May be left out.", Extension: true},
	Parameter{Name: "tokens", Treatment: Honoured, Allowed: "an array of token ids", Note: "Required. Control tokens become text.", Extension: true},
)
