/* The NPU's writers that rearrange: bytes moved between two ways through memory. Plain C11. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { AXES = 5, ATOM = 16 };

/* A way through memory: the last axis is the fastest; strides are bytes and may be negative. */
struct way {
    uint8_t *base;
    int64_t counts[AXES];
    int64_t strides[AXES];
};

struct place {
    const struct way *way;
    uint8_t *address;
    int64_t at[AXES];
};

static struct place start_at(const struct way *way, int64_t index) {
    struct place place = {way, way->base, {0}};
    for (int a = AXES - 1; a >= 0; a--) {
        place.at[a] = index % way->counts[a];
        place.address += place.at[a] * way->strides[a];
        index /= way->counts[a];
    }
    return place;
}

/* On by `steps` of the last axis, which stay inside of it or reach its end. */
static void advance(struct place *place, int64_t steps) {
    const struct way *way = place->way;
    int a = AXES - 1;
    place->at[a] += steps;
    place->address += steps * way->strides[a];
    for (; a > 0 && place->at[a] == way->counts[a]; a--) {
        place->address += way->strides[a - 1] - way->counts[a] * way->strides[a];
        place->at[a] = 0;
        place->at[a - 1]++;
    }
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static void copy_run(uint8_t *to, int64_t to_step, const uint8_t *from, int64_t from_step, int64_t size,
                     int64_t count) {
    if (to_step == size && from_step == size)
        memcpy(to, from, size * count);
    else if (size == 16)
        for (int64_t i = 0; i < count; i++)
            memcpy(to + i * to_step, from + i * from_step, 16);
    else if (size == 8)
        for (int64_t i = 0; i < count; i++)
            memcpy(to + i * to_step, from + i * from_step, 8);
    else if (size == 2)
        for (int64_t i = 0; i < count; i++)
            memcpy(to + i * to_step, from + i * from_step, 2);
    else
        for (int64_t i = 0; i < count; i++)
            memcpy(to + i * to_step, from + i * from_step, size);
}

/* `count` units of `size` bytes from one way to the other, from number `first` on. */
EXPORT void anynpu_npu_copy(const struct way *from, const struct way *to, int64_t size, int64_t first,
                            int64_t count) {
    struct place source = start_at(from, first), target = start_at(to, first);
    while (count > 0) {
        const int64_t n = least(count, least(from->counts[AXES - 1] - source.at[AXES - 1],
                                             to->counts[AXES - 1] - target.at[AXES - 1]));
        copy_run(target.address, to->strides[AXES - 1], source.address, from->strides[AXES - 1], size, n);
        advance(&source, n);
        advance(&target, n);
        count -= n;
    }
}

/* What a transposer writes: blocks of atoms `lane` apart, for bytes in two rows `line` apart. */
struct blocks {
    struct way way; /* to each block's first atom */
    int64_t count;
    int64_t lane;
    int64_t line;
    int64_t size; /* of an element; 16 leaves atoms as they are */
};

/* Blocks of eight pixels of a surface, or of sixteen bytes of all, lanes turned into pixels. What is
 * missing is zero. `surfaces` of `pixels` atoms are read. */
EXPORT void anynpu_npu_transpose(const struct way *from, int64_t surfaces, int64_t pixels,
                                 const struct blocks *to) {
    const int64_t atoms = to->size == 1 ? 16 : 8;
    if (to->size == 1)
        pixels *= surfaces, surfaces = 1;
    const int64_t per_surface = (pixels + atoms - 1) / atoms;
    struct place source = start_at(from, 0), target = start_at(&to->way, 0);
    for (int64_t b = 0; b < to->count; b++, advance(&target, 1)) {
        uint8_t in[16][ATOM], out[16][ATOM];
        const int64_t left = b < surfaces * per_surface ? pixels - b % per_surface * atoms : 0;
        const int64_t n = least(left, atoms);
        for (int64_t i = 0; i < n; i++, advance(&source, 1))
            memcpy(in[i], source.address, ATOM);
        memset(in[n], 0, (16 - n) * ATOM);
        if (to->size == 1)
            for (int l = 0; l < 16; l++)
                for (int i = 0; i < 16; i++)
                    out[l][i] = in[i][l];
        else if (to->size == 2)
            for (int l = 0; l < 8; l++)
                for (int i = 0; i < 8; i++)
                    memcpy(out[l] + 2 * i, in[i] + 2 * l, 2);
        else
            memcpy(out, in, sizeof out);
        for (int64_t l = 0; l < atoms; l++)
            memcpy(target.address + l / 8 * to->line + l % 8 * to->lane, out[l], ATOM);
    }
}
