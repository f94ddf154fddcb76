// Package block is what a stored block is: its name, and its form as an object of
// a folder or bucket.
package block
