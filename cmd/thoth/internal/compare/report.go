package compare

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

var marks = map[State]string{Right: "✓", Wrong: "✗", Absent: "–", Unshown: "○"}

// WriteTable writes the report as Markdown: a table with a line for each case, and the
// totals.
func (r *Report) WriteTable(w io.Writer) error {
	var b strings.Builder
	b.WriteString("| | case | right is |")
	for _, s := range r.Servers {
		fmt.Fprintf(&b, " %s |", cell(s.Name))
	}
	b.WriteString(" why not right |\n|---|---|---|")
	b.WriteString(strings.Repeat("---|", len(r.Servers)+1) + "\n")
	area := ""
	for _, one := range r.Results {
		shown := ""
		if one.Area != area {
			area, shown = one.Area, one.Area
		}
		fmt.Fprintf(&b, "| %s | %s | %s |", shown, cell(one.Name), cell(one.Right))
		var why []string
		for i, v := range one.Verdicts {
			fmt.Fprintf(&b, " %s |", marks[v.State])
			if v.State == Right {
				continue
			}
			text := cell(v.Why)
			if len(r.Servers) > 1 && i == 0 {
				text = cell(r.Servers[i].Name) + ": " + text
			}
			why = append(why, text)
		}
		fmt.Fprintf(&b, " %s |\n", strings.Join(why, "; "))
	}
	b.WriteString("\n| |")
	for _, s := range r.Servers {
		fmt.Fprintf(&b, " %s |", cell(s.Name))
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(r.Servers)) + "\n")
	for _, state := range []State{Right, Wrong, Absent, Unshown} {
		fmt.Fprintf(&b, "| %s %s |", marks[state], words[state])
		for _, total := range r.Totals {
			fmt.Fprintf(&b, " %d |", total[state])
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

var words = map[State]string{Right: "right", Wrong: "wrong", Absent: "not offered, and said so", Unshown: "not shown"}

// cell is text that may stand in a table.
func cell(s string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ", "<", "&lt;").Replace(strings.ToValidUTF8(s, "\ufffd"))
}

// WriteJSON writes the report for programs.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	return e.Encode(r)
}
