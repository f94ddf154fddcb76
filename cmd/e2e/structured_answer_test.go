//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/host/grammar"
	"thoth/host/grammar/grammartest"
)

var anyJSON = obj{"response_format": obj{"type": "json_object"}}

// mood is a request for what moodSchema says.
var mood = obj{"messages": []obj{user("How do you feel? Give mood and level.")}, "max_tokens": 64}

func TestStructured_AnyObjectIsOne(t *testing.T) {
	defer shared.unharmed(t)()
	ended := 0
	for seed := range 10 {
		said := shared.turn(t, anyJSON, obj{"messages": []obj{user("Give status ok as JSON.")}, "max_tokens": 200, "temperature": 1, "seed": seed})
		if said.Finish == "stop" {
			ended++
			valid(t, obj{"type": "object"}, said.text())
			continue
		}
		require.Equal(t, "length", said.Finish)
		require.True(t, anyObject(t).Prefix(said.text()), "%q", said.text())
	}
	require.Greater(t, ended, 5)
	require.Equal(t, shared.chat(t).Text(t), shared.chat(t, obj{"response_format": obj{"type": "text"}}).Text(t))
}

// anyObject is the grammar of json_object.
func anyObject(t *testing.T) *grammartest.Grammar {
	t.Helper()
	b := grammar.NewBuilder(grammar.Limits{})
	text, err := b.Build(b.Object())
	require.NoError(t, err)
	g, err := grammartest.Compile(text)
	require.NoError(t, err)
	return g
}

func TestStructured_SchemaHoldsTenOfTen(t *testing.T) {
	defer shared.unharmed(t)()
	for _, strict := range []any{true, false, nil} {
		format := schemaFormat(moodSchema)
		format["response_format"].(obj)["json_schema"].(obj)["strict"] = strict
		for seed := range 10 {
			said := shared.turn(t, format, mood, obj{"temperature": 1, "seed": seed, "stream": seed%2 == 0})
			require.Equal(t, "stop", said.Finish)
			valid(t, moodSchema, said.text())
		}
	}
}

// The other ways to say what the answer is.
func TestStructured_Extensions(t *testing.T) {
	defer shared.unharmed(t)()
	for name, c := range map[string]struct {
		ask  obj
		want string
	}{
		"guided_json":   {obj{"guided_json": moodSchema}, `\{"level": (\d|10), "mood": "(calm|angry)"\}`},
		"guided_regex":  {obj{"guided_regex": `(Mon|Tues)day, \d{1,2}:\d{2} [ap]m`}, `(Mon|Tues)day, \d{1,2}:\d{2} [ap]m`},
		"guided_choice": {obj{"guided_choice": []string{"positive", "negative", "can't say; \"both\"\n"}}, `positive|negative|can't say; "both"\n`},
		"grammar":       {obj{"grammar": "root ::= \"(\" sum \")\"\nsum ::= [0-9] (\"+\" sum)?  # digits\n"}, `\([0-9](\+[0-9])*\)`},
	} {
		t.Run(name, func(t *testing.T) {
			whole := regexp.MustCompile(`^(` + c.want + `)$`)
			require.Regexp(t, whole, shared.bothWays(t, mood, c.ask).text())
			for seed := range 5 {
				said := shared.turn(t, mood, c.ask, obj{"temperature": 1, "seed": seed})
				require.Equal(t, "stop", said.Finish)
				require.Regexp(t, whole, said.text())
			}
		})
	}
	require.Equal(t, shared.chat(t).Text(t), shared.chat(t, obj{"grammar": "", "guided_json": null, "guided_regex": null, "guided_choice": null}).Text(t))
}

// A token cap is a normal end: the text begins as it must, the usage is there, and
// a stream has the same bytes.
func TestStructured_CutAnswerBeginsAsItMust(t *testing.T) {
	defer shared.unharmed(t)()
	note := obj{"type": "object", "additionalProperties": false, "required": []string{"mood", "note"},
		"properties": obj{"mood": obj{"enum": []string{"calm", "angry"}}, "note": obj{"type": "string"}}}
	for name, c := range map[string]struct {
		ask    obj
		begins string
	}{
		"json_object":  {obj{"response_format": obj{"type": "json_object"}, "messages": []obj{user("Give status ok as JSON.")}}, `^\{"`},
		"json_schema":  {schemaFormat(note), `^\{"m`},
		"guided_regex": {obj{"guided_regex": "(red|green) [a-z]{200}"}, `^(r|g)(e|r)`},
		"grammar":      {obj{"grammar": `root ::= "<<" [a-z ]+ ">>"`}, `^<<[a-z ]*$`},
	} {
		for _, sampling := range []obj{{"temperature": 0}, {"temperature": 1, "seed": 11}} {
			more := []obj{mood, c.ask, sampling, {"max_tokens": 3}}
			whole := shared.talk(t, more...)
			said := whole.Turns[0]
			require.Equal(t, "length", said.Finish, name)
			require.Regexp(t, c.begins, said.text(), name)
			require.Equal(t, 3, whole.Completion, name)
			streamed := shared.talk(t, append(more, obj{"stream": true})...)
			require.Equal(t, said, streamed.Turns[0].same(), name)
			require.Equal(t, whole.Completion, streamed.Completion, name)
			require.Equal(t, whole.Prompt, streamed.Prompt, name)
		}
	}
}

// An answer is the same whichever way it is asked for, under a seed too, and
// beside others.
func TestStructured_StreamHasTheSameBytes(t *testing.T) {
	defer shared.unharmed(t)()
	formats := []obj{anyJSON, schemaFormat(moodSchema), {"guided_regex": `[A-Z][a-z]+( [a-z]+){2,5}\.`}, {"guided_choice": []string{"yes", "no"}}}
	parallel(t, 4*len(formats), func(ctx context.Context, i int) error {
		more := []obj{mood, formats[i%len(formats)], {"temperature": 0.9, "seed": i}}
		whole, err := ask(ctx, false, more...)
		if err != nil {
			return err
		}
		streamed, err := ask(ctx, true, more...)
		switch {
		case err != nil:
			return err
		case whole.Text != streamed.Text || whole.Finish != streamed.Finish:
			return fmt.Errorf("%q (%s) whole, %q (%s) streamed", whole.Text, whole.Finish, streamed.Text, streamed.Finish)
		case len(streamed.Pieces) < 2 && len(streamed.Text) > 20:
			return fmt.Errorf("a stream of one piece: %q", streamed.Pieces)
		}
		return nil
	})
}

func TestStructured_SeveralChoices(t *testing.T) {
	defer shared.unharmed(t)()
	for _, stream := range []bool{false, true} {
		a := shared.talk(t, mood, schemaFormat(moodSchema), obj{"n": 3, "temperature": 1, "seed": 5, "stream": stream})
		require.Len(t, a.Turns, 3)
		for _, said := range a.Turns {
			require.Equal(t, "stop", said.Finish)
			valid(t, moodSchema, said.text())
		}
	}
}

func TestStructured_LogprobsAreOfTheAnswersTokens(t *testing.T) {
	defer shared.unharmed(t)()
	for _, stream := range []bool{false, true} {
		said := shared.turn(t, mood, schemaFormat(moodSchema), obj{"logprobs": true, "top_logprobs": 3, "stream": stream})
		require.Equal(t, "stop", said.Finish)
		require.Equal(t, said.text(), said.Logprobs)
	}
}

// The tokens that a grammar forbids are no tokens: a bias cannot bring them in,
// and penalties do not break the form.
func TestStructured_SamplingCannotBreakTheForm(t *testing.T) {
	defer shared.unharmed(t)()
	for name, more := range map[string]obj{
		"a bias":      bias(t, "用", 100),
		"penalties":   {"presence_penalty": 2, "frequency_penalty": 2, "repeat_penalty": 2},
		"temperature": {"temperature": 2, "top_p": 1},
		"one token":   {"temperature": 2, "top_k": 1},
		"min_p":       {"temperature": 2, "min_p": 0.9},
	} {
		said := shared.turn(t, mood, schemaFormat(moodSchema), obj{"seed": 3}, more)
		require.Equal(t, "stop", said.Finish, name)
		valid(t, moodSchema, said.text())
	}
}

// A restored prompt gives the same answer as a computed one, token for token.
func TestStructured_CachedEqualsFresh(t *testing.T) {
	defer shared.unharmed(t)()
	for i, sampling := range []obj{{"temperature": 0}, {"temperature": 1, "seed": 9}} {
		merge := schemaFormat(moodSchema)
		maps.Copy(merge, sampling)
		merge["messages"] = []obj{system(words(uint64(40+i), 120)), user("How do you feel?")}
		merge["max_tokens"] = 64
		want := shared.fresh(t, merge)
		require.Equal(t, "miss", shared.say(t, merge).Gnosis.Memory)
		shared.restored(t, want, merge)
		valid(t, moodSchema, want.Text)
	}
}

// Of the next turn's prompt all is found again that was a prompt before. Of the
// answer it is what the grammar let the model write in the tokens its text has.
func TestStructured_AnswerIsReusedInTheNextTurn(t *testing.T) {
	defer shared.unharmed(t)()
	messages := []obj{system("You say how you feel. " + words(5, 60)), user("How do you feel?")}
	first := shared.talk(t, schemaFormat(moodSchema), obj{"messages": messages, "max_tokens": 64})
	messages = append(messages, first.Turns[0].message(), user("And now?"))
	second := shared.talk(t, schemaFormat(moodSchema), obj{"messages": messages, "max_tokens": 64})
	require.Equal(t, "hit", second.Gnosis.Memory)
	require.GreaterOrEqual(t, second.Cached, first.Prompt, "%+v", second.Gnosis)
	for _, a := range []talk{first, second} {
		valid(t, moodSchema, a.Turns[0].text())
	}
}

// Properties come in the schema's order and JSON in one style: a parser that
// streams may rely on it.
func TestStructured_PropertiesKeepTheirOrder(t *testing.T) {
	defer shared.unharmed(t)()
	const schema = `{"type":"object","properties":{"z":{"type":"integer","minimum":1,"maximum":5},"a":{"type":"boolean"},"m":{"type":"array","items":{"const":"x"},"minItems":2,"maxItems":2}},"required":["m","a","z"],"additionalProperties":false}`
	for seed := range 5 {
		said := shared.turn(t, mood, schemaFormat(json.RawMessage(schema)), obj{"temperature": 1, "seed": seed})
		require.Regexp(t, `^\{"z": [1-5], "a": (true|false), "m": \["x", "x"\]\}$`, said.text())
	}
}

// Many grammars at once, beside plain answers, which stay what they are.
func TestStructured_BesidePlainAnswers(t *testing.T) {
	defer shared.unharmed(t)()
	plain := obj{"messages": []obj{user(rivers)}, "max_tokens": 40}
	want, err := ask(t.Context(), false, plain)
	require.NoError(t, err)
	parallel(t, 48, func(ctx context.Context, i int) error {
		if i%2 == 0 {
			got, err := ask(ctx, i%4 == 0, plain)
			if err == nil && got.Text != want.Text {
				err = fmt.Errorf("%q beside grammars, %q alone", got.Text, want.Text)
			}
			return err
		}
		word := strings.Repeat(string(rune('a'+i%26)), 1+i%7)
		got, err := ask(ctx, i%4 == 1, mood, schemaFormat(obj{"const": obj{word: slices.Repeat([]int{i}, 3)}}))
		if err == nil && got.Text != fmt.Sprintf(`{"%s": [%d, %d, %d]}`, word, i, i, i) {
			err = fmt.Errorf("%q for %s and %d", got.Text, word, i)
		}
		return err
	})
}
