package stored

import (
	"context"
	"fmt"
)

// Chain gives the record and all those before it, oldest first; most is how many there
// may be. When one of them is not there, [Missing] tells which.
//
// Who goes on from what is known of records that were put or read here. Those are read
// together: a bucket answers slowly, and a conversation may have many turns.
func (s *Store) Chain(ctx context.Context, scope, id string, most int) ([]*Record, error) {
	return s.ChainCharged(ctx, scope, id, most, nil)
}

// ChainCharged is Chain for one who pays for what is read.
func (s *Store) ChainCharged(ctx context.Context, scope, id string, most int, charge Charge) ([]*Record, error) {
	t := &tab{charge: charge}
	defer t.close()
	var (
		chain []*Record // newest first
		bytes int64
	)
	for id != "" {
		ids := []string{id}
		for previous, ok := s.index.previous(s.codec.name(scope, id)); ok && previous != "" && len(ids) < parallel; {
			ids = append(ids, previous)
			previous, ok = s.index.previous(s.codec.name(scope, previous))
		}
		if ids = ids[:min(len(ids), most-len(chain))]; len(ids) == 0 {
			return nil, fmt.Errorf("%w: allowed are %d", ErrTooLong, most)
		}
		records, errs := make([]*Record, len(ids)), make([]error, len(ids))
		at := make([]int, len(ids))
		for i := range at {
			at[i] = i
		}
		_ = each(at, func(i int) error {
			records[i], errs[i] = s.get(ctx, scope, ids[i], t)
			return nil
		})
		for i, r := range records {
			if errs[i] != nil {
				return nil, errs[i]
			}
			if bytes += int64(len(r.Input) + len(r.Response)); bytes > mostChainRecords*s.o.RecordBytes {
				return nil, fmt.Errorf("a conversation of more than %d bytes: %w", mostChainRecords*s.o.RecordBytes, ErrTooLarge)
			}
			chain = append(chain, r)
			if id = r.Previous; i+1 < len(ids) && ids[i+1] != id {
				break // what was known is of a record that was replaced
			}
		}
	}
	for i, j := 0, len(chain)-1; i < j; i, j = i+1, j-1 {
		chain[i], chain[j] = chain[j], chain[i]
	}
	return chain, nil
}
