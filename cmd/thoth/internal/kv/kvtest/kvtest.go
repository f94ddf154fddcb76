// Package kvtest fills cold stores for tests.
package kvtest

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/kvstore/block"
	"thoth/station/kvstore/cold"
)

// Key is a master key as THOTH_KV_KEY has it.
var Key = strings.Repeat("0b", cold.KeyBytes)

// Chain makes the blocks of a sequence of n tokens of a scope.
func Chain(scope string, n, rowBytes int) (blocks []*block.Block) {
	root := block.Identity{Digest: "weights"}.Root(scope, "")
	parent := root
	for at := 0; at < n; at += block.Tokens {
		b := &block.Block{Group: "team", Kernel: "cpu-test"}
		for i := at; i < min(n, at+block.Tokens); i++ {
			b.Tokens = append(b.Tokens, int32(i))
		}
		b.Name = block.Name{Root: root, Parent: parent, Key: parent.Child(b.Tokens)}
		b.Data = make([]byte, len(b.Tokens)*rowBytes)
		for i := range b.Data {
			b.Data[i] = byte(i)
		}
		blocks = append(blocks, b)
		parent = b.Key
	}
	return blocks
}

// Fill puts blocks into a folder as a station does, sealed with key unless that is "".
func Fill(t testing.TB, dir, key string, blocks ...*block.Block) {
	t.Helper()
	master, err := cold.ParseKey(key)
	require.NoError(t, err)
	tier, err := cold.Open(t.Context(), dir, cold.Options{
		BudgetBytes: 1 << 30, TokenBytes: len(blocks[0].Data) / len(blocks[0].Tokens), MasterKey: master,
	})
	require.NoError(t, err)
	for _, b := range blocks {
		require.NoError(t, tier.Put(t.Context(), b))
	}
	require.NoError(t, tier.Close())
}

// File is the path of a block's object below dir.
func File(dir string, b *block.Block) string {
	return filepath.Join(dir, cold.ObjectName(b.Name, len(b.Tokens)))
}
