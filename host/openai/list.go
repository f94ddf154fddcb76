package openai

import (
	"errors"
	"fmt"
	"reflect"
	"sync"

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

// List bounds the lists of one type in a body.
type List struct {
	of      reflect.Type
	bound   *Bound
	decoder func(bound **Bound) *json.Unmarshalers // bound is that of the body at hand
}

// ListOf decodes lists of the type L, of which no more is kept than b allows: what is
// beyond is only read, so that an error in the rest of the body's text is still said.
func ListOf[L ~[]T, T any](b *Bound) List {
	return List{reflect.TypeFor[L](), b, listDecoder[L]}
}

func listDecoder[L ~[]T, T any](bound **Bound) *json.Unmarshalers {
	return json.UnmarshalFromFunc(func(dec *jsontext.Decoder, list *L) error {
		if dec.PeekKind() != '[' {
			return errors.ErrUnsupported // what it is else has its own decoder
		}
		if _, err := dec.ReadToken(); err != nil {
			return err
		}
		*list = L{}
		for b := *bound; dec.PeekKind() != ']'; {
			if b.has >= b.Most {
				return past(dec, tooMany{b})
			}
			b.has++
			var zero T
			*list = append(*list, zero)
			if err := json.UnmarshalDecode(dec, &(*list)[len(*list)-1]); err != nil {
				return err
			}
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

// decoders are those of the lists of one body. The library keeps with them what it has
// learnt of the types that it met, and learning it takes as long as decoding a small
// body: they are used again, by one body at a time.
type decoders struct {
	bounds  []*Bound // of the body, in the order of its lists
	options json.Options
	pool    *sync.Pool // where they are when no body has them
}

// mostLists is how many lists may be bounded in one body; with one more, its first decoding
// panics.
const mostLists = 6

// pools are those of decoders, by the types of their lists: as many as there are kinds of
// bodies.
var pools sync.Map

// decodersOf takes those of lists, one at least, out of their pool.
func decodersOf(lists []List) *decoders {
	var key [mostLists]reflect.Type
	for i, l := range lists {
		key[i] = l.of
	}
	pool, ok := pools.Load(key)
	if !ok {
		pool, _ = pools.LoadOrStore(key, new(sync.Pool))
	}
	d, ok := pool.(*sync.Pool).Get().(*decoders)
	if !ok {
		d = &decoders{bounds: make([]*Bound, len(lists)), pool: pool.(*sync.Pool)}
		all := make([]*json.Unmarshalers, len(lists))
		for i, l := range lists {
			all[i] = l.decoder(&d.bounds[i])
		}
		d.options = json.WithUnmarshalers(json.JoinUnmarshalers(all...))
	}
	for i, l := range lists {
		d.bounds[i] = l.bound
	}
	return d
}

func (d *decoders) giveBack() {
	clear(d.bounds)
	d.pool.Put(d)
}
