package cold

import (
	"context"
	"fmt"
	"sync"

	"thoth/internal/bucket"
	"thoth/station/kvstore"
	"thoth/station/kvstore/block"
)

// Delete drops the blocks that what names, as the store has them now, whoever put
// them there, and tells how many there were.
func (t *Tier) Delete(ctx context.Context, what kvstore.Which) (blocks int, bytes int64, err error) {
	chosen, err := t.choose(ctx, what)
	if err != nil {
		return 0, 0, t.readFailed(ctx, err)
	}
	var mu sync.Mutex
	err = each(chosen, func(v victim) error {
		name := ObjectName(v.Name, v.tokens)
		if what.Group != "" {
			group, err := t.group(ctx, name, v)
			if err != nil {
				return err
			}
			if group != what.Group {
				return nil
			}
		}
		if err := t.delete(ctx, name); err != nil {
			return err
		}
		t.index.forget(v.Name)
		mu.Lock()
		defer mu.Unlock()
		blocks, bytes = blocks+1, bytes+v.size
		return nil
	})
	if err != nil {
		err = fmt.Errorf("deleting from the cold store: %w", err)
	}
	return blocks, bytes, err
}

// choose lists the blocks that what names, but for the group.
func (t *Tier) choose(ctx context.Context, what kvstore.Which) (chosen []victim, err error) {
	none := block.Key{}
	keys := make(map[block.Key]bool, len(what.Keys))
	for _, k := range what.Keys {
		keys[k] = true
	}
	take := func(o bucket.Object) error {
		n, tokens, ok := ParseObjectName(o.Name)
		if ok && (len(keys) == 0 || keys[n.Key]) && (what.Name.Key == none || n.Key == what.Name.Key) && (what.Name.Parent == none || n.Parent == what.Name.Parent) {
			chosen = append(chosen, victim{n, entry{size: o.Size, tokens: tokens}})
		}
		return nil
	}
	if what.Name.Root != none {
		prefix := what.Name.Root.String() + "/"
		if what.Name.Parent != none {
			prefix += what.Name.Parent.String() + "/"
			if what.Name.Key != none {
				prefix += what.Name.Key.String()
			}
		}
		return chosen, t.store.List(ctx, prefix, take)
	}
	roots, err := Roots(ctx, t.store)
	for _, root := range roots {
		if err == nil {
			err = t.store.List(ctx, root+"/", take)
		}
	}
	return chosen, err
}

// group reads the group of a stored block. A sealed one must be opened for it; what is
// damaged or gone has none.
func (t *Tier) group(ctx context.Context, object string, v victim) (group string, err error) {
	err = t.call(ctx, func(ctx context.Context) error {
		seal, limit := t.seals.For(v.Root), int64(block.HeaderBytes)
		if seal != nil {
			limit = -1
		}
		r, size, err := t.store.Read(ctx, object, limit)
		if err != nil {
			return err
		}
		defer r.Close()
		if seal == nil {
			_, group, err = block.DecodeHeader(r, size)
			return err
		}
		b, err := block.Decode(r, size, v.Name, t.o.TokenBytes, seal, nil)
		if err == nil {
			group = b.Group
		}
		return err
	})
	if notThere(err) {
		return "", nil
	}
	return group, err
}
