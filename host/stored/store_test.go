package stored

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"thoth/internal/bucket"
	"thoth/internal/bucket/buckettest"
)

func newS3(t testing.TB) string {
	t.Helper()
	backend := s3mem.New()
	require.NoError(t, backend.CreateBucket("b"))
	srv := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(srv.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	return "s3://b/responses?region=us-east-1&use_path_style=true&endpoint=" + srv.URL
}

// Every kind of bucket is the same store, in the clear and sealed.
func TestStore_KeepsRecords(t *testing.T) {
	for kind, address := range map[string]func(*testing.T) string{
		"path": func(t *testing.T) string { return t.TempDir() + "/new/responses" },
		"file": func(t *testing.T) string { return "file://" + t.TempDir() },
		"mem":  func(*testing.T) string { return "mem://" },
		"s3":   func(t *testing.T) string { return newS3(t) },
	} {
		for sealed, key := range map[string][]byte{"clear": nil, "sealed": bytes.Repeat([]byte{7}, 32)} {
			t.Run(kind+"/"+sealed, func(t *testing.T) {
				o := options(address(t))
				o.Key = key
				s := openStore(t, o)
				a, b := record("resp_a", "", 100), record("resp_b", "resp_a", 9000)
				put(t, s, a, b)
				for _, want := range []*Record{a, b} {
					got, err := s.Get(t.Context(), scope, want.ID)
					require.NoError(t, err)
					requireRecord(t, want, got)
				}
				st := s.State()
				require.True(t, st.On())
				require.Equal(t, 2, st.Records)
				require.EqualValues(t, 4096+3*4096, st.Bytes, "as a disk holds them")
				require.EqualValues(t, 1<<30, st.BudgetBytes)
				require.Zero(t, st.Failures)

				again := record("resp_a", "", 20_000)
				put(t, s, again)
				got, err := s.Get(t.Context(), scope, "resp_a")
				require.NoError(t, err)
				requireRecord(t, again, got)
				require.Equal(t, 2, s.State().Records, "in place of the first")

				_, err = s.Get(t.Context(), "another scope", "resp_a")
				require.ErrorIs(t, err, ErrNotFound)
				require.ErrorIs(t, s.Delete(t.Context(), "another scope", "resp_a"), ErrNotFound)
				require.NoError(t, s.Delete(t.Context(), scope, "resp_a"))
				require.ErrorIs(t, s.Delete(t.Context(), scope, "resp_a"), ErrNotFound)
				missing(t, s, "resp_a", "resp_never")
				require.Equal(t, 1, s.State().Records)
				require.Empty(t, s.State().Drops)
			})
		}
	}
}

func TestStore_IsFoundAfterARestartAndByAnotherHost(t *testing.T) {
	for kind, address := range map[string]string{"file": t.TempDir(), "s3": newS3(t)} {
		t.Run(kind, func(t *testing.T) {
			first, second := openStore(t, options(address)), openStore(t, options(address))
			swept(t, second)
			a := record("a", "", 10)
			put(t, first, a)
			got, err := second.Get(t.Context(), scope, "a")
			require.NoError(t, err, "a record is not looked up in the index")
			requireRecord(t, a, got)
			b := record("b", "a", 10)
			put(t, second, b)
			chain, err := first.Chain(t.Context(), scope, "b", 10)
			require.NoError(t, err)
			require.Len(t, chain, 2)

			restarted := openStore(t, options(address))
			swept(t, restarted)
			require.Equal(t, 2, restarted.State().Records, "a sweep counts them")
			require.NoError(t, restarted.Delete(t.Context(), scope, "a"))
			missing(t, first, "a")
			require.Equal(t, 1, first.State().Records)
			_, err = second.Chain(t.Context(), scope, "b", 10)
			var m *Missing
			require.ErrorAs(t, err, &m)
			require.Equal(t, "a", m.ID)
			require.ErrorIs(t, second.Delete(t.Context(), scope, "a"), ErrNotFound)
			require.Zero(t, first.State().Failures+second.State().Failures)
		})
	}
}

func TestChain_IsOldestFirst(t *testing.T) {
	address := t.TempDir()
	s := openStore(t, options(address))
	var want []*Record
	previous := ""
	for _, id := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "20"} {
		want = append(want, record(id, previous, 10))
		previous = id
	}
	put(t, s, want...)
	cold := openStore(t, options(address)) // knows no links yet
	for _, s := range []*Store{s, cold, cold} {
		chain, err := s.Chain(t.Context(), scope, "20", 20)
		require.NoError(t, err)
		require.Len(t, chain, len(want))
		for i := range want {
			requireRecord(t, want[i], chain[i])
		}
		chain, err = s.Chain(t.Context(), scope, "1", 1)
		require.NoError(t, err)
		require.Len(t, chain, 1)
		for _, most := range []int{0, 1, 8, 19} {
			_, err = s.Chain(t.Context(), scope, "20", most)
			require.ErrorIs(t, err, ErrTooLong, most)
		}
	}
	// A link that is known may be of a record that another host has replaced.
	put(t, cold, record("20", "2", 10))
	chain, err := s.Chain(t.Context(), scope, "20", 20)
	require.NoError(t, err)
	require.Len(t, chain, 3)

	put(t, s, record("ring", "ring", 10))
	_, err = s.Chain(t.Context(), scope, "ring", 50)
	require.ErrorIs(t, err, ErrTooLong)
	_, err = s.Chain(t.Context(), scope, "never", 50)
	require.ErrorIs(t, err, ErrNotFound)
}

func TestChain_IsBoundedInBytes(t *testing.T) {
	o := options("mem://")
	o.RecordBytes = 10_000
	s := openStore(t, o)
	put(t, s, record("1", "", 9000), record("2", "1", 9000), record("3", "2", 9000), record("4", "3", 9000), record("5", "4", 9000))
	_, err := s.Chain(t.Context(), scope, "4", 10)
	require.NoError(t, err)
	_, err = s.Chain(t.Context(), scope, "5", 10)
	require.ErrorIs(t, err, ErrTooLarge)
}

func TestPut_RefusesWhatIsTooLarge(t *testing.T) {
	o := options("mem://")
	o.RecordBytes, o.BudgetBytes = 10_000, 12<<10
	s := openStore(t, o)
	err := s.Put(t.Context(), record("a", "", 10_000))
	require.ErrorIs(t, err, ErrTooLarge)
	require.ErrorContains(t, err, "at most 10000 bytes")
	var large *TooLarge
	require.ErrorAs(t, err, &large)
	require.Greater(t, large.Bytes, int64(10_000))
	require.Equal(t, s.Largest(), large.Most)
	put(t, s, record("a", "", 9_000))
	require.Zero(t, s.State().Failures, "no fault of the bucket's")
}

func TestStore_FilesAreForNobodyElse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there", "yet")
	s := openStore(t, options(dir))
	put(t, s, record("a", "", 10), record("b", "a", 10))
	swept(t, s)
	seen := 0
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		i, err := d.Info()
		require.NoError(t, err)
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		require.Equal(t, want, i.Mode().Perm(), path)
		seen++
		return nil
	}))
	require.Equal(t, 5, seen, "the folder given, ours in it, a scope's, two records and nothing else")
	for _, f := range buckettest.Files(t, dir) {
		require.NotContains(t, f, "scope")
	}
}

func TestStore_IsOffByItsSetting(t *testing.T) {
	for _, address := range []string{"", None} {
		s, err := Open(t.Context(), options(address))
		require.NoError(t, err)
		require.Equal(t, State{State: "off", Reason: "turned off by THOTH_RESPONSES_STORE"}, s.State())
		require.ErrorIs(t, s.Put(t.Context(), record("a", "", 1)), ErrOff)
		_, err = s.Get(t.Context(), scope, "a")
		require.ErrorIs(t, err, ErrOff)
		_, err = s.Chain(t.Context(), scope, "a", 5)
		require.ErrorIs(t, err, ErrOff)
		require.ErrorIs(t, s.Delete(t.Context(), scope, "a"), ErrOff)
		require.NoError(t, s.Close())
	}
}

func TestStore_AutoIsAFolderOfTheCache(t *testing.T) {
	o := options(Auto)
	s, err := Open(t.Context(), o)
	require.NoError(t, err)
	st := s.State()
	require.Equal(t, "off", st.State)
	require.Equal(t, "there is no cache directory: set THOTH_CACHE or THOTH_RESPONSES_STORE", st.Reason)
	require.ErrorIs(t, s.Put(t.Context(), record("a", "", 1)), ErrOff)
	require.NoError(t, s.Close())

	if o.CacheDir = t.TempDir(); bucket.OnMemory(o.CacheDir) {
		t.Skip("temporary files are kept in memory here")
	}
	s = openStore(t, o)
	put(t, s, record("a", "", 1))
	require.FileExists(t, fileOf(s, o.CacheDir, "a"))
	require.Equal(t, "file", s.State().Store)
}

func TestOpen_RefusesWhatCanBeNoSetting(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"THOTH_RESPONSES_STORE: \"relative\": want an absolute path": func(o *Options) { o.Address = "relative" },
		"THOTH_RESPONSES_BYTES is -1":                                func(o *Options) { o.BudgetBytes = -1 },
		"THOTH_RESPONSES_BYTES is 1000: it must hold":                func(o *Options) { o.BudgetBytes = 1000 },
		"THOTH_RESPONSES_RECORD_BYTES is -5":                         func(o *Options) { o.RecordBytes = -5 },
		"THOTH_RESPONSES_RECORD_BYTES is 1099511627776":              func(o *Options) { o.RecordBytes = 1 << 40 },
		"THOTH_RESPONSES_TTL is -1s":                                 func(o *Options) { o.TTL = -time.Second },
		"THOTH_RESPONSES_KEY":                                        func(o *Options) { o.Key = []byte("short") },
	} {
		o := options("mem://")
		change(&o)
		_, err := Open(t.Context(), o)
		require.ErrorContains(t, err, want)
	}
}

func TestStore_WithAnotherKeyFindsNothing(t *testing.T) {
	dir := t.TempDir()
	with := func(k byte) Options {
		o := options(dir)
		o.Key = bytes.Repeat([]byte{k}, 32)
		return o
	}
	s := openStore(t, with(1))
	a := record("a", "", 100)
	put(t, s, a)
	object, err := os.ReadFile(fileOf(s, dir, "a"))
	require.NoError(t, err)
	for _, text := range []string{"input of", "xxxx", "resp"} {
		require.NotContains(t, string(object), text)
	}
	for name, o := range map[string]Options{"other key": with(2), "no key": options(dir)} {
		other := openStore(t, o)
		missing(t, other, "a")
		require.Empty(t, other.State().Drops, name)
		put(t, other, record("a", "", 5))
	}
	got, err := s.Get(t.Context(), scope, "a")
	require.NoError(t, err, "nothing of it was touched")
	requireRecord(t, a, got)
}

func TestStore_ManyAtOnce(t *testing.T) {
	dir := t.TempDir()
	o := options(dir)
	o.BudgetBytes, o.RecordBytes = 8*4096, 4096
	stores := []*Store{openStore(t, o), openStore(t, o)} // both evict all the time
	var group sync.WaitGroup
	for _, s := range stores {
		for worker := range 4 {
			group.Go(func() {
				for round := range 25 {
					r := record(string(rune('a'+(worker+round)%12)), "", 100)
					if err := s.Put(t.Context(), r); err != nil && !errors.Is(err, ErrNoRoom) {
						t.Errorf("put: %v", err)
					}
					got, err := s.Get(t.Context(), scope, r.ID)
					if err != nil && !errors.Is(err, ErrNotFound) {
						t.Errorf("get: %v", err)
					}
					if err == nil && !bytes.Equal(got.Response, r.Response) {
						t.Error("other bytes came back")
					}
					if round%8 == 0 {
						if err := s.Delete(t.Context(), scope, r.ID); err != nil && !errors.Is(err, ErrNotFound) {
							t.Errorf("delete: %v", err)
						}
					}
					s.State()
				}
			})
		}
	}
	group.Wait()
	for _, s := range stores {
		requireShares(t, s.index)
		require.NoError(t, s.sweep(t.Context(), s.objects.Load()))
		st := s.State()
		require.LessOrEqual(t, st.Bytes, o.BudgetBytes)
		require.Empty(t, st.Drops)
		require.Zero(t, st.Failures)
	}
}

// A response in the background is stored again and again, each time with another size.
func TestGet_FindsARecordThatIsBeingReplaced(t *testing.T) {
	o := options(t.TempDir())
	writer, reader := openStore(t, o), openStore(t, o)
	put(t, writer, record("a", "", 100))
	done := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		defer close(done)
		for i := range 300 {
			if err := writer.Put(t.Context(), record("a", "", 100+i%2*200)); err != nil {
				t.Errorf("put: %v", err)
				return
			}
		}
	})
	defer group.Wait()
	for {
		select {
		case <-done:
			require.Empty(t, reader.State().Drops)
			return
		default:
		}
		_, err := reader.Get(t.Context(), scope, "a")
		require.NoError(t, err)
	}
}

func TestClose_WaitsForCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := buckettest.New(t)
		s := over(t, f, Options{Log: zerolog.Nop()})
		synctest.Wait()
		freeze := make(chan struct{})
		f.Set(buckettest.Fault{Freeze: freeze})
		put := make(chan error, 1)
		go func() { put <- s.Put(context.Background(), record("a", "", 1)) }()
		synctest.Wait()
		closed := make(chan error, 1)
		go func() { closed <- s.Close() }()
		time.Sleep(time.Second)
		select {
		case <-closed:
			t.Fatal("closed over a call")
		default:
		}
		close(freeze)
		require.NoError(t, <-put)
		require.NoError(t, <-closed)
	})
}

func TestStore_KnowsTheSizeOfARecordBeforeItIsPut(t *testing.T) {
	for _, key := range [][]byte{nil, make([]byte, bucket.KeyBytes)} {
		o := options("mem://")
		o.Key = key
		s := openStore(t, o)
		r := record("a", "before", 5000)
		s.o.RecordBytes = int64(len(s.codec.encode(s.codec.name(scope, r.ID), r)))
		require.NoError(t, s.Fits(r))
		s.o.RecordBytes--
		require.ErrorIs(t, s.Fits(r), ErrTooLarge)
	}
}
