package bench

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// words are common enough to be one token each in most vocabularies.
var words = strings.Fields(`time year people way day man thing woman life child world school state family student
group country problem hand part place case week company system program question work government number night
point home water room mother area money story fact month lot right study book eye job word business issue side
kind head house service friend father power hour game line end member law car city community name president
team minute idea kid body information back parent face others level office door health person art war history
party result change morning reason research girl guy moment air teacher force education foot boy age policy
music market sense food plan road field river summer winter paper table garden window letter picture island
north south east west green blue white black light heavy early late small large open close bright quiet`)

// streamPrompt is the same in every round: its greedy answer must be, too.
const streamPrompt = "Write a long and detailed story about a lighthouse keeper who finds an old map. " +
	"Describe the sea, the storm, the journey and the people on the way. Do not stop early."

// warmupPrompt is asked before anything is measured.
const warmupPrompt = "Say hello, and count to twenty."

// nonce is a text no server has seen: it differs from its neighbours in the
// first token already.
func nonce(r *rand.Rand) string { return fmt.Sprintf("%08x", r.Uint32()) }

// coldPrompt has n random words behind a nonce.
func coldPrompt(seed uint64, round, n int) string {
	r := rand.New(rand.NewPCG(seed, uint64(round)+1))
	var b strings.Builder
	b.WriteString(nonce(r))
	for range n {
		b.WriteByte(' ')
		b.WriteString(words[r.IntN(len(words))])
	}
	return b.String()
}

// clientPrompt is short, asks for a long answer, and is new for every round and
// client.
func clientPrompt(seed uint64, round, cohort, client int) string {
	r := rand.New(rand.NewPCG(seed, uint64(round)<<40|uint64(cohort)<<20|uint64(client)))
	id := nonce(r)
	pick := func() string { return words[r.IntN(len(words))] }
	return fmt.Sprintf("%s Write a long story about the %s, the %s and the %s. Tell every detail, and do not stop early.",
		id, pick(), pick(), pick())
}
