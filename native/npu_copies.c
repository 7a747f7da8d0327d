/* The NPU's writers that rearrange: bytes moved between two ways through memory. Plain C11; kernels are
 * those of steps.c. Ways are those of arrays that lie inside, and no unit of theirs is passed. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cpu.h"
#include "npu.h"

enum { ATOM = 16 };

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

static void copy_run(uint8_t *to, int64_t to_step, const uint8_t *from, int64_t from_step,
                     int64_t size, int64_t count) {
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

/* Of whole words what `mask` has. */
INLINE void copy_words(uint8_t *to, int64_t to_step, const uint8_t *from, int64_t from_step,
                       const int64_t words, int64_t count, const uint64_t *mask) {
    for (int64_t i = 0; i < count; i++, to += to_step, from += from_step)
        for (int64_t w = 0; w < words; w++) {
            uint64_t word;
            memcpy(&word, from + 8 * w, sizeof word);
            word &= mask[w];
            memcpy(to + 8 * w, &word, sizeof word);
        }
}

static void copy_masked(uint8_t *to, int64_t to_step, const uint8_t *from, int64_t from_step,
                        int64_t size, int64_t count, const uint64_t *mask) {
    const uint64_t own[2] = {mask[0], mask[size / 8 - 1]};
    if (size == 16)
        copy_words(to, to_step, from, from_step, 2, count, own);
    else
        copy_words(to, to_step, from, from_step, size / 8, count, mask);
}

EXPORT void anynpu_npu_copy(const void *arguments, int64_t first, int64_t end, void *scratch) {
    const struct copy *a = arguments;
    struct place source = start_at(&a->source, a->source_first + first);
    struct place target = start_at(&a->target, a->target_first + first);
    while (first < end) {
        const int64_t n =
            least(end - first, least(a->source.counts[AXES - 1] - source.at[AXES - 1],
                                     a->target.counts[AXES - 1] - target.at[AXES - 1]));
        if (a->mask)
            copy_masked(target.address, a->target.strides[AXES - 1], source.address,
                        a->source.strides[AXES - 1], a->size, n, a->mask);
        else
            copy_run(target.address, a->target.strides[AXES - 1], source.address,
                     a->source.strides[AXES - 1], a->size, n);
        advance(&source, n);
        advance(&target, n);
        first += n;
    }
    (void)scratch;
}

/* Eight atoms of eight elements of two bytes, which lie `from_step` and `to_step` apart. */
static void turn_pairs(const uint8_t *from, int64_t from_step, uint8_t *to, int64_t to_step) {
#ifdef __SSE2__
    __m128i a[8], b[8];
    for (int i = 0; i < 8; i++)
        a[i] = _mm_loadu_si128((const __m128i *)(from + i * from_step));
    for (int i = 0; i < 4; i++) {
        b[2 * i] = _mm_unpacklo_epi16(a[i], a[4 + i]);
        b[2 * i + 1] = _mm_unpackhi_epi16(a[i], a[4 + i]);
    }
    for (int i = 0; i < 4; i++) {
        a[2 * i] = _mm_unpacklo_epi16(b[i], b[4 + i]);
        a[2 * i + 1] = _mm_unpackhi_epi16(b[i], b[4 + i]);
    }
    for (int i = 0; i < 4; i++) {
        _mm_storeu_si128((__m128i *)(to + 2 * i * to_step), _mm_unpacklo_epi16(a[i], a[4 + i]));
        _mm_storeu_si128((__m128i *)(to + (2 * i + 1) * to_step),
                         _mm_unpackhi_epi16(a[i], a[4 + i]));
    }
#else
    for (int l = 0; l < 8; l++)
        for (int i = 0; i < 8; i++)
            memcpy(to + l * to_step + 2 * i, from + i * from_step + 2 * l, 2);
#endif
}

/* A block's atoms as they are written. */
static void turn(uint8_t in[16][ATOM], uint8_t out[16][ATOM], int64_t size) {
    if (size == 1)
        for (int l = 0; l < 16; l++)
            for (int i = 0; i < 16; i++)
                out[l][i] = in[i][l];
    else if (size == 2)
        turn_pairs(in[0], ATOM, out[0], ATOM);
    else
        memcpy(out, in, 16 * ATOM);
}

EXPORT void anynpu_npu_transpose(const void *arguments, int64_t first, int64_t end, void *scratch) {
    const struct transposition *a = arguments;
    const int64_t atoms = a->atoms;
    /* Behind the last pixel nothing is read. */
    struct place source = start_at(&a->source, first * atoms);
    struct place target = start_at(&a->target, first);
    for (int64_t b = first; b < end; b++, advance(&target, 1)) {
        const int64_t left = a->pixels - b * atoms;
        const int64_t run = a->source.counts[AXES - 1] - source.at[AXES - 1];
        if (a->size == 2 && atoms == 8 && least(left, run) >= 8) {
            turn_pairs(source.address, a->source.strides[AXES - 1], target.address, a->lane);
            advance(&source, 8);
            continue;
        }
        uint8_t in[16][ATOM] = {{0}}, out[16][ATOM];
        for (int64_t i = 0; i < least(left, atoms); i++, advance(&source, 1))
            memcpy(in[i], source.address, ATOM);
        turn(in, out, a->size);
        for (int64_t l = 0; l < atoms; l++)
            memcpy(target.address + l / 8 * a->line + l % 8 * a->lane, out[l], ATOM);
    }
    (void)scratch;
}
