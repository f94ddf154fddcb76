package stored

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Record is one response and what it was asked by. Scope is the caller's, made from its
// key, and is never shown; a record is found under the scope it was put with.
type Record struct {
	ID       string
	Scope    string
	Previous string         // the id of the response it goes on from; "" for none
	Created  time.Time      // of the response; its TTL counts from here
	Input    jsontext.Value // the items of this turn's input
	Response jsontext.Value // the response object
}

// An object is a header, the record's fields, and a checksum of all with the object's name:
//
//	magic 8 | version 2 | flags 2 | 4 unused | created 8, ns since 1970 | body | SHA-256 32
//
// in little endian. The body is id, previous, input, response, each after its length in
// 4 bytes; a sealed one is a nonce and AES-256-GCM of that, with name and header
// authenticated. The header stays in the clear: the TTL needs it.
const (
	magic       = "thothrsp"
	version     = 1
	flagSealed  = 1
	headerBytes = 24
	sumBytes    = sha256.Size
)

// fault is why an object is no record of ours: the label of a drop.
type fault string

const (
	faultFormat   fault = "format"   // not an object of ours, or cut short
	faultVersion  fault = "version"  // of another version of this format
	faultChecksum fault = "checksum" // changed, or another object's
	faultSealed   fault = "sealed"   // cannot be opened with our key, or is in the clear where there is one
	stray         fault = "stray"    // a temporary or foreign file among our objects
)

func (f fault) Error() string { return "a stored response is damaged: " + string(f) }

// name is where an object lies: hashes of its scope and its id.
type name struct{ scope, id [16]byte }

func (n name) folder() string { return hex.EncodeToString(n.scope[:]) }
func (n name) String() string { return n.folder() + "/" + hex.EncodeToString(n.id[:]) }

// parseName reads what String wrote, and nothing else.
func parseName(s string) (n name, ok bool) {
	scope, id, found := strings.Cut(s, "/")
	if !found || !isFolder(scope) || len(id) != 2*len(n.id) {
		return n, false
	}
	_, err1 := hex.Decode(n.scope[:], []byte(scope))
	_, err2 := hex.Decode(n.id[:], []byte(id))
	return n, err1 == nil && err2 == nil && n.String() == s
}

// isFolder tells whether a folder at the top is named like a scope, and so ours.
func isFolder(s string) bool {
	return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == ""
}

// codec names, writes and reads objects.
type codec struct {
	names []byte
	seal  cipher.AEAD // nil: in the clear
}

func newCodec(key []byte) codec {
	if len(key) == 0 {
		return codec{names: []byte("thoth responses")}
	}
	derive := func(info string) []byte {
		k, err := hkdf.Key(sha256.New, key, nil, info, 32)
		if err != nil {
			panic(err) // only for more output than a hash can give
		}
		return k
	}
	c, err := aes.NewCipher(derive("thoth responses seal"))
	if err != nil {
		panic(err) // only for a key of another length
	}
	seal, err := cipher.NewGCM(c)
	if err != nil {
		panic(err) // only for a cipher with other blocks than AES
	}
	return codec{names: derive("thoth responses names"), seal: seal}
}

// name is where a scope's record of this id lies.
func (c codec) name(scope, id string) (n name) {
	hash := func(to []byte, parts ...string) {
		var b []byte
		for _, p := range parts {
			b = binary.LittleEndian.AppendUint32(b, uint32(len(p)))
			b = append(b, p...)
		}
		h := hmac.New(sha256.New, c.names)
		h.Write(b)
		copy(to, h.Sum(nil))
	}
	hash(n.scope[:], "scope", scope)
	hash(n.id[:], "id", scope, id)
	return n
}

// size is the length of a record's object.
func (c codec) size(r *Record) int64 {
	n := headerBytes + sumBytes + 4*4 + len(r.ID) + len(r.Previous) + len(r.Input) + len(r.Response)
	if c.seal != nil {
		n += c.seal.NonceSize() + c.seal.Overhead()
	}
	return int64(n)
}

// encode makes the object of a record.
func (c codec) encode(n name, r *Record) []byte {
	fields := [][]byte{[]byte(r.ID), []byte(r.Previous), r.Input, r.Response}
	size := c.size(r)
	b := make([]byte, 0, size)
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint16(b, version)
	flags := uint16(0)
	if c.seal != nil {
		flags |= flagSealed
	}
	b = binary.LittleEndian.AppendUint16(b, flags)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(r.Created.UnixNano()))
	body := b[headerBytes:]
	if c.seal != nil {
		body = make([]byte, 0, size)
	}
	for _, f := range fields {
		body = binary.LittleEndian.AppendUint32(body, uint32(len(f)))
		body = append(body, f...)
	}
	if c.seal != nil {
		nonce := make([]byte, c.seal.NonceSize())
		_, _ = rand.Read(nonce) // never fails
		body = c.seal.Seal(nonce, nonce, body, bound(n, b))
	}
	b = append(b[:headerBytes], body...)
	sum := checksum(n, b)
	return append(b, sum[:]...)
}

// decode reads an object; what is wrong with it is a fault.
func (c codec) decode(n name, object []byte) (*Record, error) {
	created, flags, err := decodeHeader(object)
	if err != nil {
		return nil, err
	}
	if len(object) < headerBytes+sumBytes {
		return nil, faultFormat
	}
	object, end := object[:len(object)-sumBytes], object[len(object)-sumBytes:]
	if sum := checksum(n, object); !bytes.Equal(sum[:], end) {
		return nil, faultChecksum
	}
	body := object[headerBytes:]
	if flags&flagSealed != 0 != (c.seal != nil) {
		return nil, faultSealed
	}
	if c.seal != nil {
		nonce := c.seal.NonceSize()
		if len(body) < nonce {
			return nil, faultFormat
		}
		if body, err = c.seal.Open(nil, body[:nonce], body[nonce:], bound(n, object[:headerBytes])); err != nil {
			return nil, faultSealed
		}
	}
	var fields [4][]byte
	for i := range fields {
		if len(body) < 4 || uint64(len(body)-4) < uint64(binary.LittleEndian.Uint32(body)) {
			return nil, faultFormat
		}
		size := int(binary.LittleEndian.Uint32(body))
		fields[i], body = body[4:4+size:4+size], body[4+size:]
	}
	if len(body) != 0 {
		return nil, faultFormat
	}
	return &Record{ID: string(fields[0]), Previous: string(fields[1]), Created: created, Input: fields[2], Response: fields[3]}, nil
}

// decodeHeader reads when a record was created; object may be its beginning alone.
func decodeHeader(object []byte) (created time.Time, flags uint16, err error) {
	if len(object) < headerBytes || string(object[:len(magic)]) != magic {
		return created, 0, faultFormat
	}
	if binary.LittleEndian.Uint16(object[8:]) != version {
		return created, 0, faultVersion
	}
	return time.Unix(0, int64(binary.LittleEndian.Uint64(object[16:]))), binary.LittleEndian.Uint16(object[10:]), nil
}

// bound is what a seal holds besides its body: an object under another name is none.
func bound(n name, header []byte) []byte { return append([]byte(n.String()), header...) }

func checksum(n name, object []byte) [sumBytes]byte {
	h := sha256.New()
	h.Write([]byte(n.String()))
	h.Write(object)
	return [sumBytes]byte(h.Sum(nil))
}
