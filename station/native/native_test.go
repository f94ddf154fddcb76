//go:build cgo

package native

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/engine"
)

// testModel is the default model; make fetches it.
func testModel(t testing.TB) string {
	path := os.Getenv("THOTH_TEST_MODEL")
	if path == "" {
		home, err := os.UserHomeDir()
		require.NoError(t, err)
		path = filepath.Join(home, ".cache", "thoth", "models", "SmolLM2-135M-Instruct.Q4_1.gguf")
	}
	_, err := os.Stat(path)
	require.NoError(t, err, "the test model is not there: make model fetches it, THOTH_TEST_MODEL names another")
	return path
}

// libraryDir is where make backends puts the kernel libraries.
func libraryDir(t testing.TB) string {
	dir := os.Getenv("THOTH_LIBRARY_DIR")
	if dir == "" {
		dir = "../../build/lib/ollama"
	}
	dir, err := filepath.Abs(dir)
	require.NoError(t, err)
	_, err = os.Stat(dir)
	require.NoError(t, err, "the kernel libraries are not there: make backends builds them")
	return dir
}

// open loads the test model with a small pool and one thread, since two that
// spin beside other test processes collapse; change adjusts the options.
func open(t testing.TB, change func(*Options)) *native {
	o := Options{Model: testModel(t), LibraryDir: libraryDir(t), Cells: 1024, Sequences: 16, Threads: 1, Poll: -1, Backend: BackendCPU}
	if change != nil {
		change(&o)
	}
	e, err := Load(context.Background(), o, nil)
	require.NoError(t, err)
	t.Cleanup(e.Close)
	return e.(*native)
}

// prefill evaluates tokens at positions from on, in batches of chunk, and returns the last row.
func prefill(t testing.TB, e engine.Engine, s engine.SeqID, tokens []engine.Token, from, chunk int) int {
	row := 0
	var b engine.Batch
	for i := 0; i < len(tokens); i += chunk {
		b.Reset()
		for j := i; j < min(i+chunk, len(tokens)); j++ {
			row = b.Add(tokens[j], from+j, s, j == len(tokens)-1)
		}
		require.NoError(t, e.Decode(&b))
	}
	return row
}

// greedy continues a sequence whose last row is given, by n tokens.
func greedy(t testing.TB, e engine.Engine, s engine.SeqID, pos, row, n int) []engine.Token {
	smp, err := e.NewSampler(plain(), nil)
	require.NoError(t, err)
	defer smp.Free()
	var out []engine.Token
	var b engine.Batch
	got := make([]engine.Sampled, 1)
	for range n {
		require.NoError(t, e.Sample([]engine.SampleRequest{{Row: row, Sampler: smp, NoEOG: true}}, got))
		out = append(out, got[0].Token)
		b.Reset()
		row = b.Add(got[0].Token, pos, s, true)
		require.NoError(t, e.Decode(&b))
		pos++
	}
	return out
}

// plain are parameters with everything off: greedy.
func plain() engine.SamplerParams {
	return engine.SamplerParams{TopP: 1, TypicalP: 1, RepeatPenalty: 1}
}

// text tokenises.
func text(t testing.TB, e engine.Engine, s string) []engine.Token {
	tokens, err := e.Tokenize(s, true)
	require.NoError(t, err)
	return tokens
}

// filler is a run of tokens without meaning, different for each seed.
func filler(n, seed int) []engine.Token {
	out := make([]engine.Token, n)
	for i := range out {
		out[i] = engine.Token(300 + (i*7919+seed*104729)%40000)
	}
	return out
}

const question = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\nWhy is the sky blue?<|im_end|>\n<|im_start|>assistant\n"

func TestLoad_Describes(t *testing.T) {
	var seen []float32
	var said []string
	o := Options{Model: testModel(t), LibraryDir: libraryDir(t), Poll: -1, Backend: BackendCPU,
		Log: func(level, line string) { said = append(said, level+" "+line) }}
	e, err := Load(context.Background(), o, func(p float32) { seen = append(seen, p) })
	require.NoError(t, err)
	defer e.Close()
	i := e.Info()
	t.Logf("%+v", i.Backend)
	require.Equal(t, "llama", i.Architecture)
	require.Equal(t, 49152, i.Vocabulary)
	require.Equal(t, 8192, i.ContextLength)
	require.Equal(t, 4*8192, i.Cells)
	require.Equal(t, 22.5*1024, float64(i.KVBytesToken))
	require.Equal(t, 64, i.Sequences)
	require.Equal(t, 512, i.BatchSize)
	require.True(t, i.KVCut)
	require.True(t, i.FlashAttention)
	require.Contains(t, i.ChatTemplate, "im_start")
	require.Contains(t, i.EOG, i.EOS)
	require.Equal(t, "ollama-v0.24.0+llama.cpp-ec98e2002+state1", i.ABI)
	require.False(t, i.Backend.Slow)
	require.Empty(t, i.Backend.Errors)
	require.Len(t, i.Backend.Libraries, 1)
	require.NotEmpty(t, seen)
	require.IsNonDecreasing(t, seen)
	require.Empty(t, said, "a good model loads without a warning")
}

func TestEngine_Answers(t *testing.T) {
	e := open(t, nil)
	prompt := text(t, e, question)
	row := prefill(t, e, 0, prompt, 0, 64)
	out := greedy(t, e, 0, len(prompt), row, 24)
	var answer []byte
	for _, tok := range out {
		answer = append(answer, e.Piece(tok, false)...)
	}
	t.Logf("%q", answer)
	require.Contains(t, string(answer), "sky")
}
