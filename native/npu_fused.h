/* int8 convolutions with AVX-512 whose sums never leave the registers, for npu.c: rows of bytes times the
 * weights of COLUMNS kernels, and `run_whole`'s stages at once.
 *
 * Rows go four at a time, as their results fill a vector; where some are left, what lies after them is computed
 * as well and dropped.
 */
#ifndef ANYNPU_NPU_FUSED_H
#define ANYNPU_NPU_FUSED_H

#if defined(X86) && defined(DOTS)
/* One group of kernels' results for some output pixels. */
struct fused {
    const struct int8_dense *dense;
    int64_t group, first;
    const int8_t *operands;
    int8_t *results; /* as those, NULL where they don't lie one after another */
};

/* Results of the pixels from number `done` on, `count` in the registers, of which `wanted` are there. */
WITH_AVX512_VNNI INLINE void convolve_some(const struct fused *f,
                                           const struct whole_stages_avx512 *w,
                                           const struct whole_channels_avx512 *channels,
                                           struct byte_rows rows, int64_t done, int64_t wanted,
                                           const int count, const int follow) {
    const struct int8_dense *a = f->dense;
    struct sums_avx512_vnni sums[2 * DOT_ROWS];
    int8_t operands[2 * DOT_ROWS * LANES] = {0}, results[2 * DOT_ROWS * LANES];
    const int filled = (count + 3) / 4 * 4, is_direct = filled <= wanted;
    const int8_t *e = operands;
    int8_t *q = f->results && is_direct ? f->results + done * LANES : results;
    if (follow & ADDITION) {
        if (f->operands && is_direct)
            e = f->operands + done * LANES;
        else
            load_operand(&a->dpu, f->group, f->first + done, least(count, wanted), operands, LANES);
    }
    rows.base += done * rows.stride;
    sum_rows_avx512_vnni(rows, a->weights + f->group * a->depth * COLUMNS,
                         a->offsets + f->group * COLUMNS, NULL, sums, count);
    for (int r = count; r < filled; r++)
        sums[r] = sums[0];
    _Pragma("GCC unroll 3") for (int r = 0; r < count; r += 4) {
        const __m512i four[4] = {sums[r].all, sums[r + 1].all, sums[r + 2].all, sums[r + 3].all};
        run_four_avx512(w, channels, four, e + r * LANES, q + r * LANES, 1, follow);
    }
    if (q == results)
        store(&a->writer, f->group, f->first + done, least(count, wanted), results, LANES);
}

WITH_AVX512_VNNI INLINE void convolve_fused_group(const struct fused *f,
                                                  const struct whole_stages_avx512 *w,
                                                  struct byte_rows rows, int64_t count,
                                                  const int follow) {
    const struct whole_channels_avx512 channels =
        read_whole_avx512(&f->dense->dpu, f->group * LANES, LANES, follow);
    for (int64_t done = 0, taken; done < count; done += taken) {
        /* Parts of about the same size. */
        const int64_t wanted = count - done, fours = (wanted + 3) / 4, parts = (fours + 2) / 3;
        taken = (fours + parts - 1) / parts * 4;
        if (taken == 12)
            convolve_some(f, w, &channels, rows, done, wanted, 12, follow);
        else if (taken == 8)
            convolve_some(f, w, &channels, rows, done, wanted, 8, follow);
        else if (wanted > 1)
            convolve_some(f, w, &channels, rows, done, wanted, 4, follow);
        else
            convolve_some(f, w, &channels, rows, done, wanted, 1, follow);
    }
}

/* Where a group's results go, and where its operands lie. */
INLINE struct fused fused_of(const struct int8_dense *a, int64_t group, int64_t first) {
    const struct writer *w = &a->writer;
    const struct features *o = &a->dpu.operand;
    struct fused f = {a, group, first, NULL, NULL};
    if (a->dpu.operation != NONE)
        f.operands = (int8_t *)atoms_in_a_row((uint8_t *)surface_of(o, group), o->line, o->pixel,
                                              o->width, first, LANES);
    if (w->channels >= (group + 1) * LANES)
        f.results =
            atoms_in_a_row(surface_of_writer(w, group), w->line, w->pixel, w->width, first, LANES);
    return f;
}

WITH_AVX512_VNNI INLINE void convolve_fused_in(const struct int8_dense *a, int64_t begin,
                                               int64_t end, struct byte_rows rows, int64_t first,
                                               int64_t count, const int follow) {
    const struct whole_stages_avx512 w = read_stages_avx512(&a->dpu, follow);
    for (int64_t group = begin; group < end; group++) {
        const struct fused f = fused_of(a, group, first);
        convolve_fused_group(&f, &w, rows, count, follow);
    }
}

/* Whether a convolution's results may come from `convolve_fused`. */
INLINE int is_fused(const struct int8_dense *a) {
    return running_form == AVX512_VNNI && a->writer.lanes == LANES && a->dpu.short_way.is_whole &&
           !a->truncate;
}

/* Results of the groups `begin` to `end` of kernels over gathered rows, of the pixels from `first` on. */
WITH_AVX512_VNNI static void convolve_fused(const struct int8_dense *a, int64_t begin, int64_t end,
                                            const int8_t *gathered, int64_t first, int64_t count) {
    const struct byte_rows rows = {gathered, a->stride, a->depth, 0, a->depth / 4, 1};
    switch (a->dpu.short_way.follow) {
    case SPLIT | LEAK: convolve_fused_in(a, begin, end, rows, first, count, SPLIT | LEAK); break;
    case LEAK: convolve_fused_in(a, begin, end, rows, first, count, LEAK); break;
    case ADDITION: convolve_fused_in(a, begin, end, rows, first, count, ADDITION); break;
    default: convolve_fused_in(a, begin, end, rows, first, count, NOTHING);
    }
}
#endif

#endif
