package native

import (
	"errors"
	"slices"
	"strings"

	"thoth/station/engine"
)

// Where the texts of a pair stand in a layout.
const (
	queryMark    = "{query}"
	documentMark = "{document}"
)

// pairLayout is how a model was trained to read a pair: control tokens, and texts
// with the query and the document in them. A text is tokenised as a whole, since
// its tokens may reach over the marks; what a caller wrote never becomes a control
// token.
type pairLayout struct {
	parts []pairPart
	typed bool // tokens behind the query's separator are of the second type
}

// pairPart is a control token where text is "".
type pairPart struct {
	token engine.Token
	text  string
}

// separated is the layout of encoders: [CLS] query [SEP] document [SEP] of BERT,
// <s> query </s></s> document </s> of RoBERTa and its kin.
func separated(first, last engine.Token, double, typed bool) *pairLayout {
	l := &pairLayout{typed: typed, parts: []pairPart{{token: first}, {text: queryMark}, {token: last}, {text: documentMark}, {token: last}}}
	if double {
		l.parts = slices.Insert(l.parts, 3, pairPart{token: last})
	}
	return l
}

// templated is the layout a model file describes by a text; control are the texts
// of the vocabulary's control tokens.
func templated(template string, control map[string]engine.Token) (*pairLayout, error) {
	if strings.Count(template, queryMark) != 1 || strings.Count(template, documentMark) != 1 {
		return nil, errors.New("the template for pairs does not name {query} and {document} once each")
	}
	l := &pairLayout{}
	for template != "" {
		at, found := len(template), ""
		for text := range control {
			if i := strings.Index(template, text); i >= 0 && (i < at || i == at && len(text) > len(found)) {
				at, found = i, text
			}
		}
		if at > 0 {
			l.parts = append(l.parts, pairPart{text: template[:at]})
		}
		if found != "" {
			l.parts = append(l.parts, pairPart{token: control[found]})
		}
		template = template[at+len(found):]
	}
	return l, nil
}

// pairs makes a text of the query with each document. What does not depend on the
// document is tokenised once.
func (l *pairLayout) pairs(tokenize func(string) ([]engine.Token, error), query string, documents []string) ([]engine.Text, error) {
	fixed := make([][]engine.Token, len(l.parts))
	for i, p := range l.parts {
		switch {
		case p.text == "":
			fixed[i] = []engine.Token{p.token}
		case !strings.Contains(p.text, documentMark):
			var err error
			if fixed[i], err = tokenize(strings.Replace(p.text, queryMark, query, 1)); err != nil {
				return nil, err
			}
		}
	}
	out := make([]engine.Text, len(documents))
	for d, document := range documents {
		t := &out[d]
		for i, p := range l.parts {
			if p.text == "" || !strings.Contains(p.text, documentMark) {
				t.Tokens = append(t.Tokens, fixed[i]...)
				continue
			}
			if l.typed {
				t.Second = len(t.Tokens)
			}
			// One pass over both: a query may well have "{document}" in it.
			tokens, err := tokenize(strings.NewReplacer(queryMark, query, documentMark, document).Replace(p.text))
			if err != nil {
				return nil, err
			}
			t.Tokens = append(t.Tokens, tokens...)
		}
	}
	return out, nil
}
