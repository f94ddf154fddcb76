package responses

import (
	"fmt"

	"thoth/host/openai"
)

// TypeReference stands in an input for an item that the server keeps. It is gone when
// the request has been resolved.
const TypeReference = "item_reference"

// Reference is an item_reference of an input.
type Reference struct{ Path, ID string }

// References are those of the input. An item has one place in a conversation, as at
// OpenAI: one that is named twice, or is in the turns before, is refused. A short body
// could make a prompt of any length otherwise.
func (r *Request) References(history []Item) ([]Reference, *openai.Error) {
	var refs []Reference
	for i := range r.Input {
		if it := &r.Input[i]; it.Type == TypeReference {
			refs = append(refs, Reference{fmt.Sprintf("input[%d].id", i), it.ID})
		}
	}
	if len(refs) == 0 {
		return nil, nil
	}
	seen := make(map[string]bool, len(refs)+len(history))
	for i := range history {
		seen[history[i].ID] = true
	}
	for _, ref := range refs {
		if seen[ref.ID] {
			return nil, openai.NewError(openai.CodeInvalidValue, ref.Path,
				"Duplicate item found with id '%s': each item may stand in a conversation once, and those of previous_response_id are in it. Remove duplicate items from your input and try again.", openai.Clip(ref.ID))
		}
		seen[ref.ID] = true
	}
	return refs, nil
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
				"Item with id '%s' not found. Items are kept with their response where `store` is true, and found by the ids that this server made; remove this item from your input, or send it whole.", openai.Clip(it.ID))
		}
		*it = *found
	}
	return nil
}
