/* Convolutions of pictures pixel by pixel, from few channels to few, for npu_general.c: sums in the order of
 * npu_general_products.h. */
#ifndef ANYNPU_NPU_GENERAL_FEW_H
#define ANYNPU_NPU_GENERAL_FEW_H

#include <stdint.h>
#include <string.h>

#include "npu_general_quads.h"

#ifdef AVX512
/* Channels of a pixel of which four pixels' lie in a register. */
enum { FEW = 4 };

/* Whether pixels of few channels become such, each for itself, in atoms of eight float16. */
static int are_few(const struct dense *a) {
    const struct window *k = &a->window;
    const struct dpu *d = &a->dpu;
    const struct writer *w = &a->writer;
    return has_avx512(running_form) && a->fused && k->height * k->width == 1 && k->stride_x == 1 &&
           a->features.channels <= FEW && w->channels <= FEW && w->pixel == ATOM && w->lanes == 8 &&
           w->width == k->out_width && d->element == FLOAT16 && !d->has_bs && !d->has_bn &&
           !d->has_table && d->operation == NONE && !d->has_limits && d->factor == 1 &&
           !d->addend && !d->after;
}

/* Four pixels' atoms from their channels, four by four. */
WITH_AVX512_VNNI INLINE __m512i atoms_of_few(const struct writer *w, __m512 sums) {
    const __mmask32 channels = 0x01010101u * ((1u << w->channels) - 1);
    const __m512i atoms =
        _mm512_maskz_expand_epi64(0x55, _mm512_castsi256_si512(nearest_halves(sums)));
    return _mm512_mask_blend_epi16(channels, _mm512_set1_epi16((short)w->padding), atoms);
}

/* One output row of those. Behind the input's row lie as many floats as a register has. */
WITH_AVX512_VNNI static void multiply_few(const struct dense *a, const float *row,
                                          const float *panel, uint8_t *to) {
    const int64_t channels = a->features.channels, width = a->window.out_width;
    const __m512i pixels = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    __m512 factors[FEW];
    __m512i places[FEW];
    for (int c = 0; c < channels; c++) {
        factors[c] = _mm512_broadcast_f32x4(_mm_loadu_ps(panel + c * GROUP));
        places[c] = _mm512_add_epi32(_mm512_mullo_epi32(pixels, _mm512_set1_epi32((int)channels)),
                                     _mm512_set1_epi32(c));
    }
    for (int64_t x = 0; x < width; x += QUAD * FEW, to += QUAD * FEW * ATOM) {
        __m512 sums[QUAD];
        __m512i atoms[QUAD];
        for (int i = 0; i < QUAD; i++) {
            const __m512 seen = _mm512_loadu_ps(row + (x + least(i * FEW, width - x)) * channels);
            sums[i] = _mm512_setzero_ps();
            for (int c = 0; c < channels; c++)
                sums[i] =
                    _mm512_fmadd_ps(_mm512_permutexvar_ps(places[c], seen), factors[c], sums[i]);
        }
        keep_one_quad_nan(sums);
        for (int i = 0; i < QUAD; i++)
            atoms[i] = atoms_of_few(&a->writer, sums[i]);
        memcpy(to, atoms, least(width - x, QUAD * FEW) * ATOM);
    }
}

/* Output rows from number `first` on, if they are such. */
static int multiplied_few(const struct dense *a, int64_t first, int64_t count, const float *rows,
                          const float *panel) {
    if (!are_few(a))
        return 0;
    for (int64_t i = 0; i < count; i++)
        multiply_few(a, rows + i * a->window.stride_y * a->depth, panel,
                     a->writer.base + (first + i) * a->writer.line);
    return 1;
}
#else
static int multiplied_few(const struct dense *a, int64_t first, int64_t count, const float *rows,
                          const float *panel) {
    (void)a, (void)first, (void)count, (void)rows, (void)panel;
    return 0;
}
#endif

#endif
