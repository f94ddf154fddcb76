package host

import (
	"net/http"
	"slices"

	"thoth/host/anthropic"
	"thoth/host/openapi"
)

// countRequest is the body of count_tokens.
type countRequest struct{ anthropic.Request }

// messageOperations are what the document says of Anthropic's API.
func messageOperations(bypass openapi.Parameter) []openapi.Operation {
	version := openapi.Parameter{Name: "anthropic-version", In: "header", Note: "Taken as it is.", Schema: schema{"type": "string"}}
	messages := openapi.Operation{Method: http.MethodPost, Path: routeMessages, ID: "createMessage", Tag: "messages", Scope: string(ScopeInference),
		Summary: "A chat in Anthropic's form, whole or streamed", Note: "With stream true the answer is an event stream from message_start to message_stop. Errors have Anthropic's form.",
		Parameters: []openapi.Parameter{version, bypass}, Body: anthropic.Request{}, Answer: anthropic.Message{}, Errors: errorsOfMessages, Failure: anthropic.Envelope{},
		Also:    map[string]any{"text/event-stream": schema{"type": []string{"string", "object"}}},
		Headers: append(slices.Clone(headersOfLimits), headerPath, headerLiquid, headerLiquidSaved, headerLiquidReason, headerLiquidTokens)}
	count := openapi.Operation{Method: http.MethodPost, Path: routeMessages + "/count_tokens", ID: "countMessageTokens", Tag: "messages", Scope: string(ScopeInference),
		Summary: "The tokens of a prompt", Note: "The body is that of a message; max_tokens may be left out. Errors have Anthropic's form.",
		Parameters: []openapi.Parameter{version}, Body: countRequest{}, Answer: anthropic.Count{}, Headers: headersOfLimits, Errors: errorsOfMessages, Failure: anthropic.Envelope{}}
	return []openapi.Operation{messages, count}
}

// errorsOfMessages are those of [errorsOfBody], where too busy is another one.
var errorsOfMessages = append(slices.Clone(errorsOfBody), anthropic.StatusOverloaded)

var (
	cacheMark    = schema{"type": []string{"object", "null"}, "required": []string{"type"}, "properties": schema{"type": oneOf("ephemeral"), "ttl": oneOf("5m", "1h")}}
	textBlock    = schema{"type": "object", "required": []string{"type", "text"}, "properties": schema{"type": oneOf("text"), "text": schema{"type": "string"}, "cache_control": cacheMark}}
	textOrBlocks = schema{"anyOf": []schema{{"type": "string"}, {"type": "array", "items": textBlock}}}
	blocks       = schema{"anyOf": []schema{{"type": "string"}, {"type": "array", "items": schema{"anyOf": []schema{
		textBlock,
		{"type": "object", "required": []string{"type", "thinking"}, "properties": schema{"type": oneOf("thinking"), "thinking": schema{"type": "string"}, "signature": schema{"type": "string"}}},
		{"type": "object", "required": []string{"type", "id", "name", "input"}, "properties": schema{"type": oneOf("tool_use"), "id": schema{"type": "string", "minLength": 1},
			"name": schema{"type": "string", "minLength": 1}, "input": schema{"type": "object"}, "cache_control": cacheMark}},
		{"type": "object", "required": []string{"type", "tool_use_id"}, "properties": schema{"type": oneOf("tool_result"), "tool_use_id": schema{"type": "string", "minLength": 1},
			"content": textOrBlocks, "is_error": schema{"type": "boolean"}, "cache_control": cacheMark}},
	}}}}}
	anthropicTool = schema{"type": "object", "required": []string{"name", "input_schema"}, "properties": schema{"type": oneOf("custom"), "name": schema{"type": "string", "pattern": `^[a-zA-Z0-9_-]{1,128}$`},
		"description": schema{"type": "string"}, "strict": schema{"type": "boolean"}, "cache_control": cacheMark, "eager_input_streaming": schema{"type": "boolean"},
		"input_schema": schema{"type": "object", "required": []string{"type"}, "properties": schema{"type": oneOf("object")}}}, "additionalProperties": false}
)

// messageTypes are the types of Anthropic's API.
func (s *Server) messageTypes(modelName schema) []openapi.Type {
	l := bounds{s.o.Limits}
	body := map[string]schema{
		"model":          modelName,
		"messages":       {"minItems": 1, "maxItems": l.Messages},
		"system":         textOrBlocks,
		"max_tokens":     {"minimum": 1},
		"stop_sequences": l.stop(),
		"temperature":    between(0, 1),
		"top_p":          between(0, 1),
		"top_k":          {"minimum": 0, "maximum": 1<<31 - 1},
		"tools":          {"type": "array", "maxItems": l.Tools, "items": anthropicTool},
		"service_tier":   oneOf("auto", "standard_only"),
		"cache_control":  cacheMark,
	}
	example := map[string]any{"messages": []any{map[string]string{"role": "user", "content": "Say hi"}}, "max_tokens": 8}
	if enum, ok := modelName["enum"].([]string); ok {
		example["model"] = enum[0]
	}
	return []openapi.Type{
		{Of: anthropic.Request{}, Name: "MessagesRequest", Required: []string{"model", "messages", "max_tokens"}, Fields: body, Notes: anthropic.Parameters.Notes(), Note: anthropic.Parameters.RefusedNote(), Example: example, More: closed},
		{Of: countRequest{}, Name: "CountTokensRequest", Required: []string{"model", "messages"}, Fields: body, Notes: anthropic.Parameters.Notes(), Note: anthropic.Parameters.RefusedNote(), Example: example, More: closed},
		{Of: anthropic.InputMessage{}, Required: []string{"role", "content"}, Fields: map[string]schema{"role": oneOf("user", "assistant"), "content": blocks}},
		{Of: anthropic.Thinking{}, Required: []string{"type"}, Fields: map[string]schema{"type": oneOf("enabled", "disabled", "adaptive"), "budget_tokens": {"minimum": 1024}, "display": oneOf("summarized", "omitted")}, More: closed},
		{Of: anthropic.OutputFormat{}, Required: []string{"type", "schema"}, Fields: map[string]schema{"type": oneOf("json_schema"), "schema": jsonSchema}, More: closed},
		{Of: anthropic.OutputConfig{}, Fields: map[string]schema{"effort": oneOf("low", "medium", "high", "xhigh", "max")}, More: closed},
		{Of: anthropic.ToolChoice{}, Name: "MessagesToolChoice", Required: []string{"type"}, Fields: map[string]schema{"type": oneOf("auto", "any", "tool", "none")}, More: closed},
		{Of: anthropic.CacheControl{}, Required: []string{"type"}, Fields: map[string]schema{"type": oneOf("ephemeral"), "ttl": oneOf("5m", "1h")}},
		{Of: anthropic.Metadata{}, Name: "MessagesMetadata", Fields: map[string]schema{"user_id": {"maxLength": 256}}, More: closed},
		{Of: anthropic.Message{}, Name: "MessagesAnswer", Fields: map[string]schema{"type": oneOf("message"), "role": oneOf("assistant"),
			"stop_reason": {"type": "string", "enum": []string{"end_turn", "max_tokens", "stop_sequence", "tool_use"}}}},
		{Of: anthropic.Block{}, Name: "MessagesBlock", Fields: map[string]schema{"type": oneOf("text", "thinking", "tool_use"), "input": {"type": "object"}}},
		{Of: anthropic.Usage{}, Name: "MessagesUsage"},
		{Of: anthropic.Count{}, Name: "CountTokensAnswer"},
		{Of: anthropic.Envelope{}, Name: "MessagesError"},
		{Of: anthropic.ErrorObject{}, Name: "MessagesErrorObject"},
	}
}
