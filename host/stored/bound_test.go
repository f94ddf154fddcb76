package stored

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"thoth/internal/bucket"
	"thoth/internal/bucket/buckettest"
)

func TestPut_EvictsTheLongestUnused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := over(t, buckettest.New(t), Options{BudgetBytes: 4 * 4096, RecordBytes: 4 * 4096, Log: zerolog.Nop()})
		defer func() { require.NoError(t, s.Close()) }()
		synctest.Wait()
		for i, r := range []*Record{record("a", "", 1), record("b", "a", 1), record("c", "", 1), record("d", "", 1)} {
			put(t, s, r)
			require.EqualValues(t, (i+1)*4096, s.State().Bytes)
			time.Sleep(time.Second)
		}
		_, err := s.Chain(t.Context(), scope, "b", 5)
		require.NoError(t, err, "a use of b and a")
		time.Sleep(time.Second)
		put(t, s, record("e", "", 1))
		missing(t, s, "c")
		time.Sleep(time.Second)
		put(t, s, record("d", "", 5000)) // takes the room of two, its own among them
		missing(t, s, "c")
		st := s.State()
		require.EqualValues(t, 4*4096, st.Bytes)
		require.Equal(t, 3, st.Records)
		require.EqualValues(t, 2, st.Evictions)
		_, err = s.Get(t.Context(), scope, "e")
		require.NoError(t, err)
		put(t, s, record("f", "", 4*4096-300))
		require.Equal(t, 1, s.State().Records, "the largest takes it all")
		missing(t, s, "a", "b", "c", "d", "e")
	})
}

func TestStore_ARecordEndsAfterItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := over(t, buckettest.New(t), Options{TTL: 30 * 24 * time.Hour, Log: zerolog.Nop()})
		defer func() { require.NoError(t, s.Close()) }()
		synctest.Wait()
		put(t, s, record("a", "", 1))
		time.Sleep(29 * 24 * time.Hour)
		put(t, s, record("b", "a", 1))
		_, err := s.Get(t.Context(), scope, "a")
		require.NoError(t, err)
		time.Sleep(24*time.Hour + time.Millisecond)
		missing(t, s, "a")
		require.Equal(t, 2, s.State().Records)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		st := s.State()
		require.Equal(t, 1, st.Records, "and a sweep deletes it, though it was used")
		require.EqualValues(t, 1, st.Expired)
		require.Zero(t, st.Evictions)
		_, err = s.Get(t.Context(), scope, "b")
		require.NoError(t, err)
	})
}

// What the order of eviction and the time of a record need, survives in a folder.
func TestStore_RemembersUsesAndAgesOverARestart(t *testing.T) {
	dir := t.TempDir()
	o := options(dir)
	first := openStore(t, o)
	swept(t, first)
	old := record("old", "", 1)
	old.Created = time.Now().Add(-29*24*time.Hour - 23*time.Hour)
	past := record("past", "", 1)
	past.Created = time.Now().Add(-31 * 24 * time.Hour)
	put(t, first, old, past, record("a", "", 1), record("b", "", 1))
	for i, id := range []string{"old", "a", "b"} { // as written hours ago, in this order
		age(t, fileOf(first, dir, id), time.Duration(9-i)*time.Hour)
	}
	second := openStore(t, o)
	swept(t, second)
	_, err := second.Get(t.Context(), scope, "old") // a use, which the file tells
	require.NoError(t, err)

	o.BudgetBytes, o.RecordBytes = 2*4096, 4096
	third := openStore(t, o)
	swept(t, third)
	require.Equal(t, 2, third.State().Records)
	require.NoFileExists(t, fileOf(first, dir, "past"))
	require.NoFileExists(t, fileOf(first, dir, "a"))
	require.EqualValues(t, 1, third.State().Evictions)

	o.TTL = 720*time.Hour - 2*time.Hour
	fourth := openStore(t, o)
	swept(t, fourth)
	require.NoFileExists(t, fileOf(first, dir, "old"), "used just now, and too old all the same")
	require.FileExists(t, fileOf(first, dir, "b"))
}

// What a loss of power leaves: names whose bytes never came to the disk.
func TestSweep_WhatIsTornEndsByTheTimeOfItsFile(t *testing.T) {
	dir := t.TempDir()
	first := openStore(t, options(dir))
	swept(t, first)
	put(t, first, record("long ago", "", 1), record("now", "", 1))
	for _, id := range []string{"long ago", "now"} {
		require.NoError(t, os.Truncate(fileOf(first, dir, id), 0))
	}
	age(t, fileOf(first, dir, "long ago"), first.TTL()+time.Hour)
	second := openStore(t, options(dir))
	swept(t, second)
	require.NoFileExists(t, fileOf(first, dir, "long ago"))
	require.FileExists(t, fileOf(first, dir, "now"))
	require.EqualValues(t, 1, second.State().Expired)
	missing(t, second, "now")
	require.NoFileExists(t, fileOf(first, dir, "now"))
	require.Equal(t, map[string]uint64{"format": 1}, second.State().Drops)
}

func TestSweep_KeepsToTheBudgetWhateverOthersWrite(t *testing.T) {
	dir := t.TempDir()
	o := options(dir)
	large := openStore(t, o)
	for i := range 20 {
		put(t, large, record(fmt.Sprint(i), "", 1))
		age(t, fileOf(large, dir, fmt.Sprint(i)), time.Duration(30-i)*time.Minute)
	}
	o.BudgetBytes, o.RecordBytes = 5*4096, 4096
	small := openStore(t, o)
	swept(t, small)
	require.Equal(t, 5, small.State().Records)
	require.EqualValues(t, 15, small.State().Evictions)
	missing(t, small, "0", "14")
	for i := 15; i < 20; i++ {
		_, err := small.Get(t.Context(), scope, fmt.Sprint(i))
		require.NoError(t, err)
	}
}

func TestSweep_DropsOldStraysOfOursAlone(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, options(dir))
	swept(t, s)
	put(t, s, record("a", "", 1))
	write := func(path string) string {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte("bytes"), 0o600))
		return path
	}
	ours := filepath.Dir(fileOf(s, dir, "a"))
	old := []string{write(fileOf(s, dir, "a") + ".18a1b2c3d4.tmp"), write(ours + "/README"), write(ours + "/deeper/x"), write(dir + "/" + folder + "/.thoth-probe-01")}
	theirs := []string{write(dir + "/model.gguf"), write(dir + "/photos/cat.jpg"),
		write(dir + "/d41d8cd98f00b204e9800998ecf8427e/photo.jpg"), // named like a scope of ours
		write(dir + "/d41d8cd98f00b204e9800998ecf8427e/d41d8cd98f00b204e9800998ecf8427e"),
		write(dir + "/" + strings.Repeat("ab", 32) + "/stored/kv")}
	for _, f := range append(old, theirs...) {
		age(t, f, 1000*time.Hour)
	}
	young := write(fileOf(s, dir, "a") + ".18a1b2c3d5.tmp")
	require.NoError(t, s.sweep(t.Context(), s.objects.Load()))
	for _, f := range old {
		require.NoFileExists(t, f)
	}
	for _, f := range append(theirs, young, fileOf(s, dir, "a")) {
		require.FileExists(t, f)
	}
	require.Equal(t, map[string]uint64{"stray": 4}, s.State().Drops)
	require.Equal(t, 1, s.State().Records, "the others' take no room of ours")
}

// Who stores much pushes out his own, and not the conversations of the others.
func TestPut_EvictsFromTheScopeThatHasTheMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := over(t, buckettest.New(t), Options{BudgetBytes: 10 * 4096, RecordBytes: 4 * 4096, Log: zerolog.Nop()})
		defer func() { require.NoError(t, s.Close()) }()
		synctest.Wait()
		of := func(scope, id string, bytes int) *Record {
			r := record(id, "", bytes)
			r.Scope = scope
			return r
		}
		held := func(scope string, ids ...string) (held []string) {
			s.index.mu.Lock()
			for _, id := range ids {
				if _, ok := s.index.entries[s.codec.name(scope, id)]; ok {
					held = append(held, id)
				}
			}
			s.index.mu.Unlock()
			requireShares(t, s.index)
			return held
		}
		put(t, s, of("small", "1", 1)) // unused the longest
		time.Sleep(time.Second)
		put(t, s, of("small", "2", 1))
		time.Sleep(time.Hour)
		for i := range 30 {
			time.Sleep(time.Second)
			put(t, s, of("large", fmt.Sprint(i), 1))
		}
		require.Equal(t, []string{"1", "2"}, held("small", "1", "2"))
		require.Equal(t, []string{"22", "29"}, held("large", "21", "22", "29"), "the last eight")
		for i := range 3 {
			time.Sleep(time.Second)
			put(t, s, of("small", fmt.Sprint(3+i), 1))
		}
		require.Equal(t, []string{"1", "2", "3", "4", "5"}, held("small", "1", "2", "3", "4", "5"), "up to their part")
		time.Sleep(time.Second)
		put(t, s, of("small", "6", 1))
		require.Equal(t, []string{"2", "6"}, held("small", "1", "2", "6"), "and then their own")
		require.Equal(t, []string{"25", "29"}, held("large", "24", "25", "29"))
		put(t, s, of("small", "6", 9000)) // three blocks, one of them its own
		require.Equal(t, []string{"4", "5", "6"}, held("small", "2", "3", "4", "5", "6"))
		put(t, s, of("third", "1", 1))
		require.Equal(t, []string{"1"}, held("third", "1"))
	})
}

// requireShares checks what must hold of an index at any time.
func requireShares(t testing.TB, x *index) {
	t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	var bytes int64
	entries := 0
	require.Len(t, x.most, len(x.shares))
	for at, s := range x.most {
		require.Same(t, s, x.shares[s.scope])
		require.Equal(t, at, s.at)
		require.LessOrEqual(t, s.weight(), x.most[0].weight())
		require.True(t, len(s.order) > 0 || s.reserved > 0, "a share of nothing stays for ever")
		var own int64
		for _, e := range s.order {
			require.Equal(t, s.scope, e.name.scope)
			require.Same(t, e, x.entries[e.name])
			own += e.bytes
		}
		require.Equal(t, own, s.bytes)
		bytes += own
		entries += len(s.order)
	}
	require.Equal(t, bytes, x.bytes)
	require.Len(t, x.entries, entries)
}

// How many records there are delays neither a start nor a request.
func TestStore_ServesBeforeItIsListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := buckettest.New(t)
		n := newCodec(nil).name(scope, "a")
		require.NoError(t, f.Objects.Write(t.Context(), n.String(), bucket.Writing(newCodec(nil).encode(n, record("a", "", 1)))))
		listed := make(chan struct{})
		f.Set(buckettest.Fault{Top: listed})
		s := over(t, f, Options{Log: zerolog.Nop()})
		began := time.Now()
		put(t, s, record("b", "a", 1))
		_, err := s.Chain(t.Context(), scope, "b", 5)
		require.NoError(t, err)
		require.NoError(t, s.Delete(t.Context(), scope, "b"))
		require.True(t, s.State().On())
		time.Sleep(time.Hour)
		require.Equal(t, time.Hour, time.Since(began))
		require.Equal(t, 1, s.State().Records, "what it has read")
		close(listed)
		synctest.Wait()
		require.Equal(t, 1, s.State().Records)
		require.NoError(t, s.Close())
	})
}

func TestIndex_AListingThatIsLateBringsNothingBack(t *testing.T) {
	x := newIndex()
	n, other := name{id: [16]byte{1}}, name{id: [16]byte{2}}
	at := time.Now()
	x.see(n, 10, at, at)
	x.see(other, 10, at, at)
	x.begin()
	x.remove(n)
	require.True(t, x.met(n, 10, at), "nothing is to be found out about it")
	x.met(other, 10, at)
	x.end(true)
	records, bytes := x.sums()
	require.Equal(t, 1, records)
	require.EqualValues(t, 10, bytes)
	require.Empty(t, x.gone)

	x.begin()
	x.see(n, 10, at, at) // put after the listing has passed
	x.end(true)
	records, bytes = x.sums()
	require.Equal(t, 1, records)
	require.EqualValues(t, 10, bytes)
	requireShares(t, x)

	x.begin()
	x.end(false)
	records, _ = x.sums()
	require.Equal(t, 1, records, "a sweep that failed knows nothing")
}

func TestStore_Collects(t *testing.T) {
	o := options(t.TempDir())
	o.BudgetBytes, o.RecordBytes = 2*4096, 4096
	s := openStore(t, o)
	swept(t, s)
	put(t, s, record("a", "", 1), record("b", "", 1), record("c", "", 1))
	for name, want := range map[string]float64{
		"thoth_responses_store_on": 1, "thoth_responses_stored": 2, "thoth_responses_stored_bytes": 8192,
		"thoth_responses_budget_bytes": 8192, "thoth_responses_evictions_total": 1, "thoth_responses_failures_total": 0,
	} {
		require.Equal(t, want, value(t, s, name), name)
	}
	require.Zero(t, value(t, s, "thoth_responses_drops_total"), "it is there from the start")
}
