package engine

import "errors"

// ErrEmbedMemory: there is no memory for the context that vectors need.
var ErrEmbedMemory = errors.New("no memory for embeddings")

// Embedder is an engine whose model makes vectors of texts. An [Engine] without
// it gives none.
//
// The work has a context of its own: nothing of it is seen in the pool, and it
// may come between any two calls of the loop's. Texts are runs of tokens with
// [Embedding.Prefix] and [Embedding.Suffix] already around them.
type Embedder interface {
	// Embedding is constant after load.
	Embedding() Embedding
	// Embed gives each text's pooled vector, of Dimensions numbers, not normalised.
	// The texts are evaluated together and do not see each other: at most
	// BatchTexts of them, of BatchTokens tokens in all, none empty. loop.
	Embed(texts [][]Token) ([][]float32, error)
	// EmbedPart evaluates the next tokens, 1 to BatchTokens, of a text too long for
	// one call. first begins the text and forgets one that was not ended; with last
	// the vector is given, else nil. Only where Parts. loop.
	EmbedPart(tokens []Token, first, last bool) ([]float32, error)
}

// Embedding says what an Embedder's vectors are and what bounds the texts.
type Embedding struct {
	Pooling string // how token vectors become one: mean, cls or last; "" for a model that gives none
	Reason  string // why Pooling is ""

	Dimensions  int
	MaxTokens   int // of one text
	BatchTokens int // of one call
	BatchTexts  int
	Parts       bool // a text may be longer than BatchTokens

	Prefix, Suffix []Token // what the model wants around a text

	// Only says that the model is an encoder: it keeps no KV, and Decode and all
	// that moves KV fail.
	Only bool
}
