package stationtest

import (
	"fmt"
	"sort"
	"sync"

	"thoth/station/engine"
)

// owned keeps account of what the engine gave out and its caller must free.
type owned struct {
	violate func(format string, args ...any)

	mu    sync.Mutex
	kinds map[any]string // by pointer
}

func (o *owned) add(p any, kind string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.kinds == nil {
		o.kinds = map[any]string{}
	}
	o.kinds[p] = kind
}

func (o *owned) has(p any) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, ok := o.kinds[p]
	return ok
}

func (o *owned) free(p any, kind string) {
	o.mu.Lock()
	_, ok := o.kinds[p]
	delete(o.kinds, p)
	o.mu.Unlock()
	if !ok {
		o.violate("a %s was freed twice", kind)
	}
}

// leaks counts what is out, by kind.
func (o *owned) leaks() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	count := map[string]int{}
	for _, kind := range o.kinds {
		count[kind]++
	}
	var out []string
	for kind, n := range count {
		out = append(out, fmt.Sprintf("%s not freed: %d", kind, n))
	}
	sort.Strings(out)
	return out
}

// heldRow is a row's logits.
type heldRow struct {
	owned  *owned
	logits []float32
}

var _ engine.Held = (*heldRow)(nil)

// Free gives the row back; a second call is a violation.
func (h *heldRow) Free() { h.owned.free(h, "held row") }

// state is a copy of the cells of a position range.
type state struct {
	owned *owned
	from  int
	cells []kv
}

var _ engine.State = (*state)(nil)

// Len is the number of positions.
func (s *state) Len() int { return len(s.cells) }

// Bytes is what the real thing would take.
func (s *state) Bytes() int { return len(s.cells) * kvBytesToken }

// Free gives the state back; a second call is a violation.
func (s *state) Free() { s.owned.free(s, "state") }
