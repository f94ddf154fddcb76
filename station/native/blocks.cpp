// KV straight between the pool and blocks of the caller's.
//
// llama.cpp writes and reads a sequence's state through an interface of its own:
// a stream of facts (which cells, how many layers, which types) with the rows of
// each part in between. Here stands the other end of it. Going out, rows are
// copied from the tensors to where they belong in the blocks, and each fact is
// compared with what it must be. Coming in, the facts are made here and only the
// rows come from the blocks: nothing stored can lead the engine astray.
#include "shim.hpp"

#include "llama-io.h"
#include "llama-memory.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

namespace {

constexpr uint32_t streams = 1; // the pool is unified

// fact_log keeps a state's stream, to learn its layout from.
class fact_log : public llama_io_write_i {
  public:
    struct item {
        const ggml_tensor *tensor;
        uint64_t value;
        size_t size;
    };
    std::vector<item> items;

    void write(const void *src, size_t size) override {
        item i{nullptr, 0, size};
        memcpy(&i.value, src, std::min(size, sizeof(i.value)));
        items.push_back(i);
    }
    void write_tensor(const ggml_tensor *tensor, size_t, size_t size) override { items.push_back({tensor, 0, size}); }
    size_t n_bytes() override { return items.size(); }
};

// fact_reader takes a fact_log apart.
class fact_reader {
  public:
    explicit fact_reader(const fact_log &log) : log(log) {}

    bool more() const { return at < log.items.size(); }

    uint64_t fact(size_t size, const char *what) {
        const fact_log::item &i = next(what);
        if (i.tensor || i.size != size) {
            throw std::runtime_error(std::string("the state has no ") + what + " where it belongs");
        }
        return i.value;
    }
    void fact(size_t size, const char *what, uint64_t want) {
        const uint64_t got = fact(size, what);
        if (got != want) {
            throw std::runtime_error(std::string("the state's ") + what + " is " + std::to_string(got) + " instead of " + std::to_string(want));
        }
    }
    const ggml_tensor *rows(size_t size) {
        const fact_log::item &i = next("rows");
        if (!i.tensor || i.size != size) {
            throw std::runtime_error("the state's rows are not of the size it names");
        }
        return i.tensor;
    }

  private:
    const fact_log::item &next(const char *what) {
        if (!more()) {
            throw std::runtime_error(std::string("the state ends before its ") + what);
        }
        return log.items[at++];
    }

    const fact_log &log;
    size_t at = 0;
};

// stream is the state of n positions from `from` on, up to the next rows: the
// facts before them, and the part whose rows they are.
class stream {
  public:
    stream(const std::vector<station_cache> &caches, int from, int n, int seq) : n((size_t) n), caches(caches), from(from), seq(seq) { next(); }

    const size_t n; // positions

    // take gives the next size bytes of facts.
    const uint8_t *take(size_t size) {
        if (size > facts.size() - at) {
            throw std::runtime_error("the engine's state is laid out in another way than at load");
        }
        at += size;
        return facts.data() + at - size;
    }
    // rows gives the part whose rows come now.
    const station_part &rows() const {
        if (at != facts.size() || !part) {
            throw std::runtime_error("the engine's state has rows in another place than at load");
        }
        return *part;
    }
    // next goes behind the rows.
    void next() {
        facts.clear();
        at = 0;
        do {
            if (cache == caches.size()) {
                part = nullptr;
                return;
            }
            if (index == 0) {
                head(caches[cache].layers);
            }
            part = nullptr;
            if (index < caches[cache].parts.size()) {
                part = &caches[cache].parts[index++];
                put(part->type);
                put(part->row);
            }
            if (index == caches[cache].parts.size()) {
                index = 0;
                cache++;
            }
        } while (!part || !part->row); // a layer without heads has no rows
    }
    bool done() const { return !part && at == facts.size(); }

  private:
    template <typename T> void put(T v) {
        const auto *p = reinterpret_cast<const uint8_t *>(&v);
        facts.insert(facts.end(), p, p + sizeof(v));
    }
    void head(uint32_t layers) {
        facts.reserve(32 + 12 * n);
        put(streams);
        put((uint32_t) n);
        for (size_t i = 0; i < n; i++) {
            put((int32_t) (from + (int) i));
            put((uint32_t) 1); // sequences
            put((int32_t) seq);
        }
        put((uint32_t) 0); // values are not transposed
        put(layers);
    }

    const std::vector<station_cache> &caches;
    const int from, seq;
    std::vector<uint8_t> facts;
    size_t at = 0, cache = 0, index = 0;
    const station_part *part = nullptr;
};

ggml_backend_buffer_t buffer_of(const ggml_tensor *t) { return t->view_src ? t->view_src->buffer : t->buffer; }

// cursor walks over the pieces' rows of one part.
class cursor {
  public:
    cursor(const station_rows *piece, int pieces) : piece(piece), last(piece + pieces) {}

    // run gives where the next rows are, at most want of them, and how many.
    uint8_t *run(const station_part &p, size_t want, size_t *got) {
        if (piece == last) {
            throw std::runtime_error("there are more rows than room in the blocks");
        }
        *got = std::min(want, (size_t) piece->take - at);
        uint8_t *where = piece->data + p.before * (size_t) piece->rows + p.row * ((size_t) piece->skip + at);
        at += *got;
        if (at == (size_t) piece->take) {
            piece++;
            at = 0;
        }
        return where;
    }

  private:
    const station_rows *piece, *last;
    size_t at = 0;
};

// block_writer puts a sequence's rows into pieces.
class block_writer : public llama_io_write_i {
  public:
    block_writer(station_engine *e, int from, int n, int seq, const station_rows *piece, int pieces)
        : e(e), facts(e->caches, from, n, seq), piece(piece), pieces(pieces), to(piece, pieces) {}

    void write(const void *src, size_t size) override {
        if (memcmp(facts.take(size), src, size) != 0) {
            throw std::runtime_error("the sequence's cells are not the ones wanted, or not in the order of their positions");
        }
        bytes += size;
    }
    void write_tensor(const ggml_tensor *tensor, size_t offset, size_t size) override {
        if (size == 0) {
            return;
        }
        const station_part &p = facts.rows();
        size_t rows = size / p.row;
        if (tensor != p.tensor || size % p.row || rows > facts.n - done) {
            throw std::runtime_error("the engine's state has other rows than at load");
        }
        bytes += size;
        done += rows;
        const bool host = ggml_backend_buffer_is_host(buffer_of(tensor));
        if (!host) { // one copy off the device, however many pieces
            e->rows.resize(size);
            ggml_backend_tensor_get(tensor, e->rows.data(), offset, size);
        }
        const uint8_t *src = host ? static_cast<const uint8_t *>(tensor->data) + offset : e->rows.data();
        while (rows > 0) {
            size_t got;
            uint8_t *dst = to.run(p, rows, &got);
            memcpy(dst, src, got * p.row);
            src += got * p.row;
            rows -= got;
        }
        if (done == facts.n) {
            facts.next();
            done = 0;
            to = cursor(piece, pieces);
        }
    }
    size_t n_bytes() override { return bytes; }
    bool complete() const { return facts.done(); }

  private:
    station_engine *e;
    stream facts;
    const station_rows *piece;
    int pieces;
    cursor to;
    size_t done = 0, bytes = 0;
};

// block_reader makes a state of pieces.
class block_reader : public llama_io_read_i {
  public:
    block_reader(station_engine *e, int from, int n, int seq, const station_rows *piece, int pieces)
        : e(e), facts(e->caches, from, n, seq), piece(piece), pieces(pieces) {}

    void read_to(void *dst, size_t size) override {
        memcpy(dst, facts.take(size), size);
        bytes += size;
    }
    const uint8_t *read(size_t size) override {
        static const uint8_t nothing = 0;
        if (size == 0) {
            return &nothing;
        }
        const station_part &p = facts.rows();
        if (size != facts.n * p.row) {
            throw std::runtime_error("the engine reads other rows than at load");
        }
        const uint8_t *rows = gather(p);
        bytes += size;
        facts.next();
        return rows;
    }
    size_t n_bytes() override { return bytes; }
    bool complete() const { return facts.done(); }

  private:
    // gather gives a part's rows in one run: from where they are, or a copy that
    // is still in the cache when the engine reads it.
    const uint8_t *gather(const station_part &p) {
        cursor from(piece, pieces);
        size_t got;
        const uint8_t *run = from.run(p, facts.n, &got);
        if (got == facts.n) {
            return run;
        }
        e->rows.resize(std::max(e->rows.size(), facts.n * p.row));
        for (size_t at = 0;;) {
            memcpy(e->rows.data() + at * p.row, run, got * p.row);
            at += got;
            if (at == facts.n) {
                return e->rows.data();
            }
            run = from.run(p, facts.n - at, &got);
        }
    }

    station_engine *e;
    stream facts;
    const station_rows *piece;
    int pieces;
    size_t bytes = 0;
};

int positions(const station_rows *piece, int pieces) {
    int n = 0;
    for (int i = 0; i < pieces; i++) {
        n += piece[i].take;
    }
    return n;
}

// check_cells compares the first and the last row of each cache with what the
// cells from cell on hold: rows in other cells would be read in another order
// than they were computed in, and that shows in the logits.
void check_cells(station_engine *e, int cell, int n, const station_rows *piece, int pieces) {
    std::vector<uint8_t> row;
    const station_rows &last = piece[pieces - 1];
    for (const station_cache &c : e->caches) {
        auto p = std::find_if(c.parts.begin(), c.parts.end(), [](const station_part &p) { return p.row > 0; });
        if (p == c.parts.end()) {
            continue;
        }
        const auto same = [&](const station_rows &b, int in_block, int at) {
            row.resize(p->row);
            ggml_backend_tensor_get(p->tensor, row.data(), (size_t) at * p->row, p->row);
            return memcmp(row.data(), b.data + p->before * (size_t) b.rows + p->row * (size_t) in_block, p->row) == 0;
        };
        if (!same(piece[0], piece[0].skip, cell) || !same(last, last.skip + last.take - 1, cell + n - 1)) {
            throw std::runtime_error("the cells taken are not those above all others");
        }
    }
}

} // namespace

extern "C" int station_layout(station_engine *e, int seq, station_error *err) {
    STATION_GUARD(err, 0, {
        llama_synchronize(e->ctx);
        fact_log log;
        e->memory()->state_write(log, seq, 0);
        fact_reader in(log);
        std::vector<station_cache> caches;
        uint64_t before = 0;
        while (in.more()) {
            station_cache c;
            in.fact(4, "number of streams", streams);
            in.fact(4, "number of cells", 1);
            in.fact(4, "position", 0);
            in.fact(4, "number of sequences", 1);
            in.fact(4, "sequence", (uint64_t) seq);
            in.fact(4, "transposition of values (without flash attention)", 0);
            c.layers = (uint32_t) in.fact(4, "number of layers");
            for (uint32_t i = 0; i < 2 * c.layers; i++) { // the keys of all layers, then the values
                station_part p;
                p.type = (int32_t) in.fact(4, "type");
                p.row = in.fact(8, "row size");
                p.tensor = in.rows(p.row);
                p.before = before;
                before += p.row;
                c.parts.push_back(p);
            }
            caches.push_back(c);
        }
        int parts = 0;
        for (const station_cache &c : caches) {
            parts += (int) c.parts.size();
        }
        e->caches = caches;
        return parts;
    })
}

extern "C" size_t station_part_row(const station_engine *e, int part) {
    for (const station_cache &c : e->caches) {
        if ((size_t) part < c.parts.size()) {
            return c.parts[(size_t) part].row;
        }
        part -= (int) c.parts.size();
    }
    return 0;
}

extern "C" int station_export(station_engine *e, int seq, int from, const station_rows *piece, int pieces, station_error *err) {
    STATION_GUARD(err, STATION_FAILED, {
        llama_synchronize(e->ctx);
        block_writer out(e, from, positions(piece, pieces), seq, piece, pieces);
        e->memory()->state_write(out, seq, 0);
        if (!out.complete()) {
            station_fail(err, "the engine's state is shorter than at load");
            return STATION_FAILED;
        }
        return STATION_OK;
    })
}

extern "C" int station_import(station_engine *e, int seq, int from, int cell, const station_rows *piece, int pieces, station_error *err) {
    try {
        station_log_forget();
        llama_synchronize(e->ctx);
        const int n = positions(piece, pieces);
        block_reader in(e, from, n, seq, piece, pieces);
        e->memory()->state_read(in, seq, 0);
        if (!in.complete()) {
            throw std::runtime_error("the engine read less than it did at load");
        }
        check_cells(e, cell, n, piece, pieces);
        return STATION_OK;
    } catch (const std::exception &x) {
        char last[900];
        station_log_last(last, sizeof(last)); // says more than the exception, where llama.cpp threw it
        station_fail(err, last[0] ? last : x.what());
    } catch (...) {
        station_fail(err, "unknown C++ exception");
    }
    llama_memory_seq_rm(e->memory(), seq, -1, -1); // what has come goes
    return STATION_FAILED;
}
