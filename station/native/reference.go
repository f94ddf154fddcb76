package native

// #include "shim.h"
import "C"

import (
	"errors"
	"unsafe"

	"thoth/station/engine"
)

// What tests look at. A test file cannot use cgo, so it stands here.

// referenceDraws gives what llama.cpp's own chain draws n times from one row.
func referenceDraws(row []float32, p engine.SamplerParams, prompt []engine.Token, n int) ([]engine.Token, error) {
	cp, free := samplerParams(p, prompt)
	defer free()
	out := make([]engine.Token, n)
	var fail C.station_error
	if C.station_sample_reference((*C.float)(unsafe.Pointer(&row[0])), C.int(len(row)), cp, C.int(n), (*C.int32_t)(unsafe.Pointer(&out[0])), &fail) != C.STATION_OK {
		return nil, errors.New(message(&fail, "no reason given"))
	}
	return out, nil
}

// grammarTokens tells for each token whether it may follow those taken: by
// llama.cpp's own grammar, or by ours.
func (e *native) grammarTokens(p engine.SamplerParams, taken []engine.Token, llamas bool) ([]bool, error) {
	cp, free := samplerParams(p, nil)
	defer free()
	may := make([]bool, e.info.Vocabulary)
	first := (*C.int32_t)(unsafe.Pointer(unsafe.SliceData(taken)))
	out := (*C.uint8_t)(unsafe.Pointer(&may[0]))
	var fail C.station_error
	var result C.int
	if llamas {
		result = C.station_grammar_reference(e.c, cp.grammar, C.int(len(taken)), first, out, &fail)
	} else {
		result = C.station_grammar_tokens(e.c, cp, C.int(len(taken)), first, out, &fail)
	}
	if result != C.STATION_OK {
		return nil, errors.New(message(&fail, "no reason given"))
	}
	return may, nil
}

// grammarsSize gives the bytes of the grammars kept.
func (e *native) grammarsSize() int { return int(C.station_grammars_size(e.c)) }

// rowSlice lets a held row be read and written.
func rowSlice(h *held, n int) []float32 { return unsafe.Slice((*float32)(unsafe.Pointer(h.row)), n) }
