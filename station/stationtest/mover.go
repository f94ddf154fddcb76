package stationtest

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"thoth/station/engine"
)

// The parts of a position's KV: their sizes differ, so that rows taken from the
// wrong place are no rows.
var kvRows = []int{20, 28, 24}

const kvBytesToken = 20 + 28 + 24

// moves counts exports and imports.
type moves struct{ exports, imports moveCount }

type moveCount struct {
	calls     int
	positions int
	failures  map[int]error // by call number
}

func (m *moveCount) fail(n int, err error) {
	if m.failures == nil {
		m.failures = map[int]error{}
	}
	m.failures[m.calls+n] = err
}

// call counts one and gives the failure it was ordered.
func (m *moveCount) call() error {
	m.calls++
	return m.failures[m.calls]
}

// Export writes the cells of positions from from on into the pieces.
func (e *Engine) Export(s engine.SeqID, from int, pieces []engine.Piece) error {
	defer e.enter("Export")()
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.checkMove("Export", s, pieces); err != nil {
		return err
	}
	n := engine.Positions(pieces)
	if from < 0 || from+n > e.pool.length[s] {
		e.violate("Export of sequence %d, positions %d to %d, which holds %d tokens", s, from, from+n, e.pool.length[s])
		return engine.ErrDecode
	}
	cells, err := e.pool.history(s, int32(from+n-1))
	if err != nil {
		e.violate("%v", err)
		return engine.ErrDecode
	}
	failure := e.moves.exports.call()
	if failure == nil {
		e.moves.exports.positions += n
	}
	cells = cells[from:]
	for _, p := range pieces {
		for row := range p.Take {
			for part := range kvRows {
				out := rowOf(p, part, p.Skip+row)
				writeRow(out, part, cells[row])
				if failure != nil {
					out[0]++ // what a copy that broke off leaves behind
				}
			}
		}
		cells = cells[p.Take:]
	}
	return failure
}

// Import reads cells out of the pieces' rows and appends them to s.
func (e *Engine) Import(s engine.SeqID, from int, pieces []engine.Piece) error {
	defer e.enter("Import")()
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.checkMove("Import", s, pieces); err != nil {
		return err
	}
	n := engine.Positions(pieces)
	switch {
	case from != e.pool.length[s]:
		e.violate("Import of position %d into sequence %d, which holds %d tokens", from, s, e.pool.length[s])
		return engine.ErrDecode
	case from+n > e.info.ContextLength:
		e.violate("Import up to position %d, context_length is %d", from+n-1, e.info.ContextLength)
		return engine.ErrDecode
	}
	failure := e.moves.imports.call()
	switch {
	case n > e.pool.room():
		return engine.ErrPoolFull
	case failure != nil:
		return failure
	}
	cells := make([]kv, 0, n)
	for _, p := range pieces {
		for row := range p.Take {
			k, err := readPosition(p, p.Skip+row)
			if err == nil && int(k.pos) != from+len(cells) {
				err = fmt.Errorf("row of position %d where %d belongs", k.pos, from+len(cells))
			}
			if err != nil {
				e.violate("Import into sequence %d: %v", s, err)
				return engine.ErrDecode
			}
			if e.o.ImportDrifts {
				k.past++
			}
			cells = append(cells, k)
		}
	}
	e.moves.imports.positions += n
	for _, k := range cells {
		e.pool.append(k, s)
	}
	return nil
}

// checkMove refuses what would read or write outside a block.
func (e *Engine) checkMove(method string, s engine.SeqID, pieces []engine.Piece) error {
	bad := func(format string, args ...any) error {
		e.violate(method+" "+format, args...)
		return engine.ErrDecode
	}
	switch {
	case len(e.info.KVRows) == 0:
		return bad("of an engine that cannot move KV")
	case !e.validSeq(s):
		return bad("of sequence %d, want 0 to %d", s, e.info.Sequences-1)
	case e.poisoned[s]:
		return bad("of sequence %d, which was not retired after its decode failed", s)
	case len(pieces) == 0:
		return bad("of no pieces")
	}
	for i, p := range pieces {
		switch {
		case p.Rows < 1 || len(p.Data) != p.Rows*kvBytesToken:
			return bad("piece %d: %d bytes for %d rows of %d", i, len(p.Data), p.Rows, kvBytesToken)
		case p.Skip < 0 || p.Take < 1 || p.Skip+p.Take > p.Rows:
			return bad("piece %d: rows %d to %d of %d", i, p.Skip, p.Skip+p.Take, p.Rows)
		}
	}
	return nil
}

// rowOf is the place of one part of one row: blocks are part-major.
func rowOf(p engine.Piece, part, row int) []byte {
	at := 0
	for _, size := range kvRows[:part] {
		at += size * p.Rows
	}
	size := kvRows[part]
	return p.Data[at+row*size:][:size:size]
}

// writeRow writes token, position, past and a checksum, which fills the row.
func writeRow(out []byte, part int, k kv) {
	binary.LittleEndian.PutUint32(out[0:], uint32(k.token))
	binary.LittleEndian.PutUint32(out[4:], uint32(k.pos))
	binary.LittleEndian.PutUint64(out[8:], k.past)
	sum := uint32(mix(mix(mix(uint64(part+1))^k.past) ^ uint64(uint32(k.token))<<32 ^ uint64(uint32(k.pos))))
	for i := 16; i < len(out); i += 4 {
		binary.LittleEndian.PutUint32(out[i:], sum+uint32(i))
	}
}

// readPosition reads a row's parts, which must agree.
func readPosition(p engine.Piece, row int) (kv, error) {
	var first kv
	for part := range kvRows {
		in := rowOf(p, part, row)
		k := kv{
			token: engine.Token(binary.LittleEndian.Uint32(in[0:])),
			pos:   int32(binary.LittleEndian.Uint32(in[4:])),
			past:  binary.LittleEndian.Uint64(in[8:]),
		}
		want := make([]byte, len(in))
		writeRow(want, part, k)
		switch {
		case !bytes.Equal(in, want):
			return kv{}, fmt.Errorf("part %d of row %d is no row", part, row)
		case part == 0:
			first = k
		case k != first:
			return kv{}, fmt.Errorf("part %d of row %d is another token's", part, row)
		}
	}
	return first, nil
}
