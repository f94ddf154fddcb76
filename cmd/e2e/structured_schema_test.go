//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/host/grammar"
	"thoth/host/grammar/grammartest"
	"thoth/host/grammar/schematest"
)

// Whatever the schema, an answer that ends is an instance of it, and one that is
// cut begins like one.
func TestSchema_EveryAnswerIsAnInstance(t *testing.T) {
	defer shared.unharmed(t)()
	const schemas = 500
	var cut atomic.Int64
	parallel(t, schemas, func(ctx context.Context, i int) error {
		schema := generated(i)
		j, err := newJudge(schema)
		if err != nil {
			return fmt.Errorf("%w: %s", err, schema)
		}
		more := obj{"messages": []obj{user("Give me an example, as JSON.")}, "max_tokens": 200}
		if i%2 == 0 {
			more["temperature"], more["seed"] = 1, i
		}
		if i/2%2 == 0 {
			more["stream"] = true
		}
		a, err := shared.tryTalk(ctx, schemaFormat(schema), more)
		if err != nil {
			return fmt.Errorf("%w: %s", err, schema)
		}
		switch said := a.Turns[0]; said.Finish {
		case "stop":
			if err := j.check(said.text()); err != nil {
				return fmt.Errorf("%w under %s", err, schema)
			}
		case "length":
			cut.Add(1)
			g, err := compiled(schema)
			if err != nil || !g.Prefix(said.text()) {
				return fmt.Errorf("%q is no beginning, %v, under %s", said.text(), err, schema)
			}
		default:
			return fmt.Errorf("it ends with %q", said.Finish)
		}
		return nil
	})
	t.Logf("%d of %d answers were cut", cut.Load(), schemas)
	require.LessOrEqual(t, cut.Load(), int64(schemas/20), "most answers end by themselves")
}

// generated is one of a fixed row of schemas of objects.
func generated(i int) json.RawMessage {
	return schematest.Generate(rand.New(rand.NewPCG(uint64(i), 5)))
}

// compiled is the grammar of a schema.
func compiled(schema []byte) (*grammartest.Grammar, error) {
	b := grammar.NewBuilder(grammar.Limits{})
	rule, err := b.Schema(schema)
	if err != nil {
		return nil, err
	}
	text, err := b.Build(rule)
	if err != nil {
		return nil, err
	}
	return grammartest.Compile(text)
}

func TestSchema_WhatPeopleSend(t *testing.T) {
	defer shared.unharmed(t)()
	object := func(required []string, properties obj) obj {
		return obj{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
	}
	for name, schema := range map[string]any{
		"a person": object([]string{"name", "age", "email"}, obj{"name": obj{"type": "string", "maxLength": 20},
			"age": obj{"type": "integer", "minimum": 0, "maximum": 130}, "email": obj{"type": []string{"string", "null"}, "maxLength": 20}}),
		"a date":        object([]string{"when"}, obj{"when": obj{"type": "string", "format": "date-time"}}),
		"a choice":      obj{"enum": []any{"left", "right", 3, nil}},
		"three numbers": obj{"type": "array", "items": obj{"type": "number", "minimum": -1, "maximum": 1}, "minItems": 3, "maxItems": 3},
		"steps": object([]string{"steps", "answer"}, obj{"answer": obj{"type": "string", "maxLength": 12},
			"steps": obj{"type": "array", "maxItems": 2, "items": object([]string{"why"}, obj{"why": obj{"type": "string", "maxLength": 30}})}}),
		"a tree": obj{"$ref": "#/$defs/node", "$defs": obj{"node": object([]string{"name"}, obj{"name": obj{"type": "string", "maxLength": 4},
			"children": obj{"type": "array", "maxItems": 1, "items": obj{"$ref": "#/$defs/node"}}})}},
		"one of two": obj{"oneOf": []obj{object([]string{"kind", "radius"}, obj{"kind": obj{"const": "circle"}, "radius": obj{"type": "integer", "minimum": 1, "maximum": 9}}),
			object([]string{"kind", "side"}, obj{"kind": obj{"const": "square"}, "side": obj{"type": "integer", "minimum": 1, "maximum": 9}})}},
		"a pattern": object([]string{"plate"}, obj{"plate": obj{"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}$"}}),
		"letters":   object([]string{"größe"}, obj{"größe": obj{"enum": []string{"klein", "groß", "日本", "😀 \"\\\n"}}}),
	} {
		t.Run(name, func(t *testing.T) {
			more := obj{"messages": []obj{user("Give me an example.")}, "max_tokens": 400}
			said := []turn{shared.bothWays(t, schemaFormat(schema), more)}
			for seed := range 3 {
				said = append(said, shared.turn(t, schemaFormat(schema), more, obj{"temperature": 1.5, "seed": seed, "top_p": 0.95}))
			}
			for _, s := range said {
				if s.Finish == "length" && name == "a tree" {
					continue // it may grow as long as it likes
				}
				require.Equal(t, "stop", s.Finish, "%q", s.text())
				valid(t, schema, s.text())
			}
		})
	}
}
