// Package block is what a stored block is: its name, and its form as an object of
// a folder or bucket.
//
// An object is, with all numbers little-endian:
//
//	offset  bytes
//	     0      8  magic "THOTHKV\x1a"
//	     8      2  version, 1
//	    10      2  flags: 1 sealed, all others 0
//	    12      2  tokens n, 1 to 64
//	    14      1  length of the group g, 0 to 64
//	    15      1  length of the kernel k, 0 to 255
//	    16      4  length of the payload p
//	    20     96  root, parent, key
//	   116     12  nonce; zero when not sealed
//	   128      k  kernel
//	 128+k    4 n  token ids  ┐
//	              g  group      │ the body: sealed, it is the ciphertext
//	              p  payload    ┘ of these, and 16 bytes of tag
//	   end      8  XXH64 of all before it
//
// The checksum finds what disks and copies do to bytes; against people there is
// the seal, AES-GCM, which takes the 128+k bytes before the body as additional data.
//
// Invariants. [Decode] trusts nothing: every count is checked against its bound
// and against the object's size before memory is taken for it, and a block comes
// out only if its place, its checksum and its key, computed again from parent and
// tokens, are right. What it says otherwise is a [*Fault] when the bytes are to
// blame, and the reader's own error when the reader is: a store that fails has
// no damaged blocks.
package block
