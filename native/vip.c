/* What VeriSilicon's NN core and tensor processor do, on bytes in planes.
 *
 * Plain C11, with other forms of the hottest loops for AVX2 and, in vip_dots.h, for products of bytes.
 * Sums are int32 and scaled in double: the caller has proved that no sum leaves int32, so that products
 * with the 24 bits of a scale are exact and results are those of the reference, bit for bit. Vectors scale
 * in float where that gives the same (`fits_float`). Halves go to even numbers.
 *
 * Every kernel has the form that steps.c calls: arguments, a part of the units of work, and a space of
 * the thread's own. Memory is only touched where a row of pixels is, which the caller has found to lie
 * inside, and to be no longer than its circular buffer.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "cpu.h"
#include "vip.h"
#include "vip_dots.h"
#include "vip_planes.h"
#include "vip_stream.h"

#include "vip_half.h"

#include "vip_rows.h"

enum {
    VECTORS = 2, /* of pixels that are computed together: more would need more than 16 registers */
    BIAS = 128,
    LINE_END = 64, /* bytes behind a row that vectors may read or write */
};

/* ------------------------------------------------------------------ the image as 16-bit numbers */

/* Whether rows of a channel lie side by side, so that they are one. */
INLINE int is_one_row(const struct planes *p, int64_t rows, int64_t width) {
    return p->group == 1 && p->row == width && (!p->size || rows * width <= p->size);
}

INLINE void copy_part(const uint8_t *from, int64_t step, uint8_t *to, int64_t count) {
    if (step == 1)
        copy_bytes(to, from, count);
    else
        for (int64_t x = 0; x < count; x++)
            to[x] = from[x * step];
}

#ifdef X86
/* `count` quads of four rows; up to 15 bytes more of each are read, and 15 quads more written. */
WITH_AVX2 static void interleave(const uint8_t *const rows[QUAD], uint8_t flip, int64_t count,
                                 int32_t *to) {
    const __m128i f = _mm_set1_epi8((char)flip);
    for (int64_t x = 0; x < count; x += 16) {
        __m128i row[QUAD];
        for (int i = 0; i < QUAD; i++)
            row[i] = _mm_xor_si128(_mm_loadu_si128((const __m128i *)(rows[i] + x)), f);
        const __m128i low = _mm_unpacklo_epi8(row[0], row[1]),
                      high = _mm_unpackhi_epi8(row[0], row[1]),
                      next_low = _mm_unpacklo_epi8(row[2], row[3]),
                      next_high = _mm_unpackhi_epi8(row[2], row[3]);
        __m128i *const at = (__m128i *)(to + x);
        _mm_storeu_si128(at, _mm_unpacklo_epi16(low, next_low));
        _mm_storeu_si128(at + 1, _mm_unpackhi_epi16(low, next_low));
        _mm_storeu_si128(at + 2, _mm_unpacklo_epi16(high, next_high));
        _mm_storeu_si128(at + 3, _mm_unpackhi_epi16(high, next_high));
    }
}
#endif

INLINE uint8_t border_of(const struct convolution *c) {
    return (uint8_t)((c->border + BIAS) ^ c->flip);
}

/* Pixels of a line that are the image's. */
INLINE int64_t inside(const struct convolution *c, int64_t count) {
    return least(c->width, count - c->left);
}

/* What lies beside the image in lines of bytes. */
INLINE void take_borders(const struct convolution *c, uint8_t *to, int64_t count) {
    const int64_t right = c->left + inside(c, count);
    memset(to, border_of(c), (size_t)c->left);
    memset(to + right, border_of(c), (size_t)(count - right));
}

/* The image's bytes of a row, which is there, of the channel that begins at an address. */
INLINE void take_pixels(const struct convolution *c, int64_t address, int64_t y, uint8_t *to,
                        int64_t count) {
    const int64_t there = inside(c, count);
    const struct row from = row_at(&c->source, address, y, there);
    copy_part(from.first, c->source.group, to + c->left, from.count);
    if (from.count < there)
        copy_part(from.rest, c->source.group, to + c->left + from.count, there - from.count);
}

/* Bytes of a row of the image as they lie, in `to`, with `left` and what is missing in the border. */
INLINE void take_row(const struct convolution *c, int64_t channel, int64_t y, uint8_t *to,
                     int64_t count) {
    if (channel >= c->channels || y < 0 || y >= c->height) {
        memset(to, border_of(c), (size_t)count);
        return;
    }
    take_borders(c, to, count);
    take_pixels(c, channel_of(&c->source, channel), y, to, count);
}

/* Whether each pixel is for itself. */
INLINE int is_pointwise(const struct convolution *c) {
    return c->kernel_height * c->kernel_width == 1 && c->stride == 1;
}

/* Whether rows from `y` on are one row of the image without borders, in which each pixel is for itself. */
INLINE int is_flat(const struct convolution *c, int64_t y, int64_t rows) {
    return is_pointwise(c) && c->packed_width == c->width && y >= 0 && y + rows <= c->height &&
           is_one_row(&c->source, rows, c->width);
}

/* A row as it is packed: of `count` pixels, as many as those of all rows where they are flat. Channels that
 * fill up a pair or a quad meet weights of zero. */
INLINE void take_line(const struct convolution *c, int64_t channel, int64_t y, uint8_t *to,
                      int64_t count, int flat) {
    if (!flat) {
        take_row(c, channel, y, to, count);
    } else if (channel < c->channels) {
        const struct row from = row_at(&c->source, channel_of(&c->source, channel), y, count);
        copy_bytes(to, from.first, from.count);
        copy_bytes(to + from.count, from.rest, count - from.count);
    }
}

/* The image under a block of rows, in pairs or quads of channels: [part][row][phase of the stride][pixel], or
 * where each pixel is for itself [tile][part][pixel of the tile], so that what is summed lies together. */
struct packing {
    int32_t *packed;
    int64_t parts;
    int64_t line; /* of pixels of all phases */
    int64_t plane;
    int64_t vectors; /* of a row, in tiles */
    int is_tiled;
};

/* Where a vector of pixels begins, before its part. */
INLINE int64_t tile_of(const struct packing *p, int64_t vector) {
    return vector / 2 * p->parts * TILE + vector % 2 * PIXELS;
}

/* Where pixel `x` of a row and phase is, which a vector begins with. */
INLINE int32_t *place_in(const struct packing *p, int64_t part, int64_t row, int64_t phase,
                         int64_t width, int64_t x) {
    if (p->is_tiled)
        return p->packed + tile_of(p, row * p->vectors + x / PIXELS) + part * TILE;
    return p->packed + part * p->plane + row * p->line + phase * width + x;
}

INLINE int32_t pair(uint8_t a, uint8_t b, uint8_t flip) {
    const uint16_t low = (uint16_t)(int8_t)(a ^ flip), high = (uint16_t)(int8_t)(b ^ flip);
    return (int32_t)((uint32_t)low | (uint32_t)high << 16);
}

/* Rows from `y` on as pairs of channels. */
INLINE void pack_pairs(const struct convolution *c, const struct packing *p, int64_t y,
                       int64_t rows, uint8_t *const lines[QUAD]) {
    const int64_t s = c->stride;
    const int flat = is_flat(c, y, rows);
    const int64_t width = flat ? rows * c->width : c->packed_width, count = width * s;
    const uint8_t flip = (uint8_t)c->flip ^ BIAS, *const first = lines[0], *const second = lines[1];
    for (int64_t channel = 0; channel < c->channels; channel += 2)
        for (int64_t r = 0; r < (flat ? 1 : rows); r++) {
            take_line(c, channel, y + r, lines[0], count, flat);
            take_line(c, channel + 1, y + r, lines[1], count, flat);
            for (int64_t phase = 0; phase < s; phase++)
                for (int64_t x = 0; x < width; x += PIXELS) {
                    int32_t *const to = place_in(p, channel / 2, r, phase, width, x);
                    for (int64_t i = 0; i < least(PIXELS, width - x); i++) {
                        const int64_t at = s * (x + i) + phase;
                        to[i] = pair(first[at], second[at], flip);
                    }
                }
        }
}

/* ----------------------------------------------------------------------------------- weights */

/* Quads of weights as pairs of 16-bit numbers, less the zero points of KERNELS kernels: of each quad those of
 * its first two channels, window by window, and then of the others. */
INLINE void spread_narrow(const struct convolution *c, int64_t group, int32_t *pairs) {
    const int64_t window = c->kernel_height * c->kernel_width,
                  quads = (c->channels + QUAD - 1) / QUAD, half = window * 2 * KERNELS;
    const int8_t *bytes = (const int8_t *)c->weights + group * quads * window * QUAD * KERNELS;
    const int16_t *zero = c->weight_zero_points + group * KERNELS;
    int16_t *to = (int16_t *)pairs;
    for (int64_t quad = 0; quad < quads; quad++, to += half)
        for (int64_t t = 0; t < window; t++, to += 2 * KERNELS, bytes += QUAD * KERNELS)
            for (int k = 0; k < KERNELS; k++)
                for (int e = 0; e < 2; e++) {
                    const int less = zero[k] - BIAS;
                    to[2 * k + e] = (int16_t)(bytes[QUAD * k + e] - less);
                    to[2 * k + e + half] = (int16_t)(bytes[QUAD * k + e + 2] - less);
                }
}

#ifdef X86
WITH_AVX2 static void spread_wide(const struct convolution *c, int64_t group, int32_t *pairs) {
    const int64_t window = c->kernel_height * c->kernel_width,
                  quads = (c->channels + QUAD - 1) / QUAD;
    const uint8_t *bytes = c->weights + group * quads * window * QUAD * KERNELS;
    const int16_t *zero = c->weight_zero_points + group * KERNELS;
    int16_t less[QUAD * KERNELS];
    for (int i = 0; i < QUAD * KERNELS; i++)
        less[i] = (int16_t)(zero[i / QUAD] - BIAS);
    const __m256i zeros = _mm256_loadu_si256((const __m256i *)less),
                  order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
    for (int64_t quad = 0; quad < quads; quad++, pairs += window * KERNELS)
        for (int64_t t = 0; t < window; t++, pairs += KERNELS, bytes += QUAD * KERNELS) {
            const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)bytes));
            const __m256i both = _mm256_permutevar8x32_epi32(_mm256_sub_epi16(wide, zeros), order);
            _mm_storeu_si128((__m128i *)pairs, _mm256_castsi256_si128(both));
            _mm_storeu_si128((__m128i *)(pairs + window * KERNELS),
                             _mm256_extracti128_si256(both, 1));
        }
}
#endif

/* -------------------------------------------------------------------------------------- sums */

/* Sums of KERNELS kernels for `count` vectors of pixels, each at its place of the packed image. */
INLINE void sum_narrow(const struct convolution *c, const int32_t *packed, const int32_t *weights,
                       const int32_t *bias, const int64_t *places, int64_t count, int32_t *sums,
                       int64_t stride) {
    for (int64_t v = 0; v < count; v++) {
        int32_t total[KERNELS][PIXELS];
        for (int k = 0; k < KERNELS; k++)
            for (int i = 0; i < PIXELS; i++)
                total[k][i] = bias[k];
        for (int64_t t = 0; t < c->tap_count; t++) {
            const int32_t *from = packed + c->taps[t] + places[v];
            for (int k = 0; k < KERNELS; k++) {
                const uint32_t w = (uint32_t)weights[t * KERNELS + k];
                const int32_t low = (int16_t)w, high = (int16_t)(w >> 16);
                for (int i = 0; i < PIXELS; i++)
                    total[k][i] += (int16_t)from[i] * low + (from[i] >> 16) * high;
            }
        }
        for (int k = 0; k < KERNELS; k++)
            memcpy(sums + k * stride + v * PIXELS, total[k], sizeof total[k]);
    }
}

#ifdef X86
#define COUNTS(F) F(1) F(2)
#define WIDE_SUM(N)                                                                                \
    WITH_AVX2 static void sum_wide_##N(                                                            \
        const int32_t *packed, const int32_t *taps, int64_t tap_count, const int32_t *weights,     \
        const int32_t *bias, const int64_t *places, int32_t *sums, int64_t stride) {               \
        __m256i total[KERNELS][N];                                                                 \
        const int32_t *from[N];                                                                    \
        UNROLLED for (int v = 0; v < N; v++) from[v] = packed + places[v];                         \
        UNROLLED for (int k = 0; k < KERNELS; k++) UNROLLED for (int v = 0; v < N; v++)            \
            total[k][v] = _mm256_set1_epi32(bias[k]);                                              \
        _Pragma("GCC unroll 2") for (int64_t t = 0; t < tap_count; t++, weights += KERNELS) {      \
            __m256i x[N];                                                                          \
            UNROLLED for (int v = 0; v < N; v++) x[v] =                                            \
                _mm256_loadu_si256((const __m256i *)(from[v] + taps[t]));                          \
            UNROLLED for (int k = 0; k < KERNELS; k++) {                                           \
                const __m256i w = _mm256_set1_epi32(weights[k]);                                   \
                UNROLLED for (int v = 0; v < N; v++) total[k][v] =                                 \
                    _mm256_add_epi32(total[k][v], _mm256_madd_epi16(x[v], w));                     \
            }                                                                                      \
        }                                                                                          \
        UNROLLED for (int k = 0; k < KERNELS; k++) UNROLLED for (int v = 0; v < N; v++)            \
            _mm256_storeu_si256((__m256i *)(sums + k * stride + v * PIXELS), total[k][v]);         \
    }
COUNTS(WIDE_SUM)

WITH_AVX2 static void sum_wide(const struct convolution *c, const int32_t *packed,
                               const int32_t *weights, const int32_t *bias, const int64_t *places,
                               int64_t count, int32_t *sums, int64_t stride) {
    int64_t v = 0;
    for (; v + VECTORS <= count; v += VECTORS)
        sum_wide_2(packed, c->taps, c->tap_count, weights, bias, places + v, sums + v * PIXELS,
                   stride);
    if (v < count)
        sum_wide_1(packed, c->taps, c->tap_count, weights, bias, places + v, sums + v * PIXELS,
                   stride);
}
#endif

#ifdef X86
/* The only pixel's pairs as quads' weights meet them: of each window's place those of a quad together. */
static void order_pixel(const struct convolution *c, const int32_t *packed, int32_t *pixel) {
    const int64_t window = c->kernel_height * c->kernel_width;
    for (int64_t first = 0; first < c->tap_count; first += 2 * window)
        for (int64_t t = first; t < first + window; t++) {
            *pixel++ = packed[c->taps[t]];
            *pixel++ = t + window < c->tap_count ? packed[c->taps[t + window]] : 0;
        }
}

/* The sums of KERNELS kernels for the only pixel, for which weights are read as they lie. */
WITH_AVX2 static void sum_pixel_wide(const struct convolution *c, int64_t group,
                                     const int32_t *pixel, int32_t *sums, int64_t stride) {
    const int64_t quads = (c->channels + QUAD - 1) / QUAD * c->kernel_height * c->kernel_width;
    const uint8_t *weights = c->weights + group * quads * QUAD * KERNELS;
    int32_t halves[2 * KERNELS], of_pixel[2 * KERNELS];
    __m256i even = _mm256_setzero_si256(), odd = even, all = even;
    for (int64_t q = 0; q < quads; q++, weights += QUAD * KERNELS, pixel += 2) {
        int64_t both;
        memcpy(&both, pixel, sizeof both);
        const __m256i x = _mm256_set1_epi64x(both),
                      w = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)weights));
        const __m256i products = _mm256_madd_epi16(x, w);
        if (q % 2)
            odd = _mm256_add_epi32(odd, products);
        else
            even = _mm256_add_epi32(even, products);
        all = _mm256_add_epi32(all, _mm256_madd_epi16(x, _mm256_set1_epi16(1)));
    }
    _mm256_storeu_si256((__m256i *)halves, _mm256_add_epi32(even, odd));
    _mm256_storeu_si256((__m256i *)of_pixel, all);
    for (int k = 0; k < KERNELS; k++) {
        const int64_t kernel = group * KERNELS + k;
        sums[k * stride] = c->bias[kernel] + halves[2 * k] + halves[2 * k + 1] -
                           (c->weight_zero_points[kernel] - BIAS) * (of_pixel[0] + of_pixel[1]);
    }
}
#endif

/* ----------------------------------------------------------------------- from sums to bytes */

INLINE double clamped(double value, double low, double high) {
    value = value < low ? low : value;
    return value > high ? high : value;
}

INLINE int32_t half_even(double value) {
    return (int32_t)__builtin_rint(value);
}

/* Sums of channel k as bytes; `low` and `high` are the byte's own limits, too. */
INLINE void finish_narrow(const struct convolution *c, int64_t k, const int32_t *sums,
                          int64_t count, uint8_t *bytes) {
    const double scale = c->scale[k], zero_point = (double)c->zero_point;
    const double low = clamped(c->low, -zero_point, 255 - zero_point),
                 high = clamped(c->high, -zero_point, 255 - zero_point);
    const int32_t add = (int32_t)c->zero_point;
    if (c->negative) {
        const double negative = c->negative[k];
        for (int64_t i = 0; i < count; i++) {
            const double sum = sums[i], value = sum * scale;
            bytes[i] =
                (uint8_t)(half_even(clamped(value < 0 ? sum * negative : value, low, high)) + add);
        }
        return;
    }
    for (int64_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)(half_even(clamped(sums[i] * scale, low, high)) + add);
}

/* 1.5 * 2^23: a sum with it has a whole number in its lower bits, rounded once, halves to even. Larger
 * numbers than have room there are larger as integers, too, once sums below zero are zero. */
#define WHOLE 0x1.8p23f
#define WHOLE_BITS 0x4B400000

#ifdef X86
/* Scales of 16 sums that lie side by side, and what negative ones are multiplied by. */
struct scales_avx2 {
    __m256 positive[2], negative[2];
};

WITH_AVX2 INLINE __m256 eight_as_floats(const double *values) {
    return _mm256_set_m128(_mm256_cvtpd_ps(_mm256_loadu_pd(values + 4)),
                           _mm256_cvtpd_ps(_mm256_loadu_pd(values)));
}

/* Those of one channel. */
WITH_AVX2 INLINE struct scales_avx2 same_scales_avx2(const struct convolution *c, int64_t k) {
    const __m256 scale = _mm256_set1_ps((float)c->scale[k]),
                 negative = c->negative ? _mm256_set1_ps((float)c->negative[k]) : scale;
    return (struct scales_avx2){{scale, scale}, {negative, negative}};
}

/* Those of LANES channels. */
WITH_AVX2 INLINE struct scales_avx2 own_scales_avx2(const struct convolution *c, int64_t k) {
    const double *negative = c->negative ? c->negative : c->scale;
    return (struct scales_avx2){{eight_as_floats(c->scale + k), eight_as_floats(c->scale + k + 8)},
                                {eight_as_floats(negative + k), eight_as_floats(negative + k + 8)}};
}

WITH_AVX2 INLINE __m256i rounded_eight(const int32_t *sums, const struct scales_avx2 *scales,
                                       int half, int has_negative) {
    const __m256 sum = _mm256_cvtepi32_ps(_mm256_loadu_si256((const __m256i *)sums));
    const __m256 scale = has_negative
                             ? _mm256_blendv_ps(scales->positive[half], scales->negative[half], sum)
                             : scales->positive[half];
    const __m256 rounded = _mm256_fmadd_ps(sum, scale, _mm256_set1_ps(WHOLE));
    return _mm256_sub_epi32(_mm256_max_epi32(_mm256_castps_si256(rounded), _mm256_setzero_si256()),
                            _mm256_set1_epi32(WHOLE_BITS));
}

/* Up to 31 sums more are read, and as many bytes written. */
WITH_AVX2 INLINE void finish_vectors(const struct convolution *c, const struct scales_avx2 *scales,
                                     const int32_t *sums, int64_t count, uint8_t *bytes,
                                     int has_negative) {
    const __m256i least = _mm256_set1_epi8((char)c->least), most = _mm256_set1_epi8((char)c->most),
                  add = _mm256_set1_epi16((int16_t)c->zero_point),
                  order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    for (int64_t i = 0; i < count; i += 32) {
        __m256i v[4];
        for (int j = 0; j < 4; j++)
            v[j] = rounded_eight(sums + i + 8 * j, scales, j % 2, has_negative);
        const __m256i first = _mm256_adds_epi16(_mm256_packs_epi32(v[0], v[1]), add),
                      second = _mm256_adds_epi16(_mm256_packs_epi32(v[2], v[3]), add);
        const __m256i all = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(first, second), order);
        _mm256_storeu_si256((__m256i *)(bytes + i),
                            _mm256_min_epu8(_mm256_max_epu8(all, least), most));
    }
}

WITH_AVX2 static void finish_wide(const struct convolution *c, const struct scales_avx2 *scales,
                                  const int32_t *sums, int64_t count, uint8_t *bytes) {
    if (c->negative)
        finish_vectors(c, scales, sums, count, bytes, 1);
    else
        finish_vectors(c, scales, sums, count, bytes, 0);
}
#endif

#ifdef BYTE_DOTS
struct scales_avx512 {
    __m512 positive, negative;
};

WITH_AVX512_VNNI INLINE __m512 sixteen_as_floats(const double *values) {
    float floats[LANES];
    for (int i = 0; i < LANES; i++)
        floats[i] = (float)values[i];
    return _mm512_loadu_ps(floats);
}

WITH_AVX512_VNNI INLINE __m512i rounded_sixteen(const int32_t *sums,
                                                const struct scales_avx512 *scales,
                                                int has_negative) {
    const __m512 sum = _mm512_cvtepi32_ps(_mm512_loadu_si512(sums));
    const __m512 scale = has_negative
                             ? _mm512_mask_blend_ps(_mm512_movepi32_mask(_mm512_castps_si512(sum)),
                                                    scales->positive, scales->negative)
                             : scales->positive;
    const __m512 rounded = _mm512_fmadd_ps(sum, scale, _mm512_set1_ps(WHOLE));
    return _mm512_sub_epi32(_mm512_max_epi32(_mm512_castps_si512(rounded), _mm512_set1_epi32(0)),
                            _mm512_set1_epi32(WHOLE_BITS));
}

/* Up to 63 sums more are read, and as many bytes written. */
WITH_AVX512_VNNI INLINE void finish_512(const struct convolution *c,
                                        const struct scales_avx512 *scales, const int32_t *sums,
                                        int64_t count, uint8_t *bytes, int has_negative) {
    const __m512i least = _mm512_set1_epi8((char)c->least), most = _mm512_set1_epi8((char)c->most),
                  add = _mm512_set1_epi16((int16_t)c->zero_point),
                  order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    for (int64_t i = 0; i < count; i += 64) {
        __m512i v[4];
        for (int j = 0; j < 4; j++)
            v[j] = rounded_sixteen(sums + i + 16 * j, scales, has_negative);
        const __m512i first = _mm512_adds_epi16(_mm512_packs_epi32(v[0], v[1]), add),
                      second = _mm512_adds_epi16(_mm512_packs_epi32(v[2], v[3]), add);
        const __m512i all = _mm512_permutexvar_epi32(order, _mm512_packus_epi16(first, second));
        _mm512_storeu_si512(bytes + i, _mm512_min_epu8(_mm512_max_epu8(all, least), most));
    }
}

WITH_AVX512_VNNI static void finish_widest(const struct convolution *c, int64_t k,
                                           const int32_t *sums, int64_t count, uint8_t *bytes,
                                           int has_own) {
    struct scales_avx512 scales;
    if (has_own) {
        scales.positive = sixteen_as_floats(c->scale + k);
        scales.negative = c->negative ? sixteen_as_floats(c->negative + k) : scales.positive;
    } else {
        scales.positive = _mm512_set1_ps((float)c->scale[k]);
        scales.negative = c->negative ? _mm512_set1_ps((float)c->negative[k]) : scales.positive;
    }
    if (c->negative)
        finish_512(c, &scales, sums, count, bytes, 1);
    else
        finish_512(c, &scales, sums, count, bytes, 0);
}
#endif

#ifdef X86
/* Sums of channel k, or with `has_own` of LANES channels from k on in turn, as bytes. */
WITH_AVX2 static void finish_fast(const struct convolution *c, int64_t k, const int32_t *sums,
                                  int64_t count, uint8_t *bytes, int has_own) {
#ifdef BYTE_DOTS
    if (running_form == AVX512_VNNI) {
        finish_widest(c, k, sums, count, bytes, has_own);
        return;
    }
#endif
    const struct scales_avx2 scales = has_own ? own_scales_avx2(c, k) : same_scales_avx2(c, k);
    finish_wide(c, &scales, sums, count, bytes);
}
#endif

/* A table's function, as reference/table.py has it. The argument has 16 significant bits, and the
   result is a float32. */
INLINE double table_value(const struct value_table *t, double argument) {
    const int64_t half = t->is_signed ? 512 : 1024, exponents = t->exponents,
                  steps = half / exponents, lowest = 1 - exponents / 2, highest = exponents / 2;
    const double magnitude = fabs(argument);
    union {
        double real;
        uint64_t bits;
    } u = {magnitude}, power;
    const int64_t found = (int64_t)(u.bits >> 52) - 1023,
                  exponent = most(least(found, highest), lowest);
    power.bits = (uint64_t)(1023 - exponent) << 52;
    const double position = (magnitude * power.real - 1) * (double)steps;
    const int64_t step = (int64_t)clamped(floor(position), 0, (double)(steps - 1)),
                  index = ((exponent - lowest) ^ (exponents / 2)) * steps + step,
                  begin = argument < 0 && t->is_signed ? half : 0;
    const double low = t->values[begin + index], high = t->values[begin + (index + 1) % half],
                 sign = argument < 0 && !t->is_signed ? -1 : 1;
    power.bits = (uint64_t)(1023 + highest) << 52;
    const double start = power.real * (2 - 1 / (double)steps),
                 rise = argument < 0 && t->is_signed ? -t->negative : t->positive;
    const double beyond = low + (magnitude - start) * rise,
                 between = low + (high - low) * (position - (double)step);
    const int is_last = exponent == highest && step == steps - 1;
    const double value = (is_last ? beyond : between) * sign;
    return (float)(found < lowest ? t->middle + argument * t->zero : value);
}

/* Sums as bytes by way of a table. */
INLINE void finish_table_inline(const struct convolution *c, double scale, const int32_t *sums,
                                int64_t count, uint8_t *bytes) {
    const double zero_point = (double)c->zero_point;
    const double low = clamped(c->low, -zero_point, 255 - zero_point),
                 high = clamped(c->high, -zero_point, 255 - zero_point);
    for (int64_t i = 0; i < count; i++) {
        union {
            double real;
            uint64_t bits;
        } u = {sums[i] * scale};
        u.bits &= ~UINT64_C(0) << (53 - 16);
        bytes[i] = (uint8_t)(half_even(clamped(table_value(c->table, u.real), low, high)) +
                             (int32_t)c->zero_point);
    }
}
IN_EACH_FORM(finish_table,
             (const struct convolution *c, double scale, const int32_t *sums, int64_t count,
              uint8_t *bytes),
             (c, scale, sums, count, bytes))

/* Sums as bytes by a program. */
static void finish_program(const struct stream_program *p, const int32_t *sums, int64_t count,
                           uint8_t *bytes) {
#ifdef AVX512
    if (running_form == AVX512_VNNI) {
        stream_bytes_avx512(p, sums, count, bytes);
        return;
    }
#endif
    stream_bytes(p, sums, count, bytes);
}

INLINE void finish(const struct convolution *c, int64_t k, const int32_t *sums, int64_t count,
                   uint8_t *bytes, int is_wide) {
    if (c->program) {
        finish_program(c->program, sums, count, bytes);
        return;
    }
    if (c->table) {
        finish_table(c, c->scale[k], sums, count, bytes);
        return;
    }
#ifdef X86
    if (is_wide && c->fits_float) {
        finish_fast(c, k, sums, count, bytes, 0);
        return;
    }
#endif
    (void)is_wide;
    finish_narrow(c, k, sums, count, bytes);
}

#include "vip_second.h"

/* Whether channels become pixels. */
INLINE int shuffles_depth(const struct convolution *c) {
    return c->shuffled_rows * c->shuffled_pixels > 1;
}

/* A row of bytes to where it belongs. */
INLINE void store(const struct convolution *c, int64_t k, int64_t y, const uint8_t *bytes) {
    const uint8_t flip = (uint8_t)c->output_flip;
    if (shuffles_depth(c)) {
        /* Every second pixel, or third and so on, of a row that isn't cut. */
        const int64_t rows = c->shuffled_rows, pixels = c->shuffled_pixels;
        const int64_t within = k % (rows * pixels);
        const struct row to = row_of(&c->target, k / (rows * pixels), rows * y + within / pixels,
                                     pixels * c->final_width);
        store_part(to.first + within % pixels, pixels, flip, bytes, c->final_width);
        return;
    }
    const struct row to = row_of(&c->target, k, y, c->final_width);
    store_part(to.first, c->target.group, flip, bytes, to.count);
    store_part(to.rest, c->target.group, flip, bytes + to.count, c->final_width - to.count);
}

/* Whether `count` channels from `channel` on lie side by side in `width` pixels of a row, which isn't cut. */
INLINE int are_beside(const struct planes *p, int64_t channel, int64_t count, int64_t y,
                      int64_t width) {
    if (channel % p->group + count > p->group)
        return 0;
    if (!p->size)
        return 1;
    const struct row first = row_of(p, channel, y, width),
                     last = row_of(p, channel + count - 1, y, width);
    return first.count == width && last.count == width && last.first == first.first + count - 1;
}

/* Rows of a channel that lies alone; `step` bytes apart before. */
INLINE void store_alone(const struct convolution *c, int64_t k, int64_t y, int64_t y_end,
                        const uint8_t *bytes, int64_t step) {
    const int64_t address = channel_of(&c->target, k), width = c->final_width, rows = y_end - y;
    const uint8_t flip = (uint8_t)c->output_flip;
    const int is_one = step == width && is_one_row(&c->target, rows, width);
    const int64_t count = is_one ? rows * width : width;
    for (int64_t r = 0; r < (is_one ? 1 : rows); r++, bytes += step) {
        const struct row to = row_at(&c->target, address, y + r, count);
        store_part(to.first, 1, flip, bytes, to.count);
        store_part(to.rest, 1, flip, bytes + to.count, count - to.count);
    }
}

#ifdef X86
/* Sixteen pixels of rows of four or eight bytes, as vectors of as many of each pixel. */
WITH_AVX2 INLINE void mix_rows(const uint8_t *rows, int64_t size, uint8_t flip, const int count,
                               __m128i *mixed) {
    const __m128i f = _mm_set1_epi8((char)flip);
    __m128i quads[2][4];
    UNROLLED for (int q = 0; q < count / QUAD; q++) {
        __m128i row[QUAD];
        for (int i = 0; i < QUAD; i++)
            row[i] =
                _mm_xor_si128(_mm_loadu_si128((const __m128i *)(rows + (QUAD * q + i) * size)), f);
        const __m128i low = _mm_unpacklo_epi8(row[0], row[1]),
                      high = _mm_unpackhi_epi8(row[0], row[1]),
                      next_low = _mm_unpacklo_epi8(row[2], row[3]),
                      next_high = _mm_unpackhi_epi8(row[2], row[3]);
        quads[q][0] = _mm_unpacklo_epi16(low, next_low);
        quads[q][1] = _mm_unpackhi_epi16(low, next_low);
        quads[q][2] = _mm_unpacklo_epi16(high, next_high);
        quads[q][3] = _mm_unpackhi_epi16(high, next_high);
    }
    UNROLLED for (int i = 0; i < 4; i++) {
        if (count == QUAD) {
            mixed[i] = quads[0][i];
            continue;
        }
        mixed[2 * i] = _mm_unpacklo_epi32(quads[0][i], quads[1][i]);
        mixed[2 * i + 1] = _mm_unpackhi_epi32(quads[0][i], quads[1][i]);
    }
}

/* Four or eight rows of bytes, `size` apart, to where they belong side by side. */
WITH_AVX2 INLINE void store_mixed_rows(const struct convolution *c, int64_t k, int64_t y,
                                       const uint8_t *results, int64_t size, const int count) {
    const int64_t width = c->final_width, step = c->target.group;
    const uint8_t flip = (uint8_t)c->output_flip;
    uint8_t *to = row_of(&c->target, k, y, width).first;
    __m128i mixed[2 * QUAD];
    int64_t x = 0;
    for (; x + 16 <= width; x += 16) {
        mix_rows(results + x, size, flip, count, mixed);
        const uint8_t *const bytes = (const uint8_t *)mixed;
        UNROLLED for (int i = 0; i < 16; i++, to += step) {
            if (count == QUAD) {
                memcpy(to, bytes + i * QUAD, QUAD);
            } else {
                const __m128i pixels = mixed[i / 2];
                _mm_storel_epi64((__m128i *)to,
                                 i % 2 ? _mm_unpackhi_epi64(pixels, pixels) : pixels);
            }
        }
    }
    if (x == width)
        return;
    mix_rows(results + x, size, flip, count, mixed);
    const uint8_t *const bytes = (const uint8_t *)mixed;
    for (int64_t i = 0; i < width - x; i++, to += step)
        memcpy(to, bytes + i * count, (size_t)count);
}

WITH_AVX2 static void store_quads(const struct convolution *c, int64_t k, int64_t y,
                                  const uint8_t *results, int64_t size) {
    store_mixed_rows(c, k, y, results, size, QUAD);
}

WITH_AVX2 static void store_eight(const struct convolution *c, int64_t k, int64_t y,
                                  const uint8_t *results, int64_t size) {
    store_mixed_rows(c, k, y, results, size, 2 * QUAD);
}

/* A row of as many results as lie side by side; how many that are. */
INLINE int64_t store_beside(const struct convolution *c, int64_t k, int64_t count, int64_t y,
                            const uint8_t *results, int64_t size) {
    if (count >= 2 * QUAD && are_beside(&c->target, k, 2 * QUAD, y, c->final_width)) {
        store_eight(c, k, y, results, size);
        return 2 * QUAD;
    }
    if (count >= QUAD && are_beside(&c->target, k, QUAD, y, c->final_width)) {
        store_quads(c, k, y, results, size);
        return QUAD;
    }
    return 0;
}
#endif

/* Rows of results of `count` kernels, `size` bytes apart, to where they belong. */
INLINE void store_rows(const struct convolution *c, int64_t k, int64_t count, int64_t y,
                       int64_t y_end, const uint8_t *results, int64_t size, int64_t step,
                       int is_wide) {
    if (!shuffles_depth(c) && c->target.group == 1) {
        for (int64_t i = 0; i < count; i++)
            store_alone(c, k + i, y, y_end, results + i * size, step);
        return;
    }
    for (; y < y_end; y++, results += step)
        for (int64_t i = 0, stored; i < count; i += stored) {
            stored = 0;
#ifdef X86
            if (is_wide && !shuffles_depth(c))
                stored = store_beside(c, k + i, count - i, y, results + i * size, size);
#endif
            if (!stored) {
                store(c, k + i, y, results + i * size);
                stored = 1;
            }
        }
    (void)is_wide;
}

/* The largest byte of each window of a row of windows; `line` is a row of the image, with what lies
 * beside it, where there is nothing larger. */
INLINE void maximum(const struct convolution *c, const uint8_t *rows, int64_t pitch, int64_t first,
                    int64_t count, int64_t y, uint8_t *line, uint8_t *bytes) {
    const int64_t top = y * c->pool_stride - c->pool_top, s = c->pool_stride;
    const int64_t end = (c->final_width - 1) * s + c->pool_size;
    const int64_t inside = least(c->out_width, end - c->pool_left);
    uint8_t *const at = line + c->pool_left;
    memset(line, 0, (size_t)end);
    for (int64_t r = most(top, first); r < least(top + c->pool_size, first + count); r++) {
        const uint8_t *row = rows + (r - first) * pitch;
        for (int64_t x = 0; x < inside; x++)
            at[x] = row[x] > at[x] ? row[x] : at[x];
    }
    memset(bytes, 0, (size_t)c->final_width);
    for (int64_t p = 0; p < c->pool_size; p++) {
        if (s == 1)
            for (int64_t x = 0; x < c->final_width; x++)
                bytes[x] = line[x + p] > bytes[x] ? line[x + p] : bytes[x];
        else if (s == 2)
            for (int64_t x = 0; x < c->final_width; x++)
                bytes[x] = line[2 * x + p] > bytes[x] ? line[2 * x + p] : bytes[x];
        else
            for (int64_t x = 0; x < c->final_width; x++)
                bytes[x] = line[s * x + p] > bytes[x] ? line[s * x + p] : bytes[x];
    }
}

/* How far apart rows of the result lie before they are stored. */
INLINE int64_t result_pitch(const struct convolution *c, int64_t pitch) {
    return c->pool_size ? c->final_width : pitch;
}

/* One kernel's sums of `count` rows from `first` on, `pitch` apart, as the rows y .. y_end of their
 * maximum; `space` is for what is before it. */
INLINE void finish_pooled(const struct convolution *c, int64_t k, const int32_t *sums,
                          int64_t pitch, int64_t first, int64_t count, int64_t y, int64_t y_end,
                          uint8_t *results, uint8_t *space, int is_wide) {
    uint8_t *line = space + up_to(count * pitch, 16) + LINE_END;
    finish(c, k, sums, count * pitch, space, is_wide);
    for (; y < y_end; y++, results += c->final_width)
        maximum(c, space, pitch, first, count, y, line, results);
}

/* A kernel's rows of the second operand, `pitch` apart. */
INLINE void take_second(const struct convolution *c, int64_t k, int64_t y, int64_t y_end,
                        int64_t pitch, uint8_t *to) {
    const int64_t address = channel_of(&c->second, k), width = c->final_width, rows = y_end - y;
    const int is_one = pitch == width && is_one_row(&c->second, rows, width);
    const int64_t count = is_one ? rows * width : width;
    for (int64_t r = 0; r < (is_one ? 1 : rows); r++, to += pitch) {
        const struct row second = row_at(&c->second, address, y + r, count);
        copy_part(second.first, c->second.group, to, second.count);
        copy_part(second.rest, c->second.group, to + second.count, count - second.count);
    }
}

/* Some of a kernel's sums, with as many of the second operand if there is one. */
INLINE void finish_part(const struct convolution *c, int64_t k, const int32_t *sums, int64_t count,
                        const uint8_t *second, uint8_t *bytes, int is_wide) {
    if (c->addition)
        finish_with_second(c, k, sums, count, second, bytes);
    else
        finish(c, k, sums, count, bytes, is_wide);
}

/* ------------------------------------------------------------------------------- the kernels */

/* Rows of sums that the rows y .. y_end of the result come from. */
INLINE void rows_needed(const struct convolution *c, int64_t y, int64_t y_end, int64_t *first,
                        int64_t *count) {
    *first = y;
    int64_t end = y_end;
    if (c->pool_size) {
        *first = most(y * c->pool_stride - c->pool_top, 0);
        end = least((y_end - 1) * c->pool_stride - c->pool_top + c->pool_size, c->out_height);
    }
    *count = end - *first;
}

/* Vectors of pixels whose sums are made into bytes before the next ones are begun. */
enum { CHUNK = 36 };

/* A thread's space for rows of four channels. */
struct four_rows {
    uint8_t *lines[QUAD];
    int32_t *quads;
};

INLINE uint8_t *divide_rows(struct four_rows *four, uint8_t *space, int64_t count) {
    four->quads = (int32_t *)space;
    space += 4 * up_to(count + LINE_END, 16);
    for (int i = 0; i < QUAD; i++, space += up_to(count + LINE_END, 16))
        four->lines[i] = space;
    return space;
}

#ifdef X86
/* A row's quads where channels lie side by side. */
INLINE void take_quads(const struct convolution *c, int64_t channel, int64_t y, int32_t *to,
                       int64_t count) {
    const int64_t step = c->source.group, there = inside(c, count);
    const uint8_t *from = row_of(&c->source, channel, y, there).first;
    const int32_t border = (int32_t)(0x01010101u * border_of(c));
    for (int64_t x = 0; x < c->left; x++)
        to[x] = border;
    for (int64_t x = 0; x < there; x++)
        memcpy(to + c->left + x, from + x * step, sizeof *to);
    for (int64_t x = c->left + there; x < count; x++)
        to[x] = border;
}

INLINE int has_quads(const struct convolution *c, int64_t channel, int64_t y, int64_t count) {
    return y >= 0 && y < c->height && channel + QUAD <= c->channels &&
           are_beside(&c->source, channel, QUAD, y, inside(c, count));
}

/* `count` pixels of a row from four channels on, as they are multiplied. */
WITH_AVX2 INLINE void make_quads(const struct convolution *c, int64_t channel, int64_t y,
                                 int64_t count, int flat, uint8_t flip,
                                 const struct four_rows *four, int32_t *quads) {
    if (!flat && has_quads(c, channel, y, count)) {
        take_quads(c, channel, y, quads, count);
        if (flip)
            for (int64_t x = 0; x < count; x++)
                quads[x] ^= (int32_t)(0x01010101u * flip);
        return;
    }
    for (int i = 0; i < QUAD; i++)
        take_line(c, channel + i, y, four->lines[i], count, flat);
    interleave((const uint8_t *const *)four->lines, flip, count, quads);
}

/* Eight of a phase's quads from a row of all phases, of which there are one or two. */
WITH_AVX2 INLINE __m256i quads_of_phase(const int32_t *quads, int64_t phases, int64_t phase) {
    const __m256 first = _mm256_loadu_ps((const float *)quads);
    if (phases == 1)
        return _mm256_castps_si256(first);
    const __m256 second = _mm256_loadu_ps((const float *)quads + PIXELS),
                 those = phase ? _mm256_shuffle_ps(first, second, 0xDD)
                               : _mm256_shuffle_ps(first, second, 0x88);
    return _mm256_permute4x64_epi64(_mm256_castps_si256(those), 0xD8);
}

/* The first of eight pixels, not what lies behind them: another part may be there already. */
WITH_AVX2 INLINE void store_pixels_of(int32_t *to, __m256i pixels, int64_t count) {
    if (count >= PIXELS) {
        _mm256_storeu_si256((__m256i *)to, pixels);
        return;
    }
    const __m256i numbers = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    _mm256_maskstore_epi32(to, _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count), numbers), pixels);
}

/* Eight quads as pairs of 16-bit numbers: of each quad's first two channels, and of the others, which aren't
 * there in the last quad of some. */
WITH_AVX2 INLINE void store_as_pairs(__m256i quads, int32_t *to, int64_t apart, int has_others,
                                     int64_t count) {
    const __m256i order = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15, 0,
                                           1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    const __m256i parted = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(quads, order), 0xD8);
    store_pixels_of(to, _mm256_cvtepi8_epi16(_mm256_castsi256_si128(parted)), count);
    if (has_others)
        store_pixels_of(to + apart, _mm256_cvtepi8_epi16(_mm256_extracti128_si256(parted, 1)),
                        count);
}

/* Rows from `y` on as quads of channels, or as pairs. */
WITH_AVX2 INLINE void pack_wide(const struct convolution *c, const struct packing *p, int64_t y,
                                int64_t rows, const struct four_rows *four, const int is_dots) {
    const int64_t s = c->stride;
    const int flat = is_flat(c, y, rows);
    const int64_t width = flat ? rows * c->width : c->packed_width, count = width * s,
                  apart = p->is_tiled ? TILE : p->plane;
    const uint8_t flip = (uint8_t)c->flip ^ (is_dots ? 0 : BIAS);
    for (int64_t channel = 0; channel < c->channels; channel += QUAD)
        for (int64_t r = 0; r < (flat ? 1 : rows); r++) {
            const int64_t part = is_dots ? channel / QUAD : channel / 2;
            make_quads(c, channel, y + r, count, flat, flip, four, four->quads);
            for (int64_t phase = 0; phase < s; phase++) {
                int32_t *to = place_in(p, part, r, phase, width, 0);
                for (int64_t x = 0; x < width; x += PIXELS) {
                    const __m256i quads = quads_of_phase(four->quads + s * x, s, phase);
                    if (is_dots)
                        store_pixels_of(to, quads, width - x);
                    else
                        store_as_pairs(quads, to, apart, part + 1 < p->parts, width - x);
                    to += PIXELS;
                    if (p->is_tiled && (r * p->vectors + x / PIXELS) % 2)
                        to += (p->parts - 1) * TILE;
                }
            }
        }
}

WITH_AVX2 static void pack_as_pairs(const struct convolution *c, const struct packing *p, int64_t y,
                                    int64_t rows, const struct four_rows *four) {
    pack_wide(c, p, y, rows, four, 0);
}

WITH_AVX2 static void pack_as_quads(const struct convolution *c, const struct packing *p, int64_t y,
                                    int64_t rows, const struct four_rows *four) {
    pack_wide(c, p, y, rows, four, 1);
}
#endif

/* A thread's space for a dense convolution, and what is in it. */
struct tiles {
    int64_t vectors;              /* of pixels in a row of sums */
    int64_t pitch;                /* of a row of sums */
    int64_t step;                 /* of a row of results */
    int64_t size;                 /* of a kernel's results */
    int64_t stride;               /* of a kernel's sums */
    int64_t together;             /* blocks of kernels */
    int64_t block;                /* of a block's weights as pairs, up to whole quads */
    int64_t y, y_end, row, count; /* rows of results, and of sums from `row` on */
    struct packing image;
    int32_t *weights, *sums;
    int64_t *places;
    struct four_rows four;
    uint8_t *results, *space;
    int is_one_pixel; /* whose sums have a form of their own */
#ifdef BYTE_DOTS
    struct quads quads;
    int32_t *windows; /* NULL where no kernel needs sums under them */
#endif
};

INLINE int counts_from_others(const struct convolution *c) {
    for (int64_t k = 0; k < c->out_channels; k++)
        if (c->weight_zero_points[k] != BIAS)
            return 1;
    return 0;
}

INLINE struct tiles tiles_of(const struct convolution *c, void *scratch, const int is_wide,
                             const int is_dots) {
    const int64_t s = c->stride, most_rows = (c->packed_rows - c->kernel_height) / s + 1;
    const int64_t part = is_dots ? QUAD : 2, parts = (c->channels + part - 1) / part;
    const int64_t line = c->packed_width * s, plane = c->packed_rows * line;
    struct tiles t = {.image = {scratch, parts, line, plane, .is_tiled = is_pointwise(c)}};
    t.vectors = (c->out_width + PIXELS - 1) / PIXELS;
    t.pitch = t.vectors * PIXELS;
    t.step = result_pitch(c, t.pitch);
    t.size = most(most_rows, c->rows) * t.step + LINE_END;
    t.stride = most_rows * t.pitch;
    if (!c->pool_size)
        t.stride = least(t.stride, CHUNK * PIXELS);
    t.stride += 2 * PIXELS;
    t.together = is_wide ? 2 : 1;
    t.is_one_pixel = is_wide && most_rows * c->out_width == 1;
    t.block = up_to(parts, 2) * c->kernel_height * c->kernel_width * KERNELS;
    t.image.vectors = t.vectors;
    t.weights = t.image.packed +
                up_to(parts * (t.image.is_tiled ? up_to(plane, TILE) : plane) + 2 * PIXELS, 16);
    t.sums = t.weights + 2 * t.block;
    int32_t *const windows = t.sums + MANY * t.stride + LINE_END;
    t.places = (int64_t *)(windows + most_rows * t.pitch + 2 * PIXELS);
    const int64_t flat = most_rows * c->packed_width;
    t.results = divide_rows(&t.four, (uint8_t *)(t.places + most_rows * t.vectors + 1),
                            most(most(line, c->final_width), flat));
    t.space = t.results + MANY * t.size;
#ifdef BYTE_DOTS
    if (is_dots) {
        t.together = running_form == AVX512_VNNI ? 2 : 1;
        t.windows = counts_from_others(c) ? windows : NULL;
        t.quads = (struct quads){.packed = t.image.packed,
                                 .taps = c->taps,
                                 .tap_count = parts * c->kernel_height * c->kernel_width,
                                 .stride = t.stride};
        t.is_one_pixel &= running_form == AVX512_VNNI;
    }
#endif
    return t;
}

/* The image under a block of rows of results. */
INLINE void pack_block(const struct convolution *c, struct tiles *t, int64_t block,
                       const int is_wide, const int is_dots) {
    const int64_t s = c->stride;
    t->y = block * c->rows;
    t->y_end = least(t->y + c->rows, c->final_height);
    rows_needed(c, t->y, t->y_end, &t->row, &t->count);
    const int64_t top = t->row * s - c->top, rows = (t->count - 1) * s + c->kernel_height,
                  all = t->count * t->vectors;
    for (int64_t r = 0; r < t->count; r++)
        for (int64_t v = 0; v < t->vectors; v++)
            t->places[r * t->vectors + v] = t->image.is_tiled
                                                ? tile_of(&t->image, r * t->vectors + v)
                                                : r * s * t->image.line + v * PIXELS;
    t->places[all] = 0;
#ifdef X86
    if (is_wide)
        (is_dots ? pack_as_quads : pack_as_pairs)(c, &t->image, top, rows, &t->four);
    if (is_wide && !is_dots && t->is_one_pixel)
        order_pixel(c, t->image.packed, t->weights);
#endif
#ifdef BYTE_DOTS
    if (is_dots) {
        if (t->windows)
            sum_windows(&t->quads, t->places, all, t->windows);
        if (t->is_one_pixel)
            repeat_pixel(&t->quads, t->weights);
        return;
    }
#endif
    (void)is_dots;
    if (!is_wide)
        pack_pairs(c, &t->image, top, rows, t->four.lines);
}

/* Sums of kernels, whose weights are there, for `count` vectors from `first` on. */
INLINE void sum_tiles(const struct convolution *c, struct tiles *t, int64_t group, int64_t blocks,
                      int64_t first, int64_t count, const int is_wide, const int is_dots) {
    const int64_t *places = t->places + first;
#ifdef BYTE_DOTS
    if (is_dots) {
        t->quads.windows = t->windows ? t->windows + first * PIXELS : NULL;
        if (t->is_one_pixel) {
            sum_pixel(&t->quads, t->weights, t->sums, blocks);
            return;
        }
        sum_quads(&t->quads, places, count, t->sums, blocks);
        return;
    }
#endif
    const int32_t *bias = c->bias + group * KERNELS;
#ifdef X86
    if (is_wide && t->is_one_pixel) {
        for (int64_t b = 0; b < blocks; b++)
            sum_pixel_wide(c, group + b, t->weights, t->sums + b * KERNELS * t->stride, t->stride);
        return;
    }
    if (is_wide) {
        for (int64_t b = 0; b < blocks; b++)
            sum_wide(c, t->image.packed, t->weights + b * t->block, bias + b * KERNELS, places,
                     count, t->sums + b * KERNELS * t->stride, t->stride);
        return;
    }
#endif
    (void)blocks;
    (void)is_wide;
    (void)is_dots;
    sum_narrow(c, t->image.packed, t->weights, bias, places, count, t->sums, t->stride);
}

/* The results of `kernels` kernels from `k` on, in the order of their sums. */
INLINE void finish_tiles(const struct convolution *c, struct tiles *t, int64_t k, int64_t kernels,
                         int64_t blocks, const int is_wide, const int is_dots) {
    const int64_t all = t->count * t->vectors;
    if (c->pool_size) {
        sum_tiles(c, t, k / KERNELS, blocks, 0, all, is_wide, is_dots);
        for (int64_t i = 0; i < kernels; i++)
            finish_pooled(c, k + i, t->sums + i * t->stride, t->pitch, t->row, t->count, t->y,
                          t->y_end, t->results + i * t->size, t->space, is_wide);
        return;
    }
    if (c->addition)
        for (int64_t i = 0; i < kernels; i++)
            take_second(c, k + i, t->y, t->y_end, t->pitch, t->space + i * t->size);
    for (int64_t first = 0; first < all; first += CHUNK) {
        const int64_t count = least(CHUNK, all - first), at = first * PIXELS;
        sum_tiles(c, t, k / KERNELS, blocks, first, count, is_wide, is_dots);
        for (int64_t i = 0; i < kernels; i++)
            finish_part(c, k + i, t->sums + i * t->stride, count * PIXELS,
                        t->space + i * t->size + at, t->results + i * t->size + at, is_wide);
    }
}

INLINE void dense(const struct convolution *c, int64_t first_unit, int64_t end_unit, void *scratch,
                  const int is_wide, const int is_dots) {
    const int64_t groups = (c->out_channels + KERNELS - 1) / KERNELS;
    const int64_t parts = (groups + c->kernel_blocks - 1) / c->kernel_blocks;
    struct tiles t = tiles_of(c, scratch, is_wide, is_dots);
    int64_t packed_block = -1;
    for (int64_t unit = first_unit; unit < end_unit; unit++) {
        const int64_t block = unit / parts, part = unit % parts;
        if (block != packed_block)
            pack_block(c, &t, block, is_wide, is_dots);
        packed_block = block;
        const int64_t last = least((part + 1) * c->kernel_blocks, groups);
        for (int64_t group = part * c->kernel_blocks, blocks; group < last; group += blocks) {
            blocks = least(t.together, last - group);
            const int64_t k = group * KERNELS,
                          kernels = least(blocks * KERNELS, c->out_channels - k);
#ifdef BYTE_DOTS
            if (is_dots)
                take_weights(c, group, blocks, &t.quads);
#endif
#ifdef X86
            if (is_wide && !is_dots && !t.is_one_pixel)
                for (int64_t b = 0; b < blocks; b++)
                    spread_wide(c, group + b, t.weights + b * t.block);
#endif
            if (!is_wide)
                spread_narrow(c, group, t.weights);
            finish_tiles(c, &t, k, kernels, blocks, is_wide, is_dots);
            store_rows(c, k, kernels, t.y, t.y_end, t.results, t.size, t.step, is_wide);
        }
    }
}

#include "vip_depthwise.h"

#ifdef BYTE_DOTS
WITH_AVX2 static void convolve_dots(const struct convolution *c, int64_t first, int64_t end,
                                    void *scratch) {
    if (c->is_depthwise)
        depthwise(c, first, end, scratch, 1);
    else
        dense(c, first, end, scratch, 1, 1);
}
#endif

static void convolve_narrow(const struct convolution *c, int64_t first, int64_t end,
                            void *scratch) {
    if (c->is_depthwise)
        depthwise(c, first, end, scratch, 0);
    else
        dense(c, first, end, scratch, 0, 0);
}

#ifdef X86
WITH_AVX2 static void convolve_wide(const struct convolution *c, int64_t first, int64_t end,
                                    void *scratch) {
    if (c->is_depthwise)
        depthwise(c, first, end, scratch, 1);
    else
        dense(c, first, end, scratch, 1, 0);
}
#endif

EXPORT void anynpu_vip_convolution(const void *arguments, int64_t first, int64_t end,
                                   void *scratch) {
#ifdef BYTE_DOTS
    if (has_dots(running_form)) {
        convolve_dots(arguments, first, end, scratch);
        return;
    }
#endif
#ifdef X86
    if (has_avx2(running_form)) {
        convolve_wide(arguments, first, end, scratch);
        return;
    }
#endif
    convolve_narrow(arguments, first, end, scratch);
}

/* Sums of the weights of KERNELS kernels in each of some blocks, of `quads` quads a kernel. */
EXPORT void anynpu_vip_sum_weights(const int8_t *weights, int64_t blocks, int64_t quads,
                                   int32_t *sums) {
    for (; blocks > 0; blocks--, sums += KERNELS) {
        int32_t columns[QUAD * KERNELS] = {0};
        for (int64_t q = 0; q < quads; q++, weights += QUAD * KERNELS)
            for (int i = 0; i < QUAD * KERNELS; i++)
                columns[i] += weights[i];
        for (int k = 0; k < KERNELS; k++)
            sums[k] = columns[4 * k] + columns[4 * k + 1] + columns[4 * k + 2] + columns[4 * k + 3];
    }
}

EXPORT void anynpu_vip_convolution_parts(const void *arguments, int64_t first, int64_t end,
                                         void *scratch) {
    const struct convolution_parts *all = arguments;
    for (int64_t i = 0; i < all->count; i++) {
        const struct convolution_part *part = all->parts + i;
        const int64_t last = i + 1 < all->count ? part[1].first : all->units;
        const int64_t from = most(first, part->first), to = least(end, last);
        if (from < to)
            anynpu_vip_convolution(part->convolution, from - part->first, to - part->first,
                                   scratch);
    }
}

/* A part of a block of places: from its `first` value on, from the byte `base` on. */
struct run_of_places {
    const struct places *places;
    int64_t base;
    int64_t first;
    int turns; /* whether some are beyond the end of a circular buffer, and some not */
};

INLINE struct run_of_places run_from(const struct places *p, int64_t value) {
    struct run_of_places r = {p, p->blocks[value / p->size], value % p->size, 0};
    if (p->turn && r.base + p->least >= p->end)
        r.base -= p->turn;
    else if (p->turn)
        r.turns = r.base + p->most >= p->end;
    return r;
}

INLINE int64_t place_of(const struct run_of_places *r, int64_t i) {
    const int64_t place = r->base + r->places->inside[r->first + i];
    return r->turns && place >= r->places->end ? place - r->places->turn : place;
}

/* Values one by one. */
INLINE void move_each(const struct move *m, const struct run_of_places *from,
                      const struct run_of_places *to, int64_t count) {
    const uint8_t border = (uint8_t)m->border;
    for (int64_t i = 0; i < count; i++) {
        const int is_there = from->places->inside[from->first + i] != NOWHERE;
        const uint8_t byte = is_there ? m->source[place_of(from, i)] : border;
        m->target[place_of(to, i)] = is_there && m->table ? m->table[byte] : byte;
    }
}

/* The same of those that follow one another in steps on both sides. */
INLINE void move_steps(const struct move *m, const uint8_t *source, int64_t from_step,
                       uint8_t *target, int64_t to_step, int64_t count) {
    if (m->table && to_step == 1)
        for (int64_t i = 0; i < count; i++)
            target[i] = m->table[source[i * from_step]];
    else if (m->table)
        for (int64_t i = 0; i < count; i++)
            target[i * to_step] = m->table[source[i * from_step]];
    else if (from_step == 1 && to_step == 1)
        copy_bytes(target, source, count);
    else
        for (int64_t i = 0; i < count; i++)
            target[i * to_step] = source[i * from_step];
}

INLINE void move_runs(const struct move *m, const struct run_of_places *from,
                      const struct run_of_places *to, int64_t count) {
    const struct places *const p = from->places, *const q = to->places;
    for (int64_t i = 0, some; i < count; i += some) {
        some = least(p->run - (from->first + i) % p->run, q->run - (to->first + i) % q->run);
        some = least(some, count - i);
        move_steps(m, m->source + place_of(from, i), p->step, m->target + place_of(to, i), q->step,
                   some);
    }
}

EXPORT void anynpu_vip_move(const void *arguments, int64_t first, int64_t end, void *scratch) {
    const struct move *m = arguments;
    const int64_t last = least(end * m->unit, m->count);
    const int has_runs = m->origins.run > 1 && m->places.run > 1;
    (void)scratch;
    for (int64_t i = first * m->unit, count; i < last; i += count) {
        const struct run_of_places from = run_from(&m->origins, i), to = run_from(&m->places, i);
        count = least(last - i, least(m->origins.size - from.first, m->places.size - to.first));
        if (m->item > 1)
            for (int64_t k = 0; k < count; k++)
                memcpy(m->target + place_of(&to, k), m->source + place_of(&from, k),
                       (size_t)m->item);
        else if (has_runs && !from.turns && !to.turns)
            move_runs(m, &from, &to, count);
        else
            move_each(m, &from, &to, count);
    }
}

EXPORT void anynpu_vip_stream(const void *arguments, int64_t first, int64_t end, void *scratch) {
#ifdef AVX512
    if (running_form == AVX512_VNNI) {
        stream_rows_avx512(arguments, first, end, scratch);
        return;
    }
#endif
    stream_rows(arguments, first, end, scratch);
}
