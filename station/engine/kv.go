package engine

// Mover moves KV between the pool and blocks: memory of the caller's, which
// outlives sequences. Where Info.KVRows is empty, it only fails.
//
// A block of n positions is Σ Info.KVRows times n bytes, part by part: for each
// entry of Info.KVRows (the keys of a layer, the values of a layer, ...) the n
// rows of that part, in order of position. There is no header: what a block
// belongs to is its owner's to know, and nothing in it can lead the engine
// astray but the numbers themselves.
type Mover interface {
	// Export copies the KV of positions [from, from+ΣTake) of s out, into the
	// pieces one after another. The sequence must hold them. loop.
	Export(s SeqID, from int, pieces []Piece) error
	// Import appends the pieces' rows to s, at positions from its length on, taking
	// a cell for each, all contiguous: one run, whatever the number of pieces. from
	// must be the sequence's length. On failure the sequence is as before; with
	// ErrPoolFull nothing was tried. loop.
	Import(s SeqID, from int, pieces []Piece) error
}

// Piece is a run of rows of a block. Data must not be memory of Go's heap: the
// engine hands lists of such addresses to C.
type Piece struct {
	Data []byte // the whole block: Rows positions
	Rows int    // positions in Data
	Skip int    // first row taken
	Take int    // rows taken, at least 1; Skip+Take <= Rows
}

// Positions is the sum of the pieces' rows.
func Positions(pieces []Piece) int {
	n := 0
	for _, p := range pieces {
		n += p.Take
	}
	return n
}
