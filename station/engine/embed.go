package engine

import "errors"

// ErrEmbedMemory: there is no memory for the context that vectors need.
var ErrEmbedMemory = errors.New("no memory for embeddings")

// Embedder is an engine whose model makes vectors of texts, or scores of pairs of
// them. An [Engine] without it gives neither.
//
// The work has a context of its own: nothing of it is seen in the pool, and it
// may come between any two calls of the loop's. Texts have all that stands around
// them: [Embedding.Prefix] and [Embedding.Suffix], or what Pairs puts there.
type Embedder interface {
	// Embedding is constant after load.
	Embedding() Embedding
	// Embed gives each text's pooled vector, of Dimensions numbers, not normalised;
	// of a model that scores, the score alone. The texts are evaluated together and
	// do not see each other: at most BatchTexts of them, of BatchTokens tokens in
	// all, none empty. loop.
	Embed(texts []Text) ([][]float32, error)
	// EmbedPart evaluates the next tokens, 1 to BatchTokens, of a text too long for
	// one call. first begins the text and forgets one that was not ended; with last
	// the vector is given, else nil. Only where Parts. loop.
	EmbedPart(tokens []Token, first, last bool) ([]float32, error)
	// Pairs lays out a query with each of the documents as the model was trained to
	// read them; control tokens in either are text. Only where Scores. Any goroutine.
	Pairs(query string, documents []string) ([]Text, error)
}

// Text is what one vector, or one score, is made of.
type Text struct {
	Tokens []Token
	// Second is where the second text of a pair begins, for models that tell the
	// two apart by more than what stands between them; 0 for others.
	Second int
}

// Embedding says what an Embedder's vectors are and what bounds the texts.
type Embedding struct {
	Pooling string // how token vectors become one: mean, cls or last; "" for a model that gives none
	Reason  string // why Pooling is ""

	// Scores says that the model is a cross-encoder: it gives each pair a score, any
	// number, the higher the more relevant. Its logistic function is a probability.
	Scores   bool
	NoScores string // why not

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
