/* What follows sums of int8, for npu.c: stages and outputs, in the form that runs. */
#ifndef ANYNPU_NPU_FINISH_H
#define ANYNPU_NPU_FINISH_H

#include <stdint.h>

#include "npu_stages_vectors.h"

/* Not inlined: one copy for each kind of processor, which all kernels call. */
#define FINISH(name, keyword, call)                                                                \
    keyword static void name(const struct dpu *d, int64_t s, int64_t first, int64_t count,         \
                             const int32_t *sums, int8_t *q, int lanes) {                          \
        if (lanes == 16)                                                                           \
            call(d, s, first, count, sums, q, 16);                                                 \
        else                                                                                       \
            call(d, s, first, count, sums, q, 8);                                                  \
    }

FINISH(finish_plain, , run_stages)
#ifdef X86
FINISH(finish_table_avx2, WITH_AVX2, run_stages)
FINISH(finish_avx2, WITH_AVX2, finish_atoms_avx2)
#ifdef DOTS
FINISH(finish_avx512, WITH_AVX512_VNNI, finish_atoms_avx512)
#endif
#endif

/* Sums of one surface, (count, lanes), through the stages and into memory. */
INLINE void finish(const struct dpu *d, const struct writer *w, int64_t s, int64_t first,
                   int64_t count, const int32_t *sums, const int lanes, const int form) {
    int8_t held[BLOCK * LANES + 32], *q = held;
#ifdef X86
    if (has_avx2(form) && d->short_way.is_whole && w->channels >= (s + 1) * lanes) {
        int8_t *there =
            atoms_in_a_row(surface_of_writer(w, s), w->line, w->pixel, w->width, first, lanes);
        q = there ? there : held;
    }
    if (has_avx2(form) && d->has_table && !d->short_way.results)
        finish_table_avx2(d, s, first, count, sums, q, lanes);
#ifdef DOTS
    else if (running_form == AVX512_VNNI)
        finish_avx512(d, s, first, count, sums, q, lanes);
#endif
    else if (has_avx2(form))
        finish_avx2(d, s, first, count, sums, q, lanes);
    else
#endif
        finish_plain(d, s, first, count, sums, q, lanes);
    if (q == held)
        store(w, s, first, count, q, lanes);
    (void)form;
}

#endif
