package responses

import "thoth/host/openai"

// Parameters is what this server does with each parameter.
func Parameters() *openai.Table { return parameters }

var parameters = openai.NewTable("POST /v1/responses")
