package host

import (
	"thoth/host/openai"
	"thoth/host/openapi"
	"thoth/station/wire"
)

// rerankOperations are what the document says of the ranking of documents, one for
// each name of the route.
func rerankOperations(ask func(path, id, tag, summary string, body, answer any) openapi.Operation) []openapi.Operation {
	ids := []string{"rerank", "rerankV2", "reranking", "rerankBare", "rerankingBare"}
	var all []openapi.Operation
	for i, path := range routesRerank {
		o := ask(path, ids[i], "rerank", "Documents by their relevance to a query", openai.RerankRequest{}, openai.RerankList{})
		if i > 0 {
			o.Note = "The same as " + routesRerank[0] + "."
		}
		all = append(all, o)
	}
	return all
}

// rerankTypes are their types.
func rerankTypes(modelName schema) []openapi.Type {
	text := schema{"type": "string", "minLength": 1}
	return []openapi.Type{
		{Of: openai.RerankRequest{}, Required: []string{"model", "query", "documents"}, Fields: map[string]schema{
			"model": modelName, "query": {"minLength": 1}, "top_n": {"minimum": 1},
			"documents": {"type": "array", "minItems": 1, "maxItems": 2048, "items": schema{"anyOf": []schema{text,
				{"type": "object", "required": []string{"text"}, "properties": schema{"text": text}, "additionalProperties": false}}}}},
			Notes: openai.RerankParameters.Notes(), Note: openai.RerankParameters.RefusedNote(),
			Example: map[string]any{"model": "m", "query": "a river", "documents": []string{"a stream", "a bank account"}}},
		{Of: openai.RerankList{}, Fields: map[string]schema{"object": oneOf("list")}},
		{Of: openai.RankedDocument{}, Name: "RankedDocument"},
		{Of: wire.Rerank{}, Name: "StationRerank"},
	}
}
