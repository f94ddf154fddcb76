package openai

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// An entry in memory is many times as large as what it takes in a body: eight megabytes
// of {} would be gigabytes of messages before anybody could count them. Lists are
// therefore bounded while they are decoded.

// Bound is how many entries the lists of one request that share it may have, together.
// It is used up by decoding.
type Bound struct {
	Most int
	Of   string // what all of them are called together; "" for the entries of one list
	has  int
}

// PartsBound bounds what the messages of a request consist of: one bound for all lists
// of it, since each of thousands of messages may have its own.
func (l Limits) PartsBound() *Bound {
	return &Bound{Most: l.WithDefaults().Parts, Of: "content parts and tool calls"}
}

// tooMany is the error of a list that has more entries than its bound.
type tooMany struct{ *Bound }

func (e tooMany) Error() string {
	if e.Of == "" {
		return fmt.Sprintf("has more than %d entries: so many are allowed", e.Most)
	}
	return fmt.Sprintf("is one list too long: at most %d %s are allowed in a request", e.Most, e.Of)
}

// ListOf decodes lists of the type L, of which no more is kept than b allows: what is
// beyond is only read, so that an error in the rest of the body's text is still said.
func ListOf[L ~[]T, T any](b *Bound) *json.Unmarshalers {
	return json.UnmarshalFromFunc(func(dec *jsontext.Decoder, list *L) error {
		if dec.PeekKind() != '[' {
			return errors.ErrUnsupported // what it is else has its own decoder
		}
		if _, err := dec.ReadToken(); err != nil {
			return err
		}
		*list = L{}
		for dec.PeekKind() != ']' {
			if b.has >= b.Most {
				return past(dec, tooMany{b})
			}
			b.has++
			var one T
			if err := json.UnmarshalDecode(dec, &one); err != nil {
				return err
			}
			*list = append(*list, one)
		}
		_, err := dec.ReadToken()
		return err
	})
}

// past reads to the end of the list that dec is in.
func past(dec *jsontext.Decoder, err error) error {
	for dec.PeekKind() != ']' {
		if e := dec.SkipValue(); e != nil {
			return e
		}
	}
	if _, e := dec.ReadToken(); e != nil {
		return e
	}
	return err
}

// withLists are the options of decoding with them.
func withLists(lists []*json.Unmarshalers) []json.Options {
	if len(lists) == 0 {
		return nil
	}
	return []json.Options{json.WithUnmarshalers(json.JoinUnmarshalers(lists...))}
}
