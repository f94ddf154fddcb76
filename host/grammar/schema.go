package grammar

import (
	"errors"
	"strings"
)

// stepsPerNode bounds the work on a schema by its limit of nodes: schemas and
// alternatives can be multiplied with each other without being many. All schemas
// of a grammar, those of a request's tools, share it.
const stepsPerNode = 100

// compiler makes the rule of one JSON Schema, in four passes: the nodes an
// answer can reach are found and their schemas merged; those no finite value
// satisfies are left out; oneOfs are proven exclusive; the rest is written.
type compiler struct {
	b        *Builder
	limits   Limits
	document *value
	schemas  map[*value]*schema
	nodes    map[string]*node // by the schemas they unite

	done map[*node]bool // judged, with all that it reaches

	visited int
	nested  int  // validations inside each other
	proving bool // that nothing is valid: what is not sure counts as valid
}

// Schema is an instance of a JSON Schema, draft 2020-12. Where a schema does not
// say how an instance should look, the rule picks what it means: declared
// properties only, unless there are none or additionalProperties is given; when
// no type is stated, the types its keywords speak of.
func (b *Builder) Schema(text []byte) (Rule, error) {
	c := newCompiler(b)
	if err := c.readDocument(text); err != nil {
		return "", err
	}
	return c.compile(c.document, "", 0)
}

func newCompiler(b *Builder) *compiler {
	return &compiler{b: b, limits: b.limits, schemas: map[*value]*schema{}, nodes: map[string]*node{}, done: map[*node]bool{}}
}

// Object is any JSON object. That one name comes once only cannot be said in a
// grammar.
func (b *Builder) Object() Rule {
	b.Value()
	return b.made[anyObject]
}

// anyObject is what the builder remembers the rule of any object by.
const anyObject = "\x00any JSON object"

// Value is any JSON value.
func (b *Builder) Value() Rule {
	return b.once("\x00any JSON value", func() Rule {
		value, object, array := b.declare("value"), b.declare("object"), b.declare("array")
		b.made[anyObject] = object
		number, err := b.number(numbers{})
		if err != nil {
			return b.fail("%v", err)
		}
		text := b.jsonString(0, -1)
		pair := b.Sequence(text, `": "`, value)
		b.define(object, []Rule{`"{}"`}, []Rule{`"{"`, pair, b.Repeat(b.Sequence(`", "`, pair), 0, -1), `"}"`})
		b.define(array, []Rule{`"[]"`}, []Rule{`"["`, value, b.Repeat(b.Sequence(`", "`, value), 0, -1), `"]"`})
		b.define(value, []Rule{object}, []Rule{array}, []Rule{text}, []Rule{number},
			[]Rule{`"true"`}, []Rule{`"false"`}, []Rule{`"null"`})
		return value
	})
}

func (c *compiler) readDocument(text []byte) error {
	if len(text) > c.limits.SchemaBytes {
		return fail("", "has %d bytes, the limit is %d", len(text), c.limits.SchemaBytes)
	}
	// A schema below another takes two levels of JSON at most.
	document, err := decodeValue(text, 2*c.limits.Depth+2)
	if errors.Is(err, errTooDeep) {
		return fail("", "nests deeper than %d schemas, the limit", c.limits.Depth)
	} else if err != nil {
		return fail("", "%v", err)
	}
	c.document = document
	return nil
}

// compile is the rule of the schema at a place in the document.
func (c *compiler) compile(v *value, path string, depth int) (Rule, error) {
	root, err := c.node(path, []*schema{c.at(v, path, depth)})
	if err != nil {
		return "", err
	}
	nodes, err := c.reach(root)
	if err != nil {
		return "", err
	}
	if err := c.finish(nodes); err != nil {
		return "", err
	}
	if !root.possible {
		return "", c.impossible(root, map[*node]bool{})
	}
	for _, n := range nodes {
		if !n.possible {
			continue
		}
		if err := c.exclusive(n); err != nil {
			return "", err
		}
	}
	r, err := c.write(root)
	if err != nil {
		return "", err
	}
	if c.b.err != nil {
		return "", c.b.err
	}
	for _, n := range nodes {
		c.done[n] = true
	}
	return r, nil
}

// reach finds the nodes that may be written and are not done, root first.
func (c *compiler) reach(root *node) ([]*node, error) {
	if c.done[root] {
		return nil, nil
	}
	nodes, known := []*node{root}, map[*node]bool{root: true}
	for i := 0; i < len(nodes); i++ {
		n := nodes[i]
		if err := c.expand(n); err != nil {
			return nil, err
		}
		for _, sh := range n.shapes {
			if err := c.plan(sh); err != nil {
				return nil, err
			}
			for _, child := range sh.children() {
				if !known[child] && !c.done[child] {
					known[child] = true
					nodes = append(nodes, child)
				}
			}
		}
	}
	return nodes, nil
}

// write is the rule of a node. One that can hold others gets a name before its
// body, so that it can be one of them.
func (c *compiler) write(n *node) (Rule, error) {
	if n.rule != "" {
		return n.rule, nil
	}
	if len(n.conj) == 0 {
		n.rule = c.b.Value()
		return n.rule, nil
	}
	named := false
	for _, sh := range n.shapes {
		named = named || len(sh.children()) > 0
	}
	if named {
		n.rule = c.b.declare(ruleName(n.path))
	}
	var alts []Rule
	var objects []*shape
	for _, sh := range n.shapes {
		more, err := c.writeShape(sh)
		if err != nil {
			return "", err
		}
		if alts = append(alts, more...); c.b.err != nil {
			return "", c.b.err
		}
		if ok, err := c.writable(sh, typeObject); err != nil {
			return "", err
		} else if ok {
			objects = append(objects, sh)
		}
	}
	if objects != nil {
		r, err := c.writeObjects(objects)
		if err != nil {
			return "", err
		}
		alts = append(alts, r)
	}
	r := c.b.Choice(alts...)
	if named {
		c.b.define(n.rule, []Rule{r})
	} else {
		n.rule = r
	}
	return n.rule, nil
}

// writable tells whether the shape has values of these types that are neither
// listed nor without end.
func (c *compiler) writable(sh *shape, t types) (bool, error) {
	if t &= sh.writes; sh.limited || t == 0 {
		return false, nil
	}
	j := judge{c: c, child: func(n *node) (bool, error) { return n.possible, nil }}
	return j.possible(sh, t)
}

// writeShape is one rule for each type the shape can have, besides objects: these
// are written for all shapes together.
func (c *compiler) writeShape(sh *shape) ([]Rule, error) {
	var alts []Rule
	if sh.limited {
		for _, v := range sh.values {
			alts = append(alts, c.b.Literal(v.json()))
		}
		return alts, nil
	}
	for _, one := range []struct {
		types types
		write func(*shape) (Rule, error)
	}{
		{typeArray, c.writeArray}, {typeString, c.writeString}, {typeNumber, c.writeNumber},
		{typeBoolean, func(*shape) (Rule, error) { return c.b.Choice(`"true"`, `"false"`), nil }},
		{typeNull, func(*shape) (Rule, error) { return `"null"`, nil }},
	} {
		ok, err := c.writable(sh, one.types)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		r, err := one.write(sh)
		if err != nil {
			return nil, err
		}
		alts = append(alts, r)
	}
	return alts, nil
}

// visit counts a schema, step a piece of work.
func (c *compiler) visit(path string) error {
	if c.visited++; c.visited > c.limits.Nodes {
		return fail(path, "is one too many: all together come to more than %d schemas, the limit", c.limits.Nodes)
	}
	return nil
}

func (c *compiler) step(n int) error {
	if c.b.steps += n; c.b.steps > c.limits.Nodes*stepsPerNode {
		return fail("", "has too many combinations: they take more than %d steps, %d for each of the %d schemas of the limit",
			c.limits.Nodes*stepsPerNode, stepsPerNode, c.limits.Nodes)
	}
	return nil
}

// ruleName makes a rule's name of a path's last parts, for those who read the
// grammar.
func ruleName(path string) string {
	var parts []string
	for part := range strings.SplitSeq(path, ".") {
		switch part {
		case "properties", "$defs", "definitions":
		default:
			parts = append(parts, part)
		}
	}
	if name := strings.Trim(strings.Join(parts[max(0, len(parts)-2):], "-"), "-"); name != "" {
		return name
	}
	return "instance"
}
