package bench

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
)

// The shapes of the liquid cohorts' prompts, in tokens, as docs/benchmarks.md
// and the peer's figures have them.
const (
	repeatTokens = 718 // of a whole prompt
	systemTokens = 700 // of a system prompt with different questions
	chatTokens   = 300 // of a conversation's system prompt
	chatTurns    = 5
	evictTokens  = 373 // of a first turn, many conversations at once
	evictChats   = 12
)

// samples of a cohort in one round.
const samples = 3

// sizer turns tokens into words: the template adds some, and not every word is
// one token.
type sizer struct {
	base  float64 // tokens of a prompt with no word but the nonce
	slope float64 // tokens a word
}

// measureSizer asks a server for the tokens of a short and a longer prompt.
func measureSizer(ctx context.Context, s *server, seed uint64) (sizer, error) {
	const few, many = 16, 144
	var tokens [2]float64
	for i, n := range []int{few, many} {
		a, err := s.ask(ctx, question{prompt: coldPrompt(seed, -1-i, n), maxTokens: 1})
		if err != nil {
			return sizer{}, fmt.Errorf("%s does not answer: %w", s.URL, err)
		}
		tokens[i] = float64(a.promptTokens)
	}
	z := sizer{slope: (tokens[1] - tokens[0]) / (many - few)}
	if z.slope <= 0 {
		return sizer{}, fmt.Errorf("%s counts %v tokens for %d words and %v for %d", s.URL, tokens[0], few, tokens[1], many)
	}
	z.base = tokens[0] - few*z.slope
	return z, nil
}

// words whose prompt has so many tokens.
func (z sizer) words(tokens int) int {
	return max(1, int(math.Round((float64(tokens)-z.base)/z.slope)))
}

// script is what is said in one round; every round's is new, and both servers
// get the same.
type script struct {
	repeats   []string // whole prompts
	system    string
	questions []string // the first one fills
	chat      string   // a system prompt
	turns     []string
	evict     []string // first turns
	evictNext []string // second turns
}

// newScript is a function of its arguments alone.
func newScript(seed uint64, round int, z sizer) *script {
	r := rand.New(rand.NewPCG(seed, uint64(round)<<8|0xa5))
	text := func(tokens int) string {
		const ending = "\n\nContinue this list of words." // so that the model has something to say
		const endingTokens = 12
		var b strings.Builder
		b.WriteString(nonce(r))
		for range z.words(tokens - endingTokens) {
			b.WriteByte(' ')
			b.WriteString(words[r.IntN(len(words))])
		}
		return b.String() + ending
	}
	ask := func() string {
		pick := func() string { return words[r.IntN(len(words))] }
		return fmt.Sprintf("Tell me about the %s and the %s of the %s.", pick(), pick(), pick())
	}
	s := &script{system: text(systemTokens), chat: text(chatTokens)}
	for range samples {
		s.repeats = append(s.repeats, text(repeatTokens))
	}
	for range samples + 1 {
		s.questions = append(s.questions, ask())
	}
	for range chatTurns {
		s.turns = append(s.turns, ask())
	}
	for range evictChats {
		s.evict, s.evictNext = append(s.evict, text(evictTokens)), append(s.evictNext, ask())
	}
	return s
}

// missMessages were never sent before, long or short. They differ in the system
// text already: else what the template puts before a user's words would be found
// again, and a miss would be a small hit.
func missMessages(seed uint64, round, sample int, long bool, z sizer) []message {
	user := clientPrompt(seed, round, 1<<10, sample)
	if long {
		user = coldPrompt(seed^uint64(sample+1)<<32, round, z.words(repeatTokens))
	}
	const nonceBytes = 8
	return []message{{"system", user[:nonceBytes]}, {"user", user}}
}

// conversation grows by turns; the server's replies are appended verbatim.
type conversation []message

func (c *conversation) say(role, text string) { *c = append(*c, message{role, text}) }

// copied is the conversation as it is now.
func (c conversation) copied() []message { return append([]message(nil), c...) }
