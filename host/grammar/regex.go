package grammar

// Regex is a text the whole of which matches the pattern.
func (b *Builder) Regex(pattern string) (Rule, error) {
	return "", &Error{Message: "patterns cannot be enforced yet"}
}

func (b *Builder) jsonPattern(pattern string, least, most int) (Rule, error) {
	return "", &Error{Message: "patterns cannot be enforced yet"}
}

func (b *Builder) jsonFormat(name string) (Rule, error) {
	return "", &Error{Message: "the format " + name + " cannot be enforced yet"}
}
