package stored

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"thoth/internal/bucket"
	"thoth/internal/bucket/buckettest"
)

// telling is a bucket that tells how records come into it.
type telling struct {
	bucket.Objects
	mu            sync.Mutex
	written, puts []string // names
	closing       error    // of Close
}

func (b *telling) Write(ctx context.Context, name string, fill func(io.Writer) error) error {
	b.mu.Lock()
	if !bucket.ProbeName(name) {
		b.written = append(b.written, name)
	}
	b.mu.Unlock()
	return b.Objects.Write(ctx, name, fill)
}

func (b *telling) Put(ctx context.Context, name string, content []byte) error {
	b.mu.Lock()
	b.puts = append(b.puts, name)
	b.mu.Unlock()
	return b.Objects.Put(ctx, name, content)
}

func (b *telling) Close() error { return errors.Join(b.Objects.Close(), b.closing) }

func TestReplace_WritesWithASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := buckettest.New(t)
		b := &telling{Objects: f.Objects}
		f.Objects = b
		s := over(t, f, Options{Log: zerolog.Nop()})
		defer func() { require.NoError(t, s.Close()) }()
		synctest.Wait()
		n := s.codec.name(scope, "a").String()
		put(t, s, record("a", "", 1))
		put(t, s, record("a", "", 2)) // a lease, which is put again and again
		require.Equal(t, []string{n, n}, b.puts)
		require.Empty(t, b.written)

		end := record("a", "", 3)
		require.NoError(t, s.Replace(t.Context(), end))
		require.Equal(t, []string{n}, b.written)
		require.Len(t, b.puts, 2)
		got, err := s.Get(t.Context(), scope, "a")
		require.NoError(t, err)
		requireRecord(t, end, got)
		require.Equal(t, 1, s.State().Records)

		end.Response = append(end.Response, strings.Repeat(" ", int(s.Largest()))...)
		require.ErrorIs(t, s.Replace(t.Context(), end), ErrTooLarge)
	})
}

func TestClose_ItsErrorSaysOfWhat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := buckettest.New(t)
		f.Objects = &telling{Objects: f.Objects, closing: errors.New("broken pipe")}
		s := over(t, f, Options{Log: zerolog.Nop()})
		synctest.Wait()
		require.EqualError(t, s.Close(), "closing the store of responses: broken pipe")
	})
}
