/* The sums of native/vip.c where a processor multiplies bytes, four products to a sum.
 *
 * The image is bytes without a sign, weights are bytes with one: sums begin with what makes up for the 128
 * that the image's bytes have too much, and, where a kernel counts from another zero point than 128, for
 * that with the sum of the image's bytes under the window. All of it wraps round, so that only what sums
 * come to has to fit int32, which the caller has proved.
 */
#ifndef ANYNPU_VIP_DOTS_H
#define ANYNPU_VIP_DOTS_H

#include <stdint.h>
#include <string.h>

#include "cpu.h"
#include "vip.h"

#if defined(DOTS) && defined(X86)
#define BYTE_DOTS 1

enum {
    PARTS = 3,         /* bytes with a sign that a difference of two bytes is a sum of */
    MANY = 2 * KERNELS /* kernels that are computed together where there are 32 registers */
};

/* ------------------------------------------------------------------------------- bytes in quads */

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

/* The four rows of `count` quads; as many more are read and written as above. */
WITH_AVX2 static void separate(const int32_t *quads, int64_t count, uint8_t *const rows[QUAD]) {
    const __m128i order = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    for (int64_t x = 0; x < count; x += 16) {
        __m128i four[QUAD];
        for (int i = 0; i < QUAD; i++)
            four[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(quads + x) + i), order);
        const __m128i low = _mm_unpacklo_epi32(four[0], four[1]),
                      high = _mm_unpackhi_epi32(four[0], four[1]),
                      next_low = _mm_unpacklo_epi32(four[2], four[3]),
                      next_high = _mm_unpackhi_epi32(four[2], four[3]);
        _mm_storeu_si128((__m128i *)(rows[0] + x), _mm_unpacklo_epi64(low, next_low));
        _mm_storeu_si128((__m128i *)(rows[1] + x), _mm_unpackhi_epi64(low, next_low));
        _mm_storeu_si128((__m128i *)(rows[2] + x), _mm_unpacklo_epi64(high, next_high));
        _mm_storeu_si128((__m128i *)(rows[3] + x), _mm_unpackhi_epi64(high, next_high));
    }
}

/* Each pixel's byte and the three that follow it, for every `s`th pixel: 7 quads more may be written, from
 * bytes up to 32 further on. */
WITH_AVX2 INLINE void expand(const uint8_t *line, uint8_t flip, int64_t s, int64_t count,
                             int32_t *to) {
    const __m256i f = _mm256_set1_epi8((char)flip);
    const __m256i lanes = s == 1 ? _mm256_setr_epi32(0, 1, 2, 3, 1, 2, 3, 4)
                                 : _mm256_setr_epi32(0, 1, 2, 3, 2, 3, 4, 5);
    const __m256i order = _mm256_broadcastsi128_si256(
        s == 1 ? _mm_setr_epi8(0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6)
               : _mm_setr_epi8(0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7, 6, 7, 8, 9));
    for (int64_t x = 0; x < count; x += 8) {
        const __m256i bytes =
            _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(line + s * x)), f);
        _mm256_storeu_si256((__m256i *)(to + x),
                            _mm256_shuffle_epi8(_mm256_permutevar8x32_epi32(bytes, lanes), order));
    }
}

/* ----------------------------------------------------------------------------------- weights */

/* What the sums of some kernels are made of. Weights are a quad of each kernel, tap by tap; the sum of the
 * bytes under the window is counted `factors` times, where there are such sums. */
struct quads {
    const int32_t *packed;
    const int32_t *taps;
    int64_t tap_count;
    int32_t *weights;
    int32_t bias[MANY];
    int32_t factors[MANY];
    const int32_t *windows;
    int64_t stride;
};

/* Weights of `blocks` blocks of KERNELS kernels, less 128, and what their sums begin with. */
WITH_AVX2 static void spread_quads(const struct convolution *c, int64_t group, int64_t blocks,
                                   struct quads *q) {
    const int64_t pairs = (c->channels + 1) / 2, window = c->kernel_height * c->kernel_width;
    const __m128i flip = _mm_set1_epi8(-128), ones = _mm_set1_epi8(1), one = _mm_set1_epi16(1);
    for (int64_t b = 0; b < blocks; b++) {
        const uint8_t *bytes = c->weights + (group + b) * c->tap_count * 2 * KERNELS;
        int32_t *to = q->weights + b * KERNELS;
        __m128i sum = _mm_setzero_si128();
        for (int64_t pair = 0; pair < pairs; pair += 2)
            for (int64_t t = 0; t < window; t++, to += blocks * KERNELS) {
                const uint8_t *at = bytes + (pair * window + t) * 2 * KERNELS;
                const __m128i first = _mm_loadl_epi64((const __m128i *)at);
                const __m128i second =
                    pair + 1 < pairs ? _mm_loadl_epi64((const __m128i *)(at + window * 2 * KERNELS))
                                     : flip;
                const __m128i weights = _mm_xor_si128(_mm_unpacklo_epi16(first, second), flip);
                sum = _mm_add_epi32(sum, _mm_madd_epi16(_mm_maddubs_epi16(ones, weights), one));
                _mm_storeu_si128((__m128i *)to, weights);
            }
        int32_t sums[KERNELS];
        _mm_storeu_si128((__m128i *)sums, sum);
        for (int k = 0; k < KERNELS; k++) {
            const int64_t kernel = (group + b) * KERNELS + k;
            const int32_t factor = 128 - c->weight_zero_points[kernel];
            q->factors[b * KERNELS + k] = factor;
            q->bias[b * KERNELS + k] =
                (int32_t)(c->bias[kernel] - 128 * (sums[k] + 2 * pairs * window * factor));
        }
    }
}

/* A depthwise kernel's weights, less its zero point, as sums of up to PARTS bytes in quads of a row's
 * places. How many it takes; the bias makes up for the image's 128. */
INLINE int spread_row_quads(const struct convolution *c, int64_t k, int32_t *bias,
                            int8_t weights[PARTS][QUAD * MOST_PAIRS]) {
    const int64_t width = (c->kernel_width + 1) / 2 * 2,
                  quads = (c->kernel_width + QUAD - 1) / QUAD;
    const uint8_t *bytes = c->weights + k * width * c->kernel_height;
    const int zero_point = c->weight_zero_points[k];
    int32_t sum = 0;
    int parts = 1;
    for (int part = 0; part < parts; part++) {
        memset(weights[part], 0, (size_t)(QUAD * quads * c->kernel_height));
        for (int64_t y = 0; y < c->kernel_height; y++)
            for (int64_t x = 0; x < c->kernel_width; x++) {
                int weight = bytes[y * width + x] - zero_point, kept = 0;
                sum += part ? 0 : weight;
                for (int i = 0; i <= part; i++) {
                    weight -= kept;
                    kept = weight < -128 ? -128 : weight > 127 ? 127 : weight;
                }
                weights[part][y * quads * QUAD + x] = (int8_t)kept;
                if (kept != weight)
                    parts = part + 2;
            }
    }
    *bias = (int32_t)(c->bias[k] - INT64_C(128) * sum);
    return parts;
}

/* -------------------------------------------------------------------------------------- sums */

/* In the words of a form: `vector` of int32 holds PLACES times PIXELS pixels, each with a place of its own. */
#define VIP_DOTS(form, keyword, vector, PLACES, load, load_row, store, same, add, multiply, dot,   \
                 KS)                                                                               \
    keyword INLINE vector pixels_##form(const int32_t *packed, const int64_t *places) {            \
        return load(packed + places[0], packed + places[PLACES - 1]);                              \
    }                                                                                              \
    keyword INLINE void sum_some_##form(const struct quads *q, const int64_t *places,              \
                                        int32_t *sums, int64_t first, const int kernels,           \
                                        const int vectors) {                                       \
        vector total[MANY][3];                                                                     \
        _Pragma("GCC unroll 8") for (int k = 0; k < kernels; k++)                                  \
            _Pragma("GCC unroll 3") for (int v = 0; v < vectors; v++) {                            \
            total[k][v] = same(q->bias[k]);                                                        \
            if (q->windows) {                                                                      \
                const int32_t *at = q->windows + first + v * PLACES * PIXELS;                      \
                total[k][v] = add(total[k][v], multiply(load_row(at), same(q->factors[k])));       \
            }                                                                                      \
        }                                                                                          \
        for (int64_t t = 0; t < q->tap_count; t++) {                                               \
            const int32_t *from = q->packed + q->taps[t], *weights = q->weights + t * kernels;     \
            vector x[3];                                                                           \
            _Pragma("GCC unroll 3") for (int v = 0; v < vectors; v++) x[v] =                       \
                pixels_##form(from, places + v * PLACES);                                          \
            _Pragma("GCC unroll 8") for (int k = 0; k < kernels; k++) {                            \
                const vector w = same(weights[k]);                                                 \
                _Pragma("GCC unroll 3") for (int v = 0; v < vectors; v++) total[k][v] =            \
                    dot(total[k][v], x[v], w);                                                     \
            }                                                                                      \
        }                                                                                          \
        _Pragma("GCC unroll 8") for (int k = 0; k < kernels; k++)                                  \
            _Pragma("GCC unroll 3") for (int v = 0; v < vectors; v++)                              \
                store(sums + k * q->stride + first + v * PLACES * PIXELS, total[k][v]);            \
    }                                                                                              \
    keyword static void sum_all_##form(const struct quads *q, const int64_t *places,               \
                                       int64_t count, int32_t *sums, int64_t blocks) {             \
        int64_t v = 0;                                                                             \
        for (; v + 2 * (PLACES) < count; v += 3 * (PLACES))                                        \
            if (blocks == 2)                                                                       \
                sum_some_##form(q, places + v, sums, v * PIXELS, KS, 3);                           \
            else                                                                                   \
                sum_some_##form(q, places + v, sums, v * PIXELS, KERNELS, 3);                      \
        for (; v < count; v += PLACES)                                                             \
            if (blocks == 2)                                                                       \
                sum_some_##form(q, places + v, sums, v * PIXELS, KS, 1);                           \
            else                                                                                   \
                sum_some_##form(q, places + v, sums, v * PIXELS, KERNELS, 1);                      \
    }                                                                                              \
    /* The sums of the bytes under each window. */                                                 \
    keyword static void sum_windows_##form(const struct quads *q, const int64_t *places,           \
                                           int64_t count, int32_t *sums) {                         \
        const vector ones = same(0x01010101);                                                      \
        for (int64_t v = 0; v < count; v += PLACES) {                                              \
            vector even = same(0), odd = even;                                                     \
            int64_t t = 0;                                                                         \
            for (; t + 2 <= q->tap_count; t += 2) {                                                \
                even = dot(even, pixels_##form(q->packed + q->taps[t], places + v), ones);         \
                odd = dot(odd, pixels_##form(q->packed + q->taps[t + 1], places + v), ones);       \
            }                                                                                      \
            if (t < q->tap_count)                                                                  \
                even = dot(even, pixels_##form(q->packed + q->taps[t], places + v), ones);         \
            store(sums + v * PIXELS, add(even, odd));                                              \
        }                                                                                          \
    }                                                                                              \
    /* A depthwise kernel's sums; rows of expanded pixels lie `pitch` apart. */                    \
    keyword INLINE void sum_rows_of_##form(                                                        \
        const struct convolution *c, const int32_t *rows, int64_t pitch, int32_t bias,             \
        int8_t weights[PARTS][QUAD * MOST_PAIRS], const int parts, int32_t *sums, int64_t count) { \
        const int64_t quads = (c->kernel_width + QUAD - 1) / QUAD, ahead = QUAD / c->stride;       \
        for (int64_t x = 0; x < count; x += 2 * PLACES * PIXELS) {                                 \
            vector total[2] = {same(bias), same(bias)};                                            \
            const int8_t *w = weights[0];                                                          \
            for (int64_t y = 0; y < c->kernel_height; y++)                                         \
                for (int64_t q = 0; q < quads; q++, w += QUAD) {                                   \
                    const int32_t *from = rows + y * pitch + q * ahead + x;                        \
                    vector pixels[2];                                                              \
                    for (int v = 0; v < 2; v++)                                                    \
                        pixels[v] = load_row(from + v * PLACES * PIXELS);                          \
                    for (int part = 0; part < parts; part++) {                                     \
                        int32_t quad;                                                              \
                        memcpy(&quad, w + part * QUAD * MOST_PAIRS, sizeof quad);                  \
                        for (int v = 0; v < 2; v++)                                                \
                            total[v] = dot(total[v], pixels[v], same(quad));                       \
                    }                                                                              \
                }                                                                                  \
            store(sums + x, total[0]);                                                             \
            store(sums + x + PLACES * PIXELS, total[1]);                                           \
        }                                                                                          \
    }                                                                                              \
    keyword static void sum_rows_##form(                                                           \
        const struct convolution *c, const int32_t *rows, int64_t pitch, int32_t bias,             \
        int8_t weights[PARTS][QUAD * MOST_PAIRS], int parts, int32_t *sums, int64_t count) {       \
        if (parts > 1)                                                                             \
            sum_rows_of_##form(c, rows, pitch, bias, weights, parts, sums, count);                 \
        else                                                                                       \
            sum_rows_of_##form(c, rows, pitch, bias, weights, 1, sums, count);                     \
    }

#define LOAD_256(first, second) _mm256_loadu_si256((const __m256i *)(first))
#define LOAD_ROW_256(from) _mm256_loadu_si256((const __m256i *)(from))
#define STORE_256(to, v) _mm256_storeu_si256((__m256i *)(to), v)
VIP_DOTS(avx_vnni, WITH_AVX_VNNI, __m256i, 1, LOAD_256, LOAD_ROW_256, STORE_256, _mm256_set1_epi32,
         _mm256_add_epi32, _mm256_mullo_epi32, _mm256_dpbusd_avx_epi32, KERNELS)

#define LOAD_512(first, second)                                                                    \
    _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)(first))),       \
                       _mm256_loadu_si256((const __m256i *)(second)), 1)
VIP_DOTS(avx512_vnni, WITH_AVX512_VNNI, __m512i, 2, LOAD_512, _mm512_loadu_si512,
         _mm512_storeu_si512, _mm512_set1_epi32, _mm512_add_epi32, _mm512_mullo_epi32,
         _mm512_dpbusd_epi32, MANY)

/* In the form that runs. */
static void sum_quads(const struct quads *q, const int64_t *places, int64_t count, int32_t *sums,
                      int64_t blocks) {
    if (running_form == AVX512_VNNI)
        sum_all_avx512_vnni(q, places, count, sums, blocks);
    else
        sum_all_avx_vnni(q, places, count, sums, blocks);
}

static void sum_windows(const struct quads *q, const int64_t *places, int64_t count,
                        int32_t *sums) {
    if (running_form == AVX512_VNNI)
        sum_windows_avx512_vnni(q, places, count, sums);
    else
        sum_windows_avx_vnni(q, places, count, sums);
}

static void sum_rows(const struct convolution *c, const int32_t *rows, int64_t pitch, int32_t bias,
                     int8_t weights[PARTS][QUAD * MOST_PAIRS], int parts, int32_t *sums,
                     int64_t count) {
    if (running_form == AVX512_VNNI)
        sum_rows_avx512_vnni(c, rows, pitch, bias, weights, parts, sums, count);
    else
        sum_rows_avx_vnni(c, rows, pitch, bias, weights, parts, sums, count);
}
#endif

#endif
