package compare

import "strconv"

// tokens are those of a text, by the route of llama-server.
func (t *trial) tokens(text string) []any {
	ids := list(t.offered(t.post("/tokenize", m{"content": text})).object(), "tokens")
	t.that(len(ids) > 0 || text == "", "/tokenize gives no tokens")
	return ids
}

var sampleCases = []Case{
	{"sampling", "out of range", reference, "an error for what the reference bounds", func(t *trial) {
		for _, over := range []m{{"temperature": 9}, {"temperature": -1}, {"top_p": -1}, {"top_p": 1.5}, {"presence_penalty": 3}, {"frequency_penalty": -3}} {
			t.refused(over)
		}
	}},
	{"sampling", "of another type", reference, "an error", func(t *trial) {
		for _, over := range []m{{"temperature": "hot"}, {"top_p": "x"}, {"seed": "x"}, {"presence_penalty": []int{}}, {"logit_bias": 5}} {
			t.refused(over)
		}
	}},
	{"sampling", "a seed", reference, "the same seed gives the same answer at temperature 1", func(t *trial) {
		ask := func(seed int) string {
			return textOf(t.post(pathChat, t.fresh(m{"messages": user("Tell me about rivers."), "temperature": 1, "seed": seed, "max_tokens": 24})).object())
		}
		one := ask(7)
		t.needs(len(one) > 20, "an answer that could be another, not %q", one)
		t.that(ask(7) == one, "two answers differ")
		t.that(one != ask(8) || ask(9) != ask(10), "other seeds change nothing")
	}},
	{"sampling", "logit_bias of -100", "ggml-org/llama.cpp#19699", "the token does not come", func(t *trial) {
		text := textOf(t.chat().object())
		t.needs(text != "", "a text")
		id := num(t.tokens(text), 0)
		o := t.chat(m{"logit_bias": m{strconv.Itoa(id): -100}})
		if o.status == 400 {
			o.refused("logit_bias")
			return
		}
		t.that(num(t.tokens(textOf(o.object())), 0) != id, "the answer begins with the token all the same")
		t.chat(m{"logit_bias": m{}}).object()
		t.chat(m{"logit_bias": nil}).object()
	}},
	{"sampling", "logit_bias that cannot be", "ikawrakow/ik_llama.cpp#1109", "an error for a key that is no token, and for a value beyond 100", func(t *trial) {
		t.refused(m{"logit_bias": m{"99999999": 1}})
		t.refused(m{"logit_bias": m{"abc": 1}})
		t.refused(m{"logit_bias": m{"5": 1000}})
	}},
}

var logprobCases = []Case{
	{"logprobs", "of an answer", reference, "one entry a token, with so many alternatives, and bytes that make the text", func(t *trial) {
		o := t.chat(m{"logprobs": true, "top_logprobs": 3}).object()
		entries := list(choice(o, 0), "logprobs", "content")
		n := num(o, "usage", "completion_tokens")
		t.that(len(entries) > 0, "no entries")
		t.that(len(entries) == n || len(entries) == n-1, "%d entries of %d tokens", len(entries), n) // the end of a turn may be one
		var text []byte
		for _, e := range entries {
			lp, ok := at(e, "logprob").(float64)
			t.that(ok && lp <= 0, "a logprob is %s", brief(at(e, "logprob")))
			t.that(len(list(e, "top_logprobs")) == 3, "%d alternatives", len(list(e, "top_logprobs")))
			t.that(has(e, "bytes"), "an entry has no bytes")
			for _, b := range list(e, "bytes") {
				t.that(whole(b), "a byte is %s", brief(b))
				n, _ := b.(float64)
				text = append(text, byte(n))
			}
		}
		t.that(len(text) >= len(textOf(o)) && string(text[:len(textOf(o))]) == textOf(o), "their bytes are not the text")
	}},
	{"logprobs", "streamed", reference, "the entries of the whole answer, beside their text", func(t *trial) {
		over := m{"logprobs": true, "top_logprobs": 2}
		entries := list(choice(t.chat(over).object(), 0), "logprobs", "content")
		t.needs(len(entries) > 0, "logprobs of the whole answer")
		var got int
		for _, c := range t.stream(over).ended().choices(0) {
			got += len(list(c, "logprobs", "content"))
		}
		t.that(got > 0 && got == len(entries), "%d entries, of the whole answer %d", got, len(entries))
	}},
	{"logprobs", "without alternatives", reference, "top_logprobs are lists, empty or not", func(t *trial) {
		entries := list(choice(t.chat(m{"logprobs": true}).object(), 0), "logprobs", "content")
		t.needs(len(entries) > 0, "logprobs")
		for _, e := range entries {
			_, ok := at(e, "top_logprobs").([]any)
			t.that(ok, "top_logprobs is %s", brief(at(e, "top_logprobs")))
		}
	}},
	{"logprobs", "not asked for", reference, "null or absent", func(t *trial) {
		c := choice(t.chat().object(), 0)
		t.that(c["logprobs"] == nil, "logprobs is %s", brief(c["logprobs"]))
	}},
	{"logprobs", "that cannot be", reference, "an error for top_logprobs beyond 20, and without logprobs", func(t *trial) {
		t.refused(m{"logprobs": true, "top_logprobs": 21})
		t.refused(m{"logprobs": true, "top_logprobs": -1})
		t.refused(m{"top_logprobs": 3})
		t.refused(m{"logprobs": "yes"})
	}},
}
