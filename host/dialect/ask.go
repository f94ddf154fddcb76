package dialect

import "slices"

// allowed tells for each tool whether it may be called.
func (a Ask) allowed() []bool {
	out := make([]bool, len(a.Tools))
	if a.Mode == ModeNone {
		return out
	}
	for i := range out {
		out[i] = a.Allowed == nil || slices.Contains(a.Allowed, i)
	}
	return out
}

// callable are the indexes of the tools that may be called.
func (a Ask) callable() []int {
	var out []int
	for i, ok := range a.allowed() {
		if ok {
			out = append(out, i)
		}
	}
	return out
}

// bindsCalls tells whether a grammar binds the calls of the answer.
func (a Ask) bindsCalls() bool {
	tools := a.callable()
	switch {
	case len(tools) == 0:
		return false
	case a.Mode == ModeRequired, !a.Parallel, a.Content != "":
		return true
	}
	return slices.ContainsFunc(tools, func(i int) bool { return a.Tools[i].Strict })
}
