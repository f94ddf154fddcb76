package responses

import (
	"fmt"

	"thoth/host/openai"
)

// TypeReference stands in an input for an item that the server keeps. It is gone when
// the request has been resolved.
const TypeReference = "item_reference"

// References are the ids of the items that the input refers to, each once.
func (r *Request) References() []string {
	var ids []string
	seen := map[string]bool{}
	for i := range r.Input {
		if it := &r.Input[i]; it.Type == TypeReference && !seen[it.ID] {
			seen[it.ID] = true
			ids = append(ids, it.ID)
		}
	}
	return ids
}

// Resolve puts the items in place of the references to them.
func (r *Request) Resolve(items map[string]*Item) *openai.Error {
	for i := range r.Input {
		it := &r.Input[i]
		if it.Type != TypeReference {
			continue
		}
		found := items[it.ID]
		if found == nil {
			return openai.NewError(openai.CodeNotFound, fmt.Sprintf("input[%d].id", i),
				"Item with id '%s' not found. Items are kept with their response where `store` is true; remove this item from your input, or send it whole.", openai.Clip(it.ID))
		}
		*it = *found
	}
	return nil
}
