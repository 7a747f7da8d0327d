/* int8 convolutions channel by channel, for npu.c: pairs of products into int32 sums, which every processor
 * with vectors has an instruction for.
 *
 * The input's rows are laid out with padding round them as pairs of neighbours, the dilation apart: (rows,
 * columns, lanes, 2). Columns are as far apart as neighbouring outputs where that leaves out none that is
 * needed, else one pixel. Weights lie as (surfaces, height, pairs, lanes, 2); a pair's second one is zero where
 * the kernel ends.
 */
#ifndef ANYNPU_NPU_DEPTHWISE_H
#define ANYNPU_NPU_DEPTHWISE_H

/* Neighbours in a row whose sums are in registers. */
enum { TOGETHER = 7 };

/* The pair that begins with pixel x of a row; lanes past the valid ones hold zeros, but padding in what lies
 * outside. */
INLINE void pair_pixels(const struct int8_depthwise *a, const int8_t *line, int64_t x,
                        int64_t valid, int16_t *pairs, const int lanes) {
    const struct features *f = &a->features;
    for (int e = 0; e < 2; e++, x += a->window.dilation_x) {
        const int is_inside = x >= 0 && x < f->width;
        const int8_t *atom = line + (is_inside ? x * f->pixel : 0);
        for (int l = 0; l < lanes; l++)
            pairs[2 * l + e] = !is_inside ? (int16_t)a->window.padding : l < valid ? atom[l] : 0;
    }
}

#ifdef X86
WITH_AVX2 INLINE __m128i load_lanes(const int8_t *atom, __m128i valid, const int lanes) {
    const __m128i *from = (const __m128i *)atom;
    return _mm_and_si128(lanes == 16 ? _mm_loadu_si128(from) : _mm_loadl_epi64(from), valid);
}

/* A pixel that may lie outside, as int16. */
WITH_AVX2 INLINE __m256i load_edge(const struct int8_depthwise *a, const int8_t *line, int64_t x,
                                   __m128i valid, const int lanes) {
    const struct features *f = &a->features;
    return x >= 0 && x < f->width
               ? _mm256_cvtepi8_epi16(load_lanes(line + x * f->pixel, valid, lanes))
               : _mm256_set1_epi16((int16_t)a->window.padding);
}

/* The pair where either pixel may. */
WITH_AVX2 INLINE void pair_edge_avx2(const struct int8_depthwise *a, const int8_t *line, int64_t x,
                                     __m128i valid, int16_t *pairs, const int lanes) {
    const __m256i first = load_edge(a, line, x, valid, lanes);
    const __m256i second = load_edge(a, line, x + a->window.dilation_x, valid, lanes);
    const __m256i low = _mm256_unpacklo_epi16(first, second);
    const __m256i high = _mm256_unpackhi_epi16(first, second);
    _mm256_storeu_si256((__m256i *)pairs, _mm256_permute2x128_si256(low, high, 0x20));
    if (lanes == 16)
        _mm256_storeu_si256((__m256i *)pairs + 1, _mm256_permute2x128_si256(low, high, 0x31));
}

/* `count` pairs, `step` bytes apart, whose second pixels lie `second` bytes after the first. */
WITH_AVX2 INLINE void pair_atoms_avx2(const int8_t *atom, int64_t second, int64_t step,
                                      int64_t count, __m128i valid, int16_t *pairs,
                                      const int lanes) {
    for (; count > 0; count--, atom += step, pairs += 2 * lanes) {
        const __m128i first = load_lanes(atom, valid, lanes);
        const __m128i other = load_lanes(atom + second, valid, lanes);
        const __m256i low = _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(first, other));
        _mm256_storeu_si256((__m256i *)pairs, low);
        if (lanes == 16) {
            const __m256i high = _mm256_cvtepi8_epi16(_mm_unpackhi_epi8(first, other));
            _mm256_storeu_si256((__m256i *)pairs + 1, high);
        }
    }
}

/* A row's pairs. */
WITH_AVX2 INLINE void pair_row_of_avx2(const struct int8_depthwise *a, const int8_t *line,
                                       int64_t valid, int16_t *pairs, const int lanes) {
    const struct features *f = &a->features;
    const struct window *k = &a->window;
    const __m128i mask = first_lanes(valid);
    const int64_t step = k->stride_x / a->apart, begin = steps_to(k->left, step);
    const int64_t last = f->width - 1 - k->dilation_x + k->left;
    const int64_t end = last < 0 ? 0 : least(step == 1 ? last + 1 : last / step + 1, a->columns);
    int64_t column = 0;
    for (; column < least(begin, a->columns); column++, pairs += 2 * lanes)
        pair_edge_avx2(a, line, column * step - k->left, mask, pairs, lanes);
    if (column < end) {
        const int8_t *atom = line + (column * step - k->left) * f->pixel;
        const int64_t second = k->dilation_x * f->pixel, next = step * f->pixel;
        pair_atoms_avx2(atom, second, next, end - column, mask, pairs, lanes);
        pairs += 2 * lanes * (end - column);
        column = end;
    }
    for (; column < a->columns; column++, pairs += 2 * lanes)
        pair_edge_avx2(a, line, column * step - k->left, mask, pairs, lanes);
}
WITH_AVX2 static void pair_row_avx2(const struct int8_depthwise *a, const int8_t *line,
                                    int64_t valid, int16_t *pairs, int lanes) {
    if (lanes == LANES)
        pair_row_of_avx2(a, line, valid, pairs, LANES);
    else
        pair_row_of_avx2(a, line, valid, pairs, LANES / 2);
}
#endif

/* The same in the form that runs. */
INLINE void pair_row(const struct int8_depthwise *a, const int8_t *line, int64_t valid,
                     int16_t *pairs, const int lanes, const int form) {
#ifdef X86
    if (has_avx2(form)) {
        pair_row_avx2(a, line, valid, pairs, lanes);
        return;
    }
#endif
    for (int64_t column = 0; column < a->columns; column++)
        pair_pixels(a, line, column * (a->window.stride_x / a->apart) - a->window.left, valid,
                    pairs + 2 * column * lanes, lanes);
    (void)form;
}

/* `count` rows of the input's surface from row `top` on. */
INLINE void pair_rows(const struct int8_depthwise *a, int64_t s, int64_t top, int64_t count,
                      int16_t *pairs, const int lanes, const int form) {
    const struct features *f = &a->features;
    const int64_t row = 2 * a->columns * lanes;
    const int64_t valid = f->valid - s * lanes < 0 ? 0 : f->valid - s * lanes;
    for (int64_t y = top; y < top + count; y++, pairs += row)
        if (y >= 0 && y < f->height)
            pair_row(a, (const int8_t *)f->base + s * f->surface + y * f->line, valid, pairs, lanes,
                     form);
        else
            for (int64_t i = 0; i < row; i++)
                pairs[i] = (int16_t)a->window.padding;
}

/* (count, lanes) sums over the places of the kernel, for neighbours in a row of pairs. */
INLINE void sum_pairs_plain(const struct int8_depthwise *a, const int16_t *seen,
                            const int16_t *weights, int64_t count, int32_t *sums, const int lanes) {
    for (int64_t i = 0; i < count; i++, seen += 2 * lanes * a->apart, sums += lanes) {
        const int16_t *w = weights;
        words total[2 * LANES / COLUMNS] = {{0}};
        for (int64_t ky = 0; ky < a->window.height; ky++)
            for (int64_t p = 0; p < a->pairs; p++, w += 2 * lanes) {
                const int16_t *x = seen + 2 * lanes * (ky * a->reach + p * a->pair);
                for (int v = 0; v < 2 * lanes / COLUMNS; v++)
                    total[v] += __builtin_convertvector(*(const halves *)(x + v * COLUMNS), words) *
                                __builtin_convertvector(*(const halves *)(w + v * COLUMNS), words);
            }
        for (int l = 0; l < lanes; l++)
            sums[l] = total[2 * l / COLUMNS][2 * l % COLUMNS] +
                      total[2 * l / COLUMNS][2 * l % COLUMNS + 1];
    }
}

/* The same in vectors. ADD adds a pair's products to each of the sums in a vector. */
#define SUM_PAIRS(form, keyword, vector, LOAD, STORE, NONE, ADD)                                   \
    keyword INLINE void sum_some_##form(const struct int8_depthwise *a, const int16_t *seen,       \
                                        const int16_t *weights, int32_t *sums, const int lanes,    \
                                        const int64_t apart, const int count) {                    \
        enum { HELD = sizeof(vector) / sizeof(int32_t) };                                          \
        for (int first = 0; first < lanes; first += HELD) {                                        \
            const int16_t *w = weights + 2 * first, *row = seen + 2 * first;                       \
            vector total[TOGETHER];                                                                \
            UNROLLED for (int i = 0; i < count; i++) total[i] = NONE();                            \
            for (int64_t ky = 0; ky < a->window.height; ky++, row += 2 * lanes * a->reach) {       \
                const int16_t *x = row;                                                            \
                for (int64_t p = 0; p < a->pairs; p++, w += 2 * lanes, x += 2 * lanes * a->pair) { \
                    const vector held = LOAD((const vector *)w);                                   \
                    UNROLLED for (int i = 0; i < count; i++) total[i] =                            \
                        ADD(total[i], LOAD((const vector *)(x + 2 * lanes * apart * i)), held);    \
                }                                                                                  \
            }                                                                                      \
            UNROLLED for (int i = 0; i < count; i++)                                               \
                STORE((vector *)(sums + i * lanes + first), total[i]);                             \
        }                                                                                          \
    }                                                                                              \
    keyword INLINE void sum_row_##form(const struct int8_depthwise *a, const int16_t *seen,        \
                                       const int16_t *weights, int64_t count, int32_t *sums,       \
                                       const int lanes, const int64_t apart) {                     \
        int64_t i = 0;                                                                             \
        for (; i + TOGETHER <= count; i += TOGETHER)                                               \
            sum_some_##form(a, seen + 2 * lanes * apart * i, weights, sums + i * lanes, lanes,     \
                            apart, TOGETHER);                                                      \
        if (i < count && count >= TOGETHER) {                                                      \
            /* The last ones overlap with those before. */                                         \
            i = count - TOGETHER;                                                                  \
            sum_some_##form(a, seen + 2 * lanes * apart * i, weights, sums + i * lanes, lanes,     \
                            apart, TOGETHER);                                                      \
            return;                                                                                \
        }                                                                                          \
        for (; i < count; i++)                                                                     \
            sum_some_##form(a, seen + 2 * lanes * apart * i, weights, sums + i * lanes, lanes,     \
                            apart, 1);                                                             \
    }                                                                                              \
    keyword static void sum_pairs_##form(const struct int8_depthwise *a, const int16_t *seen,      \
                                         const int16_t *weights, int64_t count, int32_t *sums,     \
                                         const int lanes) {                                        \
        if (a->apart == 1)                                                                         \
            sum_row_##form(a, seen, weights, count, sums, lanes, 1);                               \
        else                                                                                       \
            sum_row_##form(a, seen, weights, count, sums, lanes, a->apart);                        \
    }

#ifdef X86
#define MULTIPLY_AND_ADD(sums, x, w) _mm256_add_epi32(sums, _mm256_madd_epi16(x, w))
SUM_PAIRS(avx2, WITH_AVX2, __m256i, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_setzero_si256,
          MULTIPLY_AND_ADD)
#ifdef DOTS
SUM_PAIRS(avx_vnni, WITH_AVX_VNNI, __m256i, _mm256_loadu_si256, _mm256_storeu_si256,
          _mm256_setzero_si256, _mm256_dpwssd_avx_epi32)
SUM_PAIRS(half_avx512_vnni, WITH_AVX512_VNNI, __m256i, _mm256_loadu_si256, _mm256_storeu_si256,
          _mm256_setzero_si256, _mm256_dpwssd_epi32)
SUM_PAIRS(avx512_vnni, WITH_AVX512_VNNI, __m512i, _mm512_loadu_si512, _mm512_storeu_si512,
          _mm512_setzero_si512, _mm512_dpwssd_epi32)
#endif
#endif

/* In the form that runs. */
INLINE void sum_pairs(const struct int8_depthwise *a, const int16_t *seen, const int16_t *weights,
                      int64_t count, int32_t *sums, const int lanes, const int form) {
#ifdef X86
#ifdef DOTS
    if (running_form == AVX512_VNNI && lanes == LANES)
        sum_pairs_avx512_vnni(a, seen, weights, count, sums, lanes);
    else if (running_form == AVX512_VNNI)
        sum_pairs_half_avx512_vnni(a, seen, weights, count, sums, lanes);
    else if (running_form == AVX_VNNI)
        sum_pairs_avx_vnni(a, seen, weights, count, sums, lanes);
    else
#endif
        if (has_avx2(form))
        sum_pairs_avx2(a, seen, weights, count, sums, lanes);
    else
#endif
        sum_pairs_plain(a, seen, weights, count, sums, lanes);
    (void)form;
}

/* The output rows `oy` to `below` of a surface; as many of them at a time as a block has room for. */
INLINE void convolve_rows(const struct int8_depthwise *a, int64_t s, int64_t oy, int64_t below,
                          int16_t *pairs, const int lanes, const int form) {
    const struct window *k = &a->window;
    const int64_t width = k->out_width, most = BLOCK / least(width, BLOCK);
    const int64_t row = 2 * lanes * k->stride_y * a->columns;
    const int16_t *weights = a->weights + s * k->height * a->pairs * lanes * 2;
    _Alignas(64) int32_t sums[BLOCK * LANES];
    pair_rows(a, s, oy * k->stride_y - k->top,
              (below - oy - 1) * k->stride_y + (k->height - 1) * k->dilation_y + 1, pairs, lanes,
              form);
    for (int64_t rows = most; oy < below; oy += rows, pairs += rows * row) {
        rows = least(rows, below - oy);
        for (int64_t ox = 0; ox < width; ox += BLOCK) {
            const int64_t n = least(width - ox, BLOCK);
            for (int64_t r = 0; r < rows; r++)
                sum_pairs(a, pairs + r * row + 2 * lanes * a->apart * ox, weights, n,
                          sums + r * n * lanes, lanes, form);
            if (a->truncate)
                truncate_sums(sums, rows * n * lanes, a->truncate, a->truncate_up);
            finish(&a->dpu, &a->writer, s, oy * width + ox, rows * n, sums, lanes, form);
        }
    }
}

#include "npu_depthwise_fused.h"

/* Units are the bands of all surfaces, one surface after another. */
INLINE void convolve_depthwise(const struct int8_depthwise *a, int64_t first, int64_t end,
                               int16_t *pairs, const int lanes, const int form) {
    const int64_t height = a->window.out_height, bands = (height + a->band - 1) / a->band;
    for (; first < end; first++) {
        const int64_t s = first / bands, oy = first % bands * a->band;
        const int64_t below = least(oy + a->band, height);
#if defined(X86) && defined(DOTS)
        int8_t *q = fused_rows(a, s, oy);
        if (q) {
            convolve_rows_fused(a, s, oy, below, pairs, q);
            continue;
        }
#endif
        convolve_rows(a, s, oy, below, pairs, lanes, form);
    }
}

#endif
