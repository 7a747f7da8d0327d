/* Weights of a group of kernels as a panel of floats, (places, GROUP), for npu_general.c: they stay in memory as
 * the file has them. */
#ifndef ANYNPU_NPU_GENERAL_WEIGHTS_H
#define ANYNPU_NPU_GENERAL_WEIGHTS_H

#include <stdint.h>

#include "npu_general_elements.h"

enum {
    RUN = 64,
    AHEAD = 2048, /* bytes of weights that are asked of memory before their turn: two blocks */
};

#ifdef X86
/* Eight kernels' eight float16 to eight channels of eight floats. */
WITH_AVX2 INLINE void transpose_halves(const uint8_t *const *kernels, int64_t offset,
                                       float *panel) {
    __m128i a[8], b[8];
    for (int i = 0; i < 8; i++)
        a[i] = _mm_loadu_si128((const __m128i *)(kernels[i] + offset));
    for (int i = 0; i < 4; i++) {
        b[2 * i] = _mm_unpacklo_epi16(a[2 * i], a[2 * i + 1]);
        b[2 * i + 1] = _mm_unpackhi_epi16(a[2 * i], a[2 * i + 1]);
    }
    for (int h = 0; h < 2; h++)
        for (int i = 0; i < 2; i++) {
            a[4 * h + 2 * i] = _mm_unpacklo_epi32(b[4 * h + i], b[4 * h + 2 + i]);
            a[4 * h + 2 * i + 1] = _mm_unpackhi_epi32(b[4 * h + i], b[4 * h + 2 + i]);
        }
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(panel + 2 * i * GROUP,
                         _mm256_cvtph_ps(_mm_unpacklo_epi64(a[i], a[4 + i])));
        _mm256_storeu_ps(panel + (2 * i + 1) * GROUP,
                         _mm256_cvtph_ps(_mm_unpackhi_epi64(a[i], a[4 + i])));
    }
}

#ifdef AVX512
/* Sixteen kernels' eight float16 to eight channels of sixteen floats. */
WITH_AVX512_VNNI INLINE void transpose_sixteen(const uint8_t *const *kernels, int64_t offset,
                                               float *panel) {
    const __m512i pairs = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    __m512i a[4], b[4];
    /* A register's four parts are of every fourth kernel. */
    for (int i = 0; i < 4; i++) {
        const __m128i *at[4];
        for (int j = 0; j < 4; j++)
            at[j] = (const __m128i *)(kernels[4 * j + i] + offset);
        a[i] = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu2_m128i(at[1], at[0])),
                                  _mm256_loadu2_m128i(at[3], at[2]), 1);
    }
    for (int i = 0; i < 2; i++) {
        b[2 * i] = _mm512_unpacklo_epi16(a[2 * i], a[2 * i + 1]);
        b[2 * i + 1] = _mm512_unpackhi_epi16(a[2 * i], a[2 * i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        a[2 * i] = _mm512_unpacklo_epi32(b[i], b[2 + i]);
        a[2 * i + 1] = _mm512_unpackhi_epi32(b[i], b[2 + i]);
    }
    for (int i = 0; i < 4; i++) {
        const __m512i two = _mm512_permutexvar_epi64(pairs, a[i]);
        _mm512_storeu_ps(panel + 2 * i * GROUP, _mm512_cvtph_ps(_mm512_castsi512_si256(two)));
        _mm512_storeu_ps(panel + (2 * i + 1) * GROUP,
                         _mm512_cvtph_ps(_mm512_extracti64x4_epi64(two, 1)));
    }
}

WITH_AVX512_VNNI static int64_t pack_wide(const uint8_t *const *kernels, int64_t count,
                                          float *panel) {
    int64_t c = 0;
    for (; c + 8 <= count; c += 8)
        transpose_sixteen(kernels, 2 * c, panel + c * GROUP);
    return c;
}
#endif

WITH_AVX2 static int64_t pack_halves(const uint8_t *const *kernels, int64_t count, float *panel) {
    int64_t c = 0;
    for (; c + 8 <= count; c += 8) {
        transpose_halves(kernels, 2 * c, panel + c * GROUP);
        transpose_halves(kernels + 8, 2 * c, panel + c * GROUP + 8);
    }
    return c;
}
#endif

/* As many channels of float16 as there are vectors for; how many that are. */
static int64_t pack_vectors(const uint8_t *const *kernels, int64_t count, float *panel) {
#ifdef AVX512
    if (has_avx512(running_form))
        return pack_wide(kernels, count, panel);
#endif
#ifdef X86
    if (has_avx2(running_form))
        return pack_halves(kernels, count, panel);
#endif
    (void)kernels, (void)count, (void)panel;
    return 0;
}

/* `count` neighbouring channels of GROUP kernels, to (count, GROUP) floats. */
static void pack_run(const uint8_t *const *kernels, int64_t count, int64_t element, float *panel) {
    for (int j = 0; j < GROUP; j++)
        __builtin_prefetch((const void *)((uintptr_t)kernels[j] + AHEAD));
    const int64_t done = element == FLOAT16 ? pack_vectors(kernels, count, panel) : 0;
    for (int64_t c = done; c < count; c++)
        for (int j = 0; j < GROUP; j++)
            panel[c * GROUP + j] = element_at(kernels[j], c, element);
}

/* Factors [from, to) of all that one kernel sees, for a group of kernels: (to - from, GROUP). */
static void pack(const struct weights *w, const struct window *k, int64_t channels, int64_t g,
                 int64_t from, int64_t to, float *panel) {
    static const uint8_t zeros[RUN * 4];
    const int64_t places = k->height * k->width, size = size_of(w->element);
    const uint8_t *kernels[GROUP];
    while (from < to) {
        const int64_t place = from / channels, c = from % channels;
        const int64_t block = c / w->channel_group, lane = c % w->channel_group;
        const int64_t width = least(w->channel_group, w->channels - block * w->channel_group);
        int64_t count = least(least(to - from, channels - c), RUN);
        count = w->row ? count : least(count, width - lane);
        int64_t set = g * GROUP / w->kernel_group, row = g * GROUP % w->kernel_group;
        for (int64_t j = 0, n; j < GROUP; j += n, set++, row = 0) {
            const int64_t height = least(w->kernel_group, w->kernels - set * w->kernel_group);
            const int64_t before = set * w->kernel_group * w->channels * places +
                                   block * w->channel_group * places * height;
            const int64_t inside = (place * height + row) * width + lane;
            const int64_t line = set * w->kernel_group * k->height * w->row +
                                 (place / k->width * height + row) * w->row;
            const int64_t at = w->row ? line + place % k->width * w->channels + c : before + inside;
            const int64_t step = (w->row ? w->row : width) * size, left = w->kernels - g * GROUP;
            n = least(GROUP - j, w->kernel_group - row);
            for (int64_t i = 0; i < n; i++)
                kernels[j + i] = j + i < left ? w->base + at * size + i * step : zeros;
        }
        pack_run(kernels, count, w->element, panel);
        for (int64_t i = 0; w->offsets && i < count * GROUP; i++)
            panel[i] += w->offsets[g * GROUP + i % GROUP];
        from += count, panel += count * GROUP;
    }
}

#endif
