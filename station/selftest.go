package station

import (
	"fmt"
	"math"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"thoth/station/engine"
)

// Check is one line of a self-test.
type Check struct {
	Name   string
	OK     bool
	Detail string
	Took   time.Duration
}

// selfTestText is long enough that its cells can be cut in the middle.
var selfTestText = strings.Repeat("The river carried the boats past the old mill, and nobody on the bank said a word. ", 6)

// maxDrift is how far a log-probability may move over a save and a restore, in
// nat. Kernels whose result does not depend on the number of rows give 0; F16
// weights move by about 0.02 where a chunk ends elsewhere.
const maxDrift = 0.05

// SelfTest proves on an idle engine, in a few hundred milliseconds, what the
// station builds on: text becomes tokens and comes back, greedy sampling repeats
// itself, and KV that was saved, moved and cut gives the same answer. The pool
// is empty afterwards.
func SelfTest(eng engine.Engine) []Check {
	t := newSelfTest(eng, 128)
	if m, ok := eng.(engine.Embedder); ok && m.Embedding().Only {
		t.check("vectors", func() (string, error) { return vectorsCheck(eng, m) })
		return t.checks
	}
	defer eng.Reset()
	t.check("tokens", t.tokens)
	t.check("repeats", t.repeats)
	t.check("restore", func() (string, error) { return t.restored(len(t.prompt)-1, 0) })
	t.check("restore behind others", func() (string, error) { return t.restored(len(t.prompt)-1, 33) })
	t.check("cut", func() (string, error) { return t.restored(len(t.prompt)/2, 33) })
	if t.moves() {
		t.check("blocks, with a hole", func() (string, error) { return t.moved(len(t.prompt)-1, 33, 7) })
		t.check("blocks, cut", func() (string, error) { return t.moved(len(t.prompt)/2, 33, 64) })
	}
	return t.checks
}

// selfCheck is the part of SelfTest that every load pays for, some sixty tokens
// of computing: KV can be saved, moved and cut, in one piece and in blocks with
// other cells between them, so sequences may be compacted, sessions go on where
// they were, and stored blocks be believed.
func selfCheck(eng engine.Engine) error {
	if m, ok := eng.(engine.Embedder); ok && m.Embedding().Only {
		_, err := vectorsCheck(eng, m)
		return err
	}
	t := newSelfTest(eng, 16)
	defer eng.Reset()
	if _, err := t.tokens(); err != nil {
		return err
	}
	if _, err := t.restored(len(t.prompt)/2, 5); err != nil {
		return err
	}
	if !t.moves() {
		return nil
	}
	_, err := t.moved(len(t.prompt)/2, 5, 5)
	return err
}

type selfTest struct {
	eng    engine.Engine
	batch  *engine.Batch
	length int // of the prompt, at most
	prompt []engine.Token
	checks []Check
}

func newSelfTest(eng engine.Engine, length int) *selfTest {
	i := eng.Info()
	return &selfTest{eng: eng, batch: &engine.Batch{}, length: min(length, i.ContextLength-16, i.Cells/4)}
}

// moves says whether KV can be moved in blocks.
func (t *selfTest) moves() bool { return len(t.eng.Info().KVRows) > 0 }

func (t *selfTest) check(name string, run func() (string, error)) {
	start := time.Now()
	detail, err := run()
	if err != nil {
		detail = err.Error()
	}
	t.checks = append(t.checks, Check{Name: name, OK: err == nil, Detail: detail, Took: time.Since(start)})
}

func (t *selfTest) tokens() (string, error) {
	tokens, err := t.eng.Tokenize(selfTestText, false)
	if err != nil {
		return "", err
	}
	var back []byte
	for _, tok := range tokens {
		back = append(back, t.eng.Piece(tok, false)...)
	}
	// Some vocabularies put a space first.
	if strings.TrimLeft(string(back), " ") != selfTestText {
		return "", fmt.Errorf("text does not come back from its tokens: %.40q", back)
	}
	t.prompt = tokens
	if bos := t.eng.Info().BOS; t.eng.Info().AddBOS && bos >= 0 {
		t.prompt = append([]engine.Token{bos}, tokens...)
	}
	t.prompt = t.prompt[:min(len(t.prompt), t.length)]
	return fmt.Sprintf("%d tokens", len(t.prompt)), nil
}

func (t *selfTest) repeats() (string, error) {
	var first []engine.Token
	for range 2 {
		t.eng.Reset()
		row, err := t.decode(0, 0, len(t.prompt))
		if err != nil {
			return "", err
		}
		answer, err := t.greedy(row, 8)
		if err != nil {
			return "", err
		}
		if first == nil {
			first = answer
		} else if fmt.Sprint(first) != fmt.Sprint(answer) {
			return "", fmt.Errorf("the same prompt gave %v and %v", first, answer)
		}
	}
	return fmt.Sprintf("%d tokens", len(first)), nil
}

// restored saves the first n positions of the prompt, empties the pool, puts
// junk tokens of another sequence first, restores, and computes the rest.
func (t *selfTest) restored(n, junk int) (string, error) {
	if n < 1 {
		return "", fmt.Errorf("the prompt is too short")
	}
	t.eng.Reset()
	row, err := t.decode(0, 0, len(t.prompt))
	if err != nil {
		return "", err
	}
	fresh, err := t.eng.Logprobs(row, nil, t.prompt[0], 20)
	if err != nil {
		return "", err
	}
	st, err := t.eng.Save(0, 0, n)
	if err != nil {
		return "", err
	}
	defer st.Free()
	t.eng.Reset()
	if junk > 0 && t.eng.Info().Sequences > 1 {
		if _, err := t.decode(1, 0, min(junk, len(t.prompt))); err != nil {
			return "", err
		}
	}
	if err := t.eng.Restore(0, st); err != nil {
		return "", err
	}
	if row, err = t.decode(0, n, len(t.prompt)); err != nil {
		return "", err
	}
	got, err := t.eng.Logprobs(row, nil, t.prompt[0], 20)
	if err != nil {
		return "", err
	}
	drift := drift(fresh, got)
	if drift > maxDrift {
		return "", fmt.Errorf("log-probabilities moved by %.4f", drift)
	}
	return fmt.Sprintf("%d positions, %d KiB, drift %g", n, st.Bytes()/1024, drift), nil
}

// moved does the same with blocks of so many positions: it copies the prompt but
// its last token out, and puts the first n back in two runs, the second behind
// cells of another sequence, cutting a block where n cuts it.
func (t *selfTest) moved(n, junk, positions int) (string, error) {
	t.eng.Reset()
	row, err := t.decode(0, 0, len(t.prompt))
	if err != nil {
		return "", err
	}
	fresh, err := t.eng.Logprobs(row, nil, t.prompt[0], 20)
	if err != nil {
		return "", err
	}
	rowBytes := 0
	for _, b := range t.eng.Info().KVRows {
		rowBytes += b
	}
	memory, err := unix.Mmap(-1, 0, rowBytes*len(t.prompt), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return "", fmt.Errorf("no memory for blocks: %w", err)
	}
	defer func() { _ = unix.Munmap(memory) }()
	var blocks []engine.Piece
	for from := 0; from < len(t.prompt)-1; from += positions {
		rows := min(positions, len(t.prompt)-1-from)
		blocks = append(blocks, engine.Piece{Data: memory[from*rowBytes : (from+rows)*rowBytes], Rows: rows, Take: rows})
	}
	if err := t.eng.Export(0, 0, blocks); err != nil {
		return "", err
	}
	t.eng.Reset()
	others := t.eng.Info().Sequences > 1
	if others {
		if _, err := t.decode(1, 0, min(junk, len(t.prompt))); err != nil {
			return "", err
		}
	}
	at := 0
	for _, run := range [][2]int{{0, n / 2}, {n / 2, n}} {
		if run[0] == run[1] {
			continue
		}
		if err := t.eng.Import(0, at, cutPieces(blocks, positions, run[0], run[1])); err != nil {
			return "", err
		}
		at = run[1]
		if others && run[1] < n { // a hole between the runs
			if _, err := t.decode(1, min(junk, len(t.prompt)), min(junk+3, len(t.prompt))); err != nil {
				return "", err
			}
			t.eng.Retire(1)
		}
	}
	if row, err = t.decode(0, n, len(t.prompt)); err != nil {
		return "", err
	}
	got, err := t.eng.Logprobs(row, nil, t.prompt[0], 20)
	if err != nil {
		return "", err
	}
	if drift := drift(fresh, got); drift > maxDrift {
		return "", fmt.Errorf("log-probabilities moved by %.4f after blocks were put back", drift)
	}
	return fmt.Sprintf("%d positions in blocks of %d", n, positions), nil
}

// cutPieces are the pieces of positions [from, to) of equal blocks.
func cutPieces(blocks []engine.Piece, positions, from, to int) []engine.Piece {
	var out []engine.Piece
	for i, b := range blocks {
		lo, hi := max(from, i*positions), min(to, i*positions+b.Rows)
		if lo < hi {
			b.Skip, b.Take = lo-i*positions, hi-lo
			out = append(out, b)
		}
	}
	return out
}

// decode evaluates the prompt's positions [from, to) in sequence s and returns
// the last one's row.
func (t *selfTest) decode(s engine.SeqID, from, to int) (int, error) {
	t.eng.ClearAbort()
	row := 0
	for size := t.eng.Info().BatchSize; from < to; {
		t.batch.Reset()
		for end := min(from+size, to); from < end; from++ {
			row = t.batch.Add(t.prompt[from], from, s, from == to-1)
		}
		if err := t.eng.Decode(t.batch); err != nil {
			return 0, err
		}
	}
	return row, nil
}

func (t *selfTest) greedy(row, n int) ([]engine.Token, error) {
	sampler, err := t.eng.NewSampler(engine.SamplerParams{TopP: 1, TypicalP: 1, RepeatPenalty: 1}, nil)
	if err != nil {
		return nil, err
	}
	defer sampler.Free()
	var answer []engine.Token
	out := make([]engine.Sampled, 1)
	for i := range n {
		if err := t.eng.Sample([]engine.SampleRequest{{Row: row, Sampler: sampler}}, out); err != nil {
			return nil, err
		}
		answer = append(answer, out[0].Token)
		t.batch.Reset()
		row = t.batch.Add(out[0].Token, len(t.prompt)+i, 0, true)
		if err := t.eng.Decode(t.batch); err != nil {
			return nil, err
		}
	}
	return answer, nil
}

// drift is the largest distance between two lists of the likeliest tokens, rank
// by rank.
func drift(a, b engine.TokenLogprob) float64 {
	if len(a.Top) != len(b.Top) {
		return math.Inf(1)
	}
	d := math.Abs(float64(a.Logprob - b.Logprob))
	for i := range a.Top {
		d = max(d, math.Abs(float64(a.Top[i].Logprob-b.Top[i].Logprob)))
	}
	return d
}
