package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
)

// ordersSchema is of the kind programs ask for: nested objects, bounded strings,
// an enum, numbers, arrays. Its list is longer than any answer here, so that
// none ends before its cap.
const ordersSchema = `{"type":"object","additionalProperties":false,"required":["orders"],"properties":{"orders":{"type":"array","minItems":200,"items":{
"type":"object","additionalProperties":false,"required":["id","customer","status","items","note"],"properties":{
"id":{"type":"integer"},
"customer":{"type":"object","additionalProperties":false,"required":["name","email","vip"],"properties":{
"name":{"type":"string","maxLength":40},"email":{"type":"string","maxLength":40},"vip":{"type":"boolean"}}},
"status":{"enum":["new","paid","shipped","delivered","cancelled"]},
"items":{"type":"array","minItems":1,"maxItems":6,"items":{"type":"object","additionalProperties":false,"required":["sku","count","price"],
"properties":{"sku":{"type":"string","maxLength":20},"count":{"type":"integer"},"price":{"type":"number"}}}},
"note":{"type":"string","maxLength":80}}}}}}`

// ticketSchema is small enough to be written to its end.
const ticketSchema = `{"type":"object","additionalProperties":false,"required":["title","priority","open"],"properties":{
"title":{"type":"string","maxLength":40},"priority":{"enum":["low","medium","high"]},"open":{"type":"boolean"}}}`

// checkTicket says what is wrong with a whole answer to ticketSchema.
func checkTicket(text string) error {
	var t struct {
		Title    *string `json:"title"`
		Priority *string `json:"priority"`
		Open     *bool   `json:"open"`
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&t); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("something comes after the object")
	}
	if t.Title == nil || t.Priority == nil || t.Open == nil {
		return errors.New("a property is missing")
	}
	if !slices.Contains([]string{"low", "medium", "high"}, *t.Priority) {
		return fmt.Errorf("priority is %q", *t.Priority)
	}
	return nil
}

// checkBeginning says what keeps a cut text from being the beginning of a JSON
// document: of what is whole of it, nothing may be wrong.
func checkBeginning(text string) error {
	d := json.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); err != nil {
			if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
				return nil
			}
			return err
		}
	}
}

// ordersPrompt is new for every round and client.
func ordersPrompt(seed uint64, round, client int) string {
	r := rand.New(rand.NewPCG(seed, uint64(round+8)<<20|uint64(client)))
	return fmt.Sprintf("%s List the orders of a small shop that sells things for the %s, the %s and the %s, as JSON.",
		nonce(r), words[r.IntN(len(words))], words[r.IntN(len(words))], words[r.IntN(len(words))])
}
