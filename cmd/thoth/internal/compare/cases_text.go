package compare

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strings"
)

const pathEmbeddings = "/v1/embeddings"

// vectors asks for embeddings of an input; the case is absent where the model, or
// the server as it was started, makes none.
func (t *trial) vectors(input any, over ...m) m {
	return t.offered(t.post(pathEmbeddings, with(m{"model": t.Model, "input": input}, over...))).object()
}

// vector reads one of the answer's.
func vector(o m, i int) (v []float64) {
	for _, x := range list(o, "data", i, "embedding") {
		f, _ := x.(float64)
		v = append(v, f)
	}
	return v
}

func cosine(a, b []float64) float64 {
	var dot, aa, bb float64
	for i := range min(len(a), len(b)) {
		dot, aa, bb = dot+a[i]*b[i], aa+a[i]*a[i], bb+b[i]*b[i]
	}
	return dot / math.Sqrt(aa*bb)
}

var embeddingCases = []Case{
	{"embeddings", "the members of an answer", reference, "a list of embedding objects, and usage", func(t *trial) {
		o := t.vectors("a river")
		t.that(str(o, "object") == "list" && str(o, "data", 0, "object") == "embedding" && len(vector(o, 0)) > 1, "it is %s", brief(o))
		t.that(num(o, "usage", "prompt_tokens") > 0 && num(o, "usage", "total_tokens") > 0, "usage is %s", brief(o["usage"]))
	}},
	{"embeddings", "several texts", reference, "one for each, in their order, as when alone", func(t *trial) {
		o := t.vectors([]string{"a river", "the stock market fell", "a river"})
		t.that(len(list(o, "data")) == 3, "%d vectors", len(list(o, "data")))
		for i := range 3 {
			t.that(num(o, "data", i, "index") == i, "index %d at %d", num(o, "data", i, "index"), i)
		}
		alone := vector(t.vectors("the stock market fell"), 0)
		t.that(cosine(alone, vector(o, 1)) > 0.999, "the second is not that of its text")
	}},
	{"embeddings", "base64", reference, "little-endian floats, the same as numbers", func(t *trial) {
		numbers := vector(t.vectors("a river"), 0)
		text := str(t.vectors("a river", m{"encoding_format": "base64"}), "data", 0, "embedding")
		raw, err := base64.StdEncoding.DecodeString(text)
		t.that(err == nil && len(raw) == 4*len(numbers), "it is %s", short(text, 40))
		var same []float64
		for i := 0; i+4 <= len(raw); i += 4 {
			same = append(same, float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[i:]))))
		}
		t.that(cosine(numbers, same) > 0.999, "they differ from the numbers")
	}},
	{"embeddings", "an input of tokens", reference, "the vector of their text", func(t *trial) {
		text := vector(t.vectors("a river runs"), 0)
		ids := t.tokens("a river runs")
		t.that(cosine(text, vector(t.vectors(ids), 0)) > 0.9, "it is another one")
	}},
	{"embeddings", "dimensions", reference, "so many, or an error", func(t *trial) {
		r := t.post(pathEmbeddings, m{"model": t.Model, "input": "a river", "dimensions": 16})
		if r.status != 200 {
			t.offered(r).refused("dimensions 16")
			return
		}
		t.that(len(vector(r.object(), 0)) == 16, "%d", len(vector(r.object(), 0)))
	}},
	{"embeddings", "what cannot be", reference, "an error", func(t *trial) {
		t.vectors("a river")
		for _, over := range []m{{"input": drop}, {"input": []any{}}, {"input": m{}}, {"encoding_format": "yaml"}} {
			t.post(pathEmbeddings, with(m{"model": t.Model, "input": "a"}, over)).refused("%s", brief(over))
		}
	}},
}

const likeLlama = "llama-server's documentation"

var textCases = []Case{
	{"text", "/tokenize and /detokenize", likeLlama, "the text comes back", func(t *trial) {
		for _, text := range []string{"Hello, wörld! 😀", ""} {
			got := str(t.offered(t.post("/detokenize", m{"tokens": append([]any{}, t.tokens(text)...)})).object(), "content")
			t.that(strings.TrimPrefix(got, " ") == text, "%q became %q", text, got)
		}
	}},
	{"text", "/tokenize with pieces", likeLlama, "each token with its text, or its bytes", func(t *trial) {
		tokens := list(t.offered(t.post("/tokenize", m{"content": "Hello 🧿", "with_pieces": true})).object(), "tokens")
		t.that(len(tokens) > 0, "no tokens")
		for _, one := range tokens {
			_, text := at(one, "piece").(string)
			_, raw := at(one, "piece").([]any)
			t.that(whole(at(one, "id")) && (text || raw), "a token is %s", brief(one))
		}
	}},
	{"text", "/apply-template", likeLlama, "the prompt of a chat, which has its texts", func(t *trial) {
		prompt := str(t.offered(t.post("/apply-template", m{"messages": []m{role("system", "Be brief."), role("user", "Say hi")}})).object(), "prompt")
		t.that(strings.Contains(prompt, "Be brief.") && strings.Contains(prompt, "Say hi"), "it is %q", short(prompt, 60))
	}},
}

const jina = "Jina's reference"

// ranking asks for the order of three documents.
func (t *trial) ranking(over ...m) *reply {
	return t.post("/v1/rerank", with(m{"model": t.Model, "query": "a river", "documents": []string{"The stock market fell.", "The river Rhine is long.", "A mill."}}, over...))
}

var rerankCases = []Case{
	{"rerank", "the members of an answer", jina, "results by falling relevance_score, each with its index", func(t *trial) {
		results := list(t.offered(t.ranking()).object(), "results")
		t.that(len(results) == 3, "%d results", len(results))
		seen, last := 0, math.Inf(1)
		for _, r := range results {
			score, ok := at(r, "relevance_score").(float64)
			t.that(ok && whole(at(r, "index")), "a result is %s", brief(r))
			t.that(score <= last, "they are not by falling score")
			seen, last = seen|1<<num(r, "index"), score
		}
		t.that(seen == 7, "their indexes are not 0, 1 and 2")
	}},
	{"rerank", "top_n", jina, "the best so many", func(t *trial) {
		all := list(t.offered(t.ranking()).object(), "results")
		t.needs(len(all) > 1, "results")
		best := list(t.ranking(m{"top_n": 1}).object(), "results")
		t.that(len(best) == 1 && num(best, 0, "index") == num(all, 0, "index"), "%d results", len(best))
	}},
	{"rerank", "what cannot be", jina, "an error", func(t *trial) {
		t.offered(t.ranking()).object()
		for _, over := range []m{{"query": drop}, {"documents": drop}, {"documents": []string{}}, {"documents": 5}, {"query": 5}} {
			t.ranking(over).refused("%s", brief(over))
		}
	}},
}
