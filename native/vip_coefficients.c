/* Coefficients of VeriSilicon's convolution cores: compressed streams to whole numbers, and those to
 * kernels. Plain C; src/anynpu/soft/engines/vip/coefficients/ says what the streams are, declares
 * the structures and calls it. Nothing outside of the ranges that a structure names is touched.
 */

#include <stdint.h>
#include <string.h>

#include "vip.h"

#define API __attribute__((visibility("default")))

enum { CODES = 8, RUN_LENGTHS = 18, LENGTHS = 8, SHORT_RUN = 16 };
enum { RUN = 0, LONG_RUN = 8, RAW = 7 };

/* What a code says, with its extension above its three bits. */
typedef struct {
    uint8_t length; /* as the map of symbols has it */
    uint8_t tail;   /* bits to read */
    uint8_t inline_bits;
    uint8_t inline_value;
} Code;

static uint64_t peek(const struct coded_stream *s, int64_t position) {
    int64_t byte = position >> 3;
    uint64_t word = 0;
    if (byte + 8 <= s->size) {
        memcpy(&word, s->bytes + byte, 8);
    } else {
        for (int i = 0; i < 8 && byte + i < s->size; i++)
            word |= (uint64_t)s->bytes[byte + i] << 8 * i;
    }
    return word >> (position & 7);
}

static int symbol_of(int code, int extension, int *inline_bits, int *inline_value) {
    *inline_bits = 1;
    if ((code & 3) < 2) {
        *inline_value = code >> 2;
        return code & 3;
    }
    if (code == 2 && extension & 1) {
        *inline_value = extension >> 1;
        return 5;
    }
    *inline_bits = *inline_value = 0;
    if (code == 7)
        return 2;
    if (code == 3)
        return 3;
    if (code == 6)
        return 4;
    return extension == 2 ? 6 : 7;
}

/* Bits of a value whose symbol has this length. */
static int width_of(const struct coded_stream *s, int length) {
    if (s->run_count == 0)
        return length ? length : 1;
    if (length == RUN)
        return 1;
    if (length < LONG_RUN)
        return length == RAW ? 8 : length;
    int bits = 0;
    while (1 << bits < s->run_count - 2)
        bits++;
    return bits;
}

static int prepare(const struct coded_stream *s, Code *codes) {
    for (int i = 0; i < 32; i++) {
        int inline_bits, inline_value;
        int symbol = symbol_of(i & 7, i >> 3, &inline_bits, &inline_value);
        int length = s->lengths[symbol];
        if (length > 8 || s->run_count == 1 || s->run_count == 2 || s->run_count > RUN_LENGTHS)
            return 0;
        int width = width_of(s, length);
        if (width < inline_bits)
            width = inline_bits;
        int is_run = s->run_count && (length == RUN || length == LONG_RUN);
        int tail = width - inline_bits + (s->is_wide && !is_run ? 8 : 0);
        codes[i] =
            (Code){(uint8_t)length, (uint8_t)tail, (uint8_t)inline_bits, (uint8_t)inline_value};
    }
    return 1;
}

static int16_t *put_run(int16_t *to, int length, int16_t value) {
    int16_t pattern[SHORT_RUN];
    for (int i = 0; i < SHORT_RUN; i++)
        pattern[i] = value;
    for (int done = 0; done < length; done += SHORT_RUN)
        memcpy(to + done, pattern, sizeof pattern);
    return to + length;
}

/* A value of 16 bits: the lower byte, then the code of the upper one. */
static int16_t wide_value(const struct coded_stream *s, const Code *code, unsigned tail) {
    unsigned low = tail & 255, v = tail >> 8 << code->inline_bits | code->inline_value;
    if (s->run_count && code->length == RAW)
        return (int16_t)((int)(v << 8 | low) + (int)s->average);
    int magnitude = (int)(v >> 1) | (code->length ? 1 << (code->length - 1) : 0);
    if (s->run_count)
        magnitude--;
    return (int16_t)((v & 1 ? -1 - magnitude : magnitude) * 256 + (int)low + (int)s->average);
}

/* One value or run of zeros. */
static int16_t *put(const struct coded_stream *s, int16_t *to, const Code *code, unsigned tail) {
    unsigned v = tail << code->inline_bits | code->inline_value;
    int length = code->length, average = (int)s->average;
    if (s->is_wide && !(s->run_count && (length == RUN || length == LONG_RUN))) {
        *to = wide_value(s, code, tail);
        return to + 1;
    }
    if (s->run_count) {
        if (length == RUN || length == LONG_RUN) {
            unsigned index = length == RUN ? v : v + 2;
            /* Numbers past the table's end aren't used. */
            return put_run(to, s->runs[index < RUN_LENGTHS ? index : RUN_LENGTHS - 1] + 1,
                           (int16_t)average);
        }
        if (length == RAW) {
            *to = (int16_t)((int)v + average);
            return to + 1;
        }
        int magnitude = (int)(v >> 1) | 1 << (length - 1);
        *to = (int16_t)((v & 1 ? -magnitude : magnitude) + average);
        return to + 1;
    }
    int magnitude = (int)(v >> 1) | (length ? 1 << (length - 1) : 0);
    *to = (int16_t)((v & 1 ? -1 - magnitude : magnitude) + average);
    return to + 1;
}

/* Decode until `wanted` values are there; `values` has room for SPARE more. Returns how many there
 * are, fewer where the stream ends before, -1 where its header makes no sense.
 *
 * A step reads two codes of three bits, the extensions of the two codes before them, and the tails
 * of the two codes before those. */
API int64_t anynpu_vip_decode(struct coded_stream *s) {
    Code codes[32];
    if (!prepare(s, codes))
        return -1;
    int16_t *to = s->values, *const enough = s->values + s->wanted;
    int64_t position = 0;
    unsigned new[2], old[2] = {0, 0}, oldest[2] = {0, 0};
    for (int64_t step = 0; (position < s->bits || step < 3) && to < enough; step++) {
        uint64_t word = peek(s, position);
        int used = 6;
        new[0] = word & 7;
        new[1] = word >> 3 & 7;
        word >>= 6;
        if (step > 0) {
            for (int i = 0; i < 2; i++) {
                if (old[i] == 2) {
                    old[i] |= (word & 3) << 3;
                    word >>= 2;
                    used += 2;
                }
            }
        }
        if (step > 1) {
            for (int i = 0; i < 2; i++) {
                const Code *code = codes + oldest[i];
                to = put(s, to, code, (unsigned)word & ((1u << code->tail) - 1));
                word >>= code->tail;
                used += code->tail;
            }
        }
        oldest[0] = old[0];
        oldest[1] = old[1];
        old[0] = new[0];
        old[1] = new[1];
        position += used;
    }
    s->end = position;
    return to - s->values;
}

/* Cut one core's values into kernels: blocks of `block` values, block 0 of all kernels of a
 * superblock, then block 1. The caller has seen to it that there are enough values. */
API void anynpu_vip_arrange(const struct core_values *k) {
    const int16_t *from = k->values;
    const int32_t *channels = k->channels;
    for (int64_t superblock = 0; superblock < k->superblocks; superblock++) {
        int64_t count = k->kernels[superblock];
        if (k->has_zero_points)
            for (int64_t i = 0; i < count; i++)
                k->zero_points[channels[i]] = *from++ & 255;
        for (int64_t first = 0; first < k->weights; first += k->block) {
            int64_t left = k->weights - first, kept = left < k->block ? left : k->block;
            for (int64_t i = 0; i < count; i++, from += k->block) {
                const int64_t at = channels[i] * k->weights + first;
                if (k->is_wide) {
                    memcpy((int16_t *)k->target + at, from, sizeof *from * (size_t)kept);
                    continue;
                }
                const int zero_point = k->zero_points[channels[i]];
                uint8_t *to = (uint8_t *)k->target + at;
                for (int64_t j = 0; j < kept; j++)
                    to[j] = (uint8_t)(from[j] + zero_point);
            }
        }
        channels += count;
    }
}
