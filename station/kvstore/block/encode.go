package block

import (
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"io"
	"sync"

	"github.com/cespare/xxhash/v2"
)

// chunk is how much is hashed and moved at a time: it stays in the processor's
// cache between the two.
const chunk = 256 << 10

// Encode writes b as an object to w, sealed unless seal is nil. Data is read
// until it returns.
func Encode(w io.Writer, b *Block, seal cipher.AEAD) error {
	h, err := newHeader(b, seal)
	if err != nil {
		return err
	}
	if h.Sealed {
		if _, err := rand.Read(h.nonce[:]); err != nil {
			return err
		}
	}
	return encode(w, b, h, seal)
}

func encode(w io.Writer, b *Block, h *Header, seal cipher.AEAD) error {
	sum := xxhash.New()
	write := func(p []byte) error {
		for len(p) > 0 {
			n := min(len(p), chunk)
			sum.Write(p[:n])
			if _, err := w.Write(p[:n]); err != nil {
				return err
			}
			p = p[n:]
		}
		return nil
	}
	head := h.append(make([]byte, 0, HeaderBytes))
	if seal == nil {
		head = appendMeta(head, b)
		if err := write(head); err != nil {
			return err
		}
		if err := write(b.Data); err != nil {
			return err
		}
	} else {
		if err := write(head); err != nil {
			return err
		}
		body := scratch(h.body() + tagBytes)
		defer release(body)
		plain := append(appendMeta((*body)[:0], b), b.Data...)
		if err := write(seal.Seal(plain[:0], h.nonce[:], plain, head)); err != nil {
			return err
		}
	}
	_, err := w.Write(binary.LittleEndian.AppendUint64(nil, sum.Sum64()))
	return err
}

// appendMeta appends what of the body stands before the payload.
func appendMeta(to []byte, b *Block) []byte {
	for _, t := range b.Tokens {
		to = binary.LittleEndian.AppendUint32(to, uint32(t))
	}
	return append(to, b.Group...)
}

// buffers hold sealed bodies: a seal is opened as a whole.
var buffers sync.Pool

// scratch is a buffer of n bytes, to be released.
func scratch(n int64) *[]byte {
	if b, _ := buffers.Get().(*[]byte); b != nil && int64(cap(*b)) >= n {
		*b = (*b)[:n]
		return b
	}
	b := make([]byte, n)
	return &b
}

// release wipes the buffer, for it held a client's text, and keeps it.
func release(b *[]byte) {
	clear((*b)[:cap(*b)])
	buffers.Put(b)
}
