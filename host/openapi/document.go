package openapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
)

// Operation is what one method of one path does.
type Operation struct {
	Method, Path string // the path with {parameters}
	ID           string // unique
	Tag          string
	Summary      string
	Note         string // description
	Open         bool   // needs no key
	Scope        string // of the key it needs; empty: any
	Parameters   []Parameter
	Body         any            // a value of the request's type; nil: none
	Answer       any            // a value of the answer's type, or a Schema
	Also         map[string]any // further media types of the answer: their types
	Status       int            // of the answer; 0: 200
	Headers      []string       // names of answer headers, of Document.Headers
	Errors       []int          // statuses, of Document.Errors
	Failure      any            // a value of the type of an error's body, where it is not Document.Error
}

// Parameter is one in a path, a query or a header.
type Parameter struct {
	Name, In string
	Note     string
	Required bool
	Schema   Schema
	Example  any
}

// Document is all there is to write down.
type Document struct {
	Title, Version, Note string
	Keys                 bool // requests need a key
	Operations           []Operation
	Tags                 []Tag
	Types                []Type
	Forms                map[reflect.Type]Schema // of types that write themselves
	Error                any                     // a value of the type of every error's body
	Errors               map[int]string          // descriptions of errors by status
	Headers              map[string]Schema       // of answers
	ErrorHeaders         map[int][]string        // names of headers of errors
}

// Tag groups operations.
type Tag struct{ Name, Note string }

// Names of the ways to send a key.
const (
	schemeBearer = "bearer"
	schemeHeader = "apiKeyHeader"
)

// Build writes the document. An error is one of the table.
func (d *Document) Build() ([]byte, error) {
	s := newSchemas(d.Types, d.Forms)
	paths := map[string]map[string]any{}
	ids := map[string]bool{}
	for _, o := range d.Operations {
		method := strings.ToLower(o.Method)
		if paths[o.Path] == nil {
			paths[o.Path] = map[string]any{}
		}
		if _, twice := paths[o.Path][method]; twice || ids[o.ID] || o.ID == "" {
			s.errorf("%s %s, or its id %q, is there twice", o.Method, o.Path, o.ID)
		}
		ids[o.ID] = true
		paths[o.Path][method] = d.operation(s, o)
	}
	failure, _ := s.of(reflect.TypeOf(d.Error), answer)
	responses := map[string]any{}
	for status := range d.Errors {
		responses[errorName(status)] = d.failure(s, status, failure)
	}
	headers := map[string]any{}
	for name, schema := range d.Headers {
		headers[name] = header(schema)
	}
	components := map[string]any{"schemas": s.done, "responses": responses, "headers": headers}
	if d.Keys {
		components["securitySchemes"] = map[string]any{
			schemeBearer: map[string]any{"type": "http", "scheme": "bearer"},
			schemeHeader: map[string]any{"type": "apiKey", "in": "header", "name": "X-Api-Key"},
		}
	}
	var tags []map[string]string
	for _, t := range d.Tags {
		tags = append(tags, map[string]string{"name": t.Name, "description": t.Note})
	}
	b, err := json.Marshal(map[string]any{
		"openapi":           "3.1.0",
		"jsonSchemaDialect": "https://spec.openapis.org/oas/3.1/dialect/base",
		"info":              map[string]string{"title": d.Title, "version": d.Version, "description": d.Note},
		"servers":           []map[string]string{{"url": "/"}},
		"tags":              tags, "paths": paths, "components": components,
	})
	return b, errors.Join(append(s.errs, err)...)
}

func (d *Document) operation(s *schemas, o Operation) map[string]any {
	out := map[string]any{"operationId": o.ID, "summary": o.Summary, "tags": []string{o.Tag}}
	if o.Note != "" {
		out["description"] = o.Note
	}
	var parameters []any
	for _, p := range o.Parameters {
		one := map[string]any{"name": p.Name, "in": p.In, "description": p.Note, "required": p.Required || p.In == "path", "schema": p.Schema}
		if p.Example != nil {
			one["example"] = p.Example
		}
		parameters = append(parameters, one)
	}
	if parameters != nil {
		out["parameters"] = parameters
	}
	if o.Body != nil {
		schema, _ := s.of(reflect.TypeOf(o.Body), request)
		out["requestBody"] = map[string]any{"required": true, "content": map[string]any{"application/json": Schema{"schema": schema}}}
	}
	status := o.Status
	if status == 0 {
		status = http.StatusOK
	}
	content := map[string]any{}
	if o.Answer != nil {
		content["application/json"] = Schema{"schema": s.body(o.Answer)}
	}
	for media, v := range o.Also {
		content[media] = Schema{"schema": s.body(v)}
	}
	good := map[string]any{"description": http.StatusText(status), "content": content}
	if h := d.headers(s, o.Headers); h != nil {
		good["headers"] = h
	}
	responses := map[string]any{strconv.Itoa(status): good}
	for _, e := range o.Errors {
		if o.Failure != nil {
			responses[strconv.Itoa(e)] = d.failure(s, e, s.body(o.Failure))
			continue
		}
		if _, ok := d.Errors[e]; !ok {
			s.errorf("%s %s: the error %d is not described", o.Method, o.Path, e)
		}
		responses[strconv.Itoa(e)] = Schema{"$ref": "#/components/responses/" + errorName(e)}
	}
	out["responses"] = responses
	if d.Keys && !o.Open {
		out["security"] = []map[string][]string{{schemeBearer: {}}, {schemeHeader: {}}}
		if o.Scope != "" {
			out["x-scope"] = o.Scope
		}
	}
	return out
}

// failure is the answer of an error.
func (d *Document) failure(s *schemas, status int, body Schema) map[string]any {
	note, ok := d.Errors[status]
	if !ok {
		s.errorf("the error %d is not described", status)
	}
	r := map[string]any{"description": note, "content": map[string]any{"application/json": Schema{"schema": body}}}
	if h := d.headers(s, d.ErrorHeaders[status]); h != nil {
		r["headers"] = h
	}
	return r
}

func (s *schemas) body(v any) Schema {
	if schema, ok := v.(Schema); ok {
		return schema
	}
	schema, _ := s.of(reflect.TypeOf(v), answer)
	return schema
}

func (d *Document) headers(s *schemas, names []string) map[string]any {
	if len(names) == 0 {
		return nil
	}
	out := map[string]any{}
	for _, n := range names {
		if _, ok := d.Headers[n]; !ok {
			s.errorf("the header %s is not described", n)
		}
		out[n] = Schema{"$ref": "#/components/headers/" + n}
	}
	return out
}

// header splits what is said of a header into its description and its schema.
func header(schema Schema) map[string]any {
	rest := Schema{}
	out := map[string]any{"schema": rest}
	for k, v := range schema {
		if k == "description" {
			out[k] = v
			continue
		}
		rest[k] = v
	}
	return out
}

func errorName(status int) string { return fmt.Sprintf("Error%d", status) }
