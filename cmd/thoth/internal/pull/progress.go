package pull

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// Progress is told how a pull goes. Bytes are counted from the start of the
// file, so a resumed download starts at its have, not at 0.
type Progress interface {
	// Note is one sentence for the operator.
	Note(format string, args ...any)
	// Start opens a phase ("fetching", "checking") of total bytes; total <= 0 is unknown.
	Start(phase, name string, have, total int64)
	// Advance says how many bytes are done.
	Advance(have int64)
	// Finish ends the phase, well or not.
	Finish()
}

// NewProgress draws a bar on a terminal, and writes a line every few seconds to
// anything else.
func NewProgress(w io.Writer) Progress {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return &bar{w: w}
	}
	return &lines{w: w, every: 5 * time.Second}
}

type bar struct {
	w   io.Writer
	bar *progressbar.ProgressBar
}

func (b *bar) Note(format string, args ...any) {
	if b.bar != nil {
		_ = b.bar.Clear()
	}
	fmt.Fprintf(b.w, format+"\n", args...)
}

func (b *bar) Start(phase, name string, have, total int64) {
	if total <= 0 {
		total = -1
	}
	b.bar = progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(b.w),
		progressbar.OptionSetDescription(phase+" "+name),
		progressbar.OptionShowBytes(true),
		progressbar.OptionShowCount(),
		progressbar.OptionShowTotalBytes(true),
		progressbar.OptionUseIECUnits(true),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionSetWidth(24),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)
	_ = b.bar.Set64(have)
}

func (b *bar) Advance(have int64) { _ = b.bar.Set64(have) }

func (b *bar) Finish() {
	if b.bar != nil {
		_ = b.bar.Clear()
		b.bar = nil
	}
}

// lines is for logs: it says something often enough that a watcher knows it lives.
type lines struct {
	w     io.Writer
	every time.Duration

	mu          sync.Mutex
	phase, name string
	first, last int64 // bytes at the start, and now
	total       int64
	began, said time.Time
}

func (l *lines) Note(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.w, format+"\n", args...)
}

func (l *lines) Start(phase, name string, have, total int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.phase, l.name, l.first, l.last, l.total = phase, name, have, have, total
	l.began = time.Now()
	l.said = l.began
}

func (l *lines) Advance(have int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = have
	if time.Since(l.said) < l.every {
		return
	}
	l.said = time.Now()
	fmt.Fprintln(l.w, progressLine(l.phase, l.name, l.first, have, l.total, time.Since(l.began)))
}

func (l *lines) Finish() {}

func progressLine(phase, name string, first, have, total int64, spent time.Duration) string {
	rate := float64(have-first) / max(spent.Seconds(), 1e-3)
	if total <= 0 {
		return fmt.Sprintf("%s %s: %s, %s/s", phase, name, size(have), size(int64(rate)))
	}
	line := fmt.Sprintf("%s %s: %s of %s (%d %%), %s/s", phase, name, size(have), size(total), 100*have/total, size(int64(rate)))
	if rate >= 1 {
		left := time.Duration(float64(total-have) / rate * float64(time.Second))
		line += fmt.Sprintf(", %s left", left.Round(time.Second))
	}
	return line
}

// silent is for callers that want no progress.
type silent struct{}

func (silent) Note(string, ...any)                {}
func (silent) Start(string, string, int64, int64) {}
func (silent) Advance(int64)                      {}
func (silent) Finish()                            {}
