package compare

import (
	"bytes"
	"strings"
)

const pathCompletions = "/v1/completions"

// goOn is a short completion.
func (t *trial) goOn(over ...m) *reply {
	return t.post(pathCompletions, with(m{"model": t.Model, "prompt": "Once upon a time", "max_tokens": 8, "temperature": 0}, over...))
}

var completionCases = []Case{
	{"completions", "the members of an answer", reference, "id, object text_completion, choices with text, usage", func(t *trial) {
		o := t.goOn().object()
		t.that(str(o, "object") == "text_completion", "object is %q", str(o, "object"))
		t.that(str(o, "choices", 0, "text") != "" && (finishOf(o) == "length" || finishOf(o) == "stop"), "the choice is %s", brief(choice(o, 0)))
		n := num(o, "usage", "completion_tokens")
		t.that(n == 8 || n > 0 && n < 8 && finishOf(o) == "stop", "%d tokens", n)
		t.that(str(o, "id") != "" && whole(o["created"]), "no id or created")
	}},
	{"completions", "no max_tokens", reference, "16 are made", func(t *trial) {
		over := m{"max_tokens": drop, "prompt": count + "\n1\n2\n3\n"}
		t.asker.most = 32 << 10 // one without a cap goes on to its context
		r := t.goOn(over, m{"stream": true})
		t.asker.most = mostBytes
		n := bytes.Count(r.raw, []byte("data: {"))
		t.that(n < 32, "streamed: %d events and more", n)
		o := t.goOn(over).object()
		n = num(o, "usage", "completion_tokens")
		t.needs(finishOf(o) == "length" || n > 16, "an answer of 16 tokens")
		t.that(n == 16, "%d tokens", n)
	}},
	{"completions", "streamed", reference, "text_completion objects whose texts are the answer, one finish_reason, [DONE]", func(t *trial) {
		o := t.goOn(m{"cache_prompt": false}).object()
		whole := str(o, "choices", 0, "text")
		t.needs(whole != "", "a text")
		s := t.goOn(m{"stream": true, "cache_prompt": false}).stream().ended()
		t.that(s.text(0) == whole, "%q, and whole %q", short(s.text(0), 40), short(whole, 40))
		t.that(s.finish(0) == finishOf(o), "finish_reason is %q, and whole %q", s.finish(0), finishOf(o))
		for _, e := range s.events {
			t.that(str(e.data, "object") == "text_completion", "object is %q", str(e.data, "object"))
		}
	}},
	{"completions", "streamed usage", reference, "one more event with choices [] and usage, where asked for", func(t *trial) {
		n := num(t.goOn().object(), "usage", "completion_tokens")
		t.needs(n > 0, "usage.completion_tokens")
		s := t.goOn(m{"stream": true, "stream_options": m{"include_usage": true}}).stream().ended()
		last := s.events[len(s.events)-1].data
		l, ok := last["choices"].([]any)
		t.that(ok && len(l) == 0 && num(last, "usage", "completion_tokens") == n, "the last event is %s", brief(last))
	}},
	{"completions", "a prompt of tokens", reference, "they are the prompt", func(t *trial) {
		ids := t.tokens("Once upon a time there was a mill")
		n := num(t.goOn(m{"prompt": ids}).object(), "usage", "prompt_tokens")
		t.that(n == len(ids), "%d prompt tokens, of %d", n, len(ids))
	}},
	{"completions", "several prompts", reference, "a choice for each, in their order", func(t *trial) {
		o := t.goOn(m{"prompt": []string{"One two three", "The river"}, "cache_prompt": false}).object()
		t.that(len(list(o, "choices")) == 2, "%d choices", len(list(o, "choices")))
		one := str(t.goOn(m{"prompt": "The river", "cache_prompt": false}).object(), "choices", 0, "text")
		found := false
		for _, c := range list(o, "choices") {
			if num(c, "index") == 1 {
				found = true
				t.that(str(c, "text") == one, "choice 1 is not that of the second prompt")
			}
		}
		t.that(found, "no choice has the index 1")
	}},
	{"completions", "echo", reference, "the text begins with the prompt", func(t *trial) {
		r := t.goOn(m{"echo": true})
		if r.status != 200 {
			t.offered(r)
		}
		t.that(strings.HasPrefix(str(r.object(), "choices", 0, "text"), "Once upon a time"), "it is %q", short(str(r.object(), "choices", 0, "text"), 40))
	}},
	{"completions", "logprobs", reference, "tokens, token_logprobs, top_logprobs and text_offset, one entry a token", func(t *trial) {
		o := t.goOn(m{"logprobs": 2}).object()
		lp, made := at(o, "choices", 0, "logprobs"), num(o, "usage", "completion_tokens")
		for _, n := range []string{"tokens", "token_logprobs", "top_logprobs", "text_offset"} {
			l := len(list(lp, n))
			t.that(l > 0 && (l == made || l == made-1), "logprobs.%s has %d entries, of %d tokens", n, l, made) // the end may be one
		}
	}},
	{"completions", "scoring a text", "reference of OpenAI's older models", "echo with logprobs and max_tokens 0 gives the prompt's log-probabilities", func(t *trial) {
		r := t.goOn(m{"echo": true, "logprobs": 1, "max_tokens": 0})
		if r.status != 200 {
			t.offered(r)
		}
		o := r.object()
		lp := list(o, "choices", 0, "logprobs", "token_logprobs")
		t.needs(strings.HasPrefix(str(o, "choices", 0, "text"), "Once upon a time"), "echo") // a case of its own
		t.that(str(o, "choices", 0, "text") == "Once upon a time", "the text is %q", short(str(o, "choices", 0, "text"), 40))
		t.that(len(lp) > 1 && lp[len(lp)-1] != nil, "token_logprobs is %s", brief(lp))
	}},
	{"completions", "n of 2", reference, "two choices", func(t *trial) {
		r := t.goOn(m{"n": 2, "temperature": 1})
		if r.status != 200 {
			t.offered(r).refused("n 2")
			return
		}
		t.that(len(list(r.object(), "choices")) == 2, "%d choices", len(list(r.object(), "choices")))
	}},
	{"completions", "best_of", reference, "one of three, whose tokens are all counted; or an error", func(t *trial) {
		r := t.goOn(m{"best_of": 3, "temperature": 1})
		if r.status != 200 {
			t.offered(r).refused("best_of")
			return
		}
		o := r.object()
		t.that(len(list(o, "choices")) == 1, "%d choices", len(list(o, "choices")))
		t.that(num(o, "usage", "completion_tokens") > 8, "ignored: %d tokens were made", num(o, "usage", "completion_tokens"))
		t.goOn(m{"best_of": 1, "n": 2}).refused("best_of below n")
	}},
	{"completions", "suffix", reference, "it is part of the prompt, or an error; not ignored", func(t *trial) {
		r := t.goOn(m{"suffix": "and they lived happily ever after, all of them."})
		if r.status != 200 {
			t.offered(r).refused("suffix")
			return
		}
		without := num(t.goOn().object(), "usage", "prompt_tokens")
		t.that(num(r.object(), "usage", "prompt_tokens") > without+5, "ignored: the prompt has %d tokens with and %d without", num(r.object(), "usage", "prompt_tokens"), without)
	}},
	{"completions", "stop", reference, "it ends the text and is not part of it", func(t *trial) {
		text := str(t.goOn(m{"max_tokens": 24, "cache_prompt": false}).object(), "choices", 0, "text")
		r := []rune(text)
		t.needs(len(r) > 9, "a text that can be cut, not %q", text)
		stop := string(r[5:9])
		o := t.goOn(m{"max_tokens": 24, "stop": stop, "cache_prompt": false}).object()
		t.that(str(o, "choices", 0, "text") == before(text, stop) && finishOf(o) == "stop", "%q, %q", str(o, "choices", 0, "text"), finishOf(o))
	}},
	{"completions", "what cannot be", reference, "an error", func(t *trial) {
		for _, over := range []m{{"prompt": drop}, {"prompt": m{}}, {"prompt": []any{}}, {"prompt": []any{"a", 5}}, {"logprobs": 99}, {"n": 0}, {"temperature": "hot"}, {"max_tokens": -1}} {
			t.goOn(over).refused("%s", brief(over))
		}
	}},
}
