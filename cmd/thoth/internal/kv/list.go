package kv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"thoth/internal/bucket"
	"thoth/station/kvstore/block"
)

// Root is what lies below one root: a model with its settings, and a scope.
type Root struct {
	Root   string    `json:"root"`
	Blocks int       `json:"blocks"`
	Tails  int       `json:"tails"` // of these
	Tokens int       `json:"tokens"`
	Bytes  int64     `json:"bytes"`
	Oldest time.Time `json:"oldest"` // when a block was last written or used
	Newest time.Time `json:"newest"`
	Strays int       `json:"strays"` // temporary and foreign files
	Loose  int64     `json:"stray_bytes"`
}

// Block is one block by its header.
type Block struct {
	Key     string    `json:"key"` // its place: root/parent/key
	Tokens  int       `json:"tokens"`
	Bytes   int64     `json:"bytes"`
	Payload int64     `json:"payload_bytes"`
	Kernel  string    `json:"kernel,omitempty"`
	Group   string    `json:"group,omitempty"`
	Sealed  bool      `json:"sealed,omitempty"`
	Time    time.Time `json:"time"`
	Fault   string    `json:"fault,omitempty"` // why it is no block
}

// List sums up all roots, the largest first.
func (s *Store) List(ctx context.Context) ([]Root, error) {
	roots := map[block.Key]*Root{}
	err := s.each(ctx, "", func(o stored) error {
		key, err := block.ParseKey(o.Object.Name[:2*len(block.Key{})])
		if err != nil {
			return err
		}
		r := roots[key]
		if r == nil {
			r = &Root{Root: key.String(), Oldest: o.Time, Newest: o.Time}
			roots[key] = r
		}
		if o.stray {
			r.Strays, r.Loose = r.Strays+1, r.Loose+o.Size
			return nil
		}
		r.Blocks, r.Tokens, r.Bytes = r.Blocks+1, r.Tokens+o.tokens, r.Bytes+o.Size
		if o.tokens < block.Tokens {
			r.Tails++
		}
		if o.Time.Before(r.Oldest) {
			r.Oldest = o.Time
		}
		if o.Time.After(r.Newest) {
			r.Newest = o.Time
		}
		return nil
	})
	list := make([]Root, 0, len(roots))
	for _, r := range roots {
		list = append(list, *r)
	}
	slices.SortFunc(list, func(a, b Root) int {
		if a.Bytes != b.Bytes {
			return int(max(-1, min(1, b.Bytes-a.Bytes)))
		}
		return strings.Compare(a.Root, b.Root)
	})
	return list, err
}

// Blocks lists the blocks of one root by their headers; the rest of them is not read.
func (s *Store) Blocks(ctx context.Context, root string) (list []Block, err error) {
	var mu sync.Mutex
	add := func(b Block) error {
		mu.Lock()
		defer mu.Unlock()
		list = append(list, b)
		return nil
	}
	err = s.work(ctx, root, func(ctx context.Context, o stored) error {
		b := Block{Key: o.Object.Name, Tokens: o.tokens, Bytes: o.Size, Time: o.Time}
		if o.stray {
			b.Tokens, b.Fault = 0, "stray"
			return add(b)
		}
		err := s.read(ctx, o.Object.Name, block.HeaderBytes, func(r io.Reader, size int64) error {
			h, group, err := block.DecodeHeader(r, size)
			if err == nil {
				b.Tokens, b.Payload, b.Kernel, b.Group, b.Sealed = h.Tokens, h.Payload, h.Kernel, group, h.Sealed
			}
			return err
		})
		var f *block.Fault
		switch {
		case errors.Is(err, bucket.ErrNotFound):
			return nil
		case errors.As(err, &f):
			b.Fault = string(f.Reason)
		case err != nil:
			return err
		}
		return add(b)
	})
	slices.SortFunc(list, func(a, b Block) int { return strings.Compare(a.Key, b.Key) })
	return list, err
}

// WriteRoots prints what List gave.
func WriteRoots(w io.Writer, list []Root, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ROOT\tBLOCKS\tTAILS\tTOKENS\tBYTES\tOLDEST\tNEWEST")
	var all Root
	for _, r := range list {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%s\t%s\t%s\n", r.Root, r.Blocks, r.Tails, r.Tokens, Bytes(r.Bytes), age(now, r.Oldest), age(now, r.Newest))
		all.Blocks, all.Tails, all.Tokens, all.Bytes = all.Blocks+r.Blocks, all.Tails+r.Tails, all.Tokens+r.Tokens, all.Bytes+r.Bytes
		all.Strays, all.Loose = all.Strays+r.Strays, all.Loose+r.Loose
	}
	fmt.Fprintf(t, "total of %d\t%d\t%d\t%d\t%s\t\t\n", len(list), all.Blocks, all.Tails, all.Tokens, Bytes(all.Bytes))
	if all.Strays > 0 {
		fmt.Fprintf(t, "and %d temporary or foreign files of %s, which a station sweeps\n", all.Strays, Bytes(all.Loose))
	}
	return t.Flush()
}

// WriteBlocks prints what Blocks gave.
func WriteBlocks(w io.Writer, list []Block, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "BLOCK\tTOKENS\tBYTES\tAGE\tKERNEL\tGROUP\tREMARK")
	for _, b := range list {
		remark := b.Fault
		if b.Sealed {
			remark = "sealed"
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\t%s\n", b.Key, b.Tokens, Bytes(b.Bytes), age(now, b.Time), b.Kernel, b.Group, remark)
	}
	return t.Flush()
}

// WriteJSON prints a list for programs.
func WriteJSON(w io.Writer, list any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(list)
}

// Bytes is a number of bytes for people.
func Bytes(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f := float64(n)
	for _, unit := range []string{"KiB", "MiB", "GiB"} {
		if f /= 1024; f < 1024 {
			return fmt.Sprintf("%.1f %s", f, unit)
		}
	}
	return fmt.Sprintf("%.1f TiB", f/1024)
}

// age is how long ago something was, to the digit that matters.
func age(now, at time.Time) string {
	d := max(now.Sub(at), 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
