package kv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"thoth/station/kvstore/block"
	"thoth/station/kvstore/cold"
)

// What names what Remove removes: one of the three.
type What struct {
	All  bool
	Root string
	Keys []string // hex keys, or places as verify and ls print them
}

// Remove deletes blocks, and with a root or all also the temporary and foreign files
// there. It gives how many blocks there were.
func (s *Store) Remove(ctx context.Context, what What) (blocks int, bytes int64, err error) {
	ways := 0
	for _, way := range []bool{what.All, what.Root != "", len(what.Keys) > 0} {
		if way {
			ways++
		}
	}
	if ways != 1 {
		return 0, 0, errors.New("give --all, --root HEX or keys: exactly one of them")
	}
	var only *picker
	if len(what.Keys) > 0 {
		if only, err = newPicker(what.Keys); err != nil {
			return 0, 0, err
		}
	}
	var n, size atomic.Int64
	err = s.work(ctx, what.Root, func(ctx context.Context, o stored) error {
		if only != nil && !only.takes(o) {
			return nil
		}
		if err := s.delete(ctx, o.Object.Name); err != nil {
			return err
		}
		if !o.stray {
			n.Add(1)
			size.Add(o.Size)
		}
		return nil
	})
	if err == nil && only != nil {
		err = only.missing()
	}
	return int(n.Load()), size.Load(), err
}

// picker chooses blocks by key or place, and remembers which it met.
type picker struct {
	mu  sync.Mutex
	met map[string]bool // by hex key, or place
}

func newPicker(keys []string) (*picker, error) {
	p := &picker{met: map[string]bool{}}
	for _, k := range keys {
		if _, _, ok := cold.ParseObjectName(k); ok {
			p.met[k] = false
			continue
		}
		if strings.Contains(k, "/") {
			return nil, fmt.Errorf("%.300q is no place of a block: want root/parent/key as ls --root prints it", k)
		}
		key, err := block.ParseKey(k)
		if err != nil {
			return nil, err
		}
		p.met[key.String()] = false
	}
	return p, nil
}

func (p *picker) takes(o stored) (yes bool) {
	if o.stray {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range []string{o.Object.Name, o.Key.String()} {
		if _, ok := p.met[name]; ok {
			p.met[name], yes = true, true
		}
	}
	return yes
}

func (p *picker) missing() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, met := range p.met {
		if !met {
			return fmt.Errorf("no block %s in this store", name)
		}
	}
	return nil
}
