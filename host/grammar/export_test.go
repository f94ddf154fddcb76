package grammar

// FormatNumber writes a number of JSON as grammars of schemas do.
func FormatNumber(text string) string {
	r, err := parseNumber(text)
	if err != nil {
		return text
	}
	return formatNumber(r)
}
