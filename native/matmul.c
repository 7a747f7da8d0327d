/* Matrix products on B as it lies in memory: nothing of it is converted beforehand.
 *
 * Sums of int8 are exact in int32: the caller sees to it that they fit. float16 is for few rows of A,
 * on processors that convert it. Plain C11; NumPy does the same elsewhere.
 */
#define _GNU_SOURCE
#include "sharing.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "arrays.h"
#include "cpu.h"
#include "dots.h"
#include "half.h"

/* A thread's share: columns of C. */
struct share {
    size_t begin, end;
};

/* Rows of A and of B whose sums are kept in registers. */
#define TILE_A 2
#define TILE_B 4
#define TILE_SIDE 6 /* rows of A times a side of a panel */

/* Bytes of B's blocks, and rows of A, that stay cached. */
#define CHUNK 16384
#define ROWS_CACHED 32

/* Rows of a (k, n) B that are added at once, and how many columns: they and the sums stay cached. */
#define ROWS_AT_ONCE 8
#define COLUMNS_AT_ONCE 2048

/* With more rows of A it pays to widen a panel of B first: this many columns side by side. */
#define FEW_ROWS 4
#define FEW_COLUMNS 16 /* rows of A where B is transposed: its columns are ready for dot products */
#define FEW_PAIRS 24   /* where AVX2's have to be made of blocks */
#define PANEL_ROWS 512
#define PANEL_COLUMNS 64
#define SIDE 16
#define SUMS_ROWS 256

/* Rows a power of two apart would share a cache's places. */
#define APART 64

/* Columns of C that lie together, where it lies in blocks. */
#define C_BLOCK 4

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Rows of B, `row` elements apart: each has `count` blocks of `length` elements, `step` apart. */
struct run {
    size_t count, length, row, step;
};

#ifdef X86
WITH_AVX2 INLINE int32_t sum_of_lanes(__m256i lanes) {
    __m128i half = _mm_add_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
    half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4e));
    half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0xb1));
    return _mm_cvtsi128_si32(half);
}

/* Adds the products of `rows_a` rows of A and `rows_b` of B; `length` is a multiple of 16. */
WITH_AVX2 INLINE void add_dots_of(const struct run *run, const int16_t *a, size_t a_row,
                                  const int8_t *b, int32_t *c, size_t c_row, size_t rows_a,
                                  size_t rows_b) {
    __m256i sums[TILE_A][TILE_B];
    UNROLLED for (size_t m = 0; m < rows_a; m++) {
        UNROLLED for (size_t n = 0; n < rows_b; n++) sums[m][n] = _mm256_setzero_si256();
    }
    for (size_t block = 0; block < run->count; block++, b += run->step) {
        for (size_t i = 0; i < run->length; i += 16, a += 16) {
            __m256i left[TILE_A];
            UNROLLED for (size_t m = 0; m < rows_a; m++) left[m] =
                _mm256_loadu_si256((const __m256i *)(a + m * a_row));
            UNROLLED for (size_t n = 0; n < rows_b; n++) {
                const void *bytes = b + n * run->row + i;
                __m256i right = _mm256_cvtepi8_epi16(_mm_loadu_si128(bytes));
                UNROLLED for (size_t m = 0; m < rows_a; m++) sums[m][n] =
                    _mm256_add_epi32(sums[m][n], _mm256_madd_epi16(left[m], right));
            }
        }
    }
    UNROLLED for (size_t m = 0; m < rows_a; m++) {
        UNROLLED for (size_t n = 0; n < rows_b; n++) c[m * c_row + n] += sum_of_lanes(sums[m][n]);
    }
}

WITH_AVX2 static void add_dots_avx2(const struct run *run, const int16_t *a, size_t a_row,
                                    const int8_t *b, int32_t *c, size_t c_row, size_t rows_a,
                                    size_t rows_b) {
    if (rows_a == 2 && rows_b == 4)
        add_dots_of(run, a, a_row, b, c, c_row, 2, 4);
    else if (rows_b == 4)
        add_dots_of(run, a, a_row, b, c, c_row, 1, 4);
    else
        for (size_t m = 0; m < rows_a; m++)
            for (size_t n = 0; n < rows_b; n++)
                add_dots_of(run, a + m * a_row, a_row, b + n * run->row, c + m * c_row + n, c_row,
                            1, 1);
}

/* Columns of two rows of B, interleaved and widened. */
struct pairs {
    __m256i low, high;
};

WITH_AVX2 INLINE struct pairs interleave(const int8_t *even, const int8_t *odd) {
    __m128i first = _mm_loadu_si128((const __m128i *)even);
    __m128i second = _mm_loadu_si128((const __m128i *)odd);
    struct pairs pairs = {_mm256_cvtepi8_epi16(_mm_unpacklo_epi8(first, second)),
                          _mm256_cvtepi8_epi16(_mm_unpackhi_epi8(first, second))};
    return pairs;
}

/* They times a pair of A's elements: as many sums as there are columns. */
WITH_AVX2 INLINE void add_pairs(__m256i sums[2], struct pairs pairs, __m256i pair) {
    sums[0] = _mm256_add_epi32(sums[0], _mm256_madd_epi16(pairs.low, pair));
    sums[1] = _mm256_add_epi32(sums[1], _mm256_madd_epi16(pairs.high, pair));
}

WITH_AVX2 static void add_rows_avx2(const int16_t *a, const int8_t *b, size_t b_row, int32_t *c,
                                    size_t columns) {
    __m256i pairs[ROWS_AT_ONCE / 2];
    UNROLLED for (size_t i = 0; i < ROWS_AT_ONCE / 2; i++) {
        int32_t both;
        memcpy(&both, a + 2 * i, sizeof both);
        pairs[i] = _mm256_set1_epi32(both);
    }
    for (size_t n = 0; n < columns; n += 16) {
        __m256i sums[2] = {_mm256_loadu_si256((const __m256i *)(c + n)),
                           _mm256_loadu_si256((const __m256i *)(c + n + 8))};
        UNROLLED for (size_t i = 0; i < ROWS_AT_ONCE / 2; i++) add_pairs(
            sums, interleave(b + 2 * i * b_row + n, b + (2 * i + 1) * b_row + n), pairs[i]);
        _mm256_storeu_si256((__m256i *)(c + n), sums[0]);
        _mm256_storeu_si256((__m256i *)(c + n + 8), sums[1]);
    }
}

WITH_AVX2 static void pack_pairs_avx2(const int8_t *b, size_t b_row, size_t rows, size_t columns,
                                      int16_t *pairs) {
    for (size_t row = 0; row < rows; row += 2, b += 2 * b_row)
        for (size_t side = 0; side < columns; side += SIDE) {
            int16_t *target = pairs + side * rows + row * SIDE;
            struct pairs both_rows = interleave(b + side, b + b_row + side);
            _mm256_storeu_si256((__m256i *)target, both_rows.low);
            _mm256_storeu_si256((__m256i *)(target + SIDE), both_rows.high);
        }
}

/* Eight pairs of rows of eight columns, `next` bytes apart. */
WITH_AVX2 INLINE void turn_pairs(const int8_t *columns, size_t next, int16_t *pairs) {
    __m256i wide[8], two[8], four[8];
    UNROLLED for (size_t i = 0; i < 8; i++) wide[i] =
        _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(columns + i * next)));
    UNROLLED for (size_t i = 0; i < 4; i++) {
        two[2 * i] = _mm256_unpacklo_epi32(wide[2 * i], wide[2 * i + 1]);
        two[2 * i + 1] = _mm256_unpackhi_epi32(wide[2 * i], wide[2 * i + 1]);
    }
    UNROLLED for (size_t i = 0; i < 2; i++) UNROLLED for (size_t j = 0; j < 2; j++) {
        four[4 * i + 2 * j] = _mm256_unpacklo_epi64(two[4 * i + j], two[4 * i + 2 + j]);
        four[4 * i + 2 * j + 1] = _mm256_unpackhi_epi64(two[4 * i + j], two[4 * i + 2 + j]);
    }
    UNROLLED for (size_t i = 0; i < 4; i++) {
        __m256i *low = (__m256i *)(pairs + 2 * i * SIDE);
        __m256i *high = (__m256i *)(pairs + 2 * (i + 4) * SIDE);
        _mm256_storeu_si256(low, _mm256_permute2x128_si256(four[i], four[i + 4], 0x20));
        _mm256_storeu_si256(high, _mm256_permute2x128_si256(four[i], four[i + 4], 0x31));
    }
}

/* Adds the products of `rows_a` rows of A and a side of a panel. */
WITH_AVX2 INLINE void add_side_of(const int16_t *a, size_t a_row, const int16_t *pairs, size_t rows,
                                  int32_t *c, size_t c_row, size_t rows_a) {
    __m256i sums[TILE_SIDE][2];
    UNROLLED for (size_t m = 0; m < rows_a; m++) {
        sums[m][0] = _mm256_loadu_si256((const __m256i *)(c + m * c_row));
        sums[m][1] = _mm256_loadu_si256((const __m256i *)(c + m * c_row + 8));
    }
    for (size_t k = 0; k < rows; k += 2, pairs += 2 * SIDE) {
        struct pairs both_rows = {_mm256_loadu_si256((const __m256i *)pairs),
                                  _mm256_loadu_si256((const __m256i *)(pairs + SIDE))};
        UNROLLED for (size_t m = 0; m < rows_a; m++) {
            int32_t both;
            memcpy(&both, a + m * a_row + k, sizeof both);
            add_pairs(sums[m], both_rows, _mm256_set1_epi32(both));
        }
    }
    UNROLLED for (size_t m = 0; m < rows_a; m++) {
        _mm256_storeu_si256((__m256i *)(c + m * c_row), sums[m][0]);
        _mm256_storeu_si256((__m256i *)(c + m * c_row + 8), sums[m][1]);
    }
}

WITH_AVX2 static void add_side_avx2(const int16_t *a, size_t a_row, const int16_t *pairs,
                                    size_t rows, int32_t *c, size_t c_row, size_t rows_a) {
    if (rows_a == TILE_SIDE)
        add_side_of(a, a_row, pairs, rows, c, c_row, TILE_SIDE);
    else if (rows_a >= 4) {
        add_side_of(a, a_row, pairs, rows, c, c_row, 4);
        add_side_avx2(a + 4 * a_row, a_row, pairs, rows, c + 4 * c_row, c_row, rows_a - 4);
    } else
        for (size_t m = 0; m < rows_a; m++)
            add_side_of(a + m * a_row, a_row, pairs, rows, c + m * c_row, c_row, 1);
}
#endif

#ifdef DOTS
/* Bytes that are multiplied at once, in every form that multiplies bytes. Sums of this file's own: a form
 * without a sign for B takes 128 times A's sum off again, with which C begins. */
#ifdef X86
enum { BYTES_AT_ONCE = 32 };
typedef __m256i bytes_at_once;
#define LOAD_BYTES(from) _mm256_loadu_si256((const __m256i *)(from))
#define HOLD_BYTES(from) _mm256_xor_si256(LOAD_BYTES(from), _mm256_set1_epi8(-BIAS))
#define NO_SUMS _mm256_setzero_si256()
#define SUM_OF_LANES(lanes) sum_of_lanes(lanes)
#define DOT_AVX_VNNI(sums, left, right) _mm256_dpbusd_avx_epi32(sums, right, left)
#define DOT_AVX512_VNNI(sums, left, right) _mm256_dpbusd_epi32(sums, right, left)
#else
enum { BYTES_AT_ONCE = 16, BIAS = 0 };
typedef int8x16_t bytes_at_once;
#define LOAD_BYTES(from) vld1q_s8(from)
#define HOLD_BYTES(from) vld1q_s8(from)
#define NO_SUMS vdupq_n_s32(0)
#define SUM_OF_LANES(lanes) vaddvq_s32(lanes)
#define DOT_DOTPROD(sums, left, right) vdotq_s32(sums, right, left)
#endif

/* Adds the products of some rows of A and of B; `length` is a multiple of BYTES_AT_ONCE. */
#define ADD_BYTE_DOTS(form, keyword, sums_at_once, DOT)                                            \
    keyword INLINE void add_byte_dots_of_##form(const struct run *run, const int8_t *a,            \
                                                size_t a_row, const int8_t *b, int32_t *c,         \
                                                size_t c_row, size_t rows_a, size_t rows_b) {      \
        sums_at_once sums[TILE_A][TILE_B];                                                         \
        UNROLLED for (size_t m = 0; m < rows_a; m++) {                                             \
            UNROLLED for (size_t n = 0; n < rows_b; n++) sums[m][n] = NO_SUMS;                     \
        }                                                                                          \
        for (size_t block = 0; block < run->count; block++, b += run->step)                        \
            for (size_t i = 0; i < run->length; i += BYTES_AT_ONCE, a += BYTES_AT_ONCE) {          \
                bytes_at_once left[TILE_A];                                                        \
                UNROLLED for (size_t m = 0; m < rows_a; m++) left[m] = LOAD_BYTES(a + m * a_row);  \
                UNROLLED for (size_t n = 0; n < rows_b; n++) {                                     \
                    const bytes_at_once right = HOLD_BYTES(b + n * run->row + i);                  \
                    UNROLLED for (size_t m = 0; m < rows_a; m++) sums[m][n] =                      \
                        DOT(sums[m][n], left[m], right);                                           \
                }                                                                                  \
            }                                                                                      \
        UNROLLED for (size_t m = 0; m < rows_a; m++) {                                             \
            UNROLLED for (size_t n = 0; n < rows_b; n++) c[m * c_row + n] +=                       \
                SUM_OF_LANES(sums[m][n]);                                                          \
        }                                                                                          \
    }                                                                                              \
    keyword static void add_byte_dots_##form(const struct run *run, const int8_t *a, size_t a_row, \
                                             const int8_t *b, int32_t *c, size_t c_row,            \
                                             size_t rows_a, size_t rows_b) {                       \
        if (rows_a == 2 && rows_b == 4)                                                            \
            add_byte_dots_of_##form(run, a, a_row, b, c, c_row, 2, 4);                             \
        else if (rows_b == 4)                                                                      \
            add_byte_dots_of_##form(run, a, a_row, b, c, c_row, 1, 4);                             \
        else                                                                                       \
            for (size_t m = 0; m < rows_a; m++)                                                    \
                for (size_t n = 0; n < rows_b; n++)                                                \
                    add_byte_dots_of_##form(run, a + m * a_row, a_row, b + n * run->row,           \
                                            c + m * c_row + n, c_row, 1, 1);                       \
    }

#ifdef X86
ADD_BYTE_DOTS(avx_vnni, WITH_AVX_VNNI, __m256i, DOT_AVX_VNNI)
ADD_BYTE_DOTS(avx512_vnni, WITH_AVX512_VNNI, __m256i, DOT_AVX512_VNNI)
#else
ADD_BYTE_DOTS(dotprod, WITH_DOTPROD, int32x4_t, DOT_DOTPROD)
#endif

static void add_byte_dots(const struct run *run, const int8_t *a, size_t a_row, const int8_t *b,
                          int32_t *c, size_t c_row, size_t rows_a, size_t rows_b) {
#ifdef X86
    if (running_form == AVX512_VNNI)
        add_byte_dots_avx512_vnni(run, a, a_row, b, c, c_row, rows_a, rows_b);
    else
        add_byte_dots_avx_vnni(run, a, a_row, b, c, c_row, rows_a, rows_b);
#else
    add_byte_dots_dotprod(run, a, a_row, b, c, c_row, rows_a, rows_b);
#endif
}

_Static_assert(SIDE == DOT_COLUMNS, "quads lie so for dots.h");

/* Panels of quads: sides of SIDE columns, PANEL_ROWS rows of which have room, as (rows / 4, SIDE, 4). */
#ifdef X86
WITH_AVX2 INLINE void pack_quad(const int8_t *b, size_t b_row, int8_t *quads) {
    __m128i four[4], pairs[4];
    for (size_t r = 0; r < 4; r++)
        four[r] = _mm_loadu_si128((const __m128i *)(b + r * b_row));
    for (size_t r = 0; r < 2; r++) {
        pairs[r] = _mm_unpacklo_epi8(four[2 * r], four[2 * r + 1]);
        pairs[r + 2] = _mm_unpackhi_epi8(four[2 * r], four[2 * r + 1]);
    }
    for (size_t half = 0; half < 2; half++) {
        __m128i *target = (__m128i *)quads + 2 * half;
        _mm_storeu_si128(target, _mm_unpacklo_epi16(pairs[2 * half], pairs[2 * half + 1]));
        _mm_storeu_si128(target + 1, _mm_unpackhi_epi16(pairs[2 * half], pairs[2 * half + 1]));
    }
}

/* Four quads of four columns, `next` bytes apart. */
WITH_AVX2 INLINE void turn_quads(const int8_t *columns, size_t next, int8_t *quads) {
    __m128i four[4], pairs[4];
    for (size_t i = 0; i < 4; i++)
        four[i] = _mm_loadu_si128((const __m128i *)(columns + i * next));
    for (size_t i = 0; i < 2; i++) {
        pairs[i] = _mm_unpacklo_epi32(four[2 * i], four[2 * i + 1]);
        pairs[i + 2] = _mm_unpackhi_epi32(four[2 * i], four[2 * i + 1]);
    }
    for (size_t half = 0; half < 2; half++) {
        int8_t *target = quads + 8 * SIDE * half;
        _mm_storeu_si128((__m128i *)target,
                         _mm_unpacklo_epi64(pairs[2 * half], pairs[2 * half + 1]));
        _mm_storeu_si128((__m128i *)(target + 4 * SIDE),
                         _mm_unpackhi_epi64(pairs[2 * half], pairs[2 * half + 1]));
    }
}
#define WITH_PACKING WITH_AVX2
#else
INLINE void pack_quad(const int8_t *b, size_t b_row, int8_t *quads) {
    for (size_t i = 0; i < SIDE; i++)
        for (size_t r = 0; r < 4; r++)
            quads[4 * i + r] = b[r * b_row + i];
}

INLINE void turn_quads(const int8_t *columns, size_t next, int8_t *quads) {
    for (size_t i = 0; i < 4; i++)
        for (size_t q = 0; q < 4; q++)
            memcpy(quads + 4 * SIDE * q + 4 * i, columns + i * next + 4 * q, 4);
}
#define WITH_PACKING
#endif

/* Of rows of B that lie together. */
WITH_PACKING static void pack_quads(const int8_t *b, size_t b_row, size_t rows, size_t columns,
                                    int8_t *quads) {
    for (size_t row = 0; row < rows; row += 4)
        for (size_t side = 0; side < columns; side += SIDE)
            pack_quad(b + row * b_row + side, b_row, quads + side * PANEL_ROWS + row * SIDE);
}

/* Of columns of B that lie together as far as a block goes: `rows` of them from row `first` of a segment of
 * `length` rows on. */
WITH_PACKING static void pack_blocks(const struct product *p, const int8_t *b, size_t length,
                                     size_t first, size_t rows, size_t column, size_t columns,
                                     int8_t *quads) {
    const size_t block_n = p->block_n, block_k = p->block_k, size = block_n * block_k;
    const size_t next = block_n == 1 ? length : block_k;
    for (size_t j = 0; j < columns; j += 4)
        for (size_t row = 0; row < rows; row += 16) {
            const size_t from = first + row, at = column + j;
            turn_quads(b + at / block_n * block_n * length + from / block_k * size +
                           at % block_n * block_k + from % block_k,
                       next, quads + j / SIDE * SIDE * PANEL_ROWS + row * SIDE + j % SIDE * 4);
        }
}
#else
enum { BYTES_AT_ONCE = 1, BIAS = 0 };
#endif

static void pack_pairs_plain(const int8_t *b, size_t b_row, size_t rows, size_t columns,
                             int16_t *pairs) {
    for (size_t row = 0; row < rows; row += 2, b += 2 * b_row)
        for (size_t side = 0; side < columns; side += SIDE) {
            int16_t *target = pairs + side * rows + row * SIDE;
            for (size_t i = 0; i < SIDE; i++) {
                target[2 * i] = b[side + i];
                target[2 * i + 1] = b[b_row + side + i];
            }
        }
}

static void add_side_plain(const int16_t *a, size_t a_row, const int16_t *pairs, size_t rows,
                           int32_t *c, size_t c_row, size_t rows_a) {
    for (size_t m = 0; m < rows_a; m++)
        for (size_t k = 0; k < rows; k += 2)
            for (size_t n = 0; n < SIDE; n++)
                c[m * c_row + n] += a[m * a_row + k] * pairs[k * SIDE + 2 * n] +
                                    a[m * a_row + k + 1] * pairs[k * SIDE + 2 * n + 1];
}

/* Rows of A, `row` elements apart: widened to int16, or the bytes as they are, which some forms multiply;
 * and what the sums of each begin with, where C doesn't have that yet. */
struct left {
    const int16_t *wide;
    const int8_t *bytes;
    size_t row;
    const int32_t *begins;
};

/* From a row and a place in it on. */
static struct left left_at(struct left left, size_t row, size_t place) {
    const size_t offset = row * left.row + place;
    const struct left found = {left.wide ? left.wide + offset : NULL,
                               left.bytes ? left.bytes + offset : NULL, left.row, left.begins};
    return found;
}

static void add_dots_plain(const struct run *run, const int16_t *a, size_t a_row, const int8_t *b,
                           int32_t *c, size_t c_row, size_t rows_a, size_t rows_b) {
    for (size_t m = 0; m < rows_a; m++)
        for (size_t n = 0; n < rows_b; n++) {
            const int16_t *left = a + m * a_row;
            const int8_t *right = b + n * run->row;
            int32_t sum = 0;
            for (size_t block = 0; block < run->count; block++) {
                for (size_t i = 0; i < run->length; i++)
                    sum += left[i] * right[i];
                left += run->length;
                right += run->step;
            }
            c[m * c_row + n] += sum;
        }
}

static void add_rows_plain(const int16_t *a, const int8_t *b, size_t b_row, int32_t *c,
                           size_t columns) {
    for (size_t k = 0; k < ROWS_AT_ONCE; k++)
        for (size_t n = 0; n < columns; n++)
            c[n] += a[k] * b[k * b_row + n];
}

static void add_dots(const struct run *run, struct left left, const int8_t *b, int32_t *c,
                     size_t c_row, size_t rows_a, size_t rows_b) {
#ifdef DOTS
    if (left.bytes) {
        add_byte_dots(run, left.bytes, left.row, b, c, c_row, rows_a, rows_b);
        return;
    }
#endif
    const int16_t *a = left.wide;
    const size_t a_row = left.row;
#ifdef X86
    if (has_avx2(running_form) && run->length % 16 == 0) {
        add_dots_avx2(run, a, a_row, b, c, c_row, rows_a, rows_b);
        return;
    }
#endif
    add_dots_plain(run, a, a_row, b, c, c_row, rows_a, rows_b);
}

static void add_rows(const int16_t *a, const int8_t *b, size_t b_row, int32_t *c, size_t columns) {
#ifdef X86
    if (has_avx2(running_form) && columns % 16 == 0) {
        add_rows_avx2(a, b, b_row, c, columns);
        return;
    }
#endif
    add_rows_plain(a, b, b_row, c, columns);
}

/* Pairs of rows of B with their columns interleaved: `SIDE` columns of each pair lie together. */
static void pack_pairs(const int8_t *b, size_t b_row, size_t rows, size_t columns, int16_t *pairs) {
#ifdef X86
    if (has_avx2(running_form)) {
        pack_pairs_avx2(b, b_row, rows, columns, pairs);
        return;
    }
#endif
    pack_pairs_plain(b, b_row, rows, columns, pairs);
}

static void add_side(const int16_t *a, size_t a_row, const int16_t *pairs, size_t rows, int32_t *c,
                     size_t c_row, size_t rows_a) {
#ifdef X86
    if (has_avx2(running_form)) {
        add_side_avx2(a, a_row, pairs, rows, c, c_row, rows_a);
        return;
    }
#endif
    add_side_plain(a, a_row, pairs, rows, c, c_row, rows_a);
}

/* From one widened row of A to the next: rows a power of two apart would share a cache's sets. */
static size_t row_of_a(const struct product *p) {
    return (size_t)p->k + 32;
}

/* Let the memory be on its way to the second cache; it needn't be there. The first one is full of what is being
 * multiplied. */
static void fetch(const int8_t *memory, size_t size) {
    for (size_t i = 0; i < size; i += 64)
        __builtin_prefetch(memory + i, 0, 2);
}

/* Some blocks of B that lie together, times all of A: they stay cached while they meet its rows. */
static void multiply_chunk(const struct product *p, const struct run *run, struct left a,
                           const int8_t *b, size_t rows_b, int32_t *c) {
    size_t m = p->m, size = run->count * run->step;
    for (size_t top = 0; top < m; top += ROWS_CACHED) {
        size_t bottom = smaller(top + ROWS_CACHED, m);
        for (size_t j = 0; j < rows_b; j += TILE_B) {
            if (!top)
                fetch(b + size + j * size / rows_b, TILE_B * size / rows_b);
            for (size_t i = top; i < bottom; i += TILE_A)
                add_dots(run, left_at(a, i, 0), b + j * run->row, c + i * p->n + j, p->n,
                         smaller(TILE_A, bottom - i), smaller(TILE_B, rows_b - j));
        }
    }
}

static void multiply_blocks(const struct product *p, struct share share, struct left a,
                            const int8_t *b, int32_t *c) {
    size_t k = p->k, n = p->n, block_n = p->block_n, block_k = p->block_k;
    size_t block = block_n * block_k, most = block < CHUNK ? CHUNK / block : 1;
    for (size_t start = 0; start < k; start += p->segment) {
        size_t rows = smaller(p->segment, k - start), count = rows / block_k;
        for (size_t j = share.begin; j < share.end; j += block_n)
            for (size_t first = 0; first < count; first += most) {
                struct run run = {smaller(most, count - first), block_k, block_k, block};
                multiply_chunk(p, &run, left_at(a, 0, start + first * block_k),
                               b + start * n + j * rows + first * block, block_n, c + j);
            }
    }
}

/* B transposed: a few of its rows stay cached while they meet every row of A. */
static void multiply_columns(const struct product *p, struct share share, struct left a,
                             const int8_t *b, int32_t *c) {
    size_t m = p->m, k = p->k, n = p->n;
    struct run run = {1, k, k, 0};
    for (size_t j = share.begin; j < share.end; j += TILE_B)
        for (size_t i = 0; i < m; i += TILE_A)
            add_dots(&run, left_at(a, i, 0), b + j * k, c + i * n + j, n, smaller(TILE_A, m - i),
                     smaller(TILE_B, share.end - j));
}

/* B row by row: some rows of some columns stay cached while they meet every row of A. */
static void multiply_rows(const struct product *p, struct share share, struct left a,
                          const int8_t *b, int32_t *c) {
    size_t m = p->m, k = p->k, n = p->n;
    for (size_t j = share.begin; j < share.end; j += COLUMNS_AT_ONCE) {
        size_t columns = smaller(COLUMNS_AT_ONCE, share.end - j);
        for (size_t row = 0; row < k; row += ROWS_AT_ONCE)
            for (size_t i = 0; i < m; i++)
                add_rows(left_at(a, i, row).wide, b + row * n + j, n, c + i * n + j, columns);
    }
}

static size_t segment_of(const struct product *p) {
    return p->block_k ? p->segment : p->k;
}

/* Whether columns that lie in blocks can be widened to pairs. */
static int has_pairs_of_blocks(const struct product *p) {
    return has_avx2(running_form) && p->n % SIDE == 0 && p->block_k % 16 == 0 &&
           (p->block_n == 1 || p->block_n % 8 == 0);
}

#ifdef X86
/* The same of columns in blocks: `rows` of them from row `first` of a segment of `length` rows on. */
WITH_AVX2 static void pack_pairs_of_blocks(const struct product *p, const int8_t *segment,
                                           size_t length, size_t first, size_t rows, size_t column,
                                           size_t columns, int16_t *pairs) {
    const size_t block_n = p->block_n, block_k = p->block_k;
    const size_t next = block_n == 1 ? length : block_k;
    for (size_t j = 0; j < columns; j += 8) {
        const size_t at = column + j;
        const int8_t *block = segment + at / block_n * block_n * length +
                              first / block_k * block_n * block_k + at % block_n * block_k;
        int16_t *side = pairs + j / SIDE * SIDE * rows + j % SIDE * 2;
        for (size_t row = 0, within = first % block_k; row < rows; row += 16) {
            turn_pairs(block + within, next, side + row * SIDE);
            within += 16;
            if (within == block_k)
                within = 0, block += block_n * block_k;
        }
    }
}
#endif

/* A panel of B is widened once, however it lies, and stays cached while it meets every row of A. */
static void multiply_panels(const struct product *p, struct share share, struct left a,
                            const int8_t *b, int32_t *c, int16_t *pairs) {
    size_t m = p->m, k = p->k, n = p->n, segment = segment_of(p);
    for (size_t start = 0, rows; start < k; start += rows) {
        const size_t first = start % segment;
        rows = smaller(PANEL_ROWS, smaller(segment - first, k - start));
        for (size_t j = share.begin; j < share.end; j += PANEL_COLUMNS) {
            size_t columns = smaller(PANEL_COLUMNS, share.end - j);
#ifdef X86
            if (p->block_k)
                pack_pairs_of_blocks(p, b + (start - first) * n,
                                     smaller(segment, k - start + first), first, rows, j, columns,
                                     pairs);
            else
#endif
                pack_pairs(b + start * n + j, n, rows, columns, pairs);
            for (size_t side = 0; side < columns; side += SIDE)
                for (size_t i = 0; i < m; i += TILE_SIDE)
                    add_side(left_at(a, i, start).wide, a.row, pairs + side * rows, rows,
                             c + i * n + j + side, n, smaller(TILE_SIDE, m - i));
        }
    }
}

#ifdef DOTS
/* Quads of some columns of B, however it lies, which stay cached while they meet all of A's rows; so do
 * the sums: C's rows may share few places of the cache. */
static void multiply_byte_panels(const struct product *p, struct share share, struct left a,
                                 const int8_t *b, int32_t *c, int8_t *quads) {
    const size_t k = p->k, n = p->n, m = p->m, segment = segment_of(p);
    int32_t *sums = (int32_t *)(quads + PANEL_ROWS * PANEL_COLUMNS);
    for (size_t top = 0; top < m; top += SUMS_ROWS) {
        const size_t height = smaller(SUMS_ROWS, m - top);
        for (size_t j = share.begin; j < share.end; j += PANEL_COLUMNS) {
            const size_t columns = smaller(PANEL_COLUMNS, share.end - j);
            for (size_t side = 0; side < columns; side += SIDE)
                for (size_t i = 0; i < height; i++)
                    for (size_t l = 0; l < SIDE; l++)
                        sums[side * height + i * SIDE + l] = a.begins[top + i];
            for (size_t start = 0, rows; start < k; start += rows) {
                const size_t first = start % segment;
                rows = smaller(PANEL_ROWS, smaller(segment - first, k - start));
                const struct byte_rows left = {
                    left_at(a, top, start).bytes, a.row, k, 0, rows / 4, 0};
                if (p->block_k)
                    pack_blocks(p, b + (start - first) * n, smaller(segment, k - start + first),
                                first, rows, j, columns, quads);
                else
                    pack_quads(b + start * n + j, n, rows, columns, quads);
                for (size_t side = 0; side < columns; side += SIDE) {
                    const struct target target = {sums + side * height, SIDE, SIDE / 2};
                    multiply_bytes(left, quads + side * PANEL_ROWS, NULL, target, height);
                }
            }
            for (size_t i = 0; i < height; i++)
                for (size_t side = 0; side < columns; side += SIDE)
                    memcpy(c + (top + i) * n + j + side, sums + (side * height + i * SIDE),
                           SIDE * sizeof *c);
        }
    }
}

static size_t size_of_byte_panels(const struct product *p) {
    return PANEL_ROWS * PANEL_COLUMNS + smaller(p->m, SUMS_ROWS) * PANEL_COLUMNS * sizeof(int32_t);
}

/* Whether panels of bytes are worth packing, and can be: whole quads of whole sides. */
static int has_byte_panels(const struct product *p) {
    const int64_t few = p->block_n == 1 ? FEW_COLUMNS : FEW_ROWS;
    return has_dots(running_form) && p->m > few && p->k % 8 == 0 && p->n % SIDE == 0 &&
           p->block_k % 16 == 0 && (p->block_n == 1 || p->block_n % 4 == 0);
}
#else
static int has_byte_panels(const struct product *p) {
    (void)p;
    return 0;
}
#endif

static int is_valid(const struct product *p) {
    if (p->m < 1 || p->k < 1 || p->n < 1)
        return 0;
    /* A's and C's blocks are whole ones, and C's made of what a register's lane holds. */
    if (p->a_block < 0 || p->a_block % 4 || (p->a_block && p->k % p->a_block))
        return 0;
    if (p->c_block && (p->c_block != C_BLOCK || p->n % C_BLOCK))
        return 0;
    if (!p->block_k)
        return p->k % ROWS_AT_ONCE == 0 && p->n % SIDE == 0;
    /* Rows of a tile lie in one block, or B is transposed. */
    int is_tiled = p->block_n % TILE_B == 0 || (p->block_n == 1 && p->block_k == p->k);
    return p->block_k > 0 && p->block_n > 0 && p->segment > 0 && is_tiled &&
           p->k % p->block_k == 0 && p->segment % p->block_k == 0 && p->n % p->block_n == 0;
}

/* Whether A's bytes are multiplied as they are. */
static int multiplies_bytes(const struct product *p) {
    return has_dots(running_form) && p->block_k && p->block_k % BYTES_AT_ONCE == 0;
}

/* What sums of a row of A begin with: as much as a form without a sign for B adds too much. */
static int32_t begin_of(const struct product *p, const int8_t *a, size_t row) {
    const size_t k = p->k, block = p->a_block ? (size_t)p->a_block : k;
    int32_t sum = 0;
    for (size_t start = 0; start < k; start += block)
        for (size_t j = 0; j < block; j++)
            sum += a[start * p->m + row * block + j];
    return (int32_t)(0u - BIAS * (uint32_t)sum);
}

#include "matmul_few.h"
#include "matmul_wide.h"

/* A product of bytes under way. */
struct work {
    const struct product *product;
    struct left a;
    const int8_t *b;
    int32_t *c;
};

/* A way to multiply: some columns of C, with a space of so many bytes for each thread; columns in a unit
 * of work, and in one of those at the end, which are less, so that all threads end together. */
struct way {
    void (*multiply)(const void *work, struct share share, void *space);
    size_t space, wide, narrow;
};

static void by_rows(const void *work, struct share share, void *space) {
    const struct work *w = work;
    (void)space;
    multiply_rows(w->product, share, w->a, w->b, w->c);
}

static void by_columns(const void *work, struct share share, void *space) {
    const struct work *w = work;
    (void)space;
    multiply_columns(w->product, share, w->a, w->b, w->c);
}

static void by_blocks(const void *work, struct share share, void *space) {
    const struct work *w = work;
    (void)space;
    multiply_blocks(w->product, share, w->a, w->b, w->c);
}

static void by_panels(const void *work, struct share share, void *space) {
    const struct work *w = work;
    multiply_panels(w->product, share, w->a, w->b, w->c, space);
}

static struct way way_of(const struct product *p, int is_widened) {
    /* A block's columns go together, in units of whole ones. */
    const size_t narrow = p->block_n > PANEL_COLUMNS ? (size_t)p->block_n : PANEL_COLUMNS;
    const size_t pairs = PANEL_ROWS * PANEL_COLUMNS * sizeof(int16_t);
    if (is_widened && p->block_k && p->m > FEW_PAIRS && has_pairs_of_blocks(p))
        return (struct way){by_panels, pairs, 4 * PANEL_COLUMNS, PANEL_COLUMNS};
    if (p->block_n > 1 && narrow % p->block_n)
        return (struct way){by_blocks, 0, p->n, p->n};
    if (p->block_k)
        return (struct way){p->block_n == 1 ? by_columns : by_blocks, 0, 4 * narrow, narrow};
    if (p->m > FEW_ROWS)
        return (struct way){by_panels, pairs, 4 * PANEL_COLUMNS, PANEL_COLUMNS};
    return (struct way){by_rows, 0, COLUMNS_AT_ONCE / 2, COLUMNS_AT_ONCE / 4};
}

/* A product's columns in units. */
struct units {
    const struct way *way;
    const void *work;
    size_t columns;
    int64_t wide; /* how many of them are */
};

static size_t column_of(const struct units *units, int64_t unit) {
    const int64_t wide = unit < units->wide ? unit : units->wide;
    return smaller(wide * units->way->wide + (unit - wide) * units->way->narrow, units->columns);
}

static void multiply_units(const void *arguments, int64_t first, int64_t end, void *space) {
    const struct units *units = arguments;
    for (; first < end; first++) {
        const struct share share = {column_of(units, first), column_of(units, first + 1)};
        units->way->multiply(units->work, share, space);
    }
}

static size_t threads_of(const struct product *p) {
    return p->threads < 1 ? 1 : smaller(p->threads, MOST_THREADS);
}

/* Each thread's own space. */
struct spaces {
    void *each[MOST_THREADS];
    int8_t *memory;
};

/* 0 where memory is lacking. */
static int make_spaces(size_t threads, size_t size, struct spaces *spaces) {
    *spaces = (struct spaces){0};
    size = (size + 63) / 64 * 64;
    if (size && !(spaces->memory = aligned_alloc(64, threads * size)))
        return 0;
    for (size_t i = 0; size && i < threads; i++)
        spaces->each[i] = spaces->memory + i * size;
    return 1;
}

static void run_steps(const struct step *steps, size_t count, size_t threads,
                      const struct spaces *spaces) {
    static const int32_t never;
    run_chain(&(struct chain){steps, count, threads, spaces->each, &never});
}

/* Shares C's columns out to threads, after a step that packs A, if there is one. -2 where memory is
 * lacking. */
static int multiply_together(const struct product *p, const struct way *way, const void *work,
                             struct step packing) {
    const size_t threads = threads_of(p);
    const size_t n = p->n, last = threads > 1 ? smaller(threads * way->wide, n) : 0;
    const size_t wide = threads > 1 ? (n - last) / way->wide : (n + way->wide - 1) / way->wide;
    const size_t left = n - smaller(wide * way->wide, n);
    const struct units units = {way, work, n, wide};
    const struct step steps[] = {
        packing,
        {multiply_units, &units, wide + (left + way->narrow - 1) / way->narrow, 1},
    };
    const int has_packing = packing.units > 0;
    struct spaces spaces;
    if (!make_spaces(threads, way->space, &spaces))
        return -2;
    run_steps(has_packing ? steps : steps + 1, 1 + has_packing, threads, &spaces);
    free(spaces.memory);
    return 0;
}

#ifdef DOTS
static void by_byte_panels(const void *work, struct share share, void *space) {
    const struct work *w = work;
    multiply_byte_panels(w->product, share, w->a, w->b, w->c, space);
}

/* A's rows once more, apart in the cache, and what sums begin with. */
static int multiply_by_panels(const struct product *p, const int8_t *a, const int8_t *b,
                              int32_t *c) {
    const size_t m = p->m, k = p->k, row = k + APART;
    const struct way way = {by_byte_panels, size_of_byte_panels(p), 4 * PANEL_COLUMNS,
                            PANEL_COLUMNS};
    int8_t *copy = malloc(m * row);
    int32_t *begins = malloc(m * sizeof *begins);
    int code = -2;
    if (copy && begins) {
        for (size_t i = 0; i < m; i++) {
            begins[i] = begin_of(p, a, i);
            memcpy(copy + i * row, a + i * k, k);
        }
        struct work work = {p, {NULL, copy, row, begins}, b, c};
        code = multiply_together(p, &way, &work, (struct step){0});
    }
    free(copy);
    free(begins);
    return code;
}
#endif

#if defined(DOTS) && defined(X86)
static void by_tiles(const void *work, struct share share, void *space) {
    const struct work *w = work;
    const struct tiles tiles = {w->a.bytes, w->a.begins, tiles_of(w->product)};
    multiply_tiles(w->product, share, tiles, w->b, w->c, space);
}

static void by_few(const void *work, struct share share, void *space) {
    const struct work *w = work;
    const struct few few = {w->product, w->a.bytes, w->a.row, w->a.begins, w->c};
    multiply_few_columns(&few, share, w->b);
    (void)space;
}

/* Shares B's rows out to threads, whose sums are then added up: so each reads memory in its order. */
static int multiply_rows_together(struct few few, const int8_t *b) {
    const struct product *p = few.product;
    const size_t threads = threads_of(p);
    struct spaces spaces;
    if (!make_spaces(threads, space_for_turned(p), &spaces))
        return -2;
    for (size_t i = 0; i < threads; i++)
        ((struct turned_sums *)spaces.each[i])->is_begun = 0;
    const struct turned turned = {few, b, spaces.each, threads};
    const struct step steps[] = {
        {multiply_turned, &turned, units_of_turned(p), 1},
        {add_up_turned, &turned, (p->n + VECTOR - 1) / VECTOR, 8},
    };
    run_steps(steps, 2, threads, &spaces);
    free(spaces.memory);
    return 0;
}

/* A packed for sums that stay in registers. */
static int multiply_packed(const struct product *p, const int8_t *a, const int8_t *b, int32_t *c) {
    const int is_few = has_few(p);
    const struct way way =
        is_few ? (struct way){by_few, 0, 4 * VECTOR, VECTOR}
               : (struct way){by_tiles, space_for_tiles(p), WIDE_COLUMNS, PANEL_COLUMNS};
    const size_t m = p->m, row = row_of_few(p);
    int8_t *packed = aligned_alloc(64, (m * row + 63) / 64 * 64);
    int32_t *begins = malloc(m * sizeof *begins);
    int code = -2;
    if (packed && begins) {
        const struct packing packing = {p, a, packed, begins};
        struct work work = {p, {NULL, packed, row, begins}, b, c};
        struct step step = {0};
        if (is_few)
            pack_few(&packing);
        else
            step = (struct step){pack_tiles, &packing, tiles_of(p), 1};
        if (is_few && !p->block_k)
            code = multiply_rows_together((struct few){p, packed, row, begins, c}, b);
        else
            code = multiply_together(p, &way, &work, step);
    }
    free(packed);
    free(begins);
    return code;
}
#endif

static int multiply_rows_of_a(const struct product *p, const int8_t *a, const int8_t *b,
                              int32_t *c) {
    size_t m = p->m, k = p->k, row = row_of_a(p);
#ifdef DOTS
    if (has_byte_panels(p))
        return multiply_by_panels(p, a, b, c);
#endif
    if (multiplies_bytes(p)) {
        struct work work = {p, {NULL, a, k, NULL}, b, c};
        const struct way way = way_of(p, 0);
        for (size_t i = 0; i < m; i++) {
            const int32_t begin = begin_of(p, a, i);
            for (size_t j = 0; j < (size_t)p->n; j++)
                c[i * p->n + j] = begin;
        }
        return multiply_together(p, &way, &work, (struct step){0});
    }
    int16_t *wide = malloc(m * row * sizeof *wide);
    if (!wide)
        return -2;
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < k; j++)
            wide[i * row + j] = a[i * k + j];
    memset(c, 0, (size_t)p->m * p->n * sizeof *c);
    struct work work = {p, {wide, NULL, row, NULL}, b, c};
    const struct way way = way_of(p, 1);
    int code = multiply_together(p, &way, &work, (struct step){0});
    free(wide);
    return code;
}

/* A's blocks as rows, and rows as C's blocks, for what takes only rows. */
static int multiply_rearranged(const struct product *p, const int8_t *a, const int8_t *b,
                               int32_t *c) {
    const size_t m = p->m, k = p->k, n = p->n;
    const size_t a_block = p->a_block ? (size_t)p->a_block : k;
    int8_t *rows = malloc(m * k);
    int32_t *sums = p->c_block ? malloc(m * n * sizeof *sums) : c;
    int code = -2;
    if (rows && sums) {
        for (size_t start = 0; start < k; start += a_block)
            for (size_t i = 0; i < m; i++)
                memcpy(rows + i * k + start, a + start * m + i * a_block, a_block);
        struct product plain = *p;
        plain.a_block = plain.c_block = 0;
        code = multiply_rows_of_a(&plain, rows, b, sums);
        for (size_t column = 0; p->c_block && column < n; column += C_BLOCK)
            for (size_t i = 0; i < m; i++)
                memcpy(c + column * m + i * C_BLOCK, sums + i * n + column, C_BLOCK * sizeof *c);
    }
    free(rows);
    if (sums != c)
        free(sums);
    return code;
}

/* Writes C; -1 for a shape that isn't made of whole blocks, -2 where memory is lacking. */
EXPORT int32_t anynpu_multiply_int8(const struct product *p, const int8_t *a, const int8_t *b,
                                    int32_t *c) {
    if (!is_valid(p))
        return -1;
#if defined(DOTS) && defined(X86)
    if (has_few(p) || has_tiles(p))
        return multiply_packed(p, a, b, c);
#endif
    /* One row lies in blocks as it does without. */
    if (p->m > 1 && (p->a_block || p->c_block))
        return multiply_rearranged(p, a, b, c);
    return multiply_rows_of_a(p, a, b, c);
}

/* ------------------------------------------------------------------------------------- float16 */

#ifdef X86
WITH_AVX2 INLINE float sum_of_floats(__m256 lanes) {
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps(lanes, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    half = _mm_add_ss(half, _mm_movehdup_ps(half));
    return _mm_cvtss_f32(half);
}

/* Adds the products of `rows_a` rows of A and `rows_b` of B; `length` is a multiple of 8. */
WITH_AVX2 INLINE void add_half_dots_of(const struct run *run, const float *a, size_t a_row,
                                       const uint16_t *b, float *c, size_t c_row, size_t rows_a,
                                       size_t rows_b) {
    __m256 sums[TILE_A][TILE_B];
    UNROLLED for (size_t m = 0; m < rows_a; m++) {
        UNROLLED for (size_t n = 0; n < rows_b; n++) sums[m][n] = _mm256_setzero_ps();
    }
    for (size_t block = 0; block < run->count; block++, b += run->step)
        for (size_t i = 0; i < run->length; i += 8, a += 8) {
            __m256 left[TILE_A];
            UNROLLED for (size_t m = 0; m < rows_a; m++) left[m] = _mm256_loadu_ps(a + m * a_row);
            UNROLLED for (size_t n = 0; n < rows_b; n++) {
                const __m256 right = eight_floats(b + n * run->row + i);
                UNROLLED for (size_t m = 0; m < rows_a; m++) sums[m][n] =
                    _mm256_fmadd_ps(left[m], right, sums[m][n]);
            }
        }
    UNROLLED for (size_t m = 0; m < rows_a; m++) {
        UNROLLED for (size_t n = 0; n < rows_b; n++) c[m * c_row + n] += sum_of_floats(sums[m][n]);
    }
}

/* All rows of A; those of B are at most TILE_B. */
WITH_AVX2 static void add_half_dots(const struct product *p, const struct run *run, const float *a,
                                    const uint16_t *b, float *c, size_t rows_b) {
    const size_t m = p->m, k = p->k, n = p->n;
    size_t i = 0;
    for (; i + TILE_A <= m && rows_b == TILE_B; i += TILE_A)
        add_half_dots_of(run, a + i * k, k, b, c + i * n, n, TILE_A, TILE_B);
    for (; i < m; i++)
        if (rows_b == TILE_B)
            add_half_dots_of(run, a + i * k, k, b, c + i * n, n, 1, TILE_B);
        else
            for (size_t j = 0; j < rows_b; j++)
                add_half_dots_of(run, a + i * k, k, b + j * run->row, c + i * n + j, n, 1, 1);
}

WITH_AVX2 static void multiply_half_blocks(const struct product *p, struct share share,
                                           const float *a, const uint16_t *b, float *c) {
    size_t k = p->k, n = p->n, block = p->block_n * p->block_k;
    size_t most = block * sizeof *b < CHUNK ? CHUNK / (block * sizeof *b) : 1;
    for (size_t start = 0; start < k; start += p->segment) {
        size_t rows = smaller(p->segment, k - start), count = rows / p->block_k;
        for (size_t j = share.begin; j < share.end; j += p->block_n)
            for (size_t first = 0; first < count; first += most) {
                struct run run = {smaller(most, count - first), p->block_k, p->block_k, block};
                const size_t size = run.count * block;
                const uint16_t *blocks = b + start * n + j * rows + first * block;
                for (size_t side = 0; side < (size_t)p->block_n; side += TILE_B) {
                    size_t part = TILE_B * size / p->block_n;
                    fetch((const int8_t *)(blocks + size + side / TILE_B * part), part * sizeof *b);
                    add_half_dots(p, &run, a + start + first * p->block_k, blocks + side * run.row,
                                  c + j + side, TILE_B);
                }
            }
    }
}

WITH_AVX2 static void multiply_half_columns(const struct product *p, struct share share,
                                            const float *a, const uint16_t *b, float *c) {
    const size_t k = p->k;
    const struct run run = {1, k, k, 0};
    for (size_t j = share.begin; j < share.end; j += TILE_B)
        add_half_dots(p, &run, a, b + j * k, c + j, smaller(TILE_B, share.end - j));
}

WITH_AVX2 static void multiply_half_rows(const struct product *p, struct share share,
                                         const float *a, const uint16_t *b, float *c) {
    size_t m = p->m, k = p->k, n = p->n;
    for (size_t start = share.begin; start < share.end; start += COLUMNS_AT_ONCE) {
        size_t end = smaller(start + COLUMNS_AT_ONCE, share.end);
        for (size_t row = 0; row < k; row += ROWS_AT_ONCE)
            for (size_t i = 0; i < m; i++)
                for (size_t j = start; j < end; j += 8) {
                    __m256 sum = _mm256_loadu_ps(c + i * n + j);
                    UNROLLED for (size_t r = 0; r < ROWS_AT_ONCE; r++) sum =
                        _mm256_fmadd_ps(_mm256_set1_ps(a[i * k + row + r]),
                                        eight_floats(b + (row + r) * n + j), sum);
                    _mm256_storeu_ps(c + i * n + j, sum);
                }
    }
}

/* A product of halves under way. */
struct half_work {
    const struct product *product;
    const float *a;
    const uint16_t *b;
    float *c;
};

static void by_halves(const void *work, struct share share, void *space) {
    (void)space;
    const struct half_work *w = work;
    if (w->product->block_n == 1)
        multiply_half_columns(w->product, share, w->a, w->b, w->c);
    else if (w->product->block_k)
        multiply_half_blocks(w->product, share, w->a, w->b, w->c);
    else
        multiply_half_rows(w->product, share, w->a, w->b, w->c);
}

/* Writes C in float32; -1 for a shape that isn't made of whole blocks, or on another processor. */
EXPORT int32_t anynpu_multiply_half(const struct product *p, const float *a, const uint16_t *b,
                                    float *c) {
    size_t unit = p->block_k ? p->block_k : p->n;
    if (!has_avx2(running_form) || !is_valid(p) || unit % 8 || p->a_block || p->c_block)
        return -1;
    memset(c, 0, (size_t)p->m * p->n * sizeof *c);
    struct way way = {by_halves, 0, COLUMNS_AT_ONCE, COLUMNS_AT_ONCE};
    if (p->block_k) {
        way = way_of(p, 0);
        way.multiply = by_halves;
    }
    const struct half_work work = {p, a, b, c};
    return multiply_together(p, &way, &work, (struct step){0});
}
#else
EXPORT int32_t anynpu_multiply_half(const struct product *p, const float *a, const uint16_t *b,
                                    float *c) {
    (void)p, (void)a, (void)b, (void)c;
    return -1;
}
#endif
