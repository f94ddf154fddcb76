package responses

import (
	"github.com/go-json-experiment/json/jsontext"

	"thoth/host/openai"
)

// Items are put together by hand: a conversation has hundreds, and all of them are
// written once more with every turn that is stored.

// EncodeItems is a list of items as JSON.
func EncodeItems(items []Item) []byte {
	const fields = 256 // names and ids of one
	text := TextBytes(items)
	dst := append(make([]byte, 0, text+text/16+len(items)*fields), '[')
	for i := range items {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = items[i].append(dst)
	}
	return append(dst, ']')
}

// MarshalJSON writes the fields of the item's type in the reference's order.
func (i Item) MarshalJSON() ([]byte, error) { return i.append(nil), nil }

func (i *Item) append(dst []byte) []byte {
	dst = appendText(append(dst, `{"id":`...), i.ID)
	dst = appendText(append(dst, `,"type":`...), i.Type)
	if i.Status != "" && i.Type != TypeReasoning {
		dst = appendText(append(dst, `,"status":`...), i.Status)
	}
	switch i.Type {
	case TypeReasoning:
		dst = appendParts(append(dst, `,"summary":`...), i.Summary)
		dst = appendParts(append(dst, `,"content":`...), i.Content)
		if i.Encrypted != "" {
			dst = appendText(append(dst, `,"encrypted_content":`...), i.Encrypted)
		}
		if i.Status != "" {
			dst = appendText(append(dst, `,"status":`...), i.Status)
		}
	case TypeCall:
		dst = appendText(append(dst, `,"arguments":`...), i.Arguments)
		dst = appendText(append(dst, `,"call_id":`...), i.CallID)
		dst = appendText(append(dst, `,"name":`...), i.Name)
	case TypeOutput:
		dst = appendText(append(dst, `,"call_id":`...), i.CallID)
		if dst = append(dst, `,"output":`...); i.Output.Parts != nil {
			dst = appendParts(dst, i.Output.Parts)
		} else {
			dst = appendText(dst, i.Output.Text)
		}
	default:
		dst = appendParts(append(dst, `,"content":`...), i.Content)
		if i.Phase != "" {
			dst = appendText(append(dst, `,"phase":`...), i.Phase)
		}
		dst = appendText(append(dst, `,"role":`...), i.Role)
	}
	return append(dst, '}')
}

func appendParts(dst []byte, parts []Part) []byte {
	dst = append(dst, '[')
	for i := range parts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = parts[i].append(dst)
	}
	return append(dst, ']')
}

// MarshalJSON writes the fields of the part's type.
func (p Part) MarshalJSON() ([]byte, error) { return p.append(nil), nil }

func (p *Part) append(dst []byte) []byte {
	dst = appendText(append(dst, `{"type":`...), p.Type)
	switch p.Type {
	case partOutput:
		dst = append(dst, `,"annotations":[],"logprobs":`...)
		dst = appendLogprobs(dst, p.Logprobs)
		dst = appendText(append(dst, `,"text":`...), p.Text)
	case partRefusal:
		dst = appendText(append(dst, `,"refusal":`...), p.Text)
	default:
		dst = appendText(append(dst, `,"text":`...), p.Text)
		if b := p.Breakpoint; b != nil {
			dst = append(dst, `,"prompt_cache_breakpoint":`...)
			dst = append(dst, openai.Encode(breakpoint{b.Mode, b.TTL})...)
		}
	}
	return append(dst, '}')
}

func appendLogprobs(dst []byte, lp []openai.TokenLogprob) []byte {
	if len(lp) == 0 {
		return append(dst, "[]"...)
	}
	return append(dst, openai.Encode(lp)...)
}

// breakpoint is a [openai.CacheBreakpoint] as it goes out.
type breakpoint struct {
	Mode *string `json:"mode"`
	TTL  *string `json:"ttl,omitempty"`
}

// appendText appends a string; what is no UTF-8 in it becomes U+FFFD.
func appendText(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s)
	return dst
}

// list is never null in JSON.
func list[T any](l []T) []T {
	if l == nil {
		return []T{}
	}
	return l
}
