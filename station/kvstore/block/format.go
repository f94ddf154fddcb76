package block

import (
	"crypto/cipher"
	"encoding/binary"
	"fmt"
)

// Bounds of an object's parts.
const (
	MaxGroup      = 64      // bytes of a group
	MaxKernel     = 255     // bytes of a kernel's name
	MaxTokenBytes = 4 << 20 // bytes of one position's KV, where the reader does not know better

	version     = 1
	flagSealed  = 1
	fixedBytes  = 128
	nonceBytes  = 12
	tagBytes    = 16
	sumBytes    = 8
	nonceOffset = fixedBytes - nonceBytes
	smallest    = fixedBytes + 4 + 1 + sumBytes // one token, one byte

	// HeaderBytes is as much of an object's beginning as [DecodeHeader] can need.
	HeaderBytes = fixedBytes + MaxKernel + 4*Tokens + MaxGroup
)

var magic = [8]byte{'T', 'H', 'O', 'T', 'H', 'K', 'V', 0x1a}

// Header is what an object says of itself before its payload.
type Header struct {
	Name
	Tokens  int
	Payload int64 // bytes of KV
	Kernel  string
	Sealed  bool

	group int
	nonce [nonceBytes]byte
}

// Size is the number of bytes of the whole object.
func (h *Header) Size() int64 {
	n := int64(fixedBytes+len(h.Kernel)) + h.body() + sumBytes
	if h.Sealed {
		n += tagBytes
	}
	return n
}

// body is the number of bytes of tokens, group and payload.
func (h *Header) body() int64 { return int64(4*h.Tokens+h.group) + h.Payload }

// ObjectSize is the number of bytes that b is as an object.
func ObjectSize(b *Block, sealed bool) int64 {
	h := Header{Tokens: len(b.Tokens), Payload: int64(len(b.Data)), Kernel: b.Kernel, Sealed: sealed, group: len(b.Group)}
	return h.Size()
}

// newHeader is b's header; it refuses what no object may be.
func newHeader(b *Block, seal cipher.AEAD) (*Header, error) {
	n := len(b.Tokens)
	switch {
	case n < 1 || n > Tokens:
		return nil, fmt.Errorf("a block of %d tokens: want 1 to %d", n, Tokens)
	case len(b.Group) > MaxGroup:
		return nil, fmt.Errorf("a group of %d bytes: want at most %d", len(b.Group), MaxGroup)
	case len(b.Kernel) > MaxKernel:
		return nil, fmt.Errorf("a kernel of %d bytes: want at most %d", len(b.Kernel), MaxKernel)
	case len(b.Data) == 0 || len(b.Data)%n != 0 || len(b.Data)/n > MaxTokenBytes:
		return nil, fmt.Errorf("%d bytes of KV for %d tokens: want the same for each, 1 to %d", len(b.Data), n, MaxTokenBytes)
	case b.Parent.Child(b.Tokens) != b.Key:
		return nil, fmt.Errorf("the key of a block is not that of its parent and tokens")
	case seal != nil && (seal.NonceSize() != nonceBytes || seal.Overhead() != tagBytes):
		return nil, fmt.Errorf("a seal with %d bytes of nonce and %d of tag: want %d and %d", seal.NonceSize(), seal.Overhead(), nonceBytes, tagBytes)
	}
	return &Header{Name: b.Name, Tokens: n, Payload: int64(len(b.Data)), Kernel: b.Kernel, Sealed: seal != nil, group: len(b.Group)}, nil
}

// append writes the part before the body.
func (h *Header) append(to []byte) []byte {
	to = append(to, magic[:]...)
	to = binary.LittleEndian.AppendUint16(to, version)
	flags := uint16(0)
	if h.Sealed {
		flags = flagSealed
	}
	to = binary.LittleEndian.AppendUint16(to, flags)
	to = binary.LittleEndian.AppendUint16(to, uint16(h.Tokens))
	to = append(to, byte(h.group), byte(len(h.Kernel)))
	to = binary.LittleEndian.AppendUint32(to, uint32(h.Payload))
	to = append(to, h.Root[:]...)
	to = append(to, h.Parent[:]...)
	to = append(to, h.Key[:]...)
	to = append(to, h.nonce[:]...)
	return append(to, h.Kernel...)
}

// parseHeader reads the fixed part of an object of size bytes and checks it
// against the bounds; how long the kernel is it returns, its text is the caller's
// to read. tokenBytes is what one position takes; 0: anything up to [MaxTokenBytes].
func parseHeader(fixed *[fixedBytes]byte, size int64, tokenBytes int) (h *Header, kernel int, fault *Fault) {
	if [8]byte(fixed[:8]) != magic {
		return nil, 0, &Fault{NotABlock, "it begins otherwise"}
	}
	u16 := func(at int) int { return int(binary.LittleEndian.Uint16(fixed[at:])) }
	if v := u16(8); v != version {
		return nil, 0, &Fault{Version, fmt.Sprintf("version %d, this build knows %d", v, version)}
	}
	flags := u16(10)
	if flags&^flagSealed != 0 {
		return nil, 0, &Fault{Version, fmt.Sprintf("flags %#x, this build knows %#x", flags, flagSealed)}
	}
	h = &Header{
		Tokens: u16(12), group: int(fixed[14]),
		Payload: int64(binary.LittleEndian.Uint32(fixed[16:])),
		Sealed:  flags&flagSealed != 0,
	}
	kernel = int(fixed[15])
	copy(h.Root[:], fixed[20:])
	copy(h.Parent[:], fixed[52:])
	copy(h.Key[:], fixed[84:])
	copy(h.nonce[:], fixed[nonceOffset:])
	n := int64(h.Tokens)
	switch {
	case n < 1 || n > Tokens:
		return nil, 0, &Fault{Size, fmt.Sprintf("%d tokens, want 1 to %d", n, Tokens)}
	case h.group > MaxGroup:
		return nil, 0, &Fault{Size, fmt.Sprintf("a group of %d bytes, want at most %d", h.group, MaxGroup)}
	case tokenBytes > 0 && h.Payload != n*int64(tokenBytes):
		return nil, 0, &Fault{Size, fmt.Sprintf("%d bytes of KV for %d tokens, want %d", h.Payload, n, n*int64(tokenBytes))}
	case h.Payload == 0 || h.Payload%n != 0 || h.Payload/n > MaxTokenBytes:
		return nil, 0, &Fault{Size, fmt.Sprintf("%d bytes of KV for %d tokens", h.Payload, n)}
	}
	switch want := h.Size() + int64(kernel); { // its text is not read yet
	case size < want:
		return nil, 0, &Fault{Truncated, fmt.Sprintf("%d bytes, it says %d", size, want)}
	case size > want:
		return nil, 0, &Fault{Checksum, fmt.Sprintf("%d bytes behind its end", size-want)}
	}
	return h, kernel, nil
}
