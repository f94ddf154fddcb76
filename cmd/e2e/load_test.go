//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Sixteen clients with prompts of different sizes, streamed and not, get what
// each gets alone, and are served side by side.
func TestLoad_SixteenClientsGetTheirOwnAnswers(t *testing.T) {
	const clients, tokens = 16, 32
	request := func(i int) obj {
		return obj{"messages": []obj{user(fmt.Sprintf("%sTell me %d facts about the number %d.", longPrompt(i*5), i+2, i))},
			"max_tokens": tokens, "ignore_eos": true}
	}
	alone := make([]string, clients)
	for i := range alone {
		alone[i] = shared.chat(t, request(i)).Text(t)
	}
	var wg sync.WaitGroup
	texts, errs, took := make([]string, clients), make([]error, clients), make([]time.Duration, clients)
	began := time.Now()
	for i := range clients {
		wg.Go(func() {
			a, err := ask(t.Context(), i%2 == 0, request(i))
			texts[i], errs[i], took[i] = a.Text, err, time.Since(began)
		})
	}
	wg.Wait()
	for i := range clients {
		require.NoError(t, errs[i])
		require.Equal(t, alone[i], texts[i], "client %d", i)
	}
	// Equally long answers that are decoded side by side end near each other;
	// served in turn, the first would have a sixteenth of the last one's time.
	first, last := took[0], took[0]
	for _, d := range took {
		first, last = min(first, d), max(last, d)
	}
	require.Less(t, last, 4*first, "somebody starved: %v", took)
	shared.idle(t)
}

// More than can be served or wait is refused at once, and hurts nobody.
func TestLoad_OverloadIsRefused(t *testing.T) {
	s := start(t, append(oneSlot, "THOTH_MAX_BACKLOG=2")...)
	more := obj{"max_tokens": 200, "ignore_eos": true}
	alone := s.chat(t, more).Text(t)

	const clients = 300
	started := make(chan struct{})
	results := make(chan result, clients)
	for i := range clients {
		go func() {
			<-started
			if i%2 == 0 {
				results <- <-s.background(t.Context(), more)
				return
			}
			began := time.Now()
			e, err := s.tryStream(t.Context(), more)
			r := result{err: err, at: time.Now()}
			switch {
			case err == nil && e.Done && e.Text(0) == alone:
				r.Status = 200
			case err == nil:
				r.err = fmt.Errorf("the stream after %s: %s", time.Since(began), tail(e.Raw, 300))
			default: // not a stream: the refusal is in the text
				r.reply, r.err = reply{Body: e.Raw, Header: e.Header}, nil
				if _, scan := fmt.Sscanf(err.Error(), "status %d", &r.Status); scan != nil {
					r.err = err
				}
			}
			results <- r
		}()
	}
	begun := time.Now()
	close(started)
	answered, refused := 0, 0
	for range clients {
		// Meanwhile it tells how it is.
		within, cancel := context.WithTimeout(t.Context(), time.Second)
		if refused%20 == 0 {
			require.Equal(t, 200, s.probe(within, "/health"))
			require.Equal(t, 200, s.probe(within, "/readyz"))
		}
		cancel()
		r := <-results
		require.NoError(t, r.err)
		switch r.Status {
		case 200:
			answered++
			if len(r.Body) > 0 {
				require.Equal(t, alone, r.Text(t))
			}
		default:
			refused++
			e := r.Err(t, 429)
			require.Equal(t, "overloaded", e["code"])
			after, err := strconv.Atoi(r.Header.Get("Retry-After"))
			require.NoError(t, err)
			require.Positive(t, after)
			require.Less(t, r.at.Sub(begun), soon, "refused at once")
		}
	}
	require.GreaterOrEqual(t, answered, 3, "one runs, two wait")
	require.GreaterOrEqual(t, refused, clients/2)
	s.answersAgain(t)
	s.idle(t)
}

// A few hundred requests of all kinds leave nothing behind.
func TestLoad_LeavesNothingBehind(t *testing.T) {
	// A small pool and little RAM for stored KV, so that both are used up, and
	// touched as a whole, early.
	s := start(t, "THOTH_CONTEXT_LENGTH=1024", "THOTH_CELLS=2048", "THOTH_KV_WARM_BYTES=30000000")
	soak(t, s, 1, 30)
	s.chat(t) // the first one's speed is not the plateau's
	began := time.Now()
	s.answersAgain(t)
	first, before := time.Since(began), s.footprint(t)

	soak(t, s, 2, 150)
	began = time.Now()
	s.answersAgain(t)
	require.Less(t, time.Since(began), 5*first+time.Second, "the last is as fast as the first")
	var after footprint
	eventually(t, "what was used to be given back", func() bool {
		after = s.footprint(t)
		return after.within(before)
	})
	t.Logf("before %+v, after %+v", before, after)
	// As many cells in use as when nobody is there.
	s.counts(t, "station", "cells_used", 0)
	require.Empty(t, s.pauses(t))
	require.Equal(t, 0, s.stop())
}

// footprint is what two processes hold.
type footprint struct {
	HostGoroutines, StationGoroutines int
	HostFiles, StationFiles           int
	HostBytes, StationBytes           int64
}

var goGoroutines = regexp.MustCompile(`(?m)^go_goroutines (\d+)$`)

func (s *server) footprint(t *testing.T) footprint {
	t.Helper()
	s.idle(t)
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	host, station := s.child(hostProgram), s.child(stationProgram)
	m := goGoroutines.FindSubmatch(s.do(t, http.MethodGet, "/metrics", nil).Body)
	require.NotNil(t, m)
	n, err := strconv.Atoi(string(m[1]))
	require.NoError(t, err)
	return footprint{n, s.number(t, "station", "goroutines"), files(host), files(station),
		memory(t, host, "VmRSS"), memory(t, station, "VmRSS")}
}

// within tells whether nothing grew beyond what comes and goes.
func (f footprint) within(b footprint) bool {
	const slack, slackBytes = 8, 48 << 20
	return f.HostGoroutines <= b.HostGoroutines+slack && f.StationGoroutines <= b.StationGoroutines+slack &&
		f.HostFiles <= b.HostFiles+slack && f.StationFiles <= b.StationFiles+slack &&
		f.HostBytes <= b.HostBytes+slackBytes && f.StationBytes <= b.StationBytes+slackBytes
}

// soak sends n requests of all kinds from four clients: one in ten goes away,
// one in twenty is wrong.
func soak(t *testing.T, s *server, seed uint64, n int) {
	t.Helper()
	next := make(chan int)
	errs := make(chan error, n)
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for i := range next {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				if err := oneOfMany(ctx, s, rand.New(rand.NewPCG(seed, uint64(i))), i); err != nil {
					errs <- fmt.Errorf("request %d: %w", i, err)
				}
				cancel()
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	clients.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
}

// oneOfMany sends one request; its index decides what it is.
func oneOfMany(ctx context.Context, s *server, r *rand.Rand, i int) error {
	p := obj{"messages": []obj{message("system", "You are helpful."), user(longPrompt(r.IntN(60)) + "Tell me more.")},
		"max_tokens": 1 + r.IntN(12)}
	extras := []obj{{"temperature": 0.9, "seed": r.IntN(100)}, {"top_p": 0.8}, {"stop": []string{"\n", "river"}},
		{"logprobs": true}, {"frequency_penalty": 0.5}, {"logit_bias": obj{"5": -10}}}
	for _, extra := range extras {
		if r.IntN(4) == 0 {
			maps.Copy(p, extra)
		}
	}
	streamed := r.IntN(2) == 0
	switch {
	case i%20 == 7: // wrong
		faults := []obj{{"temperature": 3}, {"max_tokens": -1}, {"messages": []obj{}}, {"tools": []obj{{"type": "function"}}}, {"stop": 5}}
		got, err := s.try(ctx, http.MethodPost, chatPath, P(p, faults[r.IntN(len(faults))], obj{"stream": streamed}))
		if err == nil && got.Status != 400 {
			err = fmt.Errorf("status %d for a bad request: %s", got.Status, got.Body)
		}
		return err
	case i%10 == 3: // goes away, at any moment
		ctx, cancel := context.WithTimeout(ctx, time.Duration(r.IntN(400))*time.Millisecond)
		defer cancel()
		_, _ = s.try(ctx, http.MethodPost, chatPath, P(p, obj{"stream": streamed, "max_tokens": 200, "ignore_eos": true}))
		return nil
	case streamed:
		e, err := s.tryStream(ctx, p)
		if err == nil && !e.Done {
			err = fmt.Errorf("the stream is not whole: %s", tail(e.Raw, 300))
		}
		return err
	}
	if r.IntN(8) == 0 {
		p["n"] = 2
	}
	got, err := s.try(ctx, http.MethodPost, chatPath, P(p))
	if err == nil && got.Status != 200 {
		err = fmt.Errorf("status %d: %s", got.Status, got.Body)
	}
	return err
}
