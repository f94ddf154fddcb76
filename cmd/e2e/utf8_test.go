//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// manyScripts asks for characters that the test model writes with several
// tokens each.
const manyScripts = "Repeat exactly: 😀👩‍👩‍👧‍👦🇩🇪 naïve 東京 שלום ก็ 🧿"

const replacement = "\ufffd"

// emoji makes the model write emoji: the token they begin with is made likely,
// and what follows it the model knows.
func emoji(t *testing.T) obj {
	t.Helper()
	return obj{"messages": []obj{user(manyScripts)}, "logit_bias": obj{tokenID(t, "\xf0\x9f"): 12}, "frequency_penalty": 0.2, "ignore_eos": true}
}

// tokenBytes are the bytes of each token of an answer.
func tokenBytes(t *testing.T, merge ...obj) (all []string) {
	t.Helper()
	r := shared.chat(t, append(merge, obj{"logprobs": true})...)
	require.Equal(t, 200, r.Status, "%s", r.Body)
	for _, e := range r.choice(t)["logprobs"].(obj)["content"].([]any) {
		var b []byte
		for _, v := range e.(obj)["bytes"].([]any) {
			b = append(b, byte(v.(float64)))
		}
		all = append(all, string(b))
	}
	return all
}

// split counts tokens that hold no whole characters.
func split(tokens []string) (n int) {
	for _, b := range tokens {
		if !utf8.ValidString(b) {
			n++
		}
	}
	return n
}

func TestUTF8_CharactersOfSeveralTokensStayWhole(t *testing.T) {
	defer shared.unharmed(t)()
	greedy := []obj{emoji(t), {"max_tokens": 64}}
	tokens := tokenBytes(t, greedy...)
	require.Greater(t, split(tokens), 5, "the answer has no split characters: %q", tokens)
	text, _ := sameBothWays(t, greedy...)
	cut, has := strings.CutPrefix(strings.Join(tokens, ""), text)
	require.True(t, has, "%q, of the tokens %q", text, tokens)
	require.Less(t, len(cut), utf8.UTFMax, "only a character the cap cut is withheld")

	plain := obj{"messages": []obj{user(manyScripts)}}
	sameBothWays(t, plain, obj{"max_tokens": 48})
	kinds := []obj{plain, emoji(t)}
	parallel(t, 20, func(ctx context.Context, i int) error {
		merge := []obj{kinds[i%2], {"temperature": 1, "seed": i, "max_tokens": 48}}
		streamed, err := ask(ctx, true, merge...)
		if err != nil {
			return err
		}
		whole, err := ask(ctx, false, merge...)
		if err != nil {
			return err
		}
		if strings.Contains(streamed.Text, replacement) && !strings.Contains(whole.Text, replacement) {
			return fmt.Errorf("the stream has replacement characters, the answer has not: %q, %q", streamed.Text, whole.Text)
		}
		return nil
	})
}

func TestUTF8_CapInTheMiddleOfACharacter(t *testing.T) {
	defer shared.unharmed(t)()
	const most = 40
	type both struct{ streamed, whole answer }
	got := make([]both, most+1)
	rich := emoji(t)
	parallel(t, most, func(ctx context.Context, i int) (err error) {
		merge := []obj{rich, {"max_tokens": i + 1}}
		if got[i+1].streamed, err = ask(ctx, true, merge...); err == nil {
			got[i+1].whole, err = ask(ctx, false, merge...)
		}
		return err
	})
	longest := got[most].whole.Text
	require.NotContains(t, longest, replacement)
	held := 0
	for k := 1; k <= most; k++ {
		require.Equal(t, got[k].whole.Text, got[k].streamed.Text, "max_tokens %d", k)
		require.True(t, strings.HasPrefix(longest, got[k].whole.Text), "max_tokens %d: %q is not how %q begins", k, got[k].whole.Text, longest)
		require.Equal(t, "length", got[k].whole.Finish)
		require.Equal(t, "length", got[k].streamed.Finish)
		if got[k].whole.Text == got[k-1].whole.Text {
			held++
		}
	}
	require.Greater(t, held, 3, "no cap fell into a character: %q", longest)
}

func TestUTF8_BytesThatAreNoText(t *testing.T) {
	defer shared.unharmed(t)()
	const most = 20
	for name, b := range map[string]string{
		"continuation": "\x80", "start of two": "\xc3", "start of three": "\xe2", "start of four": "\xf0", "half an emoji": "\xf0\x9f",
	} {
		merge := []obj{bias(t, b, 100), {"max_tokens": most}}
		text, finish := sameBothWays(t, merge...)
		require.Equal(t, "length", finish, name)
		require.GreaterOrEqual(t, len([]rune(text)), most-1, name)
		require.Empty(t, strings.Trim(text, replacement), name)
		a, err := ask(t.Context(), true, merge...)
		require.NoError(t, err)
		require.Greater(t, len(a.Pieces), most/2, "%s: the stream waits for bytes that never come", name)

		// A stop string is looked for in the text, as its reader sees it.
		text, finish = sameBothWays(t, append(merge, obj{"stop": replacement + replacement})...)
		require.Equal(t, "", text, name)
		require.Equal(t, "stop", finish, name)
	}
}

func TestUTF8_WildSamplingIsAlwaysAnAnswer(t *testing.T) {
	defer shared.unharmed(t)()
	parallel(t, 40, func(ctx context.Context, i int) error {
		a, err := ask(ctx, i%2 == 0, obj{"temperature": 2, "top_p": 1, "max_tokens": 300, "seed": i, "messages": []obj{user(rivers)}})
		if err == nil && a.Text == "" {
			err = fmt.Errorf("an empty answer")
		}
		return err
	})
}

// mixed makes the model write words of several scripts, each a token.
func mixed(t *testing.T) obj {
	t.Helper()
	return obj{"logit_bias": obj{tokenID(t, "。"): 92, tokenID(t, "用"): 92, tokenID(t, " café"): 100, tokenID(t, "数据"): 94},
		"frequency_penalty": 2, "max_tokens": 24}
}

func TestStop_CharactersOfSeveralBytes(t *testing.T) {
	defer shared.unharmed(t)()
	check := func(merge []obj, stops ...string) {
		text := whole(t, merge...).Text
		for _, stop := range stops {
			want, cut := upTo(text, stop)
			got, finish := sameBothWays(t, append(merge, obj{"stop": stop})...)
			require.Equal(t, want, got, "stop %q in %q", stop, text)
			require.Equal(t, map[bool]string{true: "stop", false: "length"}[cut], finish, "stop %q in %q", stop, text)
		}
	}
	scripts := []obj{mixed(t)}
	text := whole(t, scripts...).Text
	for _, present := range []string{"。", "用", "é", "据"} {
		require.Contains(t, text, present)
	}
	// The last is é in another form: it need not match, and must not corrupt.
	check(scripts, "。", "用", "é", "数", "据", "据。", "é。", "e\u0301")

	emojis := []obj{emoji(t), {"max_tokens": 48}}
	text = whole(t, emojis...).Text
	var stops []string
	for i, r := range text {
		if utf8.RuneLen(r) == 4 && strings.Index(text, string(r)) == i {
			stops = append(stops, string(r), string(r^1)) // and one that differs in its last byte alone
		}
	}
	require.GreaterOrEqual(t, len(stops), 6, "%q", text)
	check(emojis, stops[:min(len(stops), 8)]...)
}
