package native

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"thoth/station/engine"
)

// What BenchEngine measures; the names of Bench's figures say the rest.
const (
	benchPrompt  = 128       // tokens before a decode
	benchDecode  = 128       // tokens of one stream
	benchBatched = 64        // tokens of each of several streams
	benchCold    = 718       // tokens of the long prompt
	benchBlock   = 64        // positions of a block
	benchBlocks  = 11        // blocks moved at once
	benchMoves   = 64        // moves of each kind
	benchStored  = 256 << 20 // bytes of blocks they go around in, more than a processor's caches hold
)

// Bench is the speed of the engine alone: plain loops, greedy, no scheduler, no
// HTTP. The figures are tokens a second, of all streams together, and GB/s of
// KV moved out of the pool and into it, by 704 tokens in 11 blocks; 0 where it
// cannot be moved.
type Bench struct {
	Model     string   `json:"model"`
	ABI       string   `json:"engine_abi"`
	Device    string   `json:"device"`
	Libraries []string `json:"libraries"`
	KVType    string   `json:"kv_type"`
	Decode1   float64  `json:"decode_1"`
	Decode4   float64  `json:"decode_4"`
	Decode8   float64  `json:"decode_8"`
	Decode16  float64  `json:"decode_16"`
	Prefill   float64  `json:"prefill_718"`
	Export    float64  `json:"export_gb_s"`
	Import    float64  `json:"import_gb_s"`
}

// BenchEngine measures a loaded engine by its own methods. It resets the pool
// before each measurement and after the last.
func BenchEngine(e engine.Engine) (Bench, error) {
	i := e.Info()
	b := Bench{Model: i.File, ABI: i.ABI, Device: i.Backend.Device, Libraries: i.Backend.Libraries, KVType: i.KVTypeK + "/" + i.KVTypeV}
	const widest = 16
	if need := max(benchCold, widest*(benchPrompt+benchBatched)); i.Cells < need || i.Sequences < widest {
		return b, fmt.Errorf("the bench needs %d cells and %d sequences, the engine has %d and %d", need, widest, i.Cells, i.Sequences)
	}
	defer e.Reset()
	if _, err := benchStreams(e, 1, 16); err != nil { // not measured: the first steps are slow
		return b, err
	}
	for _, m := range []struct {
		streams, tokens int
		figure          *float64
	}{
		{1, benchDecode, &b.Decode1}, {4, benchBatched, &b.Decode4}, {8, benchBatched, &b.Decode8}, {widest, benchBatched, &b.Decode16},
	} {
		took, err := benchStreams(e, m.streams, m.tokens)
		if err != nil {
			return b, err
		}
		*m.figure = perSecond(m.streams*m.tokens, took)
	}
	e.Reset()
	start := time.Now()
	if _, err := benchPrefill(e, 0, benchCold, i.BatchSize); err != nil {
		return b, err
	}
	b.Prefill = perSecond(benchCold, time.Since(start))
	if m, ok := e.(engine.Mover); ok && len(i.KVRows) > 0 {
		if err := benchMover(e, m, &b); err != nil {
			return b, err
		}
	}
	return b, nil
}

// benchMover times the moves of the long prompt's KV, which the pool holds in
// sequence 0. Each import takes cells of its own.
func benchMover(e engine.Engine, m engine.Mover, b *Bench) error {
	const n = benchBlock * benchBlocks
	i := e.Info()
	size := n * i.KVBytesToken
	slab, err := unix.Mmap(-1, 0, max(benchStored/size, 1)*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_POPULATE)
	if err != nil {
		return fmt.Errorf("no memory for the bench's blocks: %w", err)
	}
	defer func() { _ = unix.Munmap(slab) }()
	pieces := make([]engine.Piece, benchBlocks)
	move := func(at int, f func(engine.SeqID, int, []engine.Piece) error, s engine.SeqID, took *time.Duration) error {
		data := slab[at*size%len(slab):]
		for p := range pieces {
			block := size / benchBlocks
			pieces[p] = engine.Piece{Data: data[p*block : (p+1)*block], Rows: benchBlock, Take: benchBlock}
		}
		start := time.Now()
		err := f(s, 0, pieces)
		*took += time.Since(start)
		return err
	}
	var out, in time.Duration
	used := benchCold
	for at := range benchMoves {
		if err := move(at, m.Export, 0, &out); err != nil {
			return err
		}
	}
	for at := range benchMoves {
		if used+n > i.Cells {
			e.Reset()
			used = 0
		}
		if err := move(at, m.Import, 1, &in); err != nil {
			return err
		}
		e.Retire(1)
		used += n
	}
	gigabytes := float64(benchMoves) * float64(size) / 1e9
	b.Export, b.Import = gigabytes/out.Seconds(), gigabytes/in.Seconds()
	return nil
}

// benchStreams times steps of n sequences that each decode count tokens behind a prompt of their own.
func benchStreams(e engine.Engine, n, count int) (time.Duration, error) {
	e.Reset()
	size := e.Info().BatchSize
	if n > size {
		return 0, fmt.Errorf("%d streams do not fit a batch of %d", n, size)
	}
	reqs := make([]engine.SampleRequest, n)
	out := make([]engine.Sampled, n)
	next := make([]engine.Token, n)
	for s := range n {
		smp, err := e.NewSampler(engine.SamplerParams{TopP: 1, TypicalP: 1, RepeatPenalty: 1}, nil)
		if err != nil {
			return 0, err
		}
		defer smp.Free()
		row, err := benchPrefill(e, engine.SeqID(s), benchPrompt, size)
		if err != nil {
			return 0, err
		}
		reqs[s] = engine.SampleRequest{Row: row, Sampler: smp, NoEOG: true}
		if err := e.Sample(reqs[s:s+1], out[s:s+1]); err != nil {
			return 0, err
		}
		next[s] = out[s].Token
	}
	var b engine.Batch
	start := time.Now()
	for step := range count {
		b.Reset()
		for s := range n {
			reqs[s].Row = b.Add(next[s], benchPrompt+step, engine.SeqID(s), true)
		}
		if err := e.Decode(&b); err != nil {
			return 0, err
		}
		if err := e.Sample(reqs, out); err != nil {
			return 0, err
		}
		for s := range n {
			next[s] = out[s].Token
		}
	}
	return time.Since(start), nil
}

// benchPrefill evaluates a prompt without meaning and gives its last row.
func benchPrefill(e engine.Engine, s engine.SeqID, n, size int) (int, error) {
	vocabulary := e.Info().Vocabulary
	var b engine.Batch
	row := 0
	for p := 0; p < n; p += size {
		b.Reset()
		for i := p; i < min(p+size, n); i++ {
			t := engine.Token((int(s)*101 + i*7919) % (vocabulary / 2))
			row = b.Add(t, i, s, i == n-1)
		}
		if err := e.Decode(&b); err != nil {
			return 0, err
		}
	}
	return row, nil
}

func perSecond(n int, d time.Duration) float64 { return float64(n) / d.Seconds() }
