package grammar

import (
	"container/list"
	"runtime"
	"sync"

	"golang.org/x/sync/singleflight"
)

// Cache keeps finished grammars, those used last, by a key that says all that
// went into them. It may be used by many goroutines at once; those that ask for
// one key at the same time wait for one of them to make it, and no more are made at
// once than there are processors. Errors are not kept.
type Cache struct {
	maxBytes int
	making   singleflight.Group
	places   chan struct{} // taken by those that make one: more than there are processors would slow each other

	mu struct {
		sync.Mutex
		bytes   int                      // of all entries
		entries map[string]*list.Element // of recent; the values are *entry
		recent  *list.List               // used last in front
	}
}

type entry struct{ key, text string }

func (e *entry) bytes() int { return len(e.key) + len(e.text) }

// NewCache returns a cache whose keys and grammars have maxBytes together at
// most. A grammar that is larger alone is made each time.
func NewCache(maxBytes int) *Cache {
	c := &Cache{maxBytes: maxBytes, places: make(chan struct{}, runtime.GOMAXPROCS(0))}
	c.mu.entries, c.mu.recent = map[string]*list.Element{}, list.New()
	return c
}

// Get returns the grammar of the key, and calls make when there is none.
func (c *Cache) Get(key string, make func() (string, error)) (string, error) {
	if text, ok := c.find(key); ok {
		return text, nil
	}
	text, err, _ := c.making.Do(key, func() (any, error) {
		// Whoever made it may have finished between the look above and here.
		if text, ok := c.find(key); ok {
			return text, nil
		}
		c.places <- struct{}{}
		defer func() { <-c.places }()
		text, err := make()
		if err == nil {
			c.keep(&entry{key, text})
		}
		return text, err
	})
	return text.(string), err
}

// Bytes is what the cache holds.
func (c *Cache) Bytes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.bytes
}

func (c *Cache) find(key string) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.mu.entries[key]
	if !ok {
		return "", false
	}
	c.mu.recent.MoveToFront(at)
	return at.Value.(*entry).text, true
}

func (c *Cache) keep(e *entry) {
	if e.bytes() > c.maxBytes {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.entries[e.key] = c.mu.recent.PushFront(e)
	for c.mu.bytes += e.bytes(); c.mu.bytes > c.maxBytes; {
		last := c.mu.recent.Remove(c.mu.recent.Back()).(*entry)
		delete(c.mu.entries, last.key)
		c.mu.bytes -= last.bytes()
	}
}
