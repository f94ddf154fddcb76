package openapi

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type inner struct {
	Kind string `json:"kind"`
}

type embedded struct {
	Shared int `json:"shared"`
}

type body struct {
	embedded
	Name   string          `json:"name"`
	Count  *int            `json:"count"`
	Raw    json.RawMessage `json:"raw"`
	Old    json.RawMessage `json:"old"`
	List   []inner         `json:"list"`
	Own    custom          `json:"own"`
	Unseen string          `json:"-"`
}

type custom string

type reply struct {
	When  time.Time          `json:"when"`
	Bytes []byte             `json:"bytes,omitempty"`
	Map   map[string]float64 `json:"map"`
	Size  uint64             `json:"size"`
	Maybe *inner2            `json:"maybe"`
}

type inner2 struct{ Plain bool }

func document(types ...Type) *Document {
	return &Document{Title: "t", Version: "1", Error: struct {
		Message string `json:"message"`
	}{}, Errors: map[int]string{400: "bad"}, Types: types, Forms: map[reflect.Type]Schema{reflect.TypeFor[custom](): {"type": "string", "minLength": 2}},
		Operations: []Operation{{Method: "POST", Path: "/x", ID: "x", Body: body{}, Answer: reply{}, Errors: []int{400}}}}
}

func good() Type {
	return Type{Of: body{}, Required: []string{"name"}, Hidden: []string{"old"},
		Fields: map[string]Schema{"raw": {"type": "object"}, "name": {"minLength": 1}, "count": {"enum": []any{1, 2}}}}
}

func TestDocument_SchemasFollowTheTypes(t *testing.T) {
	b, err := document(good()).Build()
	require.NoError(t, err)
	var d struct {
		Components struct{ Schemas map[string]json.RawMessage }
	}
	require.NoError(t, json.Unmarshal(b, &d))
	for name, want := range map[string]string{
		// Null is absent in a request, but not of what must be there.
		"Body": `{"type":"object","required":["name"],"properties":{
			"shared":{"type":["integer","null"]}, "name":{"type":"string","minLength":1}, "count":{"type":["integer","null"],"enum":[1,2,null]},
			"raw":{"type":["object","null"]}, "own":{"type":["string","null"],"minLength":2},
			"list":{"type":["array","null"],"items":{"$ref":"#/components/schemas/Inner"}}}}`,
		"Inner": `{"type":"object","properties":{"kind":{"type":["string","null"]}}}`,
		// Everything is there in an answer, but what may be left out.
		"Reply": `{"type":"object","required":["map","maybe","size","when"],"properties":{
			"when":{"type":"string","format":"date-time"}, "bytes":{"type":"string","contentEncoding":"base64"},
			"map":{"type":"object","additionalProperties":{"type":"number"}}, "size":{"type":"integer","minimum":0},
			"maybe":{"anyOf":[{"$ref":"#/components/schemas/Inner2"},{"type":"null"}]}}}`,
	} {
		require.JSONEq(t, want, string(d.Components.Schemas[name]), name)
	}
	again, err := document(good()).Build()
	require.NoError(t, err)
	require.Equal(t, b, again)
}

func TestDocument_WhatIsNotSaidIsAnError(t *testing.T) {
	for want, change := range map[string]func(*Document){
		"body.raw is raw JSON":      func(d *Document) { delete(d.Types[0].Fields, "raw") },
		"body has no field nmae":    func(d *Document) { d.Types[0].Required = []string{"nmae"} },
		"body has no field gone":    func(d *Document) { d.Types[0].Hidden = append(d.Types[0].Hidden, "gone") },
		"the name Inner stands for": func(d *Document) { d.Types = append(d.Types, Type{Of: inner2{}, Name: "Inner"}) },
		"is there twice":            func(d *Document) { d.Operations = append(d.Operations, d.Operations[0]) },
		"the error 404 is not":      func(d *Document) { d.Operations[0].Errors = []int{404} },
		"the header X-Y is not":     func(d *Document) { d.Operations[0].Headers = []string{"X-Y"} },
		"or for a request and an":   func(d *Document) { d.Operations[0].Answer = body{} },
		"chan int has no JSON form": func(d *Document) { d.Operations[0].Answer = struct{ C chan int }{} },
	} {
		d := document(good())
		change(d)
		_, err := d.Build()
		require.ErrorContains(t, err, want)
	}
}
