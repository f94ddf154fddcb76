package kv

import (
	"context"
	"fmt"
	"strings"

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
		return 0, 0, fmt.Errorf("want one of --all, --root HEX and KEY...")
	}
	wanted := map[block.Key]bool{} // by key, whether it was met
	places := map[string]bool{}
	for _, k := range what.Keys {
		if strings.Contains(k, "/") {
			if _, _, ok := cold.ParseObjectName(k); !ok {
				return 0, 0, fmt.Errorf("%.300q is no place of a block: want root/parent/key as ls prints it", k)
			}
			places[k] = false
			continue
		}
		key, err := block.ParseKey(k)
		if err != nil {
			return 0, 0, err
		}
		wanted[key] = false
	}
	err = s.each(ctx, what.Root, func(o stored) error {
		if len(what.Keys) > 0 {
			_, byKey := wanted[o.Key]
			_, byPlace := places[o.Object.Name]
			if o.stray || !byKey && !byPlace {
				return nil
			}
			if byKey {
				wanted[o.Key] = true
			}
			if byPlace {
				places[o.Object.Name] = true
			}
		}
		if err := s.delete(ctx, o.Object.Name); err != nil {
			return err
		}
		if !o.stray {
			blocks, bytes = blocks+1, bytes+o.Size
		}
		return nil
	})
	if err != nil {
		return blocks, bytes, err
	}
	for k, met := range wanted {
		if !met {
			return blocks, bytes, fmt.Errorf("no block %s in this store", k)
		}
	}
	for p, met := range places {
		if !met {
			return blocks, bytes, fmt.Errorf("no block %s in this store", p)
		}
	}
	return blocks, bytes, nil
}
