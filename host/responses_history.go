package host

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/go-json-experiment/json"

	"thoth/host/openai"
	"thoth/host/responses"
	"thoth/host/stored"
)

// What a request names and does not bring is read out of the store before it has a
// place, and is as large as the request that brought it once. So it counts as if it
// had come with the body.

// recall reads what a request goes on from and what it refers to: the items of the
// turns before, oldest first, and those in place of its item_references.
func (s *Server) recall(ctx context.Context, in *intake, req *responses.Request) ([]responses.Item, *openai.Error) {
	ctx, done := context.WithTimeout(ctx, storeTimeout)
	defer done()
	m := &recollection{s: s, scope: scopeKey(ctx), hold: in.hold, limit: in.limits.Messages, most: in.limits.Messages - len(req.Input), bytes: in.view.textBytes()}
	history, e := m.chain(ctx, req.PreviousID)
	if e == nil {
		e = m.resolve(ctx, req, history)
	}
	return history, e
}

// mostBytesPerToken is more than tokens of a text have: single ones are longer, such as
// runs of blanks, and no text is made of those alone.
const mostBytesPerToken = 64

// textBytes is how much text may fit into the context, at the very most.
func (v *view) textBytes() int {
	if v.health.ContextLength == 0 {
		return int(^uint(0) >> 1)
	}
	return v.health.ContextLength * mostBytesPerToken
}

// recollection is what one request reads out of the store.
type recollection struct {
	s     *Server
	scope string
	hold  *hold
	limit int // of items
	most  int // items it may still read
	bytes int // of text it may still read

	referred int64 // bytes of the responses that references led to
}

// chain is what was said in the turns before, the last of which is previous.
func (m *recollection) chain(ctx context.Context, previous string) ([]responses.Item, *openai.Error) {
	if previous == "" {
		return nil, nil
	}
	const param = "previous_response_id"
	before := m.hold.bytes
	records, err := m.s.responses.ChainCharged(ctx, m.scope, previous, m.most+1, m.hold.charge)
	var missing *stored.Missing
	switch {
	case errors.As(err, &missing):
		return nil, openai.NewError(openai.CodePrevious, param, "Previous response with id '%s' not found.", printable(missing.ID))
	case errors.Is(err, stored.ErrTooLong):
		return nil, m.tooMany(param)
	case errors.Is(err, stored.ErrTooLarge):
		return nil, openai.NewError(openai.CodeInvalidValue, param, "%s cannot be gone on from: %s", param, err)
	case err != nil:
		return nil, m.unread(previous, err)
	}
	var items []responses.Item
	for i, r := range records {
		records[i] = nil // it is read, and large
		input, resp, err := readTurn(r)
		if err != nil {
			return nil, m.s.unreadable(r.ID, err)
		}
		if underWay(resp.Status) {
			id := r.ID
			r, d, err := m.s.upToDate(ctx, r, m.scope, func() (*stored.Record, error) { return m.s.responses.GetCharged(ctx, m.scope, id, m.hold.charge) })
			if err == nil {
				input, resp, err = readTurn(r)
			}
			if err != nil {
				return nil, m.unread(id, err)
			}
			resp.Status = d.Status
		}
		if resp.Status != responses.StatusCompleted && resp.Status != responses.StatusIncomplete {
			return nil, openai.NewError(openai.CodeInvalidValue, param, "%s leads to the response %s, which is %s: only one that is completed or incomplete can be gone on from", param, r.ID, resp.Status)
		}
		for _, turn := range [][]responses.Item{input, resp.Output} {
			if m.most -= len(turn); m.most < 0 {
				return nil, m.tooMany(param)
			}
			if m.bytes -= responses.TextBytes(turn); m.bytes < 0 {
				return nil, m.tooLong(param)
			}
			items = append(items, turn...)
		}
	}
	m.keep(before, items)
	return items, nil
}

// unread is the answer about a turn before that could not be read.
func (m *recollection) unread(id string, err error) *openai.Error {
	if errors.Is(err, stored.ErrNotFound) {
		return openai.NewError(openai.CodePrevious, "previous_response_id", "Previous response with id '%s' not found.", printable(id))
	}
	return m.s.unfound(id, err)
}

// turn is what the next turn needs of a stored response.
type turn struct {
	Status string           `json:"status"`
	Output []responses.Item `json:"output"`
}

// readTurn reads the items of a record, without what was of its own turn alone:
// breakpoints come back in every turn otherwise, until a prompt has more of them than the
// station takes.
func readTurn(r *stored.Record) (input []responses.Item, resp turn, err error) {
	if err = json.Unmarshal(r.Input, &input); err == nil {
		err = json.Unmarshal(r.Response, &resp)
	}
	for i := range input {
		input[i].Settle()
	}
	for i := range resp.Output {
		resp.Output[i].Settle()
	}
	return input, resp, err
}

// resolve puts items in place of the references to them, whose ids name the response
// that they are of.
func (m *recollection) resolve(ctx context.Context, req *responses.Request, history []responses.Item) *openai.Error {
	refs, e := req.References(history)
	if e != nil || len(refs) == 0 {
		return e
	}
	found := make(map[string]*responses.Item, len(refs))
	places := map[string]string{} // of the first reference to each response
	var of []string               // responses
	for _, ref := range refs {
		found[ref.ID] = nil
		if r := responses.ResponseOf(ref.ID); r != "" && places[r] == "" {
			places[r], of = ref.Path, append(of, r)
		}
	}
	if len(of) > 0 && !m.s.hasStore() {
		at := places[of[0]]
		return openai.NewError(openai.CodeUnsupported, at, "%s refers to an item in the store of responses, and there is none (%s): send the item itself", at, m.s.responses.State().Reason)
	}
	for some := range slices.Chunk(of, readAtOnce) {
		if e := m.items(ctx, some, places, found); e != nil {
			return e
		}
	}
	return req.Resolve(found)
}

// readAtOnce is how many records are read together: a bucket answers slowly.
const readAtOnce = 8

// mostReferredRecords bounds the responses that references lead to, in records of the
// largest size, as those of a chain are: they are read before the request has a place.
const mostReferredRecords = 4

// items adds to found what is wanted of these responses. Those that are not there are
// passed over.
func (m *recollection) items(ctx context.Context, ids []string, places map[string]string, found map[string]*responses.Item) *openai.Error {
	before := m.hold.bytes
	records, errs := make([]*stored.Record, len(ids)), make([]error, len(ids))
	var reading sync.WaitGroup
	for i, id := range ids {
		reading.Go(func() { records[i], errs[i] = m.s.responses.GetCharged(ctx, m.scope, id, m.hold.charge) })
	}
	reading.Wait()
	var kept []responses.Item
	for i, r := range records {
		switch err := errs[i]; {
		case errors.Is(err, stored.ErrNotFound):
			continue
		case errors.Is(err, errBodyMemory):
			return m.s.bodiesFull()
		case err != nil:
			return m.s.unreadable(ids[i], err)
		}
		records[i] = nil
		at, most := places[ids[i]], mostReferredRecords*m.s.responses.Largest()
		if m.referred += int64(len(r.Input) + len(r.Response)); m.referred > most {
			return openai.NewError(openai.CodeInvalidValue, at, "%s leads to the response %s, and with it the input refers to responses of more than %d bytes together: send some of the items themselves", at, r.ID, most)
		}
		input, resp, err := readTurn(r)
		if err != nil {
			return m.s.unreadable(r.ID, err)
		}
		for _, it := range append(input, resp.Output...) {
			// Another response may have the same item in its input.
			if at, wanted := found[it.ID]; wanted && at == nil && responses.ResponseOf(it.ID) == ids[i] {
				if m.bytes -= responses.TextBytes([]responses.Item{it}); m.bytes < 0 {
					return m.tooLong(places[ids[i]])
				}
				kept = append(kept, it)
				found[it.ID] = &it
			}
		}
	}
	m.keep(before, kept)
	return nil
}

// keep gives back what was read and is not kept.
func (m *recollection) keep(before int64, items []responses.Item) {
	m.hold.give(max(m.hold.bytes-before-int64(responses.TextBytes(items)), 0))
}

func (m *recollection) tooMany(param string) *openai.Error {
	return openai.NewError(openai.CodeInvalidValue, param, "%s leads to a conversation of more than %d items with its input: that is the most allowed", param, m.limit)
}

func (m *recollection) tooLong(param string) *openai.Error {
	return openai.NewError(openai.CodeContextLength, param, "%s leads to a conversation whose text alone is longer than the context can be", param)
}
