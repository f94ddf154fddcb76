package native

// #include "shim.h"
import "C"

import (
	"fmt"
	"math"
	"unsafe"

	"thoth/station/engine"
)

const (
	vocabularyBPE = 2        // LLAMA_VOCAB_TYPE_BPE: its tokeniser uses regular expressions
	vocabularyWPM = 3        // LLAMA_VOCAB_TYPE_WPM: BERT's
	maxText       = 64 << 20 // bytes of one text
)

// vocabulary is every token's bytes, read once: Piece costs no call into C.
type vocabulary struct {
	bytes   []byte
	at      []int32  // token's bytes are bytes[at[t]:at[t+1]]
	control []uint64 // bit set
	single  [256]engine.Token
	cut     bool       // runs must be cut before the tokeniser sees them
	words   *wordPiece // tokenises in llama.cpp's place, nil for others than BERT
}

func (v *vocabulary) read(c *C.station_engine, n int, cut bool) error {
	v.cut = cut
	v.at = make([]int32, 1, n+1)
	v.control = make([]uint64, (n+63)/64)
	for i := range v.single {
		v.single[i] = -1
	}
	buf := make([]byte, 256)
	for t := range n {
		for {
			k := int(C.station_piece(c, C.int32_t(t), true, (*C.char)(unsafe.Pointer(&buf[0])), C.int(len(buf))))
			if k >= 0 {
				v.bytes = append(v.bytes, buf[:k]...)
				break
			}
			if k == math.MinInt32 || -k <= len(buf) {
				return fmt.Errorf("token %d has no text", t)
			}
			buf = make([]byte, -k)
		}
		if len(v.bytes) > math.MaxInt32 {
			return fmt.Errorf("its texts are too long")
		}
		v.at = append(v.at, int32(len(v.bytes)))
		if C.station_is_control(c, C.int32_t(t)) {
			v.control[t/64] |= 1 << (t % 64)
		} else if p := v.piece(t); len(p) == 1 && v.single[p[0]] < 0 {
			v.single[p[0]] = engine.Token(t)
		}
	}
	return nil
}

func (v *vocabulary) piece(t int) []byte { return v.bytes[v.at[t]:v.at[t+1]:v.at[t+1]] }

// Piece gives a token's bytes.
func (e *native) Piece(t engine.Token, special bool) []byte {
	if t < 0 || int(t) >= e.info.Vocabulary {
		return nil
	}
	if !special && e.vocab.control[t/64]&(1<<(t%64)) != 0 {
		return nil
	}
	return e.vocab.piece(int(t))
}

// Tokenize gives the tokens of text, whatever its bytes: what is not UTF-8
// becomes byte tokens, and U+FFFD where the vocabulary has none for a byte.
func (e *native) Tokenize(text string, special bool) ([]engine.Token, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("a text of %d bytes is longer than the tokeniser takes (%d)", len(text), maxText)
	}
	if text == "" {
		return nil, nil
	}
	if e.vocab.words != nil && !special {
		return e.vocab.words.tokenize(text), nil
	}
	pieces := []piece{{text: text}}
	if e.vocab.cut {
		pieces = cutRuns(text)
	}
	var out []engine.Token
	var err error
	for _, p := range pieces {
		if p.raw {
			out, err = e.spell(out, p.text)
		} else {
			out, err = e.tokenize(out, p.text, special)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// spell appends one token per byte; for a byte no token stands for, what the
// tokeniser makes of it.
func (e *native) spell(out []engine.Token, text string) ([]engine.Token, error) {
	for i := range len(text) {
		if t := e.vocab.single[text[i]]; t >= 0 {
			out = append(out, t)
			continue
		}
		var err error
		if out, err = e.tokenize(out, text[i:i+1], false); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// tokenize appends one piece's tokens.
func (e *native) tokenize(out []engine.Token, text string, special bool) ([]engine.Token, error) {
	var fail C.station_error
	room := len(text)/2 + 16
	for {
		start := len(out)
		out = append(out, make([]engine.Token, room)...)
		n := int(C.station_tokenize(e.c, (*C.char)(unsafe.Pointer(unsafe.StringData(text))), C.int(len(text)), C.bool(special),
			(*C.int32_t)(unsafe.Pointer(&out[start])), C.int(room), &fail))
		if n >= 0 {
			return out[:start+n], nil
		}
		out = out[:start]
		if n == math.MinInt32 || -n <= room {
			return nil, fmt.Errorf("tokenise: %s", message(&fail, "the text is too long"))
		}
		room = -n
	}
}
