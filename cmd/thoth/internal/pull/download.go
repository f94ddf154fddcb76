package pull

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"thoth/internal/gguf"
)

// partialState is kept beside a partial file: which version of the remote file
// its bytes belong to.
type partialState struct {
	URL          string `json:"url"`
	ETag         string `json:"etag,omitempty"` // strong ones only: a weak one does not promise equal bytes
	LastModified string `json:"last_modified,omitempty"`
	Total        int64  `json:"total"`            // -1 when the server did not say
	SHA256       string `json:"sha256,omitempty"` // named by Hugging Face
}

func (s partialState) validator() string {
	if s.ETag != "" {
		return s.ETag
	}
	return s.LastModified
}

// download is one file on its way. Invariant: the partial file has exactly have
// bytes, hash has seen them, and they belong to the version state describes.
type download struct {
	p     *puller
	spec  *Spec
	path  string // of the partial file
	f     *os.File
	hash  hash.Hash
	have  int64
	state partialState
}

func removePartial(path string) error {
	err := os.Remove(path)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	_ = os.Remove(path + ".json")
	return err
}

// openDownload takes up a partial file if there is one that may be continued.
func (p *puller) openDownload(ctx context.Context, s *Spec, file string) (*download, error) {
	d := &download{p: p, spec: s, path: file + ".partial", hash: sha256.New(), state: partialState{URL: s.URL, Total: -1}}
	var err error
	if d.f, err = os.OpenFile(d.path, os.O_CREATE|os.O_RDWR, 0o644); err != nil {
		return nil, fmt.Errorf("cache folder: %w", err)
	}
	b, err := os.ReadFile(d.path + ".json")
	var state partialState
	if p.o.Refresh || err != nil || json.Unmarshal(b, &state) != nil || state.URL != s.URL ||
		state.validator() == "" && s.SHA256 == "" && state.SHA256 == "" {
		return d, d.orClose(d.restart())
	}
	d.state = state
	st, err := d.f.Stat()
	if err != nil {
		return nil, d.orClose(err)
	}
	if state.Total >= 0 && st.Size() > state.Total {
		return d, d.orClose(d.restart())
	}
	p.o.Progress.Start("checking", filepath.Base(file), 0, st.Size())
	d.have, err = p.copy(ctx, d.hash, d.f, 0)
	p.o.Progress.Finish()
	if err != nil {
		return nil, d.orClose(err)
	}
	if d.have > 0 {
		p.o.Progress.Note("resuming %s at %s", filepath.Base(file), size(d.have))
	}
	return d, nil
}

func (d *download) orClose(err error) error {
	if err != nil {
		_ = d.f.Close()
	}
	return err
}

// restart throws away what is there.
func (d *download) restart() error {
	d.have = 0
	d.hash.Reset()
	d.state = partialState{URL: d.spec.URL, Total: -1}
	if err := d.f.Truncate(0); err != nil {
		return err
	}
	_, err := d.f.Seek(0, io.SeekStart)
	return err
}

func (d *download) close() error {
	if d.f == nil {
		return nil
	}
	err := d.f.Close()
	d.f = nil
	return err
}

func (d *download) sum() string { return hex.EncodeToString(d.hash.Sum(nil)) }

var errStalled = errors.New("stalled")

// attempt makes one request and appends what it brings. nil means the file is
// complete; an error not marked permanent is worth another attempt.
func (d *download) attempt(ctx context.Context) error {
	if d.state.Total >= 0 && d.have == d.state.Total {
		return nil // interrupted after the last byte
	}
	// The stall timer covers the whole attempt: each byte that arrives resets it.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(d.p.o.StallTimeout, func() { cancel(errStalled) })
	defer watchdog.Stop()

	found := new(linked)
	req, err := d.request(context.WithValue(ctx, linkedKey{}, found))
	if err != nil {
		return permanent(err)
	}
	resp, err := d.p.client.Do(req)
	if err != nil {
		return d.explain(ctx, err, req.URL.Host)
	}
	defer resp.Body.Close()
	if d.spec.Kind == KindHF {
		found.note(resp)
	} else {
		found.sha256 = ""
	}
	if err := d.accept(resp, found.sha256); err != nil {
		return err
	}
	return d.receive(ctx, resp, watchdog)
}

func (d *download) request(ctx context.Context) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.spec.URL, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "thoth-pull")
	req.Header.Set("Accept-Encoding", "identity")
	if d.spec.Kind == KindHF && d.p.o.HFToken != "" {
		req.Header.Set("Authorization", "Bearer "+d.p.o.HFToken)
	}
	if d.have > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", d.have))
		if v := d.state.validator(); v != "" {
			req.Header.Set("If-Range", v)
		}
	}
	return req, nil
}

// accept decides from status and headers whether the body continues the partial
// file, replaces it, or is an error; it leaves file and state ready for the body.
func (d *download) accept(resp *http.Response, linkedSum string) error {
	switch resp.StatusCode {
	case http.StatusOK:
		if d.have > 0 {
			d.p.o.Progress.Note("the server sends the file from its start (it changed, or ranges are not supported)")
		}
		if err := d.restart(); err != nil {
			return permanent(err)
		}
	case http.StatusPartialContent:
		start, total, ok := contentRange(resp.Header.Get("Content-Range"))
		changed := d.state.ETag != "" && resp.Header.Get("ETag") != "" && resp.Header.Get("ETag") != d.state.ETag ||
			d.state.Total >= 0 && total >= 0 && total != d.state.Total ||
			d.state.SHA256 != "" && linkedSum != "" && linkedSum != d.state.SHA256
		if !ok || start != d.have || changed {
			if err := d.restart(); err != nil {
				return permanent(err)
			}
			return errors.New("the file changed on the server, or it sent another range; starting over")
		}
		if d.state.Total < 0 {
			d.state.Total = total
		}
		return d.room()
	case http.StatusRequestedRangeNotSatisfiable:
		if err := d.restart(); err != nil {
			return permanent(err)
		}
		return errors.New("the server's file is shorter than what is here; starting over")
	default:
		return statusError(d.spec, resp, d.p.o.HFToken != "")
	}

	if enc := resp.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return permanent(fmt.Errorf("the server compressed the file (%s) although it was asked not to", enc))
	}
	d.state.Total = resp.ContentLength
	if tag := resp.Header.Get("ETag"); strings.HasPrefix(tag, `"`) {
		d.state.ETag = tag
	}
	d.state.LastModified = resp.Header.Get("Last-Modified")
	d.state.SHA256 = linkedSum
	// Before the first byte: bytes without their validator could not be used.
	if err := writeJSON(d.path+".json", d.state); err != nil {
		return permanent(err)
	}
	return d.room()
}

func (d *download) room() error {
	return checkSpace(filepath.Dir(d.path), d.state.Total-d.have, d.p.o.freeBytes)
}

// receive appends the body.
func (d *download) receive(ctx context.Context, resp *http.Response, watchdog *time.Timer) error {
	host := resp.Request.URL.Host
	body := bufio.NewReaderSize(resp.Body, 256<<10)
	if d.have == 0 {
		// Judged at the first bytes: nobody should wait for gigabytes of something else.
		head, err := body.Peek(len(gguf.Magic))
		if err != nil && !errors.Is(err, io.EOF) {
			return d.explain(ctx, err, host)
		}
		if len(head) == len(gguf.Magic) && !gguf.HasMagic(head) || err != nil && int64(len(head)) == d.state.Total {
			return errors.Join(permanent(notGGUF(resp, host)), removePartial(d.path))
		}
	}
	d.p.o.Progress.Start("fetching", strings.TrimSuffix(filepath.Base(d.path), ".partial"), d.have, d.state.Total)
	defer d.p.o.Progress.Finish()
	buf := make([]byte, 256<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			watchdog.Reset(d.p.o.StallTimeout)
			if d.state.Total >= 0 && d.have+int64(n) > d.state.Total {
				return errors.Join(fmt.Errorf("%s sent more than the %d bytes it announced; starting over", host, d.state.Total), d.restart())
			}
			if w, err := d.f.Write(buf[:n]); err != nil {
				d.keep(buf[:w])
				return permanent(fmt.Errorf("write %s: %w", d.path, err))
			}
			d.keep(buf[:n])
		}
		switch {
		case err == nil:
		case !errors.Is(err, io.EOF):
			return d.explain(ctx, err, host)
		case d.state.Total >= 0 && d.have < d.state.Total:
			return fmt.Errorf("%s closed the connection at %d of %d bytes", host, d.have, d.state.Total)
		default:
			return nil
		}
	}
}

func (d *download) keep(b []byte) {
	d.hash.Write(b)
	d.have += int64(len(b))
	d.p.o.Progress.Advance(d.have)
}

// explain names what ended an attempt: the caller, the stall timer, or the
// connection.
func (d *download) explain(ctx context.Context, err error, host string) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errStalled):
		return fmt.Errorf("%s sent nothing for %s", host, d.p.o.StallTimeout)
	case cause != nil:
		return permanent(cause)
	case errors.Is(err, io.ErrUnexpectedEOF) && d.state.Total >= 0:
		return fmt.Errorf("%s closed the connection at %d of %d bytes", host, d.have, d.state.Total)
	}
	return transportError(err, host)
}

func notGGUF(resp *http.Response, host string) error {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if kind == "text/html" {
		return fmt.Errorf("%s sent a web page, not a GGUF file: the link leads to a page about the file (on Hugging Face use hf:owner/repo/file.gguf, or /resolve/ instead of /blob/), or to a login", host)
	}
	return fmt.Errorf("%s sent something that is not a GGUF file (content type %q)", host, kind)
}

// contentRange reads "bytes 100-199/200"; total is -1 for "*".
func contentRange(h string) (start, total int64, ok bool) {
	rest, found := strings.CutPrefix(h, "bytes ")
	span, size, found2 := strings.Cut(rest, "/")
	first, _, found3 := strings.Cut(span, "-")
	if !found || !found2 || !found3 {
		return 0, 0, false
	}
	start, err := strconv.ParseInt(first, 10, 64)
	if err != nil || start < 0 {
		return 0, 0, false
	}
	if size == "*" {
		return start, -1, true
	}
	total, err = strconv.ParseInt(size, 10, 64)
	return start, total, err == nil && total > start
}
