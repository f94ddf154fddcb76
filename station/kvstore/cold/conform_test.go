package cold

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"

	"thoth/station/kvstore"
	"thoth/station/kvstore/block"
)

// fakeS3 is a server of the S3 protocol that a test can break.
type fakeS3 struct {
	url    string // of its bucket, for THOTH_KV_STORE
	status atomic.Int64
	hang   atomic.Bool
	done   chan struct{}
}

func newS3(t testing.TB) *fakeS3 {
	t.Helper()
	backend := s3mem.New()
	require.NoError(t, backend.CreateBucket("kv"))
	s3 := gofakes3.New(backend).Server()
	f := &fakeS3{done: make(chan struct{})}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.hang.Load() {
			select { // a server does not see that the client left while a body waits to be read
			case <-r.Context().Done():
			case <-f.done:
			}
			return
		}
		if code := f.status.Load(); code != 0 {
			http.Error(w, "broken", int(code))
			return
		}
		s3.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { close(f.done); srv.Close() })
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	f.url = "s3://kv/models/a?region=us-east-1&use_path_style=true&endpoint=" + srv.URL
	return f
}

func (f *fakeS3) heal() { f.hang.Store(false); f.status.Store(0) }

// Every kind of store is the same tier.
func TestTier_IsAKVStoreCold(t *testing.T) {
	for name, url := range map[string]func(t *testing.T) string{
		"path": func(t *testing.T) string { return t.TempDir() + "/new/kv" },
		"file": func(t *testing.T) string { return "file://" + t.TempDir() },
		"mem":  func(*testing.T) string { return "mem://" },
		"s3":   func(t *testing.T) string { return newS3(t).url },
	} {
		for _, key := range [][]byte{nil, bytes.Repeat([]byte{7}, KeyBytes)} {
			t.Run(name+map[bool]string{true: "/sealed"}[key != nil], func(t *testing.T) {
				o := opts()
				o.MasterKey = key
				conform(t, openTier(t, url(t), o))
			})
		}
	}
}

func conform(t *testing.T, c kvstore.Cold) {
	ctx := t.Context()
	r, other := root("a"), root("b")
	long := chain(r, 64*3+10, 1)
	tail := long[3]
	for _, b := range long {
		require.NoError(t, c.Put(ctx, b))
		require.NoError(t, c.Put(ctx, b), "what is stored is not an error")
	}
	second := chain(r, 64*3+7, 1)[3]
	second.Group = "other"
	require.NoError(t, c.Put(ctx, second))
	foreign := chain(other, 64*2, 1)
	for _, b := range foreign {
		require.NoError(t, c.Put(ctx, b))
	}

	for _, b := range append(long, second) {
		asked := 0
		got, err := c.Get(ctx, b.Name, func(n int) ([]byte, error) { asked = n; return memory(n) })
		require.NoError(t, err)
		require.Equal(t, b, got)
		require.Equal(t, len(b.Tokens), asked)
	}
	tails, err := c.Tails(ctx, r, tail.Parent)
	require.NoError(t, err)
	require.ElementsMatch(t, []kvstore.Tail{{Name: tail.Name, Tokens: 10}, {Name: second.Name, Tokens: 7}}, tails)
	tails, err = c.Tails(ctx, r, long[0].Parent)
	require.NoError(t, err)
	require.Empty(t, tails, "full blocks are no tails")
	tails, err = c.Tails(ctx, other, block.Key{1})
	require.NoError(t, err)
	require.Empty(t, tails)

	never := func(int) ([]byte, error) { t.Error("memory asked for nothing"); return nil, nil }
	_, err = c.Get(ctx, chain(r, 64, 9)[0].Name, never)
	require.ErrorIs(t, err, kvstore.ErrNotFound)
	noMemory := errors.New("no memory")
	_, err = c.Get(ctx, long[0].Name, func(int) ([]byte, error) { return nil, noMemory })
	require.ErrorIs(t, err, noMemory)
	ended, end := context.WithCancel(ctx)
	end()
	_, err = c.Get(ended, long[0].Name, memory)
	require.Error(t, err)

	st := c.Stats(func(k block.Key) bool { return k == r })
	require.Equal(t, "on", st.State)
	require.Equal(t, 7, st.Blocks)
	require.Zero(t, st.Failures, "what its caller gave up is no failure")
	require.Positive(t, st.ReadBytes)
	require.Positive(t, st.WrittenBytes)
	require.Positive(t, st.ReadSeconds)
	require.Positive(t, st.WriteSeconds)
	require.Positive(t, st.VerifySeconds)
	var usable, all int64
	for _, b := range append(long, second) {
		usable += block.ObjectSize(b, c.(*Tier).seals != nil)
	}
	all = usable
	for _, b := range foreign {
		all += block.ObjectSize(b, c.(*Tier).seals != nil)
	}
	require.Equal(t, usable, st.UsableBytes)
	require.Equal(t, all, st.Bytes)

	// A loop over what can be deleted: one, a group, a root, all.
	for _, tt := range []struct {
		what kvstore.Which
		want int
	}{
		{kvstore.Which{Name: tail.Name}, 1},
		{kvstore.Which{Name: tail.Name}, 0},
		{kvstore.Which{Group: "none"}, 0},
		{kvstore.Which{Group: "other"}, 1},
		{kvstore.Which{Name: block.Name{Key: long[2].Key}}, 1},
		{kvstore.Which{Keys: []block.Key{long[1].Key, {1}}, Group: "none"}, 0},
		{kvstore.Which{Keys: []block.Key{long[1].Key, {1}}}, 1},
		{kvstore.Which{Name: block.Name{Root: other}, Group: "other"}, 0},
		{kvstore.Which{Name: block.Name{Root: other}}, 2},
		{kvstore.Which{}, 1},
	} {
		n, size, err := c.Delete(ctx, tt.what)
		require.NoError(t, err)
		require.Equal(t, tt.want, n, "%+v", tt.what)
		require.Equal(t, tt.want > 0, size > 0)
	}
	require.Zero(t, c.Stats(func(block.Key) bool { return true }).Blocks)
	_, err = c.Get(ctx, long[0].Name, memory)
	require.ErrorIs(t, err, kvstore.ErrNotFound)
}

func TestTier_FindsWhatAnotherProcessWrote(t *testing.T) {
	for name, url := range map[string]string{"file": t.TempDir(), "s3": newS3(t).url} {
		t.Run(name, func(t *testing.T) {
			a, b := openTier(t, url, opts()), openTier(t, url, opts())
			blocks := chain(root(""), 100, 1)
			settled(t, b)
			put(t, a, blocks...)
			got, err := b.Get(t.Context(), blocks[0].Name, memory)
			require.NoError(t, err)
			require.Equal(t, blocks[0], got)
			tails, err := b.Tails(t.Context(), blocks[1].Root, blocks[1].Parent)
			require.NoError(t, err)
			require.Len(t, tails, 1)
			got, err = b.Get(t.Context(), tails[0].Name, memory)
			require.NoError(t, err)
			require.Equal(t, blocks[1], got)

			c := openTier(t, url, opts())
			settled(t, c)
			require.Equal(t, 2, c.Stats(func(block.Key) bool { return true }).Blocks, "a sweep finds them")
			for _, b := range chain(root(""), 100, 1) {
				b.Group, b.Kernel = "another label", "a library of another name"
				put(t, c, b)
			}
			require.Zero(t, c.Stats(func(block.Key) bool { return true }).WrittenBytes, "nothing is written twice")
		})
	}
}

func TestTails_GivesTheNewestOfMany(t *testing.T) {
	dir := t.TempDir()
	tier := openTier(t, dir, opts())
	settled(t, tier)
	var want []block.Name
	for i := range 3 * maxTails {
		b := chain(root(""), 10, i+1)[0]
		put(t, tier, b)
		age(t, fileOf(dir, b), time.Duration(i)*time.Minute)
		if i < maxTails {
			want = append(want, b.Name)
		}
	}
	tails, err := tier.Tails(t.Context(), root(""), root(""))
	require.NoError(t, err)
	var got []block.Name
	for _, x := range tails {
		got = append(got, x.Name)
	}
	require.Equal(t, want, got)
}
