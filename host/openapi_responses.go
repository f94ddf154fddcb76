package host

import (
	"net/http"
	"slices"

	"thoth/host/openapi"
	"thoth/host/responses"
)

// countedRequest is the body of input_tokens.
type countedRequest struct{ responses.Request }

// responseOperations are what the document says of /v1/responses.
func responseOperations(bypass openapi.Parameter) []openapi.Operation {
	const tag = "responses"
	id := openapi.Parameter{Name: "response_id", In: "path", Note: "The id of a stored response.", Schema: schema{"type": "string", "minLength": 1}}
	query := func(name, text string, of schema) openapi.Parameter {
		return openapi.Parameter{Name: name, In: "query", Note: text, Schema: of}
	}
	include := query("include", "What is shown of the response beside the rest.", schema{"type": "array", "items": oneOf(responses.IncludeLogprobs, responses.IncludeEncrypted)})
	events := map[string]any{"text/event-stream": schema{"type": []string{"string", "object"}}}
	errs := func(more ...int) []int { return append([]int{401, 404, 503}, more...) }
	return []openapi.Operation{
		{Method: http.MethodPost, Path: routeResponses, ID: "createResponse", Tag: tag, Scope: string(ScopeInference), Summary: "A response, whole, streamed or in the background",
			Note:       "With stream true the answer is an event stream from response.created to response.completed, response.incomplete or response.failed.",
			Parameters: []openapi.Parameter{bypass}, Body: responses.Request{}, Answer: responses.Response{}, Also: events, Errors: errorsOfBody,
			Headers: append(slices.Clone(headersOfLimits), headerPath, headerLiquid, headerLiquidSaved, headerLiquidReason, headerLiquidTokens)},
		{Method: http.MethodPost, Path: routeInputTokens, ID: "countResponseTokens", Tag: tag, Scope: string(ScopeInference), Summary: "The tokens of a response's prompt",
			Note: "The body is that of a response; model and input may be left out.", Body: countedRequest{}, Answer: responses.Count{}, Headers: headersOfLimits, Errors: errorsOfBody},
		{Method: http.MethodGet, Path: routeResponse, ID: "getResponse", Tag: tag, Summary: "A stored response", Note: "With stream true, the events of one that was asked for with background and stream.",
			Parameters: []openapi.Parameter{id, include, query("stream", "Its events.", schema{"type": "boolean"}),
				query("starting_after", "The sequence_number of the last event that is not wanted; needs stream.", schema{"type": "integer", "minimum": 0}),
				query("include_obfuscation", "Events have no padding.", schema{"type": "boolean", "enum": []bool{false}})},
			Answer: responses.Response{}, Also: events, Errors: errs(400, 429)},
		{Method: http.MethodDelete, Path: routeResponse, ID: "deleteResponse", Tag: tag, Summary: "Delete a stored response", Note: "One that is under way is cancelled.",
			Parameters: []openapi.Parameter{id}, Answer: responses.Deleted{}, Errors: errs(429)},
		{Method: http.MethodPost, Path: routeResponse + "/cancel", ID: "cancelResponse", Tag: tag, Summary: "Cancel a response in the background", Note: "One that has ended is answered as it is.",
			Parameters: []openapi.Parameter{id}, Answer: responses.Response{}, Errors: errs(400, 429)},
		{Method: http.MethodGet, Path: routeResponse + "/input_items", ID: "listInputItems", Tag: tag, Summary: "The input of a stored response",
			Parameters: []openapi.Parameter{id, include, query("limit", "Items of a page.", schema{"type": "integer", "minimum": 1, "maximum": mostOfPage, "default": defaultPage}),
				query("order", "desc: the last item first.", schema{"type": "string", "enum": []string{"asc", "desc"}, "default": "desc"}),
				query("after", "The id of the last item of the page before.", schema{"type": "string"})},
			Answer: responses.Items{}, Errors: errs(400, 429)},
	}
}

// Items, as they are asked for and as they come.
var (
	inputText = schema{"type": "object", "required": []string{"type", "text"}, "properties": schema{"type": oneOf("input_text"), "text": schema{"type": "string"}, "prompt_cache_breakpoint": breakpoint}}
	textOf    = func(types ...string) schema {
		return schema{"type": "array", "items": schema{"type": "object", "required": []string{"type", "text"}, "properties": schema{"type": oneOf(types...), "text": schema{"type": "string"}}}}
	}
	inputTexts = schema{"anyOf": []schema{{"type": "string"}, {"type": "array", "items": inputText}}}
	inputItem  = schema{"anyOf": []schema{
		{"type": "object", "required": []string{"role", "content"}, "properties": schema{"type": oneOf("message"), "role": oneOf("user", "system", "developer"), "content": inputTexts}},
		{"type": "object", "required": []string{"role", "content"}, "properties": schema{"type": oneOf("message"), "role": oneOf("assistant"),
			"content": schema{"anyOf": []schema{{"type": "string"}, textOf("output_text")}}}},
		{"type": "object", "required": []string{"type", "content"}, "properties": schema{"type": oneOf("reasoning"), "content": textOf("reasoning_text"),
			"encrypted_content": schema{"type": "string", "description": "The text as a token, where content is left out."}}},
		{"type": "object", "required": []string{"type", "call_id", "name", "arguments"}, "properties": schema{"type": oneOf("function_call"), "call_id": schema{"type": "string", "minLength": 1},
			"name": schema{"type": "string", "minLength": 1}, "arguments": schema{"type": "string", "description": "A JSON object as text.", "examples": []string{"{}"}}}},
		{"type": "object", "required": []string{"type", "call_id", "output"}, "description": "The answer to a function_call before it.", "properties": schema{
			"type": oneOf("function_call_output"), "call_id": schema{"type": "string", "minLength": 1}, "output": inputTexts}},
		{"type": "object", "required": []string{"id"}, "description": "An item that is stored.", "properties": schema{"type": oneOf("item_reference"), "id": schema{"type": "string", "minLength": 1, "maxLength": 64}}},
	}}
	outputItem = schema{"type": "object", "required": []string{"id", "type"}, "properties": schema{"id": schema{"type": "string"},
		"type": oneOf(responses.TypeMessage, responses.TypeReasoning, responses.TypeCall, responses.TypeOutput), "status": oneOf(responses.StatusInProgress, responses.StatusCompleted, responses.StatusIncomplete)}}
	flatTool = schema{"type": "object", "required": []string{"type", "name"}, "properties": schema{"type": oneOf("function"), "name": identifier,
		"description": schema{"type": "string"}, "parameters": jsonSchema, "strict": schema{"type": []string{"boolean", "null"}}}}
	flatChoice = schema{"anyOf": []schema{oneOf("none", "auto", "required"),
		{"type": "object", "required": []string{"type", "name"}, "properties": schema{"type": oneOf("function"), "name": identifier}}}}
	flatFormat = schema{"anyOf": []schema{
		{"type": "object", "required": []string{"type"}, "properties": schema{"type": oneOf("text", "json_object")}, "additionalProperties": false},
		{"type": "object", "required": []string{"type", "name", "schema"}, "properties": schema{"type": oneOf("json_schema"), "name": identifier, "description": schema{"type": "string"},
			"schema": jsonSchema, "strict": schema{"type": []string{"boolean", "null"}}}, "additionalProperties": false},
		{"type": "null"}}}
)

// responseTypes are the types of /v1/responses.
func (s *Server) responseTypes(modelName schema) []openapi.Type {
	l := bounds{s.o.Limits}
	body := fields(l.sampling(), caching, map[string]schema{
		"model":             modelName,
		"input":             {"anyOf": []schema{{"type": "string"}, {"type": "array", "minItems": 1, "maxItems": l.Messages, "items": inputItem}}},
		"max_output_tokens": {"minimum": 1},
		"max_tool_calls":    {"minimum": 1},
		"stop":              l.stop(),
		"include":           {"type": "array", "items": oneOf(responses.IncludeLogprobs, responses.IncludeEncrypted)},
		"top_logprobs":      between(0, 20),
		"tools":             {"type": "array", "maxItems": l.Tools, "items": flatTool},
		"tool_choice":       flatChoice,
		"metadata":          {"maxProperties": 16},
		"user":              {"maxLength": 512},
		"service_tier":      oneOf("auto", "default", "flex", "scale", "priority"),
	})
	example := map[string]any{"input": "Say hi", "max_output_tokens": 8}
	if enum, ok := modelName["enum"].([]string); ok {
		example["model"] = enum[0]
	}
	states := []string{responses.StatusQueued, responses.StatusInProgress, responses.StatusCompleted, responses.StatusIncomplete, responses.StatusFailed, responses.StatusCancelled}
	notes := responses.Parameters()
	return []openapi.Type{
		{Of: responses.Request{}, Name: "ResponsesRequest", Required: []string{"model"}, Fields: body, Notes: notes.Notes(), Note: notes.RefusedNote(), Example: example},
		{Of: countedRequest{}, Name: "InputTokensRequest", Fields: body, Notes: notes.Notes(), Note: notes.RefusedNote(), Example: example},
		{Of: responses.Text{}, Name: "ResponsesText", Fields: map[string]schema{"format": flatFormat, "verbosity": oneOf("low", "medium", "high")}, More: closed},
		{Of: responses.Reasoning{}, Name: "ResponsesReasoning", Fields: map[string]schema{"effort": efforts,
			"summary": oneOf("auto", "concise", "detailed"), "generate_summary": oneOf("auto", "concise", "detailed")}},
		{Of: responses.StreamOptions{}, Name: "ResponsesStreamOptions", More: closed},
		{Of: responses.Response{}, Name: "Response", Fields: map[string]schema{"object": oneOf("response"), "status": oneOf(states...), "tool_choice": {"type": []string{"string", "object"}}}},
		{Of: responses.FormatUsed{}, Name: "ResponsesFormat", Fields: map[string]schema{"type": oneOf("text", "json_object", "json_schema"), "schema": {"type": "object"}}},
		{Of: responses.ToolUsed{}, Name: "ResponsesTool", Fields: map[string]schema{"parameters": {"type": []string{"object", "null"}}}},
		{Of: responses.Failure{}, Name: "ResponsesFailure"},
		{Of: responses.Incomplete{}, Name: "ResponsesIncomplete", Fields: map[string]schema{"reason": oneOf("max_output_tokens")}},
		{Of: responses.CacheOptionsUsed{}, Name: "ResponsesCacheOptions", Fields: map[string]schema{"mode": oneOf("implicit", "explicit")}},
		{Of: responses.TextUsed{}, Name: "ResponsesTextUsed"},
		{Of: responses.ReasoningUsed{}, Name: "ResponsesReasoningUsed"},
		{Of: responses.Usage{}, Name: "ResponsesUsage"},
		{Of: responses.InputDetails{}, Name: "ResponsesInputDetails"},
		{Of: responses.OutputDetails{}, Name: "ResponsesOutputDetails"},
		{Of: responses.Count{}, Name: "InputTokens", Fields: map[string]schema{"object": oneOf("response.input_tokens")}},
		{Of: responses.Items{}, Name: "InputItems", Fields: map[string]schema{"object": oneOf("list")}},
		{Of: responses.Deleted{}, Name: "ResponseDeleted", Fields: map[string]schema{"object": oneOf("response")}},
	}
}
