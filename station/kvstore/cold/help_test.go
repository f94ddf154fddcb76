package cold

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"thoth/internal/bucket"
	"thoth/station/kvstore/block"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// Idle connections of the test's own HTTP servers and of the cloud drivers.
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreAnyFunction("go.opencensus.io/stats/view.(*worker).start"))
}

const rowBytes = 1 << 10

func root(scope string) block.Key { return block.Identity{Digest: "weights"}.Root(scope, "") }

// chain makes the blocks of a sequence of n tokens below r; seed tells sequences apart.
func chain(r block.Key, n, seed int) (blocks []*block.Block) {
	parent := r
	for at := 0; at < n; at += block.Tokens {
		b := &block.Block{Group: "g", Kernel: "cpu-test"}
		for i := at; i < min(n, at+block.Tokens); i++ {
			b.Tokens = append(b.Tokens, int32(seed*1_000_000+i))
		}
		b.Name = block.Name{Root: r, Parent: parent, Key: parent.Child(b.Tokens)}
		b.Data = make([]byte, len(b.Tokens)*rowBytes)
		for i := range b.Data {
			b.Data[i] = byte(i*seed + i/256)
		}
		blocks = append(blocks, b)
		parent = b.Key
	}
	return blocks
}

func fileOf(dir string, b *block.Block) string {
	return filepath.Join(dir, ObjectName(b.Name, len(b.Tokens)))
}

func memory(n int) ([]byte, error) { return make([]byte, n*rowBytes), nil }

// opts are options under which nothing happens behind unless asked for.
func opts() Options {
	return Options{BudgetBytes: 1 << 30, TokenBytes: rowBytes, Sweep: time.Hour, Logger: zerolog.Nop()}
}

func openTier(t testing.TB, url string, o Options) *Tier {
	t.Helper()
	tier, err := Open(context.Background(), url, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tier.Close()) })
	return tier
}

// over opens a tier on a store of the test's own making.
func over(t testing.TB, s bucket.Objects, o Options) *Tier {
	t.Helper()
	tier, err := open(context.Background(), s, "mem", "", o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tier.Close()) })
	return tier
}

func memStore(t testing.TB) *bucket.Bucket {
	t.Helper()
	s, err := bucket.Open(context.Background(), "mem://", true, time.Second)
	require.NoError(t, err)
	return s
}

func put(t testing.TB, tier *Tier, blocks ...*block.Block) {
	t.Helper()
	for _, b := range blocks {
		require.NoError(t, tier.Put(t.Context(), b))
	}
}

// settled waits until what Open began behind has ended: the first probe and sweep.
func settled(t testing.TB, tier *Tier) {
	t.Helper()
	require.Eventually(t, func() bool {
		tier.index.mu.Lock()
		defer tier.index.mu.Unlock()
		return tier.probed.Load() > 0 && tier.index.swept > 0
	}, 10*time.Second, time.Millisecond)
}

func damage(t testing.TB, path string, change func([]byte) []byte) {
	t.Helper()
	p, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, change(p), 0o600))
}

func temporary(names []string) (found []string) {
	for _, n := range names {
		if strings.HasSuffix(n, ".tmp") {
			found = append(found, n)
		}
	}
	return found
}
