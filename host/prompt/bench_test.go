package prompt

import "testing"

// BenchmarkRender is the cost of a chat's prompt in the host.
func BenchmarkRender(b *testing.B) {
	t, err := Compile(Source{ChatTemplate: "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := t.Render(Conversation{Messages: []Message{{Role: "user", Content: "Why is the sky blue?"}}}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRender_Tools is the cost of a prompt with tools and a call.
func BenchmarkRender_Tools(b *testing.B) {
	for _, name := range []string{"qwen3", "gemma"} {
		b.Run(name, func(b *testing.B) {
			t := family(b, name)
			c := Conversation{Messages: goldenCases[3].c.Messages}
			for range 10 {
				c.Tools = append(c.Tools, tools()...)
			}
			for b.Loop() {
				if _, err := t.Render(c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
