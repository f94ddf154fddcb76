package dialect

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
)

// inTags finds what a Jinja template computes with: expressions and statements.
var inTags = regexp.MustCompile(`(?s)\{[{%].*?[%}]\}`)

// What a template that knows tools computes with: the tools themselves and the
// calls of earlier turns. Some show only one call in a turn and fail on more.
var (
	toolList   = regexp.MustCompile(`\btools\b`)
	callList   = regexp.MustCompile(`\btool_calls\b`)
	singleCall = regexp.MustCompile(`\btool_calls\s*\|\s*length\s*[!=]=\s*1\b`)
)

// Detect finds the dialect of a model by its chat template, and by its
// architecture where the template is none's own. A family's markers stand in its
// template, because it shows the calls of earlier turns. Where a template does
// not, or does not show the tools themselves, the model has no way to know them,
// and the dialect is the generic one. So it is with an empty template.
func Detect(template, architecture string) *Dialect {
	d := detect(template, architecture)
	switch {
	case d.harmony:
	case strings.Contains(template, "[THINK]"):
		d.Thinks, d.think = true, tags{"[THINK]", "[/THINK]"}
		d.control = true
	case strings.Contains(template, openTags.open), strings.Contains(template, openTags.close):
		d.Thinks, d.think = true, openTags
	}
	d.single = !d.generic && (d.harmony || singleCall.MatchString(template))
	sum := sha256.Sum256([]byte(architecture + "\x00" + template))
	d.origin = hex.EncodeToString(sum[:])
	return d
}

func detect(template, architecture string) *Dialect {
	has := func(texts ...string) bool {
		for _, text := range texts {
			if !strings.Contains(template, text) {
				return false
			}
		}
		return true
	}
	switch {
	case has("<|channel|>", "<|message|>"), template == "" && architecture == "gpt-oss":
		return harmony()
	case !uses(template, toolList) || !uses(template, callList):
	case has(mistralCalls):
		return mistral(has(mistralArgs), has(mistralCalls+" ["))
	case has(deepseekCalls):
		return deepseek(has("```json"))
	case has(gemmaCall):
		return functionGemma()
	case has(olmoCalls):
		return olmo()
	case has("<arg_key>"):
		return glm()
	case has("<function=", "<parameter="):
		return qwenCoder()
	case has(functools + "["):
		return phi(false)
	case has(phiCall, phiCallEnd), has("<|tool|>", "<|/tool|>"):
		return phi(true)
	case has(phiCall):
		return granite()
	case has(toolCall):
		return hermes()
	case has(pythonTag), has("<|start_header_id|>", `"parameters"`):
		return llama()
	}
	d := hermes()
	d.Name, d.generic = "generic", true
	return d
}

// uses tells whether the template computes with a variable.
func uses(template string, variable *regexp.Regexp) bool {
	for _, tag := range inTags.FindAllString(template, -1) {
		if variable.MatchString(tag) {
			return true
		}
	}
	return false
}
