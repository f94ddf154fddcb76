package native

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"thoth/station/engine"
)

var _ engine.Mover = (*native)(nil)

// learnLayout asks the engine, by the state of one position, what KV is made of.
// Sequence s holds position 0 alone.
func (e *native) learnLayout(s engine.SeqID) {
	i := &e.info
	if !i.KVCut {
		i.KVRowsReason = i.KVCutReason
		return
	}
	if !i.FlashAttention {
		i.KVRowsReason = "without flash attention values are stored transposed: a position has no row"
		return
	}
	e.err.text[0] = 0
	parts := int(C.station_layout(e.c, C.int(s), &e.err))
	if parts == 0 {
		i.KVRowsReason = message(&e.err, "the engine's state has no parts")
		return
	}
	i.KVBytesToken = 0 // the header gave an estimate
	for p := range parts {
		if row := int(C.station_part_row(e.c, C.int(p))); row > 0 { // a layer without heads has none
			i.KVRows = append(i.KVRows, row)
			i.KVBytesToken += row
		}
	}
}

// Export copies the KV of positions [from, from+Σ Take) of s into the pieces, by
// way of scratch unless that is all the sequence has.
func (e *native) Export(s engine.SeqID, from int, pieces []engine.Piece) error {
	n, err := e.checkPieces(s, pieces)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	to := from + n
	have0, have := e.span(C.int(s))
	if from < have0 || to > have {
		return fmt.Errorf("export [%d, %d) of sequence %d, which holds [%d, %d)", from, to, s, have0, have)
	}
	source := C.int(s)
	if from != have0 || to != have {
		source = e.scratch
		C.station_copy(e.c, C.int(s), source, C.int(from), C.int(to))
		defer C.station_remove(e.c, source, C.int(from), C.int(to))
	}
	if C.station_export(e.c, source, C.int(from), &e.pieces[0], C.int(len(e.pieces)), &e.err) != C.STATION_OK {
		return fmt.Errorf("export [%d, %d) of sequence %d: %s", from, to, s, message(&e.err, "no reason given"))
	}
	return nil
}

// Import appends the pieces' rows to s, in free cells above all others. llama.cpp
// empties the sequence it reads into, so one that holds something gets them by
// way of scratch.
func (e *native) Import(s engine.SeqID, from int, pieces []engine.Piece) error {
	n, err := e.checkPieces(s, pieces)
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	to := from + n
	_, have := e.span(C.int(s))
	if from != have {
		return fmt.Errorf("import [%d, %d) into sequence %d, which ends at %d", from, to, s, have)
	}
	if e.used+n > e.info.Cells {
		return engine.ErrPoolFull
	}
	into := C.int(s)
	if have > 0 {
		into = e.scratch
	}
	if C.station_import(e.c, into, C.int(from), C.int(e.used), &e.pieces[0], C.int(len(e.pieces)), &e.err) != C.STATION_OK {
		drainLog(e.log)
		return fmt.Errorf("import [%d, %d) into sequence %d: %s", from, to, s, message(&e.err, "no reason given"))
	}
	if got0, got := e.span(into); got0 != from || got != to {
		C.station_remove(e.c, into, -1, -1)
		return fmt.Errorf("import gave positions [%d, %d) instead of [%d, %d)", got0, got, from, to)
	}
	e.used += n
	if into != C.int(s) {
		C.station_copy(e.c, into, C.int(s), C.int(from), C.int(to))
		C.station_remove(e.c, into, C.int(from), C.int(to))
	}
	return nil
}

// checkPieces refuses what would reach memory that is not the caller's, leaves
// the pieces for C in e.pieces, and gives the sum of their rows.
func (e *native) checkPieces(s engine.SeqID, pieces []engine.Piece) (int, error) {
	if len(e.info.KVRows) == 0 {
		return 0, errors.New("KV cannot be moved in blocks: " + e.info.KVRowsReason)
	}
	if s < 0 || int(s) >= e.info.Sequences {
		return 0, fmt.Errorf("sequence %d is not in [0, %d)", s, e.info.Sequences)
	}
	if len(pieces) == 0 {
		return 0, errors.New("no pieces")
	}
	n := 0
	e.pieces = e.pieces[:0]
	for i, p := range pieces {
		switch {
		case p.Rows < 1 || p.Rows > e.info.Cells:
			return 0, fmt.Errorf("piece %d is of a block of %d rows, not of 1 to %d", i, p.Rows, e.info.Cells)
		case len(p.Data) != p.Rows*e.info.KVBytesToken:
			return 0, fmt.Errorf("piece %d has %d bytes, a block of %d rows has %d", i, len(p.Data), p.Rows, p.Rows*e.info.KVBytesToken)
		case p.Skip < 0 || p.Take < 1 || p.Skip > p.Rows-p.Take:
			return 0, fmt.Errorf("piece %d is rows [%d, %d) of %d", i, p.Skip, p.Skip+p.Take, p.Rows)
		}
		n += p.Take
		e.pieces = append(e.pieces, C.station_rows{data: (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(p.Data))),
			rows: C.int32_t(p.Rows), skip: C.int32_t(p.Skip), take: C.int32_t(p.Take)})
	}
	return n, nil
}
