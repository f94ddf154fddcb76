package block

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func gcm(t testing.TB, key byte) cipher.AEAD {
	t.Helper()
	c, err := aes.NewCipher(bytes.Repeat([]byte{key}, 32))
	require.NoError(t, err)
	g, err := cipher.NewGCM(c)
	require.NoError(t, err)
	return g
}

const rowBytes = 24

// sample is a block of n tokens with text in all its fields.
func sample(n int) *Block {
	b := &Block{Group: "team", Kernel: "cpu-icelake"}
	b.Root = Identity{Digest: "m"}.Root("", "")
	b.Parent = b.Root.Child([]int32{1, 2, 3})
	for i := range n {
		b.Tokens = append(b.Tokens, int32(1000+i))
	}
	b.Key = b.Parent.Child(b.Tokens)
	for i := range n * rowBytes {
		b.Data = append(b.Data, byte(i*7))
	}
	return b
}

func object(t testing.TB, b *Block, seal cipher.AEAD) []byte {
	t.Helper()
	var w bytes.Buffer
	require.NoError(t, Encode(&w, b, seal))
	require.Equal(t, int64(w.Len()), ObjectSize(b, seal != nil))
	return w.Bytes()
}

func memory(n int) ([]byte, error) { return make([]byte, n*rowBytes), nil }

func decode(p []byte, name Name, seal cipher.AEAD) (*Block, error) {
	return Decode(bytes.NewReader(p), int64(len(p)), name, rowBytes, seal, memory)
}

// The bytes of the format are a promise to stores written by older builds.
func TestEncode_WritesTheGoldenBytes(t *testing.T) {
	b := sample(3)
	h, err := newHeader(b, nil)
	require.NoError(t, err)
	var open, sealed bytes.Buffer
	require.NoError(t, encode(&open, b, h, nil))
	seal := gcm(t, 9)
	h, err = newHeader(b, seal)
	require.NoError(t, err)
	copy(h.nonce[:], "a fixed nonce")
	require.NoError(t, encode(&sealed, b, h, seal))
	for name, got := range map[string][]byte{"open": open.Bytes(), "sealed": sealed.Bytes()} {
		path := filepath.Join("testdata", name+".hex")
		text := hex.Dump(got)
		if os.Getenv("UPDATE_GOLDEN") != "" {
			require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(want), text)
	}
	got, err := decode(sealed.Bytes(), b.Name, seal)
	require.NoError(t, err)
	require.Equal(t, b, got)
}

func TestDecode_GivesBackWhatWasEncoded(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := sample(rapid.IntRange(1, Tokens).Draw(rt, "tokens"))
		b.Group = strings.Repeat("g", rapid.IntRange(0, MaxGroup).Draw(rt, "group"))
		b.Kernel = strings.Repeat("k", rapid.IntRange(0, MaxKernel).Draw(rt, "kernel"))
		var seal cipher.AEAD
		if rapid.Bool().Draw(rt, "sealed") {
			seal = gcm(t, 1)
		}
		p := object(t, b, seal)
		var r io.Reader = bytes.NewReader(p)
		if rapid.Bool().Draw(rt, "bytewise") {
			r = iotest.OneByteReader(r)
		}
		got, err := Decode(r, int64(len(p)), b.Name, rowBytes, seal, memory)
		require.NoError(rt, err)
		require.Equal(rt, b, got)

		got, err = Decode(bytes.NewReader(p), int64(len(p)), b.Name, 0, seal, nil)
		require.NoError(rt, err)
		require.Equal(rt, b, got)

		h, group, err := DecodeHeader(bytes.NewReader(p[:min(len(p), HeaderBytes)]), int64(len(p)))
		require.NoError(rt, err)
		require.Equal(rt, b.Name, h.Name)
		require.Equal(rt, len(b.Tokens), h.Tokens)
		require.Equal(rt, int64(len(b.Data)), h.Payload)
		require.Equal(rt, seal != nil, h.Sealed)
		require.Equal(rt, int64(len(p)), h.Size())
		if seal == nil {
			require.Equal(rt, b.Group, group)
		}
	})
}

func TestEncode_RefusesWhatDecodeWould(t *testing.T) {
	for want, change := range map[string]func(b *Block){
		"0 tokens":       func(b *Block) { b.Tokens = nil },
		"65 tokens":      func(b *Block) { b.Tokens = make([]int32, 65) },
		"group of 65":    func(b *Block) { b.Group = strings.Repeat("g", 65) },
		"kernel of 256":  func(b *Block) { b.Kernel = strings.Repeat("k", 256) },
		"0 bytes of KV":  func(b *Block) { b.Data = nil },
		"71 bytes of KV": func(b *Block) { b.Data = b.Data[:71] },
		"the key of":     func(b *Block) { b.Tokens[0]++ },
	} {
		b := sample(3)
		change(b)
		require.ErrorContains(t, Encode(io.Discard, b, nil), want)
	}
}

func TestEncode_EndsWithTheWritersError(t *testing.T) {
	full := errors.New("no space left")
	for _, seal := range []cipher.AEAD{nil, gcm(t, 1)} {
		size := len(object(t, sample(64), seal))
		for at := 0; at < size; at += 97 {
			require.ErrorIs(t, Encode(&failing{left: at, err: full}, sample(64), seal), full)
		}
	}
}

type failing struct {
	left int
	err  error
}

func (f *failing) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, f.err
	}
	return len(p), nil
}

func reason(t *testing.T, err error) Reason {
	t.Helper()
	var f *Fault
	require.ErrorAs(t, err, &f)
	return f.Reason
}

func TestDecode_NamesWhatIsWrong(t *testing.T) {
	other := sample(3)
	other.Root[0]++
	clear := object(t, sample(3), nil)
	with := func(at int, b byte) []byte { p := slices.Clone(clear); p[at] = b; return p }
	for name, tt := range map[string]struct {
		object []byte
		want   Reason
	}{
		"empty":             {nil, Truncated},
		"half":              {clear[:len(clear)/2], Truncated},
		"one byte short":    {clear[:len(clear)-1], Truncated},
		"one byte more":     {append(slices.Clone(clear), 0), Checksum},
		"random":            {bytes.Repeat([]byte{0xa7}, len(clear)), NotABlock},
		"next version":      {with(8, 2), Version},
		"unknown flag":      {with(10, 2), Version},
		"no tokens":         {with(12, 0), Size},
		"many tokens":       {with(13, 255), Size},
		"long group":        {with(14, 65), Size},
		"long kernel":       {with(15, 255), Truncated},
		"huge payload":      {with(19, 255), Size},
		"other place":       {object(t, other, nil), Misplaced},
		"sealed":            {object(t, sample(3), gcm(t, 1)), Sealed},
		"flipped kernel":    {with(fixedBytes, 0), Checksum},
		"flipped token":     {with(fixedBytes+11, 0), Checksum},
		"flipped payload":   {with(len(clear)-20, 0xff), Checksum},
		"flipped checksum":  {with(len(clear)-1, clear[len(clear)-1]^1), Checksum},
		"flipped nonce":     {with(nonceOffset, 1), Checksum},
		"flag sealed added": {with(10, 1), Truncated},
	} {
		_, err := decode(tt.object, sample(3).Name, nil)
		require.Equal(t, tt.want, reason(t, err), name)
	}

	p := object(t, sample(3), gcm(t, 1))
	_, err := decode(p, sample(3).Name, gcm(t, 2))
	require.Equal(t, Sealed, reason(t, err))
	_, err = decode(clear, sample(3).Name, gcm(t, 1))
	require.Equal(t, Sealed, reason(t, err))
	_, err = Decode(bytes.NewReader(clear), int64(len(clear)), sample(3).Name, rowBytes+1, nil, memory)
	require.Equal(t, Size, reason(t, err))
}

// A forger who fixes the checksum meets the key, and the seal's tag.
func TestDecode_FindsForgedContent(t *testing.T) {
	b := sample(3)
	h, err := newHeader(b, nil)
	require.NoError(t, err)
	b.Tokens[1]++
	var w bytes.Buffer
	require.NoError(t, encode(&w, b, h, nil))
	_, err = decode(w.Bytes(), b.Name, nil)
	require.Equal(t, OtherText, reason(t, err))

	b, seal := sample(3), gcm(t, 1)
	h, err = newHeader(b, seal)
	require.NoError(t, err)
	w.Reset()
	require.NoError(t, encode(&w, b, h, lying{seal, []byte("another header")}))
	_, err = decode(w.Bytes(), b.Name, seal)
	require.Equal(t, Sealed, reason(t, err))
}

// lying seals with other additional data than it was given.
type lying struct {
	cipher.AEAD
	data []byte
}

func (l lying) Seal(dst, nonce, plain, _ []byte) []byte {
	return l.AEAD.Seal(dst, nonce, plain, l.data)
}

func TestDecode_EveryFlippedBitIsFound(t *testing.T) {
	for _, seal := range []cipher.AEAD{nil, gcm(t, 1)} {
		p := object(t, sample(2), seal)
		for i := range p {
			for bit := range 8 {
				p[i] ^= 1 << bit
				_, err := decode(p, sample(2).Name, seal)
				reason(t, err)
				p[i] ^= 1 << bit
			}
		}
	}
}

func TestDecode_BlamesTheReaderNotTheBlock(t *testing.T) {
	p := object(t, sample(64), nil)
	broken := errors.New("connection reset")
	for _, at := range []int{0, 1, 200, len(p) - 1} {
		r := io.MultiReader(bytes.NewReader(p[:at]), iotest.ErrReader(broken))
		_, err := Decode(r, int64(len(p)), sample(64).Name, rowBytes, nil, memory)
		require.ErrorIs(t, err, broken)
	}
	none := errors.New("no memory")
	_, err := Decode(bytes.NewReader(p), int64(len(p)), sample(64).Name, rowBytes, nil, func(int) ([]byte, error) { return nil, none })
	require.ErrorIs(t, err, none)
}

func FuzzDecode(f *testing.F) {
	seal := gcm(f, 1)
	f.Add(object(f, sample(1), nil), false)
	f.Add(object(f, sample(64), nil), false)
	f.Add(object(f, sample(5), seal), true)
	f.Add([]byte("THOTHKV\x1a"), true)
	f.Fuzz(func(t *testing.T, p []byte, sealed bool) {
		var s cipher.AEAD
		if sealed {
			s = seal
		}
		asked := 0
		var name Name
		if len(p) >= fixedBytes {
			copy(name.Root[:], p[20:])
			copy(name.Parent[:], p[52:])
			copy(name.Key[:], p[84:])
		}
		b, err := Decode(bytes.NewReader(p), int64(len(p)), name, 0, s, func(n int) ([]byte, error) {
			asked++
			if n < 1 || n > Tokens {
				t.Fatalf("asked for %d positions", n)
			}
			h, _, _ := parseHeader((*[fixedBytes]byte)(p), int64(len(p)), 0)
			if h.Payload > int64(len(p)) {
				t.Fatalf("asked for %d bytes for an object of %d", h.Payload, len(p))
			}
			return make([]byte, h.Payload), nil
		})
		if asked > 1 {
			t.Fatalf("memory asked for %d times", asked)
		}
		if err == nil {
			var again bytes.Buffer
			if err := Encode(&again, b, s); err != nil {
				t.Fatal(err)
			}
			if !sealed && !bytes.Equal(again.Bytes(), p) {
				t.Fatal("a block has two forms")
			}
		}
		_, _, _ = DecodeHeader(bytes.NewReader(p), int64(len(p)))
	})
}
