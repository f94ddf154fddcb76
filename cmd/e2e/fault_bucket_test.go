//go:build e2e

package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"
)

// bucket speaks the S3 protocol and misbehaves when told to.
type bucket struct {
	url string

	mu      sync.Mutex
	fault   http.HandlerFunc // nil: it works
	calls   int
	hanging int
}

func newBucket(t *testing.T) *bucket {
	t.Helper()
	backend := s3mem.New()
	require.NoError(t, backend.CreateBucket("kv"))
	s3 := gofakes3.New(backend).Server()
	b := &bucket{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		b.calls++
		fault := b.fault
		b.mu.Unlock()
		if fault != nil {
			fault(w, r)
			return
		}
		s3.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	t.Cleanup(func() { b.is(nil) })
	b.url = "s3://kv/models?region=us-east-1&use_path_style=true&endpoint=" + srv.URL
	return b
}

// env are the settings of a server that stores in it.
func (b *bucket) env(more ...string) []string {
	return append([]string{"THOTH_KV_STORE=" + b.url, "AWS_ACCESS_KEY_ID=id", "AWS_SECRET_ACCESS_KEY=secret", "AWS_EC2_METADATA_DISABLED=true"}, more...)
}

func (b *bucket) is(fault http.HandlerFunc) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fault = fault
}

func (b *bucket) counts() (calls, hanging int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls, b.hanging
}

// hang answers nothing until its caller gives up.
func (b *bucket) hang(_ http.ResponseWriter, r *http.Request) {
	add := func(n int) {
		b.mu.Lock()
		b.hanging += n
		b.mu.Unlock()
	}
	_, _ = io.Copy(io.Discard, r.Body)
	add(1)
	defer add(-1)
	<-r.Context().Done()
}

// A bucket that fails in service makes requests compute what it has: answers are
// right and wait for nothing, its failures are counted, and when it works
// again it is used again.
func TestFaultBucket_FailsInService(t *testing.T) {
	b := newBucket(t)
	writer := start(t, b.env()...)
	before := remember(t, writer, 5, 90, 1200)
	x := writer.kv(t).Cold
	require.Equal(t, "s3", x.Store)
	require.Zero(t, x.Failures)
	require.Positive(t, x.Blocks)
	require.Equal(t, 0, writer.stop())

	cut := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(1<<20))
		_, _ = w.Write(make([]byte, 1000))
		panic(http.ErrAbortHandler)
	}
	for name, c := range map[string]struct {
		fault  http.HandlerFunc
		reason string
	}{
		"500":   {broken, "it answers with errors"},
		"403":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, "it answers with errors"},
		"cut":   {cut, "it answers with errors"},
		"hangs": {b.hang, "it does not answer in time"},
	} {
		t.Run(name, func(t *testing.T) {
			b.is(nil)
			s := start(t, b.env("THOTH_KV_COLD_TIMEOUT=3s")...)
			before.found(t, s, 0)
			b.is(c.fault)
			var fresh remembered
			for i := 1; i <= 3; i++ {
				a := s.say(t, before.q[i]).told(t)
				_, hanging := b.counts()
				require.NoError(t, before.want[i].same(a))
				require.Equal(t, "miss", a.Gnosis.Memory)
				require.NotEmpty(t, a.why())
				require.True(t, a.Gnosis.Saved, "RAM is there")
				require.False(t, a.Gnosis.Durable)
				if name == "hangs" && i == 1 {
					require.Positive(t, hanging, "the answer did not wait for what it had asked for")
				}
				fresh.q, fresh.want = append(fresh.q, before.q[i]), append(fresh.want, a)
			}
			s.fails(t, c.reason)
			for i, q := range fresh.q {
				s.restored(t, fresh.want[i], q)
			}
			require.Empty(t, s.kv(t).Cold.Drops, "what did not come whole says nothing of the block")

			// While it is called failing, no request calls it.
			calls, _ := b.counts()
			q := obj{"messages": []obj{system(words(1220, 300)), user("Go.")}, "max_tokens": 24}
			want := s.say(t, q)
			after, _ := b.counts()
			require.LessOrEqual(t, after-calls, 12, "some probes, and no call for each block")

			b.is(nil)
			s.heals(t)
			// How fast it is may have to be learned again: from where is left open.
			require.NoError(t, before.want[4].same(s.say(t, before.q[4])))
			require.Equal(t, 0, s.stop())
			replica := start(t, b.env()...)
			require.GreaterOrEqual(t, replica.restored(t, want, q).Gnosis.Tiers.Cold, 256, "what waited was written")
			require.Equal(t, 0, replica.stop())
		})
	}
}

// One that fails at the end costs what only RAM has, and no time beyond the
// share of the stop.
func TestFaultBucket_FailsAtTheEnd(t *testing.T) {
	b := newBucket(t)
	s := start(t, b.env()...)
	b.is(b.hang)
	q := obj{"messages": []obj{system(words(1230, 90)), user("Go.")}, "max_tokens": 8}
	s.say(t, q)
	require.Equal(t, 0, s.stop())
	require.Regexp(t, `"kept":0,"lost":[1-9][0-9]*,`, s.log())
	require.NotContains(t, s.log(), `"child":"station","killed":true`)
}

// One that hangs at the start holds nobody up, and is used once it answers.
func TestFaultBucket_HangsAtTheStart(t *testing.T) {
	b := newBucket(t)
	b.is(b.hang)
	s := start(t, b.env("THOTH_KV_COLD_TIMEOUT=2s")...)
	_, hanging := b.counts()
	require.Positive(t, hanging, "it is ready before the bucket has answered")
	q := obj{"messages": []obj{system(words(1240, 90)), user("Go.")}, "max_tokens": 8}
	want := s.say(t, q)
	require.True(t, want.Gnosis.Saved)
	require.Contains(t, s.cannotUse(t), "it does not answer in time")
	b.is(nil)
	s.heals(t)
	require.Equal(t, 0, s.stop())
	s = start(t, b.env()...)
	require.Positive(t, s.restored(t, want, q).Gnosis.Tiers.Cold)
	require.Equal(t, 0, s.stop())
}
