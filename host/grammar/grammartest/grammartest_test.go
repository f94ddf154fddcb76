package grammartest_test

import (
	"math/rand"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/host/grammar/grammartest"
)

func TestGrammar_ReadsAndWritesTexts(t *testing.T) {
	g, err := grammartest.Compile("root ::= \"a\" root \"b\" | \"c\"+ | [\\x00] \"dead\"\n")
	require.NoError(t, err)
	for text, is := range map[string]struct{ prefix, match bool }{
		"":      {true, false},
		"aa":    {true, false},
		"aaccb": {true, false},
		"acb":   {true, true},
		"cc":    {true, true},
		"ab":    {false, false},
		"acbb":  {false, false},
		"d":     {false, false},
	} {
		require.Equal(t, is.prefix, g.Prefix(text), text)
		require.Equal(t, is.match, g.Match(text), text)
	}
	r := rand.New(rand.NewSource(1))
	for range 100 {
		text, ok := g.Generate(r, 10)
		require.True(t, ok)
		require.True(t, g.Match(text), text)
	}
	require.Equal(t, 2, g.Stacks("aac"), "an a or a c; another c or the b")

	_, err = grammartest.Compile("root ::= root\n")
	require.Error(t, err)
}

// Two ways to have read a text are two stacks; ways that go on alike are one.
func TestGrammar_CountsReadings(t *testing.T) {
	two, err := grammartest.Compile("root ::= [a-z]+ \"1\" | [a-z]+ \"2\"\n")
	require.NoError(t, err)
	one, err := grammartest.Compile("root ::= [a-z]+ (\"1\" | \"2\")\n")
	require.NoError(t, err)
	require.Equal(t, 4, two.Stacks("abc"))
	require.Equal(t, 3, one.Stacks("abc"))
}
