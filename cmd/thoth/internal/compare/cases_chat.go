package compare

import (
	"math"
	"strings"
)

const reference = "OpenAI reference"

// count is a prompt whose answer is longer than any cap here.
const count = "Count from 1 to 200, one number per line."

var chatCases = []Case{
	{"chat", "the members of an answer", reference, "id, object, created, model, choices and usage as documented", func(t *trial) {
		o := t.chat().object()
		t.that(strings.HasPrefix(str(o, "id"), "chatcmpl-"), "id is %q", str(o, "id"))
		t.that(str(o, "object") == "chat.completion", "object is %q", str(o, "object"))
		t.that(whole(o["created"]), "created is no integer")
		t.that(str(o, "model") != "", "model is missing")
		c := choice(o, 0)
		t.that(len(list(o, "choices")) == 1 && whole(c["index"]) && num(c, "index") == 0, "not one choice of index 0")
		t.that(str(c, "message", "role") == "assistant" && at(c, "message", "content") != nil, "message is %s", brief(c["message"]))
		t.that(str(c, "finish_reason") == "stop" || str(c, "finish_reason") == "length", "finish_reason is %s", brief(c["finish_reason"]))
		for _, n := range []string{"prompt_tokens", "completion_tokens", "total_tokens"} {
			t.that(whole(at(o, "usage", n)), "usage.%s is no integer", n)
		}
	}},
	{"chat", "ids differ", reference, "each answer has an id of its own", func(t *trial) {
		a, b := str(t.chat().object(), "id"), str(t.chat().object(), "id")
		t.that(a != "" && a != b, "both have the id %q", a)
	}},
	{"chat", "the cap is reached", "ggml-org/llama.cpp PR 7198", "finish_reason length and as many tokens as allowed", func(t *trial) {
		for _, most := range []int{1, 5} {
			o := t.chat(m{"messages": user(count), "max_tokens": most}).object()
			t.needs(finishOf(o) == "length" || num(o, "usage", "completion_tokens") >= most, "an answer of %d tokens", most)
			t.that(finishOf(o) == "length", "max_tokens %d: finish_reason is %q", most, finishOf(o))
			t.that(num(o, "usage", "completion_tokens") == most, "max_tokens %d: %d tokens", most, num(o, "usage", "completion_tokens"))
			s := t.stream(m{"messages": user(count), "max_tokens": most})
			t.that(s.finish(0) == "length", "streamed, max_tokens %d: finish_reason is %q", most, s.finish(0))
		}
	}},
	{"chat", "max_completion_tokens", "ggml-org/llama.cpp#13700", "it is the cap", func(t *trial) {
		o := t.chat(m{"messages": user(count), "max_tokens": drop, "max_completion_tokens": 5}).object()
		t.that(finishOf(o) == "length" && num(o, "usage", "completion_tokens") == 5, "%d tokens, %q", num(o, "usage", "completion_tokens"), finishOf(o))
	}},
	{"chat", "max_tokens null", "getumbrel/llama-gpt#113", "as if it was not given", func(t *trial) {
		t.chat(m{"max_tokens": nil, "stop": []string{"\n"}}).object()
	}},
	{"chat", "max_tokens zero or negative", "vllm-project/vllm#19862", "an error, neither 1 nor endless", func(t *trial) {
		for _, n := range []int{0, -1, -5} {
			t.chat(m{"max_tokens": n, "stop": []string{" "}}).refused("max_tokens %d", n)
		}
	}},
	{"chat", "max_tokens far too large", "modular/modular#6673", "what fits, or an error; never a fault", func(t *trial) {
		r := t.chat(m{"max_tokens": 100_000_000, "stop": []string{" "}})
		r.noFault("max_tokens 100000000")
	}},
	{"chat", "max_tokens of another type", "JustVugg/colibri#260", "an error", func(t *trial) {
		for _, v := range []any{"8", true, 8.5, []int{8}} {
			t.refused(m{"max_tokens": v})
		}
	}},
	{"chat", "integers above 2^53", "toorop/ovh-cli#9", "seeds of 64 bits are accepted, and larger ones accepted or refused", func(t *trial) {
		for _, seed := range []any{int64(9007199254740993), int64(9007199254740992), int64(1000000000000000), int64(-1)} {
			t.chat(m{"seed": seed}).object()
		}
		t.chat(m{"seed": uint64(math.MaxUint64)}).noFault("seed 2^64-1")
	}},
	{"chat", "whole numbers written as floats", "0xShug0/audio.cpp#132", "8.0 is 8, or an error", func(t *trial) {
		r := t.post(pathChat, `{"model":"`+t.Model+`","messages":[{"role":"user","content":"Say hi"}],"max_tokens":8.0,"n":1.0}`)
		if r.status != 200 {
			r.refused("max_tokens 8.0")
			return
		}
		n := num(r.object(), "usage", "completion_tokens")
		t.that(n > 0 && n <= 8, "%d tokens", n)
	}},
	{"chat", "n of 2", "abetlen/llama-cpp-python#1906", "two choices, and the prompt counted once", func(t *trial) {
		one := num(t.chat().object(), "usage", "prompt_tokens")
		r := t.chat(m{"n": 2, "temperature": 1})
		if r.status == 400 {
			t.offered(r).refused("n 2")
			return
		}
		o := r.object()
		t.that(len(list(o, "choices")) == 2, "%d choices", len(list(o, "choices")))
		t.that(num(choice(o, 0), "index")+num(choice(o, 1), "index") == 1, "their indexes are %d and %d", num(choice(o, 0), "index"), num(choice(o, 1), "index"))
		t.that(num(o, "usage", "prompt_tokens") == one, "%d prompt tokens, of one %d", num(o, "usage", "prompt_tokens"), one)
	}},
	{"chat", "n of 2, streamed", "InternLM/lmdeploy#1787", "each choice has its events and its finish_reason", func(t *trial) {
		r := t.chat(m{"n": 2, "temperature": 1, "stream": true})
		if r.status == 400 {
			t.offered(r).refused("n 2")
			return
		}
		s := r.stream().ended()
		for i := range 2 {
			t.that(s.finish(i) != "" && s.text(i) != "", "choice %d has no text or end", i)
		}
	}},
	{"chat", "n out of range", reference, "an error for 0 and for 1000; null is 1", func(t *trial) {
		t.refused(m{"n": 0})
		t.refused(m{"n": 1000, "max_tokens": 1})
		t.that(len(list(t.chat(m{"n": nil}).object(), "choices")) == 1, "n null: not one choice")
	}},
	{"chat", "usage with a prompt seen before", "BerriAI/litellm#15945", "prompt_tokens stay the same; cached tokens are among them", func(t *trial) {
		long := m{"messages": user(strings.Repeat("The river runs past the mill and the old bridge. ", 50)), "max_tokens": 4}
		first := 0
		for i := range 3 {
			o := t.chat(long).object()
			u := at(o, "usage")
			t.that(num(u, "total_tokens") == num(u, "prompt_tokens")+num(u, "completion_tokens"), "total_tokens is not the sum")
			t.that(num(u, "prompt_tokens_details", "cached_tokens") <= num(u, "prompt_tokens"), "more cached_tokens than prompt_tokens")
			if i == 0 {
				first = num(u, "prompt_tokens")
				t.needs(first > 0, "usage.prompt_tokens")
			}
			t.that(num(u, "prompt_tokens") == first, "%d prompt tokens, at first %d", num(u, "prompt_tokens"), first)
		}
		s := t.stream(long, m{"stream_options": m{"include_usage": true}})
		n := num(s.events[len(s.events)-1].data, "usage", "prompt_tokens")
		t.that(n == first, "streamed: %d prompt tokens, at first %d", n, first)
	}},
	{"chat", "service_tier", reference, "the answer says which one served, or an error; unknown ones are an error", func(t *trial) {
		r := t.chat(m{"service_tier": "auto"})
		if r.status == 200 {
			t.that(str(r.object(), "service_tier") != "", "it was named, and the answer does not say which one served")
		} else {
			r.refused("service_tier auto")
		}
		t.refused(m{"service_tier": "gold"})
	}},
	{"chat", "metadata and safety_identifier", reference, "taken up to their documented bounds, and refused beyond", func(t *trial) {
		t.chat(m{"metadata": m{"a": "b"}, "safety_identifier": "u", "user": "u"}).object()
		many := m{}
		for _, c := range "abcdefghijklmnopq" {
			many[string(c)] = "v"
		}
		t.chat(m{"metadata": many}).refused("17 entries")
		t.chat(m{"metadata": m{"a": strings.Repeat("x", 513)}}).refused("a value of 513 characters")
		t.chat(m{"safety_identifier": strings.Repeat("x", 65)}).refused("65 characters")
	}},
	{"chat", "what only other models can do", reference, "audio and web search are refused, not ignored", func(t *trial) {
		t.chat(m{"modalities": []string{"text", "audio"}, "audio": m{"voice": "alloy", "format": "wav"}}).refused("modality audio")
		t.refused(m{"web_search_options": m{}})
	}},
	{"chat", "store true", reference, "the answer can be fetched by its id, or an error", func(t *trial) {
		r := t.chat(m{"store": true})
		if r.status != 200 {
			t.offered(r).refused("store true")
			return
		}
		id := str(r.object(), "id")
		got := t.send("GET", pathChat+"/"+id, nil)
		t.that(got.status == 200, "accepted, and GET %s/%s is %d", pathChat, "id", got.status)
	}},
	{"chat", "reasoning_effort and verbosity", reference, "words that are none of the documented are an error", func(t *trial) {
		t.refused(m{"reasoning_effort": "extreme"})
		t.refused(m{"verbosity": "loud"})
	}},
	{"chat", "key case", "golang/go#14750", "Max_Tokens and STREAM are not max_tokens and stream", func(t *trial) {
		o := t.post(pathChat, `{"model":"`+t.Model+`","messages":[{"role":"user","content":"`+count+`"}],"max_tokens":3,"Max_Tokens":50,"STREAM":true}`).object()
		t.that(num(o, "usage", "completion_tokens") == 3, "%d tokens instead of 3", num(o, "usage", "completion_tokens"))
	}},
	{"chat", "a key twice", "modelcontextprotocol/go-sdk#805", "an error, or the last one counts", func(t *trial) {
		r := t.post(pathChat, `{"model":"`+t.Model+`","messages":[{"role":"user","content":"`+count+`"}],"max_tokens":9,"max_tokens":3}`)
		if r.status == 200 {
			t.that(num(r.object(), "usage", "completion_tokens") == 3, "the first one counts")
			return
		}
		r.refused("max_tokens twice")
	}},
	{"chat", "a prompt beyond the context", reference, "an error, also of a stream, and not a cut prompt", func(t *trial) {
		for _, streamed := range []bool{false, true} {
			r := t.chat(m{"messages": user(strings.Repeat("river mill bridge ", 60_000)), "stream": streamed})
			r.refused("180,000 words, stream %t", streamed)
			t.that(r.isJSON(), "the error is %s", r.header.Get("Content-Type"))
		}
	}},
}
