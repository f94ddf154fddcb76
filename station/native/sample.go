package native

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"thoth/station/engine"
)

// maxGrammar bounds the bytes of a grammar; gbnf.hpp has the limits of what is in it.
const maxGrammar = 1 << 20

// parsing holds those who read a grammar: a hostile one takes a second of a core,
// which the engine's threads need more than its handlers.
var parsing = make(chan struct{}, 2)

// sampler is one sequence's chain in C.
type sampler struct {
	c    *C.station_sampler
	seed uint64
}

func (s *sampler) Seed() uint64 { return s.seed }

// Free gives the chain back; a second call does nothing.
func (s *sampler) Free() {
	C.station_sampler_free(s.c)
	s.c = nil
}

// NewSampler builds a sampler chain.
func (e *native) NewSampler(p engine.SamplerParams, prompt []engine.Token) (engine.Sampler, error) {
	if err := checkGrammar(p.Grammar); err != nil {
		return nil, err
	}
	if p.Grammar != "" {
		parsing <- struct{}{}
		defer func() { <-parsing }()
	}
	cp, free := samplerParams(p, prompt)
	defer free()
	var fail C.station_error
	s := &sampler{seed: p.Seed}
	switch C.station_sampler_new(e.c, cp, &s.c, &fail) {
	case C.STATION_OK:
		return s, nil
	case C.STATION_GRAMMAR:
		return nil, fmt.Errorf("%w: %s", engine.ErrGrammar, message(&fail, "no reason given"))
	}
	return nil, fmt.Errorf("sampler: %s", message(&fail, "no reason given"))
}

func checkGrammar(g string) error {
	if len(g) > maxGrammar {
		return fmt.Errorf("%w: it has %d bytes, at most %d are taken", engine.ErrGrammar, len(g), maxGrammar)
	}
	if strings.IndexByte(g, 0) >= 0 {
		return fmt.Errorf("%w: it holds a NUL byte", engine.ErrGrammar)
	}
	return nil
}

// foldSeed makes of a seed the 32 bits the generator takes; a small seed is itself.
func foldSeed(seed uint64) uint32 { return uint32(seed) ^ uint32(seed>>32)*0x9e3779b9 }

// samplerParams copies parameters into C memory until free is called.
func samplerParams(p engine.SamplerParams, prompt []engine.Token) (*C.station_sampler_params, func()) {
	var mem []unsafe.Pointer
	alloc := func(n int) unsafe.Pointer {
		ptr := C.malloc(C.size_t(max(n, 1)))
		mem = append(mem, ptr)
		return ptr
	}
	cp := (*C.station_sampler_params)(alloc(C.sizeof_station_sampler_params))
	*cp = C.station_sampler_params{
		temperature:       C.float(p.Temperature),
		top_k:             C.int32_t(p.TopK),
		top_p:             C.float(p.TopP),
		min_p:             C.float(p.MinP),
		typical_p:         C.float(p.TypicalP),
		repeat_penalty:    C.float(p.RepeatPenalty),
		repeat_last_n:     C.int32_t(p.RepeatLastN),
		frequency_penalty: C.float(p.FrequencyPenalty),
		presence_penalty:  C.float(p.PresencePenalty),
		seed:              C.uint32_t(foldSeed(p.Seed)),
	}
	if n := len(p.LogitBias); n > 0 {
		tokens := unsafe.Slice((*engine.Token)(alloc(4*n)), n)
		values := unsafe.Slice((*float32)(alloc(4*n)), n)
		i := 0
		for t, b := range p.LogitBias {
			tokens[i], values[i] = t, b
			i++
		}
		cp.bias_token, cp.bias_value = (*C.int32_t)(unsafe.Pointer(&tokens[0])), (*C.float)(unsafe.Pointer(&values[0]))
		cp.bias_n = C.int32_t(n)
	}
	if n := min(len(prompt), max(p.RepeatLastN, 0)); n > 0 {
		tokens := unsafe.Slice((*engine.Token)(alloc(4*n)), n)
		copy(tokens, prompt[len(prompt)-n:])
		cp.prompt, cp.prompt_n = (*C.int32_t)(unsafe.Pointer(&tokens[0])), C.int32_t(n)
	}
	if p.Grammar != "" {
		g := unsafe.Pointer(C.CString(p.Grammar))
		mem = append(mem, g)
		cp.grammar, cp.control_text = (*C.char)(g), C.bool(p.ControlText)
	}
	return cp, func() {
		for _, ptr := range mem {
			C.free(ptr)
		}
	}
}

// held is a row's logits in C memory.
type held struct{ row *C.float }

// Free gives the row back; a second call does nothing.
func (h *held) Free() {
	C.free(unsafe.Pointer(h.row))
	h.row = nil
}

// Hold copies row's logits out.
func (e *native) Hold(row int) (engine.Held, error) {
	src, err := e.row(row, nil)
	if err != nil {
		return nil, err
	}
	n := e.info.Vocabulary
	dst := (*C.float)(C.malloc(C.size_t(n) * C.sizeof_float))
	if dst == nil {
		return nil, fmt.Errorf("hold row %d: no memory", row)
	}
	copy(unsafe.Slice(dst, n), unsafe.Slice(src, n))
	return &held{row: dst}, nil
}

// row finds the logits a request names.
func (e *native) row(row int, h engine.Held) (*C.float, error) {
	if h != nil {
		own, ok := h.(*held)
		if !ok || own.row == nil {
			return nil, fmt.Errorf("%w: not a row of this engine, or freed", engine.ErrDecode)
		}
		return own.row, nil
	}
	p := C.station_row(e.c, C.int(row))
	if p == nil {
		return nil, fmt.Errorf("%w: row %d has no output", engine.ErrDecode, row)
	}
	return p, nil
}

// sampleBuffers are reused between steps.
type sampleBuffers struct {
	req []C.station_sample
	out []C.station_sampled
}

// Sample draws for all requests in one call.
func (e *native) Sample(reqs []engine.SampleRequest, out []engine.Sampled) error {
	if len(reqs) == 0 {
		return nil
	}
	if len(out) != len(reqs) {
		return fmt.Errorf("%w: %d results for %d requests", engine.ErrDecode, len(out), len(reqs))
	}
	b := &e.samples
	b.req = slices.Grow(b.req[:0], len(reqs))[:len(reqs)]
	b.out = slices.Grow(b.out[:0], len(reqs))[:len(reqs)]
	for i, r := range reqs {
		s, ok := r.Sampler.(*sampler)
		if !ok || s.c == nil {
			return fmt.Errorf("%w: request %d has no sampler of this engine, or a freed one", engine.ErrDecode, i)
		}
		q := C.station_sample{row: C.int32_t(r.Row), no_eog: C.bool(r.NoEOG), logprob: C.bool(r.Logprobs), top: C.int32_t(clampTop(r.Top)), sampler: s.c}
		if r.Held != nil {
			p, err := e.row(0, r.Held)
			if err != nil {
				return err
			}
			q.held = p
		}
		b.req[i] = q
	}
	C.station_sample_all(e.c, C.int(len(reqs)), &b.req[0], &b.out[0])
	for i := range reqs {
		c := &b.out[i]
		switch c.result {
		case C.STATION_OK:
		case C.STATION_GRAMMAR:
			out[i] = engine.Sampled{Err: fmt.Errorf("%w: %s", engine.ErrGrammar, C.GoString(&c.reason[0]))}
			continue
		default:
			out[i] = engine.Sampled{Err: fmt.Errorf("%w: sample: %s", engine.ErrDecode, C.GoString(&c.reason[0]))}
			continue
		}
		out[i] = engine.Sampled{Token: engine.Token(c.token)}
		if reqs[i].Logprobs {
			out[i].Logprob, out[i].Top = float32(c.logprob), alternatives(c)
		}
	}
	return nil
}

// Logprobs gives the log-probability of token next in a row.
func (e *native) Logprobs(row int, h engine.Held, next engine.Token, top int) (engine.TokenLogprob, error) {
	if next < 0 || int(next) >= e.info.Vocabulary {
		return engine.TokenLogprob{}, fmt.Errorf("%w: token %d is not in the vocabulary of %d", engine.ErrDecode, next, e.info.Vocabulary)
	}
	p, err := e.row(row, h)
	if err != nil {
		return engine.TokenLogprob{}, err
	}
	var out C.station_sampled
	if C.station_logprobs(p, C.int(e.info.Vocabulary), C.int32_t(next), C.int(clampTop(top)), &out, &e.err) != C.STATION_OK {
		return engine.TokenLogprob{}, fmt.Errorf("%w: logprobs: %s", engine.ErrDecode, message(&e.err, "no reason given"))
	}
	return engine.TokenLogprob{Token: next, Logprob: float32(out.logprob), Top: alternatives(&out)}, nil
}

func clampTop(n int) int { return min(max(n, 0), C.STATION_TOP_MAX) }

func alternatives(c *C.station_sampled) []engine.TokenLogprob {
	if c.top_n == 0 {
		return nil
	}
	top := make([]engine.TokenLogprob, c.top_n)
	for i := range top {
		top[i] = engine.TokenLogprob{Token: engine.Token(c.top_token[i]), Logprob: float32(c.top_logprob[i])}
	}
	return top
}
