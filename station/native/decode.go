package native

// #include "shim.h"
import "C"

import (
	"fmt"
	"runtime"
	"unsafe"

	"thoth/station/engine"
)

// Decode evaluates a batch on the computing thread; the goroutine is parked
// meanwhile.
func (e *native) Decode(b *engine.Batch) error {
	if e.embedding.Only {
		return fmt.Errorf("%w: the model is an encoder", engine.ErrDecode)
	}
	n := b.Len()
	if err := e.checkBatch(b); err != nil {
		return fmt.Errorf("%w: %v", engine.ErrDecode, err)
	}
	if e.used+n > e.info.Cells {
		return engine.ErrPoolFull
	}
	rc := C.station_decode_start(e.c, C.int(n),
		(*C.int32_t)(unsafe.Pointer(unsafe.SliceData(b.Tokens))), (*C.int32_t)(unsafe.Pointer(unsafe.SliceData(b.Pos))),
		(*C.int32_t)(unsafe.Pointer(unsafe.SliceData(b.Seq))), (*C.bool)(unsafe.Pointer(unsafe.SliceData(b.Output))), &e.err)
	runtime.KeepAlive(b)
	if rc == C.STATION_OK {
		var err error
		if rc, err = e.wait(); err != nil {
			return err
		}
	}
	drainLog(e.log)
	switch rc {
	case C.STATION_OK:
		e.used += n
		return nil
	case C.STATION_POOL_FULL:
		return engine.ErrPoolFull
	case C.STATION_ABORTED:
		return engine.ErrAborted
	}
	return fmt.Errorf("%w: %s", engine.ErrDecode, message(&e.err, "no reason given"))
}

// wait parks the goroutine until the computing thread has finished its call.
func (e *native) wait() (C.int, error) {
	var count [8]byte
	if _, err := e.done.Read(count[:]); err != nil {
		return 0, fmt.Errorf("%w: waiting for the computing thread: %v", engine.ErrDecode, err)
	}
	return C.station_decode_result(e.c, &e.err), nil
}

// checkBatch refuses what llama.cpp would end the process on.
func (e *native) checkBatch(b *engine.Batch) error {
	n := b.Len()
	if n < 1 || n > e.info.BatchSize {
		return fmt.Errorf("a batch holds 1 to %d tokens, not %d", e.info.BatchSize, n)
	}
	if len(b.Pos) != n || len(b.Seq) != n || len(b.Output) != n {
		return fmt.Errorf("the batch's slices differ in length")
	}
	for i, t := range b.Tokens {
		if t < 0 || int(t) >= e.info.Vocabulary {
			return fmt.Errorf("token %d is not in the vocabulary of %d", t, e.info.Vocabulary)
		}
		if s := b.Seq[i]; s < 0 || int(s) >= e.info.Sequences {
			return fmt.Errorf("sequence %d is not in [0, %d)", s, e.info.Sequences)
		}
	}
	return nil
}

// Abort makes a running Decode return soon.
func (e *native) Abort() { C.station_abort(e.c, true) }

// ClearAbort ends Abort's force.
func (e *native) ClearAbort() { C.station_abort(e.c, false) }
