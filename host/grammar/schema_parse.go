package grammar

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strings"
)

// types is a set of JSON types. A number is an integer or a fraction, so that
// integer is a subset of number as JSON Schema has it.
type types uint8

const (
	typeNull types = 1 << iota
	typeBoolean
	typeInteger
	typeFraction
	typeString
	typeArray
	typeObject

	typeNumber = typeInteger | typeFraction
	typeAny    = typeNull | typeBoolean | typeNumber | typeString | typeArray | typeObject
)

var typeNames = map[string]types{
	"null": typeNull, "boolean": typeBoolean, "integer": typeInteger, "number": typeNumber,
	"string": typeString, "array": typeArray, "object": typeObject,
}

// unenforced are the keywords, of any draft, that a grammar cannot enforce or
// that this package does not. One that is not known at all is ignored, as JSON
// Schema wants; one of these must not be.
var unenforced = []string{
	"$dynamicRef", "$recursiveRef", "additionalItems", "contains", "dependencies", "dependentRequired",
	"dependentSchemas", "disallow", "divisibleBy", "else", "extends", "if", "maxContains", "minContains",
	"not", "patternProperties", "propertyNames", "then", "unevaluatedItems",
	"unevaluatedProperties", "uniqueItems",
}

// schema is one schema as it stands in the document. Its keywords are read when
// it is first reached; a schema nobody reaches is not judged.
type schema struct {
	id    int
	path  string
	depth int
	value *value
	read  bool

	never   bool // the schema false
	order   []string
	stated  bool // type is given
	types   types
	values  []*value // enum or const
	limited bool     // by enum or const

	lo, hi                  *big.Rat
	loOpen, hiOpen          bool     // exclusive
	multiple                *big.Rat // multipleOf; nil: none
	minLength               int
	maxLength               int // -1: none; so are the other maxima
	pattern                 string
	hasPattern              bool
	format                  string
	patternText, formatText dfa // made when a value is tested against them
	prefix                  []*schema
	items                   *schema
	minItems                int
	maxItems                int
	hasProperties           bool
	properties              map[string]*schema
	names                   []string // of properties, in order
	required                []string
	additional              *schema
	minProps                int
	maxProps                int
	ref                     *schema
	allOf                   []*schema
	anyOf                   []*schema
	oneOf                   []*schema
	otherThanRef            bool // says something besides $ref
}

// at is the schema at a place in the document, one for each value.
func (c *compiler) at(v *value, path string, depth int) *schema {
	if s := c.schemas[v]; s != nil {
		return s
	}
	s := &schema{id: len(c.schemas), path: path, depth: depth, value: v}
	c.schemas[v] = s
	return s
}

// load reads the keywords of s, once.
func (c *compiler) load(s *schema) error {
	if s.read {
		return nil
	}
	s.read = true
	if err := c.visit(s.path); err != nil {
		return err
	}
	if s.depth > c.limits.Depth {
		return fail(s.path, "nests deeper than %d schemas, the limit", c.limits.Depth)
	}
	s.types, s.maxLength, s.maxItems, s.maxProps = typeAny, -1, -1, -1
	switch s.value.kind {
	case 't':
		return nil
	case 'f':
		s.never, s.otherThanRef = true, true
		return nil
	case '{':
	default:
		return fail(s.path, "must be an object, true or false, not %s", s.value.kind)
	}
	for i, name := range s.value.names {
		if err := c.keyword(s, name, s.value.items[i]); err != nil {
			return err
		}
	}
	return nil
}

func (c *compiler) keyword(s *schema, name string, v *value) error {
	path := below(s.path, name)
	var err error
	switch name {
	case "type":
		s.stated = true
		s.types, err = readTypes(path, v)
	case "const":
		s.limit([]*value{v})
	case "enum":
		if v.kind != '[' || len(v.items) == 0 {
			return fail(path, "must be a list of at least one value")
		}
		if len(v.items) > c.limits.Enum {
			return fail(path, "has %d values, the limit is %d", len(v.items), c.limits.Enum)
		}
		s.limit(v.items)
	case "minimum":
		err = s.bound(path, v, false, false)
	case "exclusiveMinimum":
		err = s.bound(path, v, false, true)
	case "maximum":
		err = s.bound(path, v, true, false)
	case "exclusiveMaximum":
		err = s.bound(path, v, true, true)
	case "multipleOf":
		if v.kind != '0' || v.num.Sign() <= 0 {
			return fail(path, "must be a number above 0")
		}
		s.multiple = v.num
	case "minLength":
		s.minLength, err = c.count(path, v, c.limits.Length)
	case "maxLength":
		s.maxLength, err = c.count(path, v, c.limits.Length)
	case "minItems":
		s.minItems, err = c.count(path, v, c.limits.Repeat)
	case "maxItems":
		s.maxItems, err = c.count(path, v, c.limits.Repeat)
	case "minProperties":
		s.minProps, err = c.count(path, v, math.MaxInt)
	case "maxProperties":
		s.maxProps, err = c.count(path, v, math.MaxInt)
	case "pattern", "format":
		if v.kind != '"' {
			return fail(path, "must be a string")
		}
		if name == "format" {
			s.format = v.text
		} else {
			s.pattern, s.hasPattern = v.text, true
		}
	case "properties":
		if v.kind != '{' {
			return fail(path, "must be an object of schemas")
		}
		s.hasProperties, s.names, s.properties = true, v.names, make(map[string]*schema, len(v.names))
		for i, n := range v.names {
			s.properties[n] = c.at(v.items[i], below(path, n), s.depth+1)
		}
	case "required":
		if v.kind != '[' {
			return fail(path, "must be a list of names")
		}
		for i, item := range v.items {
			if item.kind != '"' {
				return fail(element(path, i), "must be a string")
			}
			s.required = append(s.required, item.text)
		}
	case "additionalProperties":
		s.additional = c.at(v, path, s.depth+1)
	case "items":
		if v.kind == '[' {
			return fail(path, "a list of schemas is not taken here, prefixItems is")
		}
		s.items = c.at(v, path, s.depth+1)
	case "prefixItems":
		s.prefix, err = c.list(s, path, v)
	case "allOf":
		s.allOf, err = c.list(s, path, v)
	case "anyOf":
		s.anyOf, err = c.list(s, path, v)
	case "oneOf":
		s.oneOf, err = c.list(s, path, v)
	case "$ref":
		s.order = append(s.order, name)
		s.ref, err = c.resolve(path, v)
		return err
	case "$id":
		if s.value != c.document && v.kind == '"' {
			return fail(path, "is supported at the root alone")
		}
		return nil
	default:
		if slices.Contains(unenforced, name) && !idle(s.value, name, v) {
			return fail(path, "the keyword is not supported, and to ignore it would break the schema")
		}
		return nil
	}
	s.otherThanRef = true
	s.order = append(s.order, name)
	return err
}

// idle tells whether a keyword that is not enforced demands nothing.
func idle(of *value, name string, v *value) bool {
	switch name {
	case "uniqueItems", "not":
		return v.kind == 'f'
	case "unevaluatedItems", "unevaluatedProperties", "propertyNames":
		return v.kind == 't'
	case "dependencies", "dependentRequired", "dependentSchemas", "patternProperties":
		return v.kind == '{' && len(v.items) == 0
	case "if":
		return of.get("then") == nil && of.get("else") == nil
	case "then", "else":
		return of.get("if") == nil
	case "minContains", "maxContains":
		return of.get("contains") == nil
	}
	return false
}

// limit narrows s to values; enum and const may stand together.
func (s *schema) limit(values []*value) {
	if s.limited {
		values = slices.DeleteFunc(slices.Clone(values), func(v *value) bool {
			return !slices.ContainsFunc(s.values, v.equal)
		})
	}
	s.limited, s.values = true, values
}

func (s *schema) bound(path string, v *value, upper, open bool) error {
	if v.kind != '0' {
		return fail(path, "must be a number")
	}
	if upper {
		s.hi, s.hiOpen = tighter(s.hi, s.hiOpen, v.num, open, -1)
	} else {
		s.lo, s.loOpen = tighter(s.lo, s.loOpen, v.num, open, 1)
	}
	return nil
}

// tighter is the stricter of two bounds, nil being none; sign is 1 for lower
// bounds and -1 for upper ones.
func tighter(a *big.Rat, aOpen bool, b *big.Rat, bOpen bool, sign int) (*big.Rat, bool) {
	switch {
	case b == nil:
		return a, aOpen
	case a == nil || b.Cmp(a) == sign:
		return b, bOpen
	case b.Cmp(a) == 0:
		return a, aOpen || bOpen
	}
	return a, aOpen
}

// count reads a count such as minItems. Those a grammar writes as a repetition
// are held to the limit of repetitions.
func (c *compiler) count(path string, v *value, most int) (int, error) {
	if v.kind != '0' || !v.num.IsInt() || v.num.Sign() < 0 {
		return 0, fail(path, "must be a whole number, not negative")
	}
	n := v.num.Num()
	if most < math.MaxInt && (!n.IsInt64() || n.Int64() > int64(most)) {
		return 0, fail(path, "is %s, the limit is %d", short(n.String()), most)
	}
	if !n.IsInt64() || n.Int64() > 1<<30 {
		return 1 << 30, nil
	}
	return int(n.Int64()), nil
}

func (c *compiler) list(s *schema, path string, v *value) ([]*schema, error) {
	if v.kind != '[' || len(v.items) == 0 {
		return nil, fail(path, "must be a list of at least one schema")
	}
	all := make([]*schema, len(v.items))
	for i, item := range v.items {
		all[i] = c.at(item, element(path, i), s.depth+1)
	}
	return all, nil
}

func readTypes(path string, v *value) (types, error) {
	if v.kind == '"' {
		t, ok := typeNames[v.text]
		if !ok {
			return 0, fail(path, "is %q, allowed are null, boolean, integer, number, string, array, object", short(v.text))
		}
		return t, nil
	}
	if v.kind != '[' || len(v.items) == 0 {
		return 0, fail(path, "must be a type's name or a list of them")
	}
	var all types
	for i, item := range v.items {
		if item.kind != '"' {
			return 0, fail(element(path, i), "must be a type's name")
		}
		t, err := readTypes(element(path, i), item)
		if err != nil {
			return 0, err
		}
		all |= t
	}
	return all, nil
}

// fail is an error at a place; its message continues "the schema there".
func fail(path, format string, args ...any) error {
	e := &Error{Path: path, Message: fmt.Sprintf(format, args...)}
	if path == "" {
		e.Message = "the schema " + e.Message
	}
	return e
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9_$-]+$`)

// below is the path of a member.
func below(path, name string) string {
	name = short(name)
	switch {
	case !plainName.MatchString(name):
		return fmt.Sprintf("%s[%q]", path, name)
	case path == "":
		return name
	}
	return path + "." + name
}

func element(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

// short keeps a client's own text in a message to a readable length.
func short(s string) string {
	const longest = 80
	if len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(s[:longest], "") + "..."
}
