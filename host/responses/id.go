package responses

import (
	"crypto/rand"
	"strconv"
	"strings"
)

// Prefixes of ids.
const (
	PrefixResponse  = "resp_"
	prefixMessage   = "msg_"
	prefixReasoning = "rs_"
	prefixCall      = "fc_"
	prefixOutput    = "fco_"
)

// maxID is the most characters that the id of an item may have, as the reference has it.
const maxID = 64

// NewID makes an id of its own, such as resp_...
func NewID(prefix string) string { return prefix + strings.ToLower(rand.Text()) }

// An item's id tells of which response it is, so that an item_reference leads to its
// record without an index of all items: msg_abc_2 is the third item of the output of
// resp_abc, and msg_abc_i2 of its input.

// outputID is the id of item n of a response's output.
func outputID(it *Item, response string, n int) string { return itemID(it, response, "", n) }

// inputID is the id of item n of the input that a response was asked by.
func inputID(it *Item, response string, n int) string { return itemID(it, response, "i", n) }

func itemID(it *Item, response, of string, n int) string {
	return it.prefix() + strings.TrimPrefix(response, PrefixResponse) + "_" + of + strconv.Itoa(n)
}

// ResponseOf is the id of the response that an item's id names; "" where it names none.
func ResponseOf(item string) string {
	_, rest, _ := strings.Cut(item, "_")
	name, n, ok := strings.Cut(rest, "_")
	if _, err := strconv.ParseUint(strings.TrimPrefix(n, "i"), 10, 31); !ok || name == "" || err != nil {
		return ""
	}
	return PrefixResponse + name
}

// prefix is that of an item's id.
func (i *Item) prefix() string {
	switch i.Type {
	case TypeReasoning:
		return prefixReasoning
	case TypeCall:
		return prefixCall
	case TypeOutput:
		return prefixOutput
	}
	return prefixMessage
}

// identify gives the items of an input ids where they have none of their own. One that
// is there twice would confuse who reads the items page by page.
func identify(items []Item, response string) {
	seen := make(map[string]bool, len(items))
	for i := range items {
		it := &items[i]
		if it.ID == "" || seen[it.ID] {
			it.ID = inputID(it, response, i)
		}
		seen[it.ID] = true
	}
}
