package host

import (
	"net/http"
	"slices"

	"thoth/host/openai"
	"thoth/host/openapi"
)

// completionOperation is what the document says of /v1/completions.
func completionOperation(bypass openapi.Parameter) openapi.Operation {
	return openapi.Operation{Method: http.MethodPost, Path: "/v1/completions", ID: "createCompletion", Tag: "completions", Scope: string(ScopeInference),
		Summary: "Text goes on, whole or streamed", Note: "The prompt is taken as it is, without a chat template. With stream true the answer is an event stream: data lines with text_completion objects, then [DONE].",
		Parameters: []openapi.Parameter{bypass}, Body: openai.CompletionRequest{}, Answer: openai.TextCompletion{}, Errors: errorsOfBody,
		Also:    map[string]any{"text/event-stream": eventStream},
		Headers: append(slices.Clone(headersOfLimits), headerPath, headerLiquid, headerLiquidSaved, headerLiquidReason, headerLiquidTokens)}
}

// completionTypes are the types of /v1/completions.
func (s *Server) completionTypes(modelName schema) []openapi.Type {
	l := bounds{s.o.Limits}
	text := schema{"type": "string"}
	token := schema{"type": "integer", "minimum": 0, "maximum": s.lastToken()}
	tokens := schema{"type": "array", "items": token, "minItems": 1}
	body := fields(l.sampling(), caching, map[string]schema{
		"model": modelName,
		"prompt": {"anyOf": []schema{text, {"type": "array", "items": text, "minItems": 1, "maxItems": l.Answers}, tokens,
			{"type": "array", "items": tokens, "minItems": 1, "maxItems": l.Answers}}},
		"max_tokens": {"minimum": 0, "default": 16},
		"n":          {"minimum": 1, "maximum": l.Choices},
		"best_of":    {"minimum": 1, "maximum": l.Choices},
		"logprobs":   {"minimum": 0, "maximum": 5},
		"stop":       l.stop(),
	})
	example := map[string]any{"prompt": "Once upon a time", "max_tokens": 8}
	if enum, ok := modelName["enum"].([]string); ok {
		example["model"] = enum[0]
	}
	return []openapi.Type{
		{Of: openai.CompletionRequest{}, Required: []string{"model", "prompt"}, Fields: body, Example: example,
			Notes: openai.CompletionParameters.Notes(), Note: openai.CompletionParameters.RefusedNote()},
		{Of: openai.TextCompletion{}, Name: "Completion"},
		{Of: openai.TextChoice{}, Name: "CompletionChoice", Fields: map[string]schema{"finish_reason": oneOf("stop", "length")}},
		{Of: openai.TextLogprobs{}, Name: "CompletionLogprobs", Fields: map[string]schema{
			"token_logprobs": {"type": "array", "items": schema{"type": []string{"number", "null"}}},
			"top_logprobs":   {"type": "array", "items": schema{"type": []string{"object", "null"}, "additionalProperties": schema{"type": "number"}}}}},
	}
}
