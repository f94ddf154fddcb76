package host

import (
	"maps"
	"slices"

	"thoth/host/openai"
	"thoth/host/openapi"
	"thoth/liquid"
	"thoth/station/wire"
)

// What the document says of bodies beyond their Go types.

type schema = openapi.Schema

func between(lo, hi float64) schema { return schema{"minimum": lo, "maximum": hi} }

func oneOf(values ...string) schema { return schema{"type": "string", "enum": values} }

// duration is what a ttl looks like; what it may be at most is said in words.
var duration = schema{"type": "string", "pattern": `^[1-9][0-9]{0,2}[hms]$`, "description": "A duration from 1s to 168h.", "examples": []string{"30m", "24h"}}

// closed is an object with what is listed and nothing else.
var closed = schema{"additionalProperties": false}

var efforts = oneOf("none", "minimal", "low", "medium", "high", "xhigh")

var breakpoint = schema{"type": "object", "required": []string{"mode"}, "properties": schema{"mode": oneOf("explicit"), "ttl": duration}, "additionalProperties": false}

// content is the content of a message.
var content = schema{"anyOf": []schema{
	{"type": "string"},
	{"type": "array", "items": schema{"type": "object", "required": []string{"type", "text"}, "properties": schema{
		"type": oneOf("text"), "text": schema{"type": "string"}, "prompt_cache_breakpoint": breakpoint}}},
	{"type": "null"},
}}

// given is content that must be there.
var given = schema{"not": schema{"type": "null"}}

var jsonSchema = schema{"type": "object", "description": "A JSON Schema of an object.", "examples": []any{
	map[string]any{"type": "object", "properties": map[string]any{"city": map[string]string{"type": "string"}}, "required": []string{"city"}}}}

var identifier = schema{"type": "string", "pattern": `^[a-zA-Z0-9_-]{1,64}$`}

func (s *Server) types(modelName schema) []openapi.Type {
	l := bounds{s.o.Limits}
	tool := schema{"type": "object", "required": []string{"type", "function"}, "properties": schema{"type": oneOf("function"),
		"function": schema{"type": "object", "required": []string{"name"}, "properties": schema{
			"name": identifier, "description": schema{"type": "string"}, "parameters": jsonSchema, "strict": schema{"type": []string{"boolean", "null"}}}}}}
	named := schema{"type": "object", "required": []string{"type", "function"}, "properties": schema{"type": oneOf("function"),
		"function": schema{"type": "object", "required": []string{"name"}, "properties": schema{"name": identifier}}}}
	chat := fields(l.sampling(), caching, map[string]schema{
		"model":                 modelName,
		"messages":              {"minItems": 1, "maxItems": l.Messages},
		"max_tokens":            {"minimum": 1},
		"max_completion_tokens": {"minimum": 1},
		"stop":                  l.stop(),
		"n":                     {"minimum": 1, "maximum": l.Choices},
		"top_logprobs":          {"minimum": 0, "maximum": 20},
		"tools":                 {"type": "array", "maxItems": l.Tools, "items": tool},
		"tool_choice":           {"anyOf": []schema{oneOf("none", "auto", "required"), named}},
		"response_format":       responseFormat,
		"guided_json":           jsonSchema,
		"guided_choice":         {"minItems": 1, "maxItems": 1000},
		"guided_regex":          {"minLength": 1},
		"chat_template_kwargs":  {"type": "object"},
		"reasoning_effort":      efforts,
		"verbosity":             oneOf("low", "medium", "high"),
		"service_tier":          oneOf("auto", "default", "flex", "scale", "priority"),
		"metadata": {"type": "object", "maxProperties": 16, "propertyNames": schema{"maxLength": 64},
			"additionalProperties": schema{"type": "string", "maxLength": 512}},
		"safety_identifier": {"maxLength": 64},
	})
	example := map[string]any{"messages": []any{map[string]string{"role": "user", "content": "Say hi"}}, "max_tokens": 8}
	if enum, ok := modelName["enum"].([]string); ok {
		example["model"] = enum[0]
	}
	return append([]openapi.Type{
		{Of: openai.ChatRequest{}, Required: []string{"model", "messages"}, Fields: chat, Notes: openai.ChatParameters.Notes(), Note: openai.ChatParameters.RefusedNote(), Example: example},
		{Of: templateRequest{}, Name: "TemplateRequest", Required: []string{"messages"}, Fields: chat, Notes: openai.ChatParameters.Notes(), Note: openai.ChatParameters.RefusedNote(), Example: example},
		{Of: openai.Message{}, Required: []string{"role"}, Fields: map[string]schema{"role": oneOf("system", "developer", "user", "assistant", "tool")},
			Hidden: []string{"function_call", "audio"},
			More: schema{"anyOf": []schema{
				{"properties": schema{"role": oneOf("system", "developer", "user"), "content": given, "tool_calls": schema{"type": "null"}, "refusal": schema{"type": "null"}}, "required": []string{"content"}},
				{"properties": schema{"role": oneOf("assistant")}},
				{"properties": schema{"role": oneOf("tool"), "content": given, "tool_calls": schema{"type": "null"}, "refusal": schema{"type": "null"}, "tool_call_id": schema{"minLength": 1}}, "required": []string{"content", "tool_call_id"},
					"description": "The result of a call that an assistant message before it made."}}}},
		{Of: openai.StreamOptions{}, More: closed},
		{Of: openai.Reasoning{}, Fields: map[string]schema{"effort": efforts}, More: closed},
		{Of: openai.Thinking{}, Name: "ChatThinking", Required: []string{"type"}, Fields: map[string]schema{"type": oneOf("enabled", "disabled")}, More: closed},
		{Of: openai.ToolCall{}, Required: []string{"id", "function"}, Fields: map[string]schema{"type": oneOf("function"), "id": {"minLength": 1}}},
		{Of: openai.FunctionCall{}, Required: []string{"name"}, Fields: map[string]schema{"name": {"minLength": 1}}},
		{Of: openai.CacheOptions{}, Fields: map[string]schema{"mode": oneOf("implicit", "explicit"), "ttl": duration}, More: closed},
		{Of: openai.TokenizeRequest{}, Fields: map[string]schema{"model": modelName},
			Notes:   openai.TokenizeParameters.Notes(),
			More:    schema{"oneOf": []schema{only("content"), only("prompt"), only("input")}},
			Example: map[string]string{"content": "Say hi"}},
		{Of: openai.DetokenizeRequest{}, Required: []string{"tokens"}, Fields: map[string]schema{"model": modelName,
			"tokens": {"type": "array", "maxItems": openai.MaxDetokenized, "items": schema{"type": "integer", "minimum": 0, "maximum": s.lastToken()}}}, Example: map[string]any{"tokens": []int{1, 2}}},
		{Of: openai.EmbeddingRequest{}, Required: []string{"model", "input"}, Fields: map[string]schema{"model": modelName,
			"input": {"anyOf": []schema{
				{"type": "string", "minLength": 1},
				{"type": "array", "minItems": 1, "maxItems": 2048, "items": schema{"type": "string", "minLength": 1}},
				{"type": "array", "minItems": 1, "items": schema{"type": "integer", "minimum": 0, "maximum": s.lastToken()}},
				{"type": "array", "minItems": 1, "maxItems": 2048, "items": schema{"type": "array", "minItems": 1, "items": schema{"type": "integer", "minimum": 0, "maximum": s.lastToken()}}},
			}},
			"encoding_format": oneOf("float", "base64"), "dimensions": {"minimum": 1}},
			Notes: openai.EmbeddingParameters.Notes(), Note: openai.EmbeddingParameters.RefusedNote(),
			Example: map[string]any{"model": "m", "input": "a river"}},
		{Of: openai.Embedding{}, Fields: map[string]schema{"object": oneOf("embedding")}},
		{Of: openai.EmbeddingList{}, Fields: map[string]schema{"object": oneOf("list")}},
		{Of: wire.Embeddings{}, Name: "StationEmbeddings"},
		{Of: openai.Envelope{}, Name: "Error"},
		{Of: openai.Error{}, Name: "ErrorObject", Fields: map[string]schema{"code": {"type": "string", "enum": openai.Codes(0)}}},
		{Of: openai.Completion{}, Name: "ChatCompletion"},
		{Of: openai.Choice{}, Fields: map[string]schema{"finish_reason": oneOf("stop", "length", "tool_calls")}},
		{Of: openai.ChoiceLogprobs{}, Fields: map[string]schema{"refusal": {"type": "null"}}},
		{Of: wire.Health{}, Name: "StationHealth"},
		{Of: wire.Stats{}, Name: "StationStats"},
		{Of: wire.Backend{}, Name: "StationBackend"},
		{Of: openai.Station{}, Name: "AnsweredBy"},
		{Of: liquid.Shortfall{}, Name: "LiquidShortfall"},
	}, slices.Concat(s.completionTypes(modelName), rerankTypes(modelName), s.messageTypes(modelName), s.responseTypes(modelName))...)
}

// bounds say what of the limits of requests belongs into the document.
type bounds struct{ openai.Limits }

// sampling are the parameters by which the next token is chosen.
func (l bounds) sampling() map[string]schema {
	return map[string]schema{
		"temperature":       between(0, 2),
		"top_p":             between(0, 1),
		"top_k":             {"minimum": 0, "maximum": 1<<31 - 1},
		"min_p":             between(0, 1),
		"repeat_penalty":    {"exclusiveMinimum": 0, "maximum": 2},
		"frequency_penalty": between(-2, 2),
		"presence_penalty":  between(-2, 2),
		"logit_bias":        {"propertyNames": schema{"pattern": "^(0|[1-9][0-9]{0,8})$"}, "additionalProperties": schema{"type": "number", "minimum": -100, "maximum": 100}, "maxProperties": l.LogitBias},
		"seed":              {"minimum": -(1 << 63), "maximum": uint64(1<<63 - 1)},
	}
}

func (l bounds) stop() schema {
	return schema{"anyOf": []schema{{"type": "string", "minLength": 1}, {"type": "array", "maxItems": l.Stops, "items": schema{"type": "string", "minLength": 1}}, {"type": "null"}}}
}

// caching are the parameters about the reuse of prompts.
var caching = map[string]schema{
	"prompt_cache_key":       {"maxLength": 64},
	"cache_salt":             {"minLength": 1, "maxLength": 256},
	"prompt_cache_retention": oneOf("in_memory", "24h"),
}

// fields puts parts of a request together.
func fields(parts ...map[string]schema) map[string]schema {
	all := map[string]schema{}
	for _, p := range parts {
		maps.Copy(all, p)
	}
	return all
}

// only is a body with exactly this one of the names of a text.
func only(name string) schema {
	properties := schema{name: schema{"type": "string"}}
	for _, other := range []string{"content", "prompt", "input"} {
		if other != name {
			properties[other] = schema{"type": "null"}
		}
	}
	return schema{"required": []string{name}, "properties": properties}
}

// lastToken is the largest token id there may be.
func (s *Server) lastToken() int {
	if m := s.station.current().model; m != nil && m.Vocabulary > 0 {
		return m.Vocabulary - 1
	}
	return 1<<31 - 1
}

var responseFormat = schema{"anyOf": []schema{
	{"type": "object", "required": []string{"type"}, "properties": schema{"type": oneOf("text", "json_object")}, "additionalProperties": false},
	{"type": "object", "required": []string{"type", "json_schema"}, "properties": schema{"type": oneOf("json_schema"),
		"json_schema": schema{"type": "object", "required": []string{"name", "schema"}, "properties": schema{"name": identifier, "description": schema{"type": "string"},
			"schema": jsonSchema, "strict": schema{"type": []string{"boolean", "null"}}}, "additionalProperties": false}}, "additionalProperties": false},
}}
