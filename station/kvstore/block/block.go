package block

// Name places a block: the root of its scope, the block before it, and its own key.
type Name struct {
	Root, Parent, Key Key
}

// Block is a block with its content. Data is Rows of KV as engine.Mover has
// them, len(Tokens) positions.
type Block struct {
	Name
	Tokens []int32 // 1 to Tokens ids
	Group  string  // a client's label, at most 64 bytes
	Kernel string  // kernel libraries that computed it, at most 255 bytes
	Data   []byte
}

// Fault is why an object is no usable block; Reason is one word of a closed set,
// which drops are counted by.
type Fault struct {
	Reason Reason
	Detail string
}

func (f *Fault) Error() string { return string(f.Reason) + ": " + f.Detail }

// Reason is why a stored block is dropped.
type Reason string

const (
	Truncated Reason = "truncated"    // shorter than it says, or empty
	NotABlock Reason = "no_block"     // other magic
	Version   Reason = "version"      // a format this build does not know
	Misplaced Reason = "misplaced"    // another block than its name says
	Checksum  Reason = "checksum"     // a byte has changed
	Size      Reason = "size"         // rows of another size
	Sealed    Reason = "sealed"       // encrypted with another key, or not at all
	Orphan    Reason = "orphan"       // its parent is missing
	OtherText Reason = "other_tokens" // other tokens than were asked for
)
