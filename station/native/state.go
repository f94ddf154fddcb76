package native

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"thoth/station/engine"
)

// Retire hands a sequence's cells to ballast, but for those it owns already.
func (e *native) Retire(s engine.SeqID) {
	C.station_copy(e.c, C.int(s), e.ballast, C.int(e.sharing.retire(s)), -1)
	C.station_remove(e.c, C.int(s), -1, -1)
}

// Fork lets dst share src's cells of positions [0, n). What dst had is retired.
func (e *native) Fork(src, dst engine.SeqID, n int) {
	if src == dst {
		return
	}
	if _, had := e.span(C.int(dst)); had > 0 {
		e.Retire(dst)
	}
	if _, have := e.span(C.int(src)); min(n, have) > 0 {
		C.station_copy(e.c, C.int(src), C.int(dst), 0, C.int(n))
		e.sharing.fork(src, dst, min(n, have))
	}
}

// Reset empties the pool.
func (e *native) Reset() {
	if e.embedding.Only {
		return
	}
	C.station_clear(e.c)
	e.sharing.clear()
	e.used = 0
}

// span gives the positions a sequence holds, [from, to).
func (e *native) span(s C.int) (from, to int) {
	var first, last C.int32_t
	C.station_span(e.c, s, &first, &last)
	if first < 0 {
		return 0, 0
	}
	return int(first), int(last) + 1
}

// Save copies the KV of positions [from, to) out, by way of scratch unless that
// is all the sequence has. Scratch only shares cells, so that nothing is freed
// when it lets go.
func (e *native) Save(s engine.SeqID, from, to int) (engine.State, error) {
	have0, have := e.span(C.int(s))
	if from < have0 || from >= to || to > have {
		return nil, fmt.Errorf("save [%d, %d) of sequence %d, which holds [%d, %d)", from, to, s, have0, have)
	}
	source := C.int(s)
	if from != have0 || to != have {
		source = e.scratch
		C.station_copy(e.c, C.int(s), source, C.int(from), C.int(to))
		defer C.station_remove(e.c, source, C.int(from), C.int(to))
	}
	size := e.stateSize(source, to-from)
	if size == 0 {
		return nil, errors.New("save: the state has no size")
	}
	ptr := C.malloc(C.size_t(size))
	if ptr == nil {
		return nil, fmt.Errorf("save: no memory for %d bytes", size)
	}
	if C.station_state_save(e.c, source, C.int(from), C.int(to), (*C.uint8_t)(ptr), C.size_t(size), &e.err) != C.STATION_OK {
		C.free(ptr)
		drainLog(e.log)
		return nil, fmt.Errorf("save [%d, %d) of sequence %d: %s", from, to, s, message(&e.err, "no reason given"))
	}
	return &state{ptr: ptr, size: size, from: from, to: to}, nil
}

// stateSize asks how large a state of n cells is, once: it depends on n alone,
// and asking walks the whole pool.
func (e *native) stateSize(seq C.int, n int) int {
	if size, ok := e.sizes[n]; ok {
		return size
	}
	size := int(C.station_state_size(e.c, seq))
	if len(e.sizes) < 4096 {
		e.sizes[n] = size
	}
	return size
}

// Restore puts a state into free cells above all others.
func (e *native) Restore(s engine.SeqID, st engine.State) error {
	src, ok := st.(*state)
	if !ok || src.ptr == nil {
		return errors.New("restore: not a state of this engine, or freed")
	}
	n := src.Len()
	if e.used+n > e.info.Cells {
		return engine.ErrPoolFull
	}
	have0, have := e.span(C.int(s))
	if have != src.from && have != have0 {
		return fmt.Errorf("restore positions [%d, %d) into sequence %d, which ends at %d", src.from, src.to, s, have)
	}
	// llama.cpp empties the sequence it restores into, so one that holds something gets it by way of scratch.
	into := C.int(s)
	if have != have0 {
		into = e.scratch
	}
	if C.station_state_restore(e.c, into, (*C.uint8_t)(src.ptr), C.size_t(src.size), &e.err) != C.STATION_OK {
		drainLog(e.log)
		return fmt.Errorf("restore into sequence %d: %s", s, message(&e.err, "no reason given"))
	}
	if from, to := e.span(into); from != src.from || to != src.to {
		C.station_remove(e.c, into, -1, -1)
		return fmt.Errorf("restore gave positions [%d, %d) instead of [%d, %d)", from, to, src.from, src.to)
	}
	e.used += n
	if into != C.int(s) {
		C.station_copy(e.c, into, C.int(s), C.int(src.from), C.int(src.to))
		C.station_remove(e.c, into, C.int(src.from), C.int(src.to))
	}
	return nil
}

// state is saved KV in C memory: Go's heap need not know of gigabytes.
type state struct {
	ptr      unsafe.Pointer
	size     int
	from, to int
}

func (s *state) Len() int   { return s.to - s.from }
func (s *state) Bytes() int { return s.size }

// Free gives the memory back; a second call does nothing.
func (s *state) Free() {
	C.free(s.ptr)
	s.ptr = nil
}
