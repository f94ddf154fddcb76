package pull

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"thoth/internal/gguf/gguftest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// origin is a file server whose faults are set by each test.
type origin struct {
	t *testing.T
	*httptest.Server

	mu       sync.Mutex
	body     []byte
	etag     string
	requests []http.Header
	// fault may write the answer itself and return true; n counts from 1.
	fault func(n int, w http.ResponseWriter, r *http.Request) bool
}

func newOrigin(t *testing.T, body []byte) *origin {
	o := &origin{t: t, body: body, etag: `"v1"`}
	o.Server = httptest.NewServer(http.HandlerFunc(o.serve))
	t.Cleanup(o.Close)
	return o
}

func (o *origin) serve(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	o.requests = append(o.requests, r.Header.Clone())
	n, body, etag, fault := len(o.requests), o.body, o.etag, o.fault
	o.mu.Unlock()
	if fault != nil && fault(n, w, r) {
		return
	}
	if etag != "" {
		w.Header().Set("ETag", etag)
	}
	http.ServeContent(w, r, "m.gguf", time.Time{}, bytes.NewReader(body))
}

func (o *origin) seen() []http.Header {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]http.Header(nil), o.requests...)
}

// part sends the first n bytes of a whole answer and then breaks the connection.
func (o *origin) part(w http.ResponseWriter, from, n int) {
	w.Header().Set("ETag", o.etag)
	w.Header().Set("Content-Length", strconv.Itoa(len(o.body)-from))
	if from > 0 {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(o.body)-1, len(o.body)))
		w.WriteHeader(http.StatusPartialContent)
	}
	_, _ = w.Write(o.body[from : from+n])
	_ = http.NewResponseController(w).Flush()
}

func breakOff() { panic(http.ErrAbortHandler) }

type notes struct {
	silent
	mu  sync.Mutex
	all []string
	at  func(have int64)
}

func (n *notes) Note(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, fmt.Sprintf(format, args...))
}

func (n *notes) Advance(have int64) {
	if n.at != nil {
		n.at(have)
	}
}

func (n *notes) text() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.all, "\n")
}

func options(t *testing.T) (Options, *notes) {
	n := new(notes)
	return Options{CacheDir: t.TempDir(), StallTimeout: 5 * time.Second, Progress: n, retryWait: time.Millisecond}, n
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// partialOf finds the one partial file of a cache.
func partialOf(t *testing.T, o Options) []byte {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(o.CacheDir, "models", "*", "*", "*", "*.partial"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	b, err := os.ReadFile(found[0])
	require.NoError(t, err)
	return b
}

func requireWhole(t *testing.T, o Options, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got), "file differs from the source")
	left, err := filepath.Glob(path + ".partial*")
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestPull_SecondTimeAsksNobody(t *testing.T) {
	body := gguftest.Model("m", 50_000, 1)
	src := newOrigin(t, body)
	o, _ := options(t)
	path, err := Pull(t.Context(), src.URL+"/m.gguf", o)
	require.NoError(t, err)
	requireWhole(t, o, path, body)
	again, err := Pull(t.Context(), src.URL+"/m.gguf#sha256="+digestOf(body), o)
	require.NoError(t, err)
	require.Equal(t, path, again)
	require.Len(t, src.seen(), 1)
}

// interrupt pulls until 30 % are there and then ends the pull.
func interrupt(t *testing.T, o Options, spec string, length int) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("operator's stop")
	o.Progress = &notes{at: func(have int64) {
		if have >= int64(length)*3/10 {
			cancel(stop)
		}
	}}
	_, err := Pull(ctx, spec, o)
	require.ErrorIs(t, err, stop)
	n := len(partialOf(t, o))
	require.Greater(t, n, 0)
	require.Less(t, n, length)
}

func TestPull_ResumesAfterInterruption(t *testing.T) {
	body := gguftest.Model("m", 2_000_000, 1)
	src := newOrigin(t, body)
	o, n := options(t)
	interrupt(t, o, src.URL+"/m.gguf", len(body))
	have := len(partialOf(t, o))
	path, err := Pull(t.Context(), src.URL+"/m.gguf", o)
	require.NoError(t, err)
	requireWhole(t, o, path, body)
	seen := src.seen()
	require.Len(t, seen, 2)
	require.Equal(t, fmt.Sprintf("bytes=%d-", have), seen[1].Get("Range"))
	require.Equal(t, `"v1"`, seen[1].Get("If-Range"))
	require.Contains(t, n.text(), "resuming")
}

func TestPull_StartsOverWhenRangeIsIgnored(t *testing.T) {
	body := gguftest.Model("m", 2_000_000, 1)
	src := newOrigin(t, body)
	src.fault = func(_ int, _ http.ResponseWriter, r *http.Request) bool { r.Header.Del("Range"); return false }
	o, _ := options(t)
	interrupt(t, o, src.URL+"/m.gguf", len(body))
	path, err := Pull(t.Context(), src.URL+"/m.gguf", o)
	require.NoError(t, err)
	requireWhole(t, o, path, body)
}

func TestPull_StartsOverWhenFileChanged(t *testing.T) {
	before, after := gguftest.Model("m", 2_000_000, 1), gguftest.Model("m", 2_000_000, 2)
	for name, obeys := range map[string]bool{"server compares If-Range": true, "server ignores If-Range": false} {
		t.Run(name, func(t *testing.T) {
			src := newOrigin(t, before)
			o, _ := options(t)
			interrupt(t, o, src.URL+"/m.gguf", len(before))
			src.mu.Lock()
			src.body, src.etag = after, `"v2"`
			src.fault = func(_ int, _ http.ResponseWriter, r *http.Request) bool {
				if !obeys {
					r.Header.Del("If-Range")
				}
				return false
			}
			src.mu.Unlock()
			path, err := Pull(t.Context(), src.URL+"/m.gguf", o)
			require.NoError(t, err)
			requireWhole(t, o, path, after)
		})
	}
}

func TestPull_WithoutValidatorResumesOnlyUnderAChecksum(t *testing.T) {
	body := gguftest.Model("m", 2_000_000, 1)
	for _, sum := range []string{"", "#sha256=" + digestOf(body)} {
		src := newOrigin(t, body)
		src.etag = ""
		o, _ := options(t)
		interrupt(t, o, src.URL+"/m.gguf"+sum, len(body))
		path, err := Pull(t.Context(), src.URL+"/m.gguf"+sum, o)
		require.NoError(t, err)
		requireWhole(t, o, path, body)
		require.Equal(t, sum != "", src.seen()[1].Get("Range") != "")
	}
}

func TestPull_ResumesWhenServerClosesEarly(t *testing.T) {
	body := gguftest.Model("m", 500_000, 1)
	src := newOrigin(t, body)
	const step = 200_000
	src.fault = func(n int, w http.ResponseWriter, r *http.Request) bool {
		from := (n - 1) * step
		if from+step >= len(body) {
			return false
		}
		src.part(w, from, step)
		breakOff()
		return true
	}
	o, n := options(t)
	o.Tries = 2 // each attempt makes progress, so ten of them are no failure
	path, err := Pull(t.Context(), src.URL+"/m.gguf", o)
	require.NoError(t, err)
	requireWhole(t, o, path, body)
	require.Len(t, src.seen(), 11)
	require.Contains(t, n.text(), "closed the connection")
}

func TestPull_GivesUpWithoutProgress(t *testing.T) {
	src := newOrigin(t, gguftest.Model("m", 500_000, 1))
	src.fault = func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusBadGateway)
		return true
	}
	o, _ := options(t)
	o.Tries = 3
	_, err := Pull(t.Context(), src.URL+"/m.gguf", o)
	require.ErrorContains(t, err, "502")
	require.Len(t, src.seen(), 3)
}

func TestPull_ResumesAfterAStall(t *testing.T) {
	body := gguftest.Model("m", 500_000, 1)
	src := newOrigin(t, body)
	src.fault = func(n int, w http.ResponseWriter, r *http.Request) bool {
		if n > 1 {
			return false
		}
		src.part(w, 0, 300_000)
		<-r.Context().Done() // until the client gives up
		return true
	}
	o, n := options(t)
	o.StallTimeout = 100 * time.Millisecond
	path, err := Pull(t.Context(), src.URL+"/m.gguf", o)
	require.NoError(t, err)
	requireWhole(t, o, path, body)
	require.Equal(t, "bytes=300000-", src.seen()[1].Get("Range"))
	require.Contains(t, n.text(), "sent nothing for 100ms")
}

func TestPull_EndsAtOnceAndKeepsThePartial(t *testing.T) {
	body := gguftest.Model("m", 500_000, 1)
	src := newOrigin(t, body)
	src.fault = func(_ int, w http.ResponseWriter, r *http.Request) bool {
		src.part(w, 0, 300_000)
		<-r.Context().Done()
		return true
	}
	o, _ := options(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	var at atomic.Int64
	o.Progress = &notes{at: func(have int64) {
		if have == 300_000 {
			at.Store(time.Now().UnixNano())
			cancel(context.Canceled)
		}
	}}
	_, err := Pull(ctx, src.URL+"/m.gguf", o)
	require.ErrorIs(t, err, context.Canceled)
	require.Less(t, time.Since(time.Unix(0, at.Load())), 3*time.Second) // below the stall timeout, also on a busy machine
	require.Equal(t, body[:300_000], partialOf(t, o))
}

func TestPull_DropsWhatFailsTheChecksum(t *testing.T) {
	src := newOrigin(t, gguftest.Model("m", 50_000, 1))
	o, _ := options(t)
	spec := src.URL + "/m.gguf#sha256=" + strings.Repeat("0", 64)
	_, err := Pull(t.Context(), spec, o)
	require.ErrorContains(t, err, "checksum mismatch")
	left, _ := filepath.Glob(filepath.Join(o.CacheDir, "models", "*", "*", "*", "m.gguf*"))
	require.Len(t, left, 1, "only the lock file stays: %v", left)
}

func TestPull_ChecksDiskSpaceBeforeItStarts(t *testing.T) {
	src := newOrigin(t, gguftest.Model("m", 50_000, 1))
	o, _ := options(t)
	o.freeBytes = func(string) (int64, error) { return 1 << 20, nil }
	_, err := Pull(t.Context(), src.URL+"/m.gguf", o)
	require.ErrorContains(t, err, "not enough disk space")
	require.ErrorContains(t, err, "THOTH_CACHE")
	require.Len(t, src.seen(), 1)
	require.Empty(t, partialOf(t, o))
}

func TestPull_RecognisesWhatIsNoModel(t *testing.T) {
	whole := gguftest.Model("m", 50_000, 1)
	for want, serve := range map[string]http.HandlerFunc{
		"web page": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("<!doctype html><html>Please log in"))
		},
		"not a GGUF": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/octet-stream")
			_, _ = w.Write([]byte("GG"))
		},
		"incomplete": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(whole[:len(whole)-100]) },
	} {
		src := httptest.NewServer(serve)
		o, _ := options(t)
		_, err := Pull(t.Context(), src.URL+"/m.gguf", o)
		require.ErrorContains(t, err, want)
		left, _ := filepath.Glob(filepath.Join(o.CacheDir, "models", "*", "*", "*", "m.gguf*"))
		require.Len(t, left, 1, "only the lock file stays: %v", left)
		src.Close()
	}
}

func TestPull_TwoAtOnceFetchOnce(t *testing.T) {
	body := gguftest.Model("m", 50_000, 1)
	src := newOrigin(t, body)
	o, _ := options(t)
	waiting := make(chan struct{})
	src.fault = func(int, http.ResponseWriter, *http.Request) bool { <-waiting; return false }
	o2 := o
	var once sync.Once
	both := &noteHook{hook: func(s string) {
		if strings.Contains(s, "another pull") {
			once.Do(func() { close(waiting) })
		}
	}}
	o.Progress, o2.Progress = both, both
	errs := make(chan error, 2)
	for _, o := range []Options{o, o2} {
		go func() { _, err := Pull(t.Context(), src.URL+"/m.gguf", o); errs <- err }()
	}
	require.NoError(t, <-errs)
	require.NoError(t, <-errs)
	require.Len(t, src.seen(), 1)
}

type noteHook struct {
	silent
	hook func(string)
}

func (n *noteHook) Note(format string, args ...any) { n.hook(fmt.Sprintf(format, args...)) }

func TestPull_RefusalsSayWhatToDo(t *testing.T) {
	for _, tt := range []struct {
		spec, token string
		code        int
		want        string
	}{
		{"hf:o/r/m.gguf", "", 401, "set HF_TOKEN"},
		{"hf:o/r/m.gguf", "secret", 403, "to this HF_TOKEN"},
		{"hf:o/r/m.gguf@v9", "", 404, "no file m.gguf in o/r at revision v9"},
		{"URL/m.gguf", "secret", 403, "needs a login"},
		{"URL/m.gguf", "", 404, "no such file (404)"},
		{"URL/m.gguf", "", 418, "418"},
	} {
		src := newOrigin(t, nil)
		src.fault = func(_ int, w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(tt.code); return true }
		o, _ := options(t)
		o.HFEndpoint, o.HFToken = src.URL, tt.token
		_, err := Pull(t.Context(), strings.Replace(tt.spec, "URL", src.URL, 1), o)
		require.ErrorContains(t, err, tt.want)
		require.NotContains(t, err.Error(), "secret")
		require.Len(t, src.seen(), 1, "a refusal is not retried")
		if !strings.HasPrefix(tt.spec, "hf:") {
			require.Empty(t, src.seen()[0].Get("Authorization"))
		}
	}
}

func TestPull_TokenStaysOnItsHostAndLinkedDigestIsChecked(t *testing.T) {
	body := gguftest.Model("m", 50_000, 1)
	for _, sum := range []string{digestOf(body), strings.Repeat("0", 64)} {
		storage := newOrigin(t, body)
		hub := newOrigin(t, nil)
		hub.fault = func(_ int, w http.ResponseWriter, r *http.Request) bool {
			require.Equal(t, "/o/r/resolve/main/m.gguf", r.URL.Path)
			w.Header().Set("X-Linked-Etag", `"`+sum+`"`)
			http.Redirect(w, r, storage.URL+"/blob?signature=s", http.StatusFound)
			return true
		}
		o, _ := options(t)
		o.HFEndpoint, o.HFToken = hub.URL, "secret"
		path, err := Pull(t.Context(), "hf:o/r/m.gguf", o)
		require.Equal(t, "Bearer secret", hub.seen()[0].Get("Authorization"))
		require.Empty(t, storage.seen()[0].Get("Authorization"))
		if sum != digestOf(body) {
			require.ErrorContains(t, err, "checksum mismatch")
			continue
		}
		require.NoError(t, err)
		requireWhole(t, o, path, body)
	}
}

func TestPull_FetchesAllParts(t *testing.T) {
	src := newOrigin(t, gguftest.Model("m", 1000, 1))
	o, _ := options(t)
	o.HFEndpoint = src.URL
	path, err := Pull(t.Context(), "hf:o/r/m-00001-of-00003.gguf", o)
	require.NoError(t, err)
	require.Equal(t, "m-00001-of-00003.gguf", filepath.Base(path))
	found, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*.gguf"))
	require.Len(t, found, 3)
}
