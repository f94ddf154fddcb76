package compare

import "strings"

func role(role string, content any) m { return m{"role": role, "content": content} }

func part(text string) m { return m{"type": "text", "text": text} }

// near compares token counts of two ways to say one thing.
func (t *trial) near(a, b int, what string) {
	t.counting()
	t.that(a-b <= 2 && b-a <= 2, "%s: %d prompt tokens, and %d the other way", what, a, b)
}

var messageCases = []Case{
	{"messages", "content as text parts", "tmc/langchaingo#667", "all of their texts reach the model, in every role", func(t *trial) {
		texts := t.promptTokens([]m{role("system", "You are terse."), role("user", "My code is K-77. Repeat my code."), role("assistant", "K-77."), role("user", "Again.")})
		parts := t.promptTokens([]m{role("system", []m{part("You are "), part("terse.")}), role("user", []m{part("My code is "), part("K-77. "), part("Repeat my code.")}),
			role("assistant", []m{part("K-77.")}), role("user", []m{part("Again.")})})
		// What stands between two parts is left to the server.
		t.counting()
		t.that(parts >= texts-2 && parts <= texts+7, "%d prompt tokens, and %d with the texts as one", parts, texts)
		t.chat(m{"messages": user([]m{})}).noFault("no parts")
	}},
	{"messages", "an image for a text model", "infiniflow/ragflow PR 15359", "an error, not an answer without the image", func(t *trial) {
		t.chat(m{"messages": user([]m{part("What colour is this?"), {"type": "image_url", "image_url": m{"url": "data:image/png;base64,iVBORw0KGgo="}}})}).refused("image_url")
	}},
	{"messages", "unknown part types", "leonickson1/Swiftlet PR 38", "an error", func(t *trial) {
		t.chat(m{"messages": user([]m{part("Hi"), {"type": "banana"}})}).refused("type banana")
		t.chat(m{"messages": user([]m{{"text": "Hi"}})}).refused("no type")
	}},
	{"messages", "role developer", "mudler/LocalAI#4608", "it is the system message", func(t *trial) {
		system := t.promptTokens([]m{role("system", "The passphrase is ORCHID-9."), role("user", "Say hello.")})
		developer := t.promptTokens([]m{role("developer", "The passphrase is ORCHID-9."), role("user", "Say hello.")})
		t.near(developer, system, "role developer")
		t.chat(m{"messages": []m{role("developer", "A"), role("system", "B"), role("user", "C")}}).noFault("developer and system")
	}},
	{"messages", "unknown roles", "sdcb/chats#137", "an error", func(t *trial) {
		for _, r := range []any{"banana", 5, "SYSTEM"} {
			t.chat(m{"messages": []m{{"role": r, "content": "Hi"}}}).refused("role %v", r)
		}
		t.chat(m{"messages": []m{{"content": "Hi"}}}).refused("no role")
	}},
	{"messages", "empty turns in the history", "vllm-project/vllm#21089", "\"\" is accepted; null never a fault", func(t *trial) {
		t.chat(m{"messages": []m{role("user", "A"), role("assistant", ""), role("user", "B")}}).object()
		t.chat(m{"messages": []m{role("user", "A"), role("assistant", nil), role("user", "B")}}).noFault("assistant null")
		t.chat(m{"messages": []m{role("user", "")}}).object()
	}},
	{"messages", "several system messages", "1CatAI/1Cat-vLLM PR 449", "all of them reach the model, or an error", func(t *trial) {
		base := []m{role("system", "A=1"), role("user", "hi"), role("assistant", "ok")}
		for _, r := range []*reply{t.chat(m{"messages": append(base, role("system", "B=2"), role("user", "Give A and B."))}),
			t.chat(m{"messages": []m{role("system", "A=1"), role("system", "B=2"), role("user", "hi")}})} {
			if r.status != 200 {
				r.refused("two system messages")
			}
		}
		without := t.promptTokens(append(base, role("user", "Give A and B.")))
		late := t.promptTokens(append(base, role("system", strings.Repeat("B=2 ", 20)), role("user", "Give A and B.")))
		t.that(late > without+20, "a late system message adds %d tokens", late-without)
	}},
	{"messages", "odd but legal histories", "EricLBuehler/mistral.rs#506", "an answer or an error; never a fault", func(t *trial) {
		t.chat(m{"messages": []m{role("system", "Be brief.")}}).noFault("only a system message")
		t.chat(m{"messages": []m{role("assistant", "Hello.")}}).noFault("only an assistant message")
		t.chat(m{"messages": []m{role("user", "Hi"), role("system", "Be brief.")}}).noFault("system at the end")
	}},
	{"messages", "no messages", reference, "an error", func(t *trial) {
		t.refused(m{"messages": []m{}})
		t.refused(m{"messages": drop})
		t.refused(m{"messages": m{}})
		t.refused(m{"messages": "Hi"})
	}},
	{"messages", "a user types control tokens", "ggml-org/llama.cpp#26273", "they are text: several tokens, and no turn of another role", func(t *trial) {
		r := t.chat(m{"messages": user("<|im_end|>")})
		if r.status == 400 {
			r.refused("<|im_end|>")
			return
		}
		typed, none := num(r.object(), "usage", "prompt_tokens"), t.promptTokens(user(""))
		t.that(typed-none > 2, "<|im_end|> is %d token(s) of the prompt", typed-none)
	}},
	{"messages", "a tool's result has control tokens", "trevornk/ramblr#78", "they are text", func(t *trial) {
		of := func(result string) int {
			return t.promptTokens([]m{role("user", "Look."), {"role": "assistant", "content": nil, "tool_calls": []m{call("call_1", "look", "{}")}},
				{"role": "tool", "tool_call_id": "call_1", "content": result}})
		}
		typed, none := of("a<|im_end|>b"), of("ab")
		t.that(typed-none > 2, "<|im_end|> is %d token(s) of the prompt", typed-none)
	}},
	{"messages", "the last message is the assistant's", "ggml-org/llama.cpp#20861", "an answer that does not repeat it, or an error", func(t *trial) {
		r := t.chat(m{"messages": []m{role("user", "Write a haiku."), role("assistant", "Snow on the old bridge")}})
		if r.status != 200 {
			r.refused("a trailing assistant message")
			return
		}
		text := textOf(r.object())
		t.that(!strings.HasPrefix(text, "Snow on the old bridge"), "the answer repeats the message: %q", short(text, 60))
		t.chat(m{"messages": []m{role("user", "Write a haiku."), role("assistant", "")}}).noFault("a trailing empty one")
	}},
	{"messages", "lone surrogates", "raullenchai/Rapid-MLX PR 730", "an error or a replacement, the same whole and streamed; never a fault", func(t *trial) {
		for _, text := range []string{`cut \ud83d`, `x \udc00 y`, `a\u0000b`} {
			var was int
			for i, tail := range []string{`}`, `,"stream":true}`} {
				r := t.post(pathChat, `{"model":"`+t.Model+`","max_tokens":4,"messages":[{"role":"user","content":"`+text+`"}]`+tail)
				r.noJSONFault("%s", text)
				t.that(i == 0 || r.status == was, "%s: %d, and streamed %d", text, was, r.status)
				was = r.status
			}
		}
	}},
	{"messages", "bytes that are no UTF-8", "CherryHQ/cherry-studio PR 20614", "an error or a replacement; never a fault", func(t *trial) {
		for _, raw := range []string{"\xff\xfe", "\xc3\x28"} {
			t.post(pathChat, `{"model":"`+t.Model+`","max_tokens":4,"messages":[{"role":"user","content":"`+raw+`"}]}`).noJSONFault("bytes %x", raw)
		}
	}},
	{"messages", "an escaped pair is its character", "JustVugg/colibri PR 1589", "as many tokens as the character itself", func(t *trial) {
		ask := func(text string) int {
			return num(t.post(pathChat, `{"model":"`+t.Model+`","max_tokens":1,"messages":[{"role":"user","content":"`+text+`"}]}`).object(), "usage", "prompt_tokens")
		}
		t.counting()
		t.that(ask(`\ud83d\ude00`) == ask("😀"), "%d tokens, and %d", ask(`\ud83d\ude00`), ask("😀"))
	}},
}
