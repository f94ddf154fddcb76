package prompt

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

// cut is a text with its breakpoints written as dots.
func cut(role, text string) Message {
	m := Message{Role: role}
	for i, part := range strings.Split(text, "•") {
		if i > 0 {
			m.Breakpoints = append(m.Breakpoints, len(m.Content))
		}
		m.Content += part
	}
	return m
}

// dotted is the rendering with a dot at each point.
func dotted(t *testing.T, segs []wire.Segment, points []Point) string {
	t.Helper()
	var b strings.Builder
	for i, s := range segs {
		at := 0
		for _, p := range points {
			if p.Segment == i {
				require.Positive(t, p.Offset, "a point is after some text")
				require.LessOrEqual(t, p.Offset, len(s.Text))
				b.WriteString(s.Text[at:p.Offset] + "•")
				at = p.Offset
			}
		}
		b.WriteString(s.Text[at:])
	}
	require.Equal(t, len(points), strings.Count(b.String(), "•"), "each point is in a segment")
	return b.String()
}

func renderPoints(t *testing.T, tpl *Template, messages ...Message) string {
	t.Helper()
	c := Conversation{Messages: messages}
	segs, points, err := tpl.RenderPoints(c)
	require.NoError(t, err)
	alone, err := tpl.Render(c)
	require.NoError(t, err)
	require.Equal(t, alone, segs, "points leave the prompt as it is")
	return dotted(t, segs, points)
}

func TestRenderPoints_BuiltInTemplatesShowThePlaces(t *testing.T) {
	for name, c := range map[string]struct {
		src  Source
		want string
	}{
		"chatml": {Source{EOS: "<|im_end|>"}, "<|im_start|>system\nRules.•\nMore.•<|im_end|>\n<|im_start|>user\nText é•nd•<|im_end|>\n<|im_start|>assistant\n"},
		"llama3": {Source{EOS: "<|eot_id|>", BOS: "<b>"}, "<b><|start_header_id|>system<|end_header_id|>\n\nRules.•\nMore.•<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nText é•nd•<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"},
		// No system role: the text moves into the user's message.
		"gemma":   {Source{Architecture: "gemma3", BOS: "<bos>"}, "<bos><start_of_turn>user\nRules.•\nMore.•\n\nText é•nd•<end_of_turn>\n<start_of_turn>model\n"},
		"mistral": {Source{Architecture: "llama", EOS: "</s>", BOS: "<s>"}, "<s>[INST] Rules.•\nMore.•\n\nText é•nd• [/INST]"},
		"phi":     {Source{Architecture: "phi3"}, "<|system|>\nRules.•\nMore.•<|end|>\n<|user|>\nText é•nd•<|end|>\n<|assistant|>\n"},
	} {
		t.Run(name, func(t *testing.T) {
			tpl, err := Compile(c.src)
			require.NoError(t, err)
			require.Equal(t, "built-in "+name, tpl.Origin)
			require.Equal(t, c.want, renderPoints(t, tpl, cut(System, "Rules.•\nMore.•"), cut(User, "Text é•nd•")))
		})
	}
}

func TestRenderPoints_TrimmedTextMovesAPointBeforeItsWhiteSpace(t *testing.T) {
	for name, src := range map[string]Source{"gemma": {Architecture: "gemma3"}, "llama3": {EOS: "<|eot_id|>"}} {
		t.Run(name, func(t *testing.T) {
			tpl, err := Compile(src)
			require.NoError(t, err)
			for text, want := range map[string]string{
				"  padded \n•":     "padded•",
				"  padded• \n":     "padded•",
				"  padded •\n":     "padded•",
				"  pad• ded \n•":   "pad• ded•",
				"one •\n two• \n•": "one •\n two•",
			} {
				got := renderPoints(t, tpl, cut(User, text))
				require.Contains(t, got, want, "%q", text)
				require.Equal(t, strings.Count(want, "•"), strings.Count(got, "•"), "%q gave %q", text, got)
			}
		})
	}
	// One that does not trim has the place after the white space.
	require.Contains(t, renderPoints(t, compileT(t, chatmlDefaultSystem), cut(User, "padded \n•")), "padded \n•<|im_end|>")
}

func TestRenderPoints_DroppedTextGivesTheNearestEarlierPlace(t *testing.T) {
	tpl := compileT(t, thinking)
	got := renderPoints(t, tpl, cut(User, "question"), cut(Assistant, "<think>\nsecret•\n</think>\n\nanswer•"), cut(User, "next"))
	require.Equal(t, "<|im_start|>user\nquestion•<|im_end|>\n<|im_start|>assistant\nanswer•<|im_end|>\n<|im_start|>user\nnext<|im_end|>\n<|im_start|>assistant\n", got)

	// Nothing earlier is shown: the point is left out, the prompt is not.
	got = renderPoints(t, tpl, cut(Assistant, "<think>\nsecret•\n</think>\n\nanswer"), cut(User, "next"))
	require.NotContains(t, got, "•")
	require.Contains(t, got, "answer")
	for _, m := range []Message{cut(User, "•text"), cut(User, "")} {
		require.NotContains(t, renderPoints(t, tpl, m), "•")
	}
}

func TestRenderPoints_TextShownTwiceGivesItsFirstPlace(t *testing.T) {
	tpl := compileT(t, `{% for m in messages %}[{{ m.content }}]{% endfor %}{% for m in messages %}({{ m.content }}){% endfor %}`)
	require.Equal(t, "[a•b][c•](ab)(c)", renderPoints(t, tpl, cut(User, "a•b"), cut(Assistant, "c•")))
}

func TestRenderPoints_FollowTextThatIsMoved(t *testing.T) {
	// Late system messages to the head, with one before them.
	got := renderPoints(t, compileT(t, systemFirstOnly), cut(System, "A•1"), cut(User, "hi•"), cut(Assistant, "ok"), cut(System, "B•2"), cut(User, "go"))
	require.Equal(t, "<|system|>A•1\n\nB•2<|end|><|user|>hi•<|end|><|assistant|>ok<|end|><|user|>go<|end|><|assistant|>", got)

	// Results of tools become text of a user message, with the words around them.
	call := Message{Role: Assistant, ToolCalls: []ToolCall{{ID: "c", Name: "f", Arguments: "{}"}}}
	got = renderPoints(t, compileT(t, chatmlDefaultSystem), cut(User, "q"), call, cut(ToolResult, "one•"), cut(ToolResult, "tw•o"), cut(User, "we•ll"))
	require.Contains(t, got, "<tool_response>\none•\n</tool_response>\n<tool_response>\ntw•o\n</tool_response>\n\nwe•ll<|im_end|>")
}

func TestRenderPoints_LeavesTheClientsConversationAlone(t *testing.T) {
	tpl, err := Compile(Source{Architecture: "gemma3"})
	require.NoError(t, err)
	in := []Message{cut(System, "S•"), cut(User, "a•b"), cut(Assistant, "x"), cut(System, "T•"), cut(User, "c•")}
	before := make([]Message, len(in))
	for i, m := range in {
		before[i] = m
		before[i].Breakpoints = slices.Clone(m.Breakpoints)
	}
	for range 2 {
		_, points, err := tpl.RenderPoints(Conversation{Messages: in})
		require.NoError(t, err)
		require.Len(t, points, 4)
		require.Equal(t, before, in)
	}
}

func TestRenderPoints_OddOffsetsAndForgedMarksAreHarmless(t *testing.T) {
	tpl := compileT(t, chatmlDefaultSystem)
	m := Message{Role: User, Content: "é<|im_end|>x", Breakpoints: []int{99, 1, -5, 0, 5, 5, 2}}
	segs, points, err := tpl.RenderPoints(Conversation{Messages: []Message{m}})
	require.NoError(t, err)
	require.Equal(t, []Point{{1, len("\né")}, {1, len("\né<|i")}, {1, len("\né<|im_end|>x")}}, points, "within the text, whole characters, each once")
	require.Equal(t, "\n"+m.Content, segs[1].Text, "the client's text stays one plain segment")

	// The client writes all characters the marks are chosen from but a few.
	var all strings.Builder
	for r := rune(privateFirst); r < privateFirst+512; r++ {
		all.WriteRune(r)
	}
	segs, points, err = tpl.RenderPoints(Conversation{Messages: []Message{{Role: User, Content: all.String() + "end", Breakpoints: []int{all.Len()}}}})
	require.NoError(t, err)
	require.Equal(t, []Point{{1, 1 + all.Len()}}, points)
	require.Equal(t, "\n"+all.String()+"end", segs[1].Text)
}

func TestRenderPoints_TemplatesThatRefuseStillDo(t *testing.T) {
	_, _, err := compileT(t, strictAlternating).RenderPoints(Conversation{Messages: []Message{cut(User, "a•"), cut(User, "b")}})
	require.ErrorAs(t, err, new(*Refusal))
	_, _, err = compileT(t, probesControlMarker).RenderPoints(users("x <|im_end|> y"))
	require.ErrorIs(t, err, ErrUnsafe)
	_, _, err = compileT(t, thinking).RenderPoints(Conversation{Messages: []Message{cut(User, "a")}, Variables: []byte(`{"messages":1}`)})
	require.ErrorAs(t, err, new(*VariableError))
}

func FuzzRenderPoints_PointsFollowTheirText(f *testing.F) {
	f.Add("before", "after")
	f.Add("  <|im_end|>", " \n")
	f.Add("</think>", "x")
	tpl, err := Compile(Source{ChatTemplate: chatmlDefaultSystem})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, a, b string) {
		if !utf8.ValidString(a) || !utf8.ValidString(b) || a == "" {
			return
		}
		segs, points, err := tpl.RenderPoints(Conversation{Messages: []Message{{Role: User, Content: a + b, Breakpoints: []int{len(a)}}}})
		require.NoError(t, err)
		require.Len(t, points, 1)
		text := joined(segs[:points[0].Segment]) + segs[points[0].Segment].Text[:points[0].Offset]
		require.True(t, strings.HasSuffix(text, a), "%q", text)
	})
}
