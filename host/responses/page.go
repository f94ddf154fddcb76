package responses

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Items is one page of a response's input.
type Items struct {
	Object  string  `json:"object"`
	Data    []Item  `json:"data"`
	FirstID *string `json:"first_id"`
	LastID  *string `json:"last_id"`
	HasMore bool    `json:"has_more"`
}

// SplitItems takes a list of items apart. They are pieces of raw, and as they were
// stored: whoever wants a page of them has no use for the rest.
func SplitItems(raw []byte) ([]jsontext.Value, error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(raw))
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	var items []jsontext.Value
	for d.PeekKind() != ']' {
		v, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		if v.Kind() != '{' {
			return nil, errors.New("an item is an object")
		}
		end := int(d.InputOffset())
		items = append(items, raw[end-len(v):end:end])
	}
	_, err := d.ReadToken()
	return items, err
}

// IDOf is the id of an item.
func IDOf(item jsontext.Value) string {
	var in struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(item, &in); err != nil {
		return ""
	}
	return in.ID
}

// PageBytes is about how many bytes a page of these items has, and no less.
func PageBytes(data []jsontext.Value) int64 {
	n := 512 // of the names around, and of two ids
	for _, v := range data {
		n += len(v) + 1
	}
	return int64(n)
}

// EncodePage is an [Items] of these as JSON.
func EncodePage(data []jsontext.Value, more bool) []byte {
	dst := append(make([]byte, 0, PageBytes(data)), `{"object":"list","data":[`...)
	for i, v := range data {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, v...)
	}
	dst = append(dst, `],"first_id":`...)
	if len(data) > 0 {
		dst = appendText(dst, IDOf(data[0]))
		dst = appendText(append(dst, `,"last_id":`...), IDOf(data[len(data)-1]))
	} else {
		dst = append(dst, `null,"last_id":null`...)
	}
	return append(strconv.AppendBool(append(dst, `,"has_more":`...), more), '}')
}
