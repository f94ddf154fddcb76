package engine

import (
	"context"
	"errors"
)

// Token is a vocabulary id.
type Token = int32

// SeqID names a sequence, 0 <= id < Info.Sequences.
type SeqID = int32

// Errors of Decode and Restore.
var (
	// ErrPoolFull: the pool has no room for this batch. Nothing was evaluated.
	ErrPoolFull = errors.New("KV pool is full")
	// ErrAborted: Abort was called; none of the batch's tokens remain in the pool.
	ErrAborted = errors.New("decode aborted")
	// ErrDecode: the engine failed. The pool's state is unknown for the batch's
	// sequences; the caller retires them.
	ErrDecode = errors.New("decode failed")
	// ErrGrammar: a grammar does not parse, costs more than it may, or has come
	// to where no token of the vocabulary goes on.
	ErrGrammar = errors.New("grammar cannot be enforced")
)

// Engine computes. See the package comment for threads and placement.
type Engine interface {
	// Info is constant after load.
	Info() Info

	// Tokenize gives the tokens of text, without BOS. With special, control
	// tokens written in text become those tokens; without, never.
	Tokenize(text string, special bool) ([]Token, error)
	// Piece gives a token's bytes. Control tokens have none unless special. The
	// slice is shared and must not be changed.
	Piece(t Token, special bool) []byte
	// Abort makes a running Decode return ErrAborted soon. It stays in force
	// until ClearAbort. It may have no effect on a backend that cannot abort.
	Abort()
	ClearAbort()

	// Decode evaluates a batch. Its tokens take the next len(Tokens) cells. loop.
	Decode(b *Batch) error
	// Sample draws one token for each request from the rows of the last Decode,
	// and feeds it to the request's sampler. out has the requests' length. loop.
	Sample(reqs []SampleRequest, out []Sampled) error
	// Logprobs gives, for row i of the last Decode, or for held where that is not
	// nil, the log-probability of token next and the top alternatives. loop.
	Logprobs(row int, held Held, next Token, top int) (TokenLogprob, error)

	// Hold copies row i's logits out, so that Sample and Logprobs can use them
	// after later Decodes: a session between two calls keeps its place. loop.
	Hold(row int) (Held, error)

	// NewSampler builds a sampler chain. prompt feeds the repeat penalty's
	// window. Safe from any goroutine. Errors: ErrGrammar.
	NewSampler(p SamplerParams, prompt []Token) (Sampler, error)

	// Retire turns all cells of a sequence into ballast. loop.
	Retire(s SeqID)
	// Fork lets dst share src's cells of positions [0, n). No cell is taken. loop.
	Fork(src, dst SeqID, n int)
	// Save copies the KV of positions [from, to) out. loop.
	Save(s SeqID, from, to int) (State, error)
	// Restore puts a saved state into s at its own positions, taking its length
	// in cells, in order. On failure the sequence is as before. loop.
	Restore(s SeqID, st State) error
	// Reset empties the pool, ballast included. loop.
	Reset()

	Mover

	// Close frees the model. No call may follow. loop.
	Close()
}

// Held is one row's logits, kept past the Decode that made them.
type Held interface {
	Free()
}

// State is saved KV of a position range, in memory the engine owns.
type State interface {
	// Len is the number of positions.
	Len() int
	// Bytes is the size in memory.
	Bytes() int
	// Free gives the memory back; the state is dead after it.
	Free()
}

// Sampler is one sequence's chain with its state: generator, penalties' window,
// grammar position. It is used by Sample only, and freed by its owner.
type Sampler interface {
	// Seed is the seed in use.
	Seed() uint64
	Free()
}

// Batch is one decode call. All slices have one length; it is reused between steps.
type Batch struct {
	Tokens []Token
	Pos    []int32
	Seq    []SeqID
	Output []bool // row wanted
}

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() {
	b.Tokens, b.Pos, b.Seq, b.Output = b.Tokens[:0], b.Pos[:0], b.Seq[:0], b.Output[:0]
}

// Add appends a token and returns its row index.
func (b *Batch) Add(t Token, pos int, s SeqID, output bool) int {
	b.Tokens = append(b.Tokens, t)
	b.Pos = append(b.Pos, int32(pos))
	b.Seq = append(b.Seq, s)
	b.Output = append(b.Output, output)
	return len(b.Tokens) - 1
}

// Len is the number of tokens.
func (b *Batch) Len() int { return len(b.Tokens) }

// SampleRequest asks for one token of one row (a batch index with Output).
type SampleRequest struct {
	Row      int
	Held     Held // where not nil, used instead of Row
	Sampler  Sampler
	Logprobs bool // fill Sampled.Logprob
	Top      int  // alternatives, [0, 20]
	NoEOG    bool // never sample an end-of-generation token
}

// Sampled is a drawn token. Logprob and Top are of the model's own
// distribution: before temperature, penalties, bias and grammar.
type Sampled struct {
	Err     error // why no token could be drawn for this request; the others are not affected
	Token   Token
	Logprob float32
	Top     []TokenLogprob // most likely first
}

// TokenLogprob is a token with its natural log-probability.
type TokenLogprob struct {
	Token   Token
	Logprob float32
	Top     []TokenLogprob
}

// SamplerParams are resolved: no defaults are left to fill.
type SamplerParams struct {
	Temperature      float32 // 0: greedy, exact argmax after penalties and bias
	TopK             int     // 0: off
	TopP             float32 // 1: off
	MinP             float32 // 0: off
	TypicalP         float32 // 1: off
	RepeatPenalty    float32 // 1: off
	RepeatLastN      int     // window of RepeatPenalty, prompt and answer
	FrequencyPenalty float32 // answer only
	PresencePenalty  float32 // answer only
	LogitBias        map[Token]float32
	Seed             uint64
	Grammar          string // GBNF, start symbol root; "" for none

	// ControlText: control tokens are written as text, so a grammar matches them
	// by it. Otherwise they write nothing and a grammar never lets one be drawn:
	// it would count text that nobody sees.
	ControlText bool
}

// Info describes the loaded model and its context.
type Info struct {
	Name         string // general.name, or the file's base name
	File         string // base name
	Architecture string
	Description  string
	Parameters   uint64
	SizeBytes    uint64
	Vocabulary   int
	Embedding    int
	Layers       int
	ContextTrain int
	ChatTemplate string
	KVBytesToken int
	KVCut        bool
	KVCutReason  string
	BOS, EOS     Token // -1 where absent
	EOT, PAD     Token
	EOG          []Token
	AddBOS       bool
	ABI          string // module version, patches and state format
	KVRows       []int  // bytes of one position in each part of the pool, see [Mover]; empty: KV cannot be moved in blocks
	KVRowsReason string // why KVRows is empty
	RoPE         string // what of RoPE the weights do not tell: which factors are in force; "" for the only ones

	Cells          int
	Sequences      int
	ContextLength  int
	BatchSize      int // most tokens of one Decode
	KVTypeK        string
	KVTypeV        string
	FlashAttention bool
	Backend        Backend
}

// Backend describes what computes.
type Backend struct {
	Requested string
	Selected  string
	Device    string
	Libraries []string
	Driver    string
	Runtime   string
	Features  []string
	Threads   int
	Slow      bool
	Reason    string
	Errors    []string
}

// LoadError is an unusable model file or setting, in one sentence for the
// operator, with the exit code the process ends with.
type LoadError struct {
	Kind LoadErrorKind
	Msg  string
}

func (e *LoadError) Error() string { return e.Msg }

// LoadErrorKind tells load failures apart; its value is the exit code.
type LoadErrorKind int

// Exit codes of the station, distinct from Go's 1 and 2 and from 128+signal.
const (
	LoadNotFound     LoadErrorKind = 64 // no such file, a directory, unreadable, empty path
	LoadNotGGUF      LoadErrorKind = 65 // not a GGUF at all
	LoadTruncated    LoadErrorKind = 66 // GGUF, but incomplete or inconsistent
	LoadUnknownArch  LoadErrorKind = 67 // architecture this engine does not know
	LoadNoMemory     LoadErrorKind = 68 // weights or KV do not fit
	LoadSlowBackend  LoadErrorKind = 69 // no fast backend, and no leave to be slow
	LoadEngineFailed LoadErrorKind = 70 // the engine refused for another reason
	LoadNoEngine     LoadErrorKind = 71 // built without engine
	LoadBadSetting   LoadErrorKind = 72 // a setting the model or machine cannot have
)

// Loader loads a model; progress is called with values in [0, 1] from any
// thread. Errors are *LoadError.
type Loader func(ctx context.Context, progress func(float32)) (Engine, error)
