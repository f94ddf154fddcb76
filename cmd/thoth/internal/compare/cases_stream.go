package compare

import (
	"strings"
	"unicode/utf8"
)

var streamCases = []Case{
	{"stream", "the first event has the role", "vercel/ai#2548", "role assistant in the first delta, and in no other", func(t *trial) {
		s := t.stream().ended()
		for i, c := range s.choices(0) {
			d, _ := at(c, "delta").(m)
			if i == 0 {
				t.that(str(d, "role") == "assistant", "the first delta is %s", brief(d))
			} else {
				t.that(!has(d, "role"), "delta %d has a role, too", i)
			}
		}
	}},
	{"stream", "its end", "ggml-org/llama.cpp PR 11747", "one finish_reason, in an event without text, then [DONE]", func(t *trial) {
		for _, over := range []m{{"max_tokens": 4, "messages": user(count)}, {"stop": []string{"a", "e", "i", "o"}}, {"max_tokens": 64}} {
			s := t.stream(over).ended()
			t.that(s.finish(0) != "", "no finish_reason")
			for _, c := range s.choices(0) {
				t.that(str(c, "finish_reason") == "" || str(c, "delta", "content") == "", "the event with finish_reason has text")
			}
		}
	}},
	{"stream", "the members of an event", reference, "one id, one model, created and object in all of them", func(t *trial) {
		s := t.stream(m{"stream_options": m{"include_usage": true}})
		first := s.events[0].data
		for _, e := range s.events {
			t.that(str(e.data, "object") == "chat.completion.chunk", "object is %q", str(e.data, "object"))
			for _, name := range []string{"id", "model", "created"} {
				t.that(e.data[name] != nil && e.data[name] == first[name], "%s is %s, at first %s", name, brief(e.data[name]), brief(first[name]))
			}
		}
		for _, c := range s.choices(0) {
			t.that(has(c, "finish_reason"), "a choice has no finish_reason, null or not")
		}
	}},
	{"stream", "no usage unless asked for", "Arthur-Ficial/apfel#100", "every event has a choice", func(t *trial) {
		for _, over := range []m{{}, {"stream_options": nil}, {"stream_options": m{"include_usage": false}}} {
			for _, e := range t.stream(over).ended().events {
				t.that(len(list(e.data, "choices")) > 0, "%s: an event has no choices", brief(over))
			}
		}
	}},
	{"stream", "usage where asked for", "ggml-org/llama.cpp#15443", "one more event after the end, with choices [] and the usage of the whole answer", func(t *trial) {
		whole := t.chat().object()["usage"]
		t.needs(num(whole, "prompt_tokens") > 0, "usage.prompt_tokens of the whole answer")
		s := t.stream(m{"stream_options": m{"include_usage": true}}).ended()
		last := s.events[len(s.events)-1].data
		l, ok := last["choices"].([]any)
		t.that(ok && len(l) == 0, "the last event's choices are %s", brief(last["choices"]))
		for _, n := range []string{"prompt_tokens", "completion_tokens", "total_tokens"} {
			t.that(num(last, "usage", n) == num(whole, n), "%s is %d, of the whole answer %d", n, num(last, "usage", n), num(whole, n))
		}
		for _, e := range s.events[:len(s.events)-1] {
			t.that(len(list(e.data, "choices")) > 0 && e.data["usage"] == nil, "an earlier event has usage, or no choices")
		}
	}},
	{"stream", "stream_options without stream", reference, "an error or nothing; never a fault", func(t *trial) {
		t.chat(m{"stream_options": m{"include_usage": true}}).noFault("stream_options")
	}},
	{"stream", "the text", reference, "together that of the whole answer", func(t *trial) {
		over := m{"messages": user("Tell me about rivers."), "max_tokens": 40}
		whole := textOf(t.post(pathChat, t.fresh(over)).object())
		t.needs(whole != "", "a text")
		s := t.post(pathChat, t.fresh(over, m{"stream": true})).stream().ended()
		t.that(s.text(0) == whole, "%q, and whole %q", short(s.text(0), 40), short(whole, 40))
	}},
	{"stream", "characters stay whole", "SillyTavern/SillyTavern#354", "no U+FFFD that the whole answer has not", func(t *trial) {
		over := m{"messages": user("Repeat exactly: 😀👩‍👩‍👧‍👦🇩🇪 naïve 東京 שלום 🧿"), "max_tokens": 60}
		whole := textOf(t.post(pathChat, t.fresh(over)).object())
		t.needs(len(whole) > utf8.RuneCountInString(whole), "characters of several bytes, not %q", short(whole, 40))
		s := t.post(pathChat, t.fresh(over, m{"stream": true})).stream()
		t.that(s.text(0) == whole, "%q, and whole %q", short(s.text(0), 40), short(whole, 40))
	}},
	{"stream", "a cap within a character", "kekzl/imp#1310", "the same text whole and streamed, without U+FFFD", func(t *trial) {
		first, differ := "", false
		for most := 1; most <= 12; most++ {
			over := m{"messages": user("Repeat exactly: 🧿🧿🧿🧿🧿🧿"), "max_tokens": most}
			whole := textOf(t.post(pathChat, t.fresh(over)).object())
			s := t.post(pathChat, t.fresh(over, m{"stream": true})).stream()
			t.that(!strings.Contains(whole, "\ufffd"), "max_tokens %d: the text ends %q", most, end(whole))
			t.that(s.text(0) == whole, "max_tokens %d: streamed it ends %q, and whole %q", most, end(s.text(0)), end(whole))
			if most == 1 {
				first = whole
			}
			differ = differ || whole != first
		}
		t.needs(differ, "answers that max_tokens cuts")
	}},
	{"stream", "errors before the first token", "oobabooga/textgen#7257", "the status and the JSON of the same request not streamed", func(t *trial) {
		refusals := 0
		for _, over := range []m{{"temperature": "hot"}, {"messages": m{}}, {"max_tokens": "x"}} {
			whole := t.chat(over)
			if whole.status < 400 {
				continue // that is a case of its own
			}
			refusals++
			r := t.chat(over, m{"stream": true})
			t.that(r.status == whole.status, "%s: %d, and not streamed %d", brief(over), r.status, whole.status)
			t.that(r.isJSON(), "%s: Content-Type is %q", brief(over), r.header.Get("Content-Type"))
		}
		t.needs(refusals > 0, "an error")
	}},
	{"stream", "its headers", "LostRuins/koboldcpp PR 1168", "text/event-stream, no length", func(t *trial) {
		s := t.stream()
		t.that(s.reply.length < 0, "Content-Length is %d", s.reply.length)
	}},
}

// rivers is a longer answer, asked for once of each server.
func (t *trial) rivers() (text string, over m) {
	over = m{"messages": user("Tell me about rivers."), "max_tokens": 60}
	if t.asker.text == "" {
		t.asker.text = textOf(t.post(pathChat, t.fresh(over)).object())
	}
	t.needs(utf8.RuneCountInString(t.asker.text) > 60, "an answer that can be cut, not %q", t.asker.text)
	return t.asker.text, over
}

// cut asks for the same with stop strings, whole and streamed, and wants this text.
func (t *trial) cut(want, finish string, stops ...string) {
	_, over := t.rivers()
	o := t.post(pathChat, t.fresh(over, m{"stop": stops})).object()
	t.that(textOf(o) == want, "stop %q: the text ends %q, not %q", stops, end(textOf(o)), end(want))
	t.that(finish == "" || finishOf(o) == finish, "stop %q: finish_reason is %q", stops, finishOf(o))
	s := t.post(pathChat, t.fresh(over, m{"stop": stops, "stream": true})).stream().ended()
	t.that(s.text(0) == want, "stop %q, streamed: the text ends %q, not %q", stops, end(s.text(0)), end(want))
}

func end(s string) string {
	if r := []rune(s); len(r) > 20 {
		return "…" + string(r[len(r)-20:])
	}
	return s
}

// before is the text up to a stop string.
func before(text, stop string) string {
	text, _, _ = strings.Cut(text, stop)
	return text
}

var stopCases = []Case{
	{"stop", "at the first token", "ianarawjo/ChainForge#129", "an empty text, finish_reason stop, and usage", func(t *trial) {
		text, over := t.rivers()
		first := string([]rune(text)[:1])
		t.cut("", "stop", first)
		o := t.post(pathChat, t.fresh(over, m{"stop": first})).object()
		_, ok := at(o, "choices", 0, "message", "content").(string)
		t.that(ok, "content is %s", brief(at(o, "choices", 0, "message", "content")))
		t.that(num(o, "usage", "prompt_tokens") > 0, "no usage")
	}},
	{"stop", "a string over several tokens", "SharpAI/SwiftLM#126", "nothing of it is streamed", func(t *trial) {
		text, _ := t.rivers()
		r := []rune(text)
		for _, at := range [][2]int{{9, 12}, {14, 21}, {21, 26}, {30, 42}, {41, 50}} {
			if at[1] < len(r) {
				stop := string(r[at[0]:at[1]])
				t.cut(before(text, stop), "stop", stop)
			}
		}
	}},
	{"stop", "a string that only begins", "smg-project/smg PR 2203", "the text is whole, to its end", func(t *trial) {
		text, _ := t.rivers()
		r := []rune(text)
		t.cut(text, "", string(r[len(r)-5:])+"QQ", string(r[10:16])+"QQ")
	}},
	{"stop", "several", "invergent-ai/surogate#133", "the earliest in the text cuts, whatever their order", func(t *trial) {
		text, _ := t.rivers()
		r := []rune(text)
		early, late := string(r[15:20]), string(r[35:41])
		want := before(text, early)
		if b := before(text, late); len(b) < len(want) {
			want = b
		}
		t.cut(want, "stop", early, late)
		t.cut(want, "stop", late, early)
	}},
	{"stop", "that cannot be", reference, "an error for another type; null is none", func(t *trial) {
		t.refused(m{"stop": 5})
		t.refused(m{"stop": []int{5}})
		t.chat(m{"stop": nil}).object()
	}},
}
