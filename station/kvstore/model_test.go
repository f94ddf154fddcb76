package kvstore

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"thoth/station/kvstore/block"
	"thoth/station/wire"
)

// stored is a naive account of blocks: by scope and all tokens up to the block's
// end, where it starts.
type stored map[string]piece

type piece struct {
	scope  Scope
	tokens []int32 // from the root to the block's end
	start  int
}

func id(sc Scope, tokens []int32) string { return fmt.Sprint(sc, tokens) }

func (m stored) add(sc Scope, tokens []int32, start int) {
	m[id(sc, tokens)] = piece{sc, slices.Clone(tokens), start}
}

// longest is the longest prefix of tokens: whole blocks, then the best child, compared
// one by one.
func (m stored) longest(sc Scope, tokens []int32) int {
	at := 0
	for at+block.Tokens <= len(tokens) {
		if _, ok := m[id(sc, tokens[:at+block.Tokens])]; !ok {
			break
		}
		at += block.Tokens
	}
	best := at
	for _, p := range m {
		if p.scope == sc && p.start == at && block.Common(p.tokens, tokens) > best {
			best = block.Common(p.tokens, tokens)
		}
	}
	return best
}

// of is what the store has in RAM, told by a walk over its tree.
func of(s *Store) stored {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := stored{}
	var walk func(n *node, path []int32)
	walk = func(n *node, path []int32) {
		for _, k := range n.kids {
			if k.state == filled {
				m.add(k.root.scope, append(slices.Clone(path), k.tokens...), k.start)
			}
			walk(k, append(slices.Clone(path), k.tokens...))
		}
	}
	for _, r := range s.roots {
		walk(r.top, nil)
	}
	return m
}

// prompts draws texts that share beginnings: pieces of ten tokens out of two, so that texts
// leave each other anywhere in a block.
var prompts = rapid.Custom(func(t *rapid.T) []int32 {
	var l []int32
	for range rapid.IntRange(1, 18).Draw(t, "pieces") {
		seed := rapid.SampledFrom([]int32{1, 1, 1, 2}).Draw(t, "piece")
		for i := range int32(10) {
			l = append(l, seed*100+i)
		}
	}
	return l[:len(l)-rapid.IntRange(0, 9).Draw(t, "short")]
})

var scopes = rapid.SampledFrom([]Scope{{}, {}, {Name: "a"}, {Adapters: "x"}})

// pending is a reservation that is not filled yet.
type pending struct {
	scope  Scope
	tokens []int32
	fill   *Fill
	gone   bool // deleted meanwhile
}

// reader is a match that is held.
type reader struct {
	m      *Match
	scope  Scope
	tokens []int32
}

func TestStore_AgreesWithANaiveOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := newClock()
		tight := rapid.Bool().Draw(t, "tight") // else nothing is ever evicted, and all that was stored must be found
		o := Options{Identity: named, TokenBytes: tokenBytes, WarmBytes: blocks(4000), Tails: 1000, Now: clock.now}
		if tight {
			o.WarmBytes, o.Tails = blocks(rapid.IntRange(1, 8).Draw(t, "budget")), rapid.IntRange(1, 3).Draw(t, "tails")
		}
		if rapid.Bool().Draw(t, "unnamed") {
			o.Identity.Digest = ""
		}
		s := New(o)
		defer s.Close()
		model := stored{}
		var fills []*pending
		var readers []reader

		find := func(t *rapid.T, sc Scope, tokens []int32) *Match {
			have := of(s)
			m := find(s, sc, tokens)
			verify(t, m, sc, tokens)
			require.Equal(t, have.longest(sc, tokens), m.Tokens(), "of what is in RAM")
			if !tight {
				require.Equal(t, model.longest(sc, tokens), m.Tokens(), "of all that was stored")
			}
			require.LessOrEqual(t, m.Tokens(), model.longest(sc, tokens))
			if w := m.Short(); w.DiffersAt >= 0 {
				require.Equal(t, m.Tokens(), w.DiffersAt)
				require.Equal(t, tokens[w.DiffersAt], w.Prompt)
				require.NotEqual(t, w.Prompt, w.Stored)
			}
			return m
		}
		forget := func(drop func(sc Scope) bool) {
			maps.DeleteFunc(model, func(_ string, p piece) bool { return drop(p.scope) })
			for _, f := range fills {
				f.gone = f.gone || drop(f.scope)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) { s.invariants(t) },
			"save": func(t *rapid.T) {
				sc, tokens := scopes.Draw(t, "scope"), prompts.Draw(t, "tokens")
				c := s.Reserve(sc, tokens, SaveOptions{
					Pin: rapid.IntRange(0, 9).Draw(t, "pin") == 0, HoldTo: rapid.IntRange(0, 100).Draw(t, "hold"),
					TTL: time.Duration(rapid.IntRange(-3, 3).Draw(t, "ttl")) * time.Minute, Name: "n",
				})
				if !tight {
					require.Equal(t, len(tokens), c.Tokens)
				}
				sum := 0
				for _, f := range c.Fills {
					if !f.shared {
						sum += f.N
					}
					fills = append(fills, &pending{sc, tokens, f, false})
				}
				require.Equal(t, c.New, sum)
				require.True(t, c.Tokens == len(tokens) || c.Reason != "")
			},
			"fill": func(t *rapid.T) {
				for range min(3, len(fills)) {
					i := rapid.IntRange(0, len(fills)-1).Draw(t, "which")
					f := fills[i]
					fills = slices.Delete(fills, i, i+1)
					export(f.scope, f.tokens, f.fill)
					f.fill.Done()
					if !f.gone {
						model.add(f.scope, f.tokens[:f.fill.From+f.fill.N], f.fill.From)
					}
				}
			},
			"give up": func(t *rapid.T) {
				if len(fills) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(fills)-1).Draw(t, "which")
				fills[i].fill.Drop()
				fills = slices.Delete(fills, i, i+1)
			},
			"find": func(t *rapid.T) {
				sc, tokens := scopes.Draw(t, "scope"), prompts.Draw(t, "tokens")
				m := find(t, sc, tokens)
				if rapid.Bool().Draw(t, "use") {
					m.Used(m.Tokens())
				}
				m.Release()
			},
			"hold": func(t *rapid.T) {
				if len(readers) > 2 {
					t.Skip()
				}
				sc, tokens := scopes.Draw(t, "scope"), prompts.Draw(t, "tokens")
				readers = append(readers, reader{find(t, sc, tokens), sc, tokens})
			},
			"release": func(t *rapid.T) {
				if len(readers) == 0 {
					t.Skip()
				}
				r := readers[0]
				readers = readers[1:]
				verify(t, r.m, r.scope, r.tokens) // whatever went on meanwhile
				r.m.Release()
			},
			"delete": func(t *rapid.T) {
				q := &wire.KVDeleteRequest{All: rapid.Bool().Draw(t, "all")}
				sc := scopes.Draw(t, "scope")
				if !q.All {
					q.Scope = &sc.Name
				}
				_, _, err := s.Delete(context.Background(), q)
				require.NoError(t, err)
				forget(func(o Scope) bool { return q.All || o.Name == sc.Name })
			},
			"delete a key": func(t *rapid.T) {
				sc, tokens := scopes.Draw(t, "scope"), prompts.Draw(t, "tokens")
				if !tight || len(tokens) < block.Tokens { // the naive one has no keys
					t.Skip()
				}
				s.mu.Lock()
				key := s.rootKey(sc).Child(tokens[:block.Tokens])
				s.mu.Unlock()
				_, _, err := s.Delete(context.Background(), &wire.KVDeleteRequest{Keys: []string{key.String()}})
				require.NoError(t, err)
				require.Less(t, of(s).longest(sc, tokens), block.Tokens)
			},
			"time": func(t *rapid.T) { clock.advance(time.Minute) },
			"name": func(t *rapid.T) { s.SetDigest(named.Digest); s.invariants(t) },
		})
		for _, f := range fills {
			f.fill.Drop()
		}
		for _, r := range readers {
			verify(t, r.m, r.scope, r.tokens)
			r.m.Release()
		}
		s.invariants(t)
		s.Close()
		require.Zero(t, s.slabs.used+s.slabs.free)
	})
}

func TestStore_ManyAtOnce(t *testing.T) {
	c := newShelf()
	var calls atomic.Uint32
	fail := func() error {
		if calls.Add(1)%7 == 0 {
			return errDisk
		}
		return nil
	}
	c.onPut = func(context.Context, *block.Block) error {
		if calls.Add(1)%5 == 0 {
			return ErrNoRoom
		}
		return fail()
	}
	c.onGet = func(context.Context, block.Name) error { return fail() }
	s := open(t, Options{Identity: named, WarmBytes: blocks(12), TailDelay: time.Nanosecond, Cold: c})
	var wg sync.WaitGroup
	for g := range uint64(4) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(g, 1))
			for range 400 {
				sc := Scope{Name: string('a' + rune(r.IntN(2)))}
				base := text(64+r.IntN(64), 1)
				tokens := text(len(base)+r.IntN(150)+1, int32(2+r.IntN(3)), base...)
				switch r.IntN(12) {
				case 0:
					_, _, _ = s.Delete(t.Context(), &wire.KVDeleteRequest{Scope: &sc.Name})
				case 1:
					s.Flush(t.Context())
				case 2:
					s.Index()
					s.Lookup(t.Context(), sc, tokens)
				case 3, 4, 5, 6:
					for _, f := range s.Reserve(sc, tokens, SaveOptions{TTL: time.Hour}).Fills {
						if r.IntN(5) == 0 {
							f.Drop()
							continue
						}
						export(sc, tokens, f)
						f.Done()
					}
				default:
					m := find(s, sc, tokens)
					m.Fetch(t.Context(), Gate{TokenSeconds: perToken})
					if !assert.LessOrEqual(t, m.Tokens(), len(tokens)) {
						return
					}
					verify(t, m, sc, tokens)
					m.Used(m.Tokens())
					m.Release()
				}
			}
		})
	}
	wg.Wait()
	require.NotEmpty(t, c.names())
}
