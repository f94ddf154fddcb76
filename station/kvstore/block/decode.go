package block

import (
	"crypto/cipher"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/cespare/xxhash/v2"
)

// Decode reads the object of size bytes that is stored as name. tokenBytes is
// what one position of KV takes; 0: whatever the object says. into gives the
// memory for so many positions, which the block's Data then is; it is asked once
// the counts are checked, and nothing of it may be used when Decode fails. With into
// nil it is Go's memory.
//
// The error is a [*Fault] when the object is no usable block, else r's or into's own.
func Decode(r io.Reader, size int64, name Name, tokenBytes int, seal cipher.AEAD, into func(positions int) ([]byte, error)) (*Block, error) {
	d := decoder{r: r, sum: xxhash.New()}
	h, head, err := d.header(size, tokenBytes)
	if err != nil {
		return nil, err
	}
	if h.Name != name {
		return nil, &Fault{Misplaced, "it is another block than its name says"}
	}
	if h.Sealed != (seal != nil) {
		return nil, &Fault{Sealed, sealedWrong(h.Sealed)}
	}
	if into == nil {
		into = func(int) ([]byte, error) { return make([]byte, h.Payload), nil }
	}
	data, err := into(h.Tokens)
	if err != nil {
		return nil, err
	}
	if int64(len(data)) != h.Payload {
		return nil, fmt.Errorf("%d bytes of memory for a block of %d", len(data), h.Payload)
	}
	b := &Block{Name: h.Name, Kernel: h.Kernel, Data: data}
	if seal == nil {
		err = d.clear(b, h)
	} else {
		err = d.sealed(b, h, head, seal)
	}
	if err != nil {
		return nil, err
	}
	if b.Parent.Child(b.Tokens) != b.Key {
		return nil, &Fault{OtherText, "its tokens are not those of its key"}
	}
	return b, nil
}

// DecodeHeader reads the beginning of an object of size bytes, of which r must
// give the first [HeaderBytes] or all. Group is "" when it is sealed. The checksum, at the
// other end, is not looked at.
func DecodeHeader(r io.Reader, size int64) (h *Header, group string, err error) {
	d := decoder{r: r, sum: xxhash.New()}
	if h, _, err = d.header(size, 0); err != nil || h.Sealed {
		return h, "", err
	}
	meta := make([]byte, 4*h.Tokens+h.group)
	if err := d.read(meta); err != nil {
		return nil, "", err
	}
	return h, string(meta[4*h.Tokens:]), nil
}

func sealedWrong(sealed bool) string {
	if sealed {
		return "it is sealed, and no key is set"
	}
	return "it is not sealed, and a key is set"
}

// decoder reads an object and hashes what it read.
type decoder struct {
	r   io.Reader
	sum *xxhash.Digest
}

// read fills p and hashes it. An end before that is a Fault: the reader of a
// store that fails midway says so itself.
func (d *decoder) read(p []byte) error {
	for len(p) > 0 {
		part := p[:min(len(p), chunk)]
		if err := d.fill(part); err != nil {
			return err
		}
		d.sum.Write(part)
		p = p[len(part):]
	}
	return nil
}

func (d *decoder) fill(p []byte) error {
	// Not io.ReadFull: its ErrUnexpectedEOF would look like a broken connection's.
	for at, idle := 0, 0; at < len(p); {
		n, err := d.r.Read(p[at:])
		at += n
		switch {
		case at == len(p):
			return nil
		case err == io.EOF:
			return &Fault{Truncated, fmt.Sprintf("it ends %d bytes before the end of a part", len(p)-at)}
		case err != nil:
			return err
		case n > 0:
			idle = 0
		default:
			if idle++; idle > 100 {
				return io.ErrNoProgress
			}
		}
	}
	return nil
}

// header reads the part before the body, and returns its bytes as well.
func (d *decoder) header(size int64, tokenBytes int) (*Header, []byte, error) {
	if size < smallest {
		return nil, nil, &Fault{Truncated, fmt.Sprintf("%d bytes, a block has at least %d", size, smallest)}
	}
	head := make([]byte, fixedBytes, fixedBytes+MaxKernel)
	if err := d.read(head); err != nil {
		return nil, nil, err
	}
	h, kernel, fault := parseHeader((*[fixedBytes]byte)(head), size, tokenBytes)
	if fault != nil {
		return nil, nil, fault
	}
	head = head[:fixedBytes+kernel]
	if err := d.read(head[fixedBytes:]); err != nil {
		return nil, nil, err
	}
	h.Kernel = string(head[fixedBytes:])
	return h, head, nil
}

// clear reads the body of an object that is not sealed.
func (d *decoder) clear(b *Block, h *Header) error {
	meta := make([]byte, 4*h.Tokens+h.group)
	if err := d.read(meta); err != nil {
		return err
	}
	if err := d.read(b.Data); err != nil {
		return err
	}
	if err := d.checksum(); err != nil {
		return err
	}
	if h.nonce != [nonceBytes]byte{} {
		return &Fault{Version, "a nonce without a seal"} // or a block had two forms
	}
	b.setMeta(meta, h)
	return nil
}

// sealed reads and opens the body of one that is.
func (d *decoder) sealed(b *Block, h *Header, head []byte, seal cipher.AEAD) error {
	if seal.NonceSize() != nonceBytes || seal.Overhead() != tagBytes {
		return fmt.Errorf("a seal with %d bytes of nonce and %d of tag: want %d and %d", seal.NonceSize(), seal.Overhead(), nonceBytes, tagBytes)
	}
	body := scratch(h.body() + tagBytes)
	defer release(body)
	if err := d.read(*body); err != nil {
		return err
	}
	if err := d.checksum(); err != nil {
		return err
	}
	plain, err := seal.Open((*body)[:0], h.nonce[:], *body, head)
	if err != nil {
		return &Fault{Sealed, "it does not open with this key"}
	}
	b.setMeta(plain, h)
	copy(b.Data, plain[4*h.Tokens+h.group:])
	return nil
}

// checksum compares the last bytes with what was read before them.
func (d *decoder) checksum() error {
	want := d.sum.Sum64()
	var last [sumBytes]byte
	if err := d.fill(last[:]); err != nil {
		return err
	}
	if binary.LittleEndian.Uint64(last[:]) != want {
		return &Fault{Checksum, "its bytes have changed"}
	}
	return nil
}

// setMeta takes tokens and group from the beginning of a body.
func (b *Block) setMeta(body []byte, h *Header) {
	b.Tokens = make([]int32, h.Tokens)
	for i := range b.Tokens {
		b.Tokens[i] = int32(binary.LittleEndian.Uint32(body[4*i:]))
	}
	b.Group = string(body[4*h.Tokens : 4*h.Tokens+h.group])
}
