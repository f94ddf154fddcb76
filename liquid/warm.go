package liquid

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"thoth/station/wire"
)

// WarmPrompt is a prompt that is stored whenever a station comes up, before
// anybody asks for it.
type WarmPrompt struct {
	Name     string          // unique; shown in /liquid and in the station's index
	Messages json.RawMessage // as in a chat request; usually the system message alone
	Pin      bool            // not evicted at all, within the station's limits
	TTL      time.Duration   // not evicted before, within the station's limits; 0: no promise
	// KeySHA256 is the SHA-256, in lower-case hex, of the one API key whose requests may use
	// it; empty: every key's may, each with a copy of its own.
	KeySHA256 string
}

// Bounds of a file of warm prompts.
const (
	maxWarmBytes   = 16 << 20
	maxWarmPrompts = 256
	maxWarmName    = 64
	maxWarmTTL     = 7 * 24 * time.Hour
)

// ReadWarm reads the file of warm prompts: a JSON array of objects with the
// fields name, messages, pin, ttl and key_sha256, the first two needed. An error
// names the entry and the field; the messages themselves are the host's to check.
func ReadWarm(file string) ([]WarmPrompt, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("warm prompts: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxWarmBytes+1))
	if err == nil && len(b) > maxWarmBytes {
		err = fmt.Errorf("the file is larger than %d bytes", maxWarmBytes)
	}
	var prompts []WarmPrompt
	if err == nil {
		prompts, err = parseWarm(b)
	}
	if err != nil {
		return nil, fmt.Errorf("warm prompts: %s: %w", file, err)
	}
	return prompts, nil
}

func parseWarm(b []byte) ([]WarmPrompt, error) {
	var entries []json.RawMessage
	if err := json.Unmarshal(b, &entries); err != nil {
		return nil, fmt.Errorf("it must be a JSON array of objects: %w", err)
	}
	if len(entries) > maxWarmPrompts {
		return nil, fmt.Errorf("it has %d entries: at most %d are allowed", len(entries), maxWarmPrompts)
	}
	names := map[string]bool{}
	prompts := make([]WarmPrompt, len(entries))
	for i, raw := range entries {
		p, err := parseEntry(raw)
		if err == nil && names[p.Name] {
			err = fmt.Errorf("name: %q is there twice", p.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", i, err)
		}
		names[p.Name] = true
		prompts[i] = p
	}
	return prompts, nil
}

func parseEntry(raw []byte) (p WarmPrompt, err error) {
	var e struct {
		Name      string            `json:"name"`
		Messages  []json.RawMessage `json:"messages"`
		Pin       bool              `json:"pin"`
		TTL       *string           `json:"ttl"`
		KeySHA256 *string           `json:"key_sha256"`
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields() // a misspelt ttl would keep nothing, in silence
	if err := dec.Decode(&e); err != nil {
		return p, err
	}
	switch {
	case e.Name == "" || len(e.Name) > maxWarmName:
		return p, fmt.Errorf("name: it must have 1 to %d bytes, and has %d", maxWarmName, len(e.Name))
	case len(e.Messages) == 0:
		return p, errors.New("messages: it must be an array of at least one message")
	}
	p = WarmPrompt{Name: e.Name, Pin: e.Pin}
	p.Messages, _ = json.Marshal(e.Messages)
	if e.TTL != nil {
		if p.TTL, err = time.ParseDuration(*e.TTL); err != nil || p.TTL < time.Second || p.TTL > maxWarmTTL {
			return p, fmt.Errorf("ttl: %q must be a duration from 1s to %s, such as 30m or 24h", *e.TTL, maxWarmTTL)
		}
	}
	if e.KeySHA256 != nil {
		if sum, err := hex.DecodeString(*e.KeySHA256); err != nil || len(sum) != 32 {
			return p, errors.New("key_sha256: it must be the SHA-256 of an API key in 64 hex digits")
		}
		p.KeySHA256 = strings.ToLower(*e.KeySHA256)
	}
	return p, nil
}

// WarmState tells how far a warm prompt is.
type WarmState struct {
	Name   string `json:"name"`
	State  string `json:"state"` // waiting, storing, stored, failed
	Tokens int    `json:"tokens,omitempty"`
	Scopes int    `json:"scopes,omitempty"` // copies stored
	Reason string `json:"reason,omitempty"` // of failed
}

// warmer prepares a station that came up: it measures the head that all
// conversations of the template share, and stores the warm prompts one after the
// other. One run at a time; a new one ends the old one first.
type warmer struct {
	m *Manager

	mu struct {
		sync.Mutex
		states []WarmState
		end    context.CancelFunc // of the run under way; nil before the first
		idle   chan struct{}      // closed when it has ended
	}
}

func newWarmer(m *Manager) *warmer {
	w := &warmer{m: m}
	for _, p := range m.o.Warm {
		w.mu.states = append(w.mu.states, WarmState{Name: p.Name, State: "waiting"})
	}
	return w
}

func (w *warmer) states() []WarmState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]WarmState{}, w.mu.states...)
}

func (w *warmer) begun() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.end != nil
}

func (w *warmer) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.end != nil {
		w.mu.end()
	}
}

func (w *warmer) start(render Render) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.mu.idle
	if w.mu.end != nil {
		w.mu.end()
	}
	ctx, cancel := context.WithCancel(w.m.ctx)
	idle := make(chan struct{})
	w.mu.end, w.mu.idle = cancel, idle
	started := w.m.spawn(func() {
		defer close(idle)
		defer cancel()
		if before != nil {
			<-before
		}
		w.run(ctx, render)
	})
	if !started {
		cancel()
		close(idle)
	}
}

func (w *warmer) run(ctx context.Context, render Render) {
	w.m.measureHead(ctx, render)
	for i := range w.m.o.Warm {
		w.set(i, WarmState{State: "waiting"})
	}
	for i := range w.m.o.Warm {
		p := &w.m.o.Warm[i]
		w.set(i, WarmState{State: "storing"})
		s := WarmState{State: "stored"}
		for _, scope := range w.m.o.Scopes(p) {
			tokens, err := w.store(ctx, p, scope, render)
			if err != nil {
				s.State, s.Reason = "failed", err.Error()
				break
			}
			s.Tokens = tokens
			s.Scopes++
		}
		if ctx.Err() != nil {
			s = WarmState{State: "waiting"} // for the next station
		} else if s.Reason != "" {
			w.m.o.Log.Warn().Str("name", p.Name).Str("reason", s.Reason).Msg("a warm prompt is not stored")
		}
		w.set(i, s)
	}
}

func (w *warmer) set(i int, s WarmState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.Name = w.mu.states[i].Name
	w.mu.states[i] = s
}

// store computes a prompt, as far as it is not stored yet, and saves it.
func (w *warmer) store(ctx context.Context, p *WarmPrompt, scope string, render Render) (tokens int, err error) {
	segments, err := render(p.Messages)
	if err != nil {
		return 0, err
	}
	m := w.m
	s, f := m.stage(ctx, wire.Prompt{Segments: segments}, m.loading(&Request{Scope: scope}))
	if f != nil {
		return 0, f
	}
	released := false
	defer func() {
		if !released {
			m.end(ctx, s.id)
		}
	}()
	e, err := m.o.Station.Forward(ctx, &wire.ForwardRequest{Session: s.id})
	switch {
	case err != nil:
		return 0, m.failed(wire.RouteForward, ReasonForward, err)
	case s.began(e) == elsewhere:
		m.tell.mismatch()
		return 0, &failure{ReasonPosition, errPosition}
	}
	bounded, cancel := context.WithTimeout(ctx, m.o.SaveTimeout)
	defer cancel()
	a, err := m.o.Station.KVSave(bounded, s.id, s.length, &wire.KVSaveRequest{Scope: scope, Name: p.Name, Pin: p.Pin,
		TTLSeconds: int64(p.TTL.Seconds()), Release: true})
	switch {
	case err != nil:
		return 0, m.failed(routeSave, ReasonSave, err)
	case !a.Saved:
		return 0, fmt.Errorf("%s: %s", ReasonSave.Sentence(), a.Reason)
	}
	released = true
	m.tell.wrote(a.Written)
	return s.length, nil
}

// measureHead counts the tokens that any two conversations of this template
// begin with; see [isHit]. Until it is known a guess serves.
func (m *Manager) measureHead(ctx context.Context, render Render) {
	var prompts [][]int32
	for _, text := range []string{"Apples", "7 of them"} {
		messages, _ := json.Marshal([]map[string]string{{"role": "user", "content": text}})
		segments, err := render(messages)
		if err != nil {
			return
		}
		r, err := m.o.Station.Tokenize(ctx, &wire.TokenizeRequest{Prompt: wire.Prompt{Segments: segments}})
		if err != nil {
			return
		}
		prompts = append(prompts, r.Tokens)
	}
	m.head.Store(int64(common(prompts[0], prompts[1])))
}
