// What each token writes, and the vocabulary as a tree of bytes: to learn which
// tokens may come next, a grammar walks it and leaves out whole branches.
#pragma once

#include "llama.h"

#include <cstdint>
#include <vector>

struct lexicon {
    // node is one byte of some pieces, in preorder: what is below it follows it.
    struct node {
        int32_t end;    // where the nodes after those below it begin
        int32_t tokens; // those whose piece ends here, in ending
        uint16_t n;
        uint16_t depth; // bytes before this one
        uint8_t byte;
    };
    static constexpr size_t longest = UINT16_MAX; // bytes of a piece that a grammar can match

    explicit lexicon(const llama_vocab *vocab);

    std::vector<node> nodes;
    std::vector<int32_t> ending;
    int deepest = 0; // bytes of the longest piece

    std::vector<uint8_t> bytes; // of all pieces
    std::vector<int32_t> at;    // token t's are bytes[at[t]:at[t+1]]

    // Bit sets over the vocabulary. End-of-generation tokens are in none and in
    // no branch of the tree: they write nothing.
    std::vector<uint64_t> plain;   // written
    std::vector<uint64_t> control; // written where control tokens are
};
