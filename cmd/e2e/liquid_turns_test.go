//go:build e2e

package e2e

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a server has served before does not show in what it says.
func TestLiquidTurns_HistoryDoesNotMatter(t *testing.T) {
	var tasks []obj
	for _, task := range []string{"Say hi", "Name a color.", "Name three rivers.", "Count from 1 to 9.", "What is 2+2?", "Write a haiku.", "Translate 'cat' to French.",
		"Give a synonym of big.", "Give a rhyme for moon.", "Name a planet.", "Write a line of Python.", "Say it in one word: happy or sad?", "Name a fruit.",
		"What day follows Monday?", "Spell the word tree.", "Name a king.", "Tell me a joke.", "What is the capital of France?", "Is ice cold?", "Name an animal that flies."} {
		tasks = append(tasks, obj{"messages": []obj{user(task)}, "max_tokens": 10})
	}
	just := start(t, "THOTH_LIQUID_MEMORY=0")
	want := make([]said, len(tasks))
	for i, q := range tasks {
		want[i] = just.say(t, q)
		require.NotEmpty(t, want[i].Text)
	}
	r := rand.New(rand.NewPCG(2, 2))
	for round := range 2 {
		for n, i := range r.Perm(len(tasks)) {
			a := shared.say(t, tasks[i])
			require.NoError(t, want[i].same(a), "round %d, %d tasks in, task %d", round, n, i)
			if round > 0 {
				require.Positive(t, a.Cached)
			}
		}
	}
}

// A conversation that grows by its own answers is computed from its last turn on.
func TestLiquidTurns_NextOneReusesAllBefore(t *testing.T) {
	var messages []obj
	previous := 0
	for turn, question := range []string{"Count from 1 to 9, one per line.", "And backwards?", "Name three rivers.", "Which is the longest?", "Write a haiku about it.",
		"Now a list with numbers:\n1. a\n2. b", "Say 'naïve café' and 🙂.", "What was the first thing I asked?", "Thanks!\n\nOne more: what is 12 times 12?", "Bye."} {
		messages = append(messages, user(question))
		q := obj{"messages": messages, "max_tokens": 24, "stream": turn%2 == 1}
		a := shared.say(t, q)
		if turn >= 2 {
			require.GreaterOrEqual(t, a.Cached*10, previous*9, "turn %d: %+v", turn, a.Gnosis)
			require.Less(t, a.Prompt-a.Cached, 80, "what is computed does not grow with the history")
		}
		if turn%4 == 1 {
			require.NoError(t, shared.fresh(t, q).same(a), "turn %d", turn)
		}
		previous = a.Prompt
		messages = append(messages, assistant(a.Text))
	}
	// What the server never said, in letters that make tokens of their own.
	messages[len(messages)-1] = assistant("Sure! 🙂\n1. eins\n22. zwei — \"drei\"\n")
	q := obj{"messages": append(messages, user("Go on.")), "max_tokens": 24}
	a := shared.restored(t, shared.fresh(t, q), q)
	require.GreaterOrEqual(t, a.Cached*10, (previous-30)*9)
}

// A template that strips old reasoning, and clients that send back a part of
// what was said: the prompt is what decides, and its beginning is reused.
func TestLiquidTurns_ReasoningIsStripped(t *testing.T) {
	s := start(t, ownModel(t, templated(t, thinking))...)
	messages, previous := []obj{user("What is 2+2? " + words(80, 30))}, 0
	for turn := range 5 {
		q := obj{"messages": messages, "max_tokens": 20}
		want := s.fresh(t, q)
		a := s.say(t, q)
		require.NoError(t, want.same(a), "turn %d", turn)
		if turn > 0 {
			// All that was sent before, but for the reasoning the template had opened.
			require.GreaterOrEqual(t, a.Cached, previous-8, "turn %d: %+v", turn, a.Gnosis)
		}
		previous = a.Prompt
		said := strings.TrimSpace(a.Text)
		switch turn % 3 {
		case 0: // content alone, trimmed
			said = strings.TrimSpace(said[len(said)/2:])
		case 1: // with the reasoning that the template drops
			said = "<think>\n" + words(uint64(81+turn), 10) + "\n</think>\n\n" + said
		}
		messages = append(messages, assistant(said), user("And then?"))
	}
}

// Past the end of the context every request ends, and what came before is as it was.
func TestLiquidTurns_PastTheContext(t *testing.T) {
	const context = 384
	s := start(t, "THOTH_CONTEXT_LENGTH=384", "THOTH_CELLS=1024")
	first := obj{"messages": []obj{user("My name is Ada. Tell me about rivers.")}, "max_tokens": 16}
	want := s.fresh(t, first)
	for name, most := range map[string]any{"capped": 64, "without a cap": nil} {
		messages, turns := []obj{first["messages"].([]obj)[0]}, 0
		for ended := false; !ended; turns++ {
			require.Less(t, turns, 12, "%s: it must come to an end", name)
			r := s.chat(t, obj{"messages": messages, "max_tokens": most, "ignore_eos": true})
			if r.Status != 200 {
				require.Equal(t, "context_length_exceeded", r.Err(t, 400)["code"])
				ended = true
				break
			}
			var a said
			require.NoError(t, a.add(r.Body))
			require.LessOrEqual(t, a.Prompt+a.Completion, context)
			require.Equal(t, "length", a.Finish)
			if most != nil {
				require.LessOrEqual(t, a.Completion, 64)
			}
			messages = append(messages, assistant(a.Text), user("Go on. What is my name?"))
		}
		require.Positive(t, turns, name)
		s.restored(t, want, first)
	}
	s.idle(t)
}

// The last token of a capped answer was never evaluated: what is kept must know.
func TestLiquidTurns_GoOnAfterACappedAnswer(t *testing.T) {
	for _, most := range []int{8, 9, 10, 11, 1} {
		question := []obj{user("Count from 1 to 40")}
		part := shared.say(t, obj{"messages": question, "max_tokens": most, "stream": most%2 == 0})
		require.Equal(t, "length", part.Finish)
		require.Equal(t, most, part.Completion)
		q := obj{"messages": append(slices.Clone(question), assistant(part.Text), user("Continue exactly where you stopped.")), "max_tokens": 24}
		shared.restored(t, shared.fresh(t, q), q)
	}
}

// What is stored is the prompt's, not the draw's.
func TestLiquidTurns_EachSeedHasItsAnswer(t *testing.T) {
	dir := t.TempDir()
	q := func(seed any) obj {
		return obj{"messages": []obj{user("Write a line about the sea. " + words(85, 60))}, "temperature": 1, "seed": seed, "max_tokens": 16}
	}
	s := start(t, storeIn(dir))
	want := map[int]said{}
	for seed := 1; seed <= 5; seed++ {
		want[seed] = s.fresh(t, q(seed))
		require.NoError(t, want[seed].same(s.say(t, q(seed))))
	}
	require.Equal(t, 0, s.stop())

	s = start(t, storeIn(dir))
	different := map[string]bool{}
	for range 2 {
		for seed := 1; seed <= 5; seed++ {
			different[s.restored(t, want[seed], q(seed)).Text] = true
		}
	}
	require.Greater(t, len(different), 3)
	unseeded := map[string]bool{}
	for range 5 {
		a := s.say(t, q(nil))
		require.Positive(t, a.Cached)
		unseeded[a.Text] = true
	}
	require.Greater(t, len(unseeded), 3)
}

// Names that clients choose name nothing outside of the store.
func TestLiquidNames_OfClientsAreNoPaths(t *testing.T) {
	parent := t.TempDir()
	dir, outside := parent+"/store", parent+"/outside"
	for _, d := range []string{dir, outside} {
		require.NoError(t, os.Mkdir(d, 0o700))
	}
	require.NoError(t, os.Symlink(outside, dir+"/evil"))
	s := start(t, storeIn(dir))
	names := []string{"../x", "..%2fx", "../../../../tmp/x", "/etc/passwd", "a/b", `a\b`, ".", "..", "", strings.Repeat("n", 5000), strings.Repeat("n", 64), "x\x00y", "ключ🙂",
		"evil", "evil/x", "CON", "a\nb", "-rf", "*", "${HOME}"}
	for i, name := range names {
		for _, field := range []string{"prompt_cache_key", "cache_salt"} {
			q := obj{"messages": []obj{user(words(uint64(900+i), 70))}, "max_tokens": 2, field: name}
			status := s.chat(t, q).Status
			require.Contains(t, []int{200, 400}, status, "%s %q", field, name)
			require.Equal(t, status, s.chat(t, q).Status)
		}
	}
	s.written(t)
	blocks := stored(t, parent)
	require.NotEmpty(t, blocks)
	for path := range blocks {
		require.Regexp(t, `^[0-9a-f]{64}/[0-9a-f]{64}/[0-9a-f]{64}(-[0-9]+)?$`, strings.TrimPrefix(path, dir+"/"))
	}
	require.Empty(t, stored(t, outside))
	for path := range stored(t, dir) {
		for at, mode := path, os.FileMode(0o600); at != dir; at, mode = filepath.Dir(at), 0o700 {
			info, err := os.Stat(at)
			require.NoError(t, err)
			require.Equal(t, mode, info.Mode().Perm(), at)
		}
	}
	b, err := json.Marshal(s.do(t, http.MethodGet, "/stats", nil).JSON(t))
	require.NoError(t, err)
	require.NotContains(t, string(b), parent, "no path leaves the station")
	s.answersAgain(t)
}
