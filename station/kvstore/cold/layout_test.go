package cold

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/internal/bucket"
	"thoth/station/kvstore/block"
)

// The measurement behind "one object is one block": a save of 16 blocks of 1.4 MB
// (1,024 tokens of SmolLM2-135M with f16 KV) as 16 objects, written two at a time
// and read eight at a time as kvstore does, against one pack of all 16, which is
// one stream. On a folder; on a bucket that takes 20 ms for a call; and on one that
// also gives each stream 100 MB/s.
//
//	go test -run '^$' -bench Layout ./station/kvstore/cold

const (
	saveBlocks = 16
	kvBytes    = 23_040 // of one position, SmolLM2-135M with f16 KV
)

func layoutStores(b *testing.B) map[string]bucket.Objects {
	folder, err := bucket.Open(b.Context(), b.TempDir(), true, time.Second)
	require.NoError(b, err)
	mem, err := bucket.Open(b.Context(), "mem://?nomd5", true, time.Second)
	require.NoError(b, err)
	return map[string]bucket.Objects{
		"folder": folder,
		"bucket": &delayed{mem, 20 * time.Millisecond, 0},
		"narrow": &delayed{mem, 20 * time.Millisecond, 100e6},
	}
}

// delayed is a store that takes its time for a call, and gives each of any number of
// them so many bytes a second; 0: as fast as memory.
type delayed struct {
	bucket.Objects
	by   time.Duration
	rate float64
}

func (d *delayed) Write(ctx context.Context, name string, fill func(io.Writer) error) error {
	time.Sleep(d.by)
	return d.Objects.Write(ctx, name, func(w io.Writer) error { return fill(paced{Writer: w, rate: d.rate}) })
}

func (d *delayed) Read(ctx context.Context, name string, limit int64) (io.ReadCloser, int64, error) {
	time.Sleep(d.by)
	r, size, err := d.Objects.Read(ctx, name, limit)
	return struct {
		io.Reader
		io.Closer
	}{paced{Reader: r, rate: d.rate}, r}, size, err
}

// paced moves so many bytes a second.
type paced struct {
	io.Reader
	io.Writer
	rate float64
}

func (p paced) pace(n int) {
	if p.rate > 0 {
		time.Sleep(time.Duration(float64(n) / p.rate * float64(time.Second)))
	}
}

func (p paced) Read(b []byte) (int, error)  { n, err := p.Reader.Read(b); p.pace(n); return n, err }
func (p paced) Write(b []byte) (int, error) { n, err := p.Writer.Write(b); p.pace(n); return n, err }

// realistic fills data with f16 numbers as keys and values have them: about normal,
// with a scale of its own for each channel.
func realistic(data []byte) {
	r := rand.New(rand.NewPCG(1, 2))
	const channels = 192
	var scale [channels]float64
	for i := range scale {
		scale[i] = math.Exp(r.NormFloat64())
	}
	for i := 0; i+1 < len(data); i += 2 {
		binary.LittleEndian.PutUint16(data[i:], half16(float32(r.NormFloat64()*scale[i/2%channels])))
	}
}

// half16 is a float as f16; what is too small becomes 0.
func half16(f float32) uint16 {
	b := math.Float32bits(f)
	e := int(b>>23&0xff) - 127 + 15
	if e <= 0 {
		return uint16(b >> 16 & 0x8000)
	}
	return uint16(b>>16&0x8000) | uint16(min(e, 30))<<10 | uint16(b>>13&0x3ff)
}

func save(b *testing.B) []*block.Block {
	blocks := chain(root(b.Name()), saveBlocks*block.Tokens, 1)
	for _, x := range blocks {
		x.Data = make([]byte, block.Tokens*kvBytes)
		realistic(x.Data)
	}
	return blocks
}

// some runs f for 0 to n-1, so many at a time.
func some(together, n int, f func(int)) {
	var group sync.WaitGroup
	next := make(chan int)
	for range together {
		group.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	group.Wait()
}

func BenchmarkLayout(b *testing.B) {
	for _, where := range []string{"folder", "bucket", "narrow"} {
		s, blocks := layoutStores(b)[where], save(b)
		memory := make([][]byte, saveBlocks)
		for i := range memory {
			memory[i] = make([]byte, len(blocks[i].Data))
		}
		ctx := b.Context()
		check := func(err error) {
			if err != nil {
				b.Error(err)
			}
		}
		write := func(together int) {
			some(together, saveBlocks, func(i int) {
				check(s.Write(ctx, ObjectName(blocks[i].Name, block.Tokens), func(w io.Writer) error {
					return block.Encode(w, blocks[i], nil)
				}))
			})
		}
		decode := func(r io.Reader, i int) {
			_, err := block.Decode(r, block.ObjectSize(blocks[i], false), blocks[i].Name, kvBytes, nil,
				func(int) ([]byte, error) { return memory[i], nil })
			check(err)
		}
		read := func(n int) {
			some(parallel, n, func(i int) {
				r, _, err := s.Read(ctx, ObjectName(blocks[i].Name, block.Tokens), -1)
				check(err)
				decode(r, i)
				check(r.Close())
			})
		}
		writePack := func() {
			check(s.Write(ctx, "pack", func(w io.Writer) error {
				for _, x := range blocks {
					if err := block.Encode(w, x, nil); err != nil {
						return err
					}
				}
				return nil
			}))
		}
		readPack := func(n int) {
			r, _, err := s.Read(ctx, "pack", -1)
			check(err)
			for i := range n {
				decode(r, i)
			}
			check(r.Close())
		}
		// A reader that knows from an index, read before, where each block lies.
		readRanges := func(n int) {
			r, _, err := s.Read(ctx, "pack", 4096)
			check(err)
			check(r.Close())
			readPack(n)
		}
		for _, c := range []struct {
			name string
			n    int
			run  func()
		}{
			{"write/blocks", saveBlocks, func() { write(2) }},
			{"write/pack", saveBlocks, writePack},
			{"read/blocks", saveBlocks, func() { read(saveBlocks) }},
			{"read/pack", saveBlocks, func() { readPack(saveBlocks) }},
			{"readhalf/blocks", saveBlocks / 2, func() { read(saveBlocks / 2) }},
			{"readhalf/pack", saveBlocks / 2, func() { readPack(saveBlocks / 2) }},
			{"readhalf/indexed-pack", saveBlocks / 2, func() { readRanges(saveBlocks / 2) }},
		} {
			b.Run(fmt.Sprintf("%s/%s", where, c.name), func(b *testing.B) {
				b.SetBytes(int64(c.n) * block.ObjectSize(blocks[0], false))
				for b.Loop() {
					c.run()
				}
			})
		}
	}
}

// What checking a block costs by itself: hashing, and opening a seal.
func BenchmarkDecode(b *testing.B) {
	x := save(b)[0]
	for name, sealer := range map[string]*Sealer{"clear": nil, "sealed": NewSealer(make([]byte, KeyBytes))} {
		seal := sealer.For(x.Root)
		var object bytes.Buffer
		require.NoError(b, block.Encode(&object, x, seal))
		memory := make([]byte, len(x.Data))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(object.Len()))
			for b.Loop() {
				_, err := block.Decode(bytes.NewReader(object.Bytes()), int64(object.Len()), x.Name, kvBytes, seal, func(int) ([]byte, error) { return memory, nil })
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
