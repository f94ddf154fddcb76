// Package grammartest reads and writes texts by a GBNF grammar, for tests of what
// makes grammars. It reads the way llama.cpp does, by sets of stacks, and so it
// also tells what a grammar costs the engine.
package grammartest

import (
	"math/rand"

	"thoth/host/grammar/internal/gbnf"
)

// Grammar is a grammar the engine can work with.
type Grammar struct{ m *gbnf.Machine }

// Compile parses a grammar and checks it.
func Compile(text string) (*Grammar, error) {
	g, err := gbnf.Parse(text, gbnf.Limits{Repeat: 2000, Depth: 100, Elements: 1 << 20})
	if err != nil {
		return nil, err
	}
	if err := g.Check(); err != nil {
		return nil, err
	}
	return &Grammar{gbnf.NewMachine(g)}, nil
}

// Match tells whether the whole text is a member of the grammar.
func (g *Grammar) Match(text string) bool {
	stacks, _ := g.m.Read(text)
	return gbnf.Ended(stacks)
}

// Prefix tells whether the text is the beginning of a member, or one itself.
func (g *Grammar) Prefix(text string) bool {
	stacks, _ := g.m.Read(text)
	return len(stacks) > 0
}

// Stacks is the largest number of stacks the engine keeps while it reads the
// text: the alternatives for its next character, times the ways to have read it.
func (g *Grammar) Stacks(text string) int {
	_, most := g.m.Read(text)
	return most
}

// Generate draws a member. Once it has max characters it takes the shortest way
// to the end. It is false only if it ran into a dead end.
func (g *Grammar) Generate(r *rand.Rand, max int) (string, bool) {
	return g.m.Generate(r, max)
}
