/* int8 convolutions with AVX-512 whose sums never leave the registers, for npu.c: rows of bytes times the
 * weights of COLUMNS kernels, and `run_whole`'s stages at once. Kernels of one place read atoms where they lie
 * instead of gathered rows.
 *
 * Rows go four at a time, as their results fill a vector; where some are left, what lies after them is computed
 * as well and dropped.
 */
#ifndef ANYNPU_NPU_FUSED_H
#define ANYNPU_NPU_FUSED_H

#if defined(X86) && defined(DOTS)
/* Whether a convolution's results may come from `convolve_fused`. */
INLINE int is_fused(const struct int8_dense *a) {
    return running_form == AVX512_VNNI && a->writer.lanes == LANES && a->dpu.short_way.is_whole &&
           !a->truncate;
}

/* What kernels of one place see: atoms of the first surface, of those between at the same distance, and of the
 * last one, of which only the valid lanes are left; and the sum of each pixel's bytes. */
struct atoms {
    const int8_t *first, *last;
    const int32_t *sums;
};

/* Whether there are such, rather than rows. */
INLINE int sees_atoms(const struct int8_dense *a) {
    const int follow = a->dpu.short_way.follow;
    return a->is_pointwise && is_fused(a) && (follow == NOTHING || follow == ADDITION);
}

/* One group of kernels' results for some output pixels, of rows or of atoms. */
struct fused {
    const struct int8_dense *dense;
    int64_t group, first;
    const int8_t *operands;
    int8_t *results; /* as those, NULL where they don't lie one after another */
    struct byte_rows rows;
    struct atoms atoms;
};

/* The bytes' sums of a pixel's valid lanes; its last atom, without the others, where there are such. */
WITH_AVX512_VNNI INLINE int32_t sum_pixel(const struct features *f, const int8_t *atom,
                                          __m128i kept, int8_t *last) {
    const int64_t before = f->surfaces - 1;
    __m128i sums = _mm_setzero_si128();
    for (int64_t s = 0; s < before; s++, atom += f->surface)
        sums = _mm_add_epi64(sums, sums_of_eights(_mm_loadu_si128((const __m128i *)atom)));
    const __m128i left = _mm_and_si128(_mm_loadu_si128((const __m128i *)atom), kept);
    if (f->valid < f->surfaces * LANES)
        _mm_storeu_si128((__m128i *)last, left);
    return sum_of_eights(_mm_add_epi64(sums, sums_of_eights(left)), f->surfaces * LANES);
}

/* The same of four neighbours. */
WITH_AVX512_VNNI INLINE __m128i sum_four_pixels(const struct features *f, const int8_t *atom,
                                                __m512i kept, int8_t *last) {
    const __m512i ones = _mm512_set1_epi8(1);
    __m512i four = _mm512_setzero_si512();
    for (int64_t s = 1; s < f->surfaces; s++, atom += f->surface)
        four = _mm512_dpbusd_epi32(four, ones, _mm512_loadu_si512(atom));
    const __m512i left = _mm512_and_si512(_mm512_loadu_si512(atom), kept);
    if (f->valid < f->surfaces * LANES)
        _mm512_storeu_si512(last, left);
    four = _mm512_dpbusd_epi32(four, ones, left);
    /* Every other pixel's sums are in the same half. */
    const __m256i even = _mm512_castsi512_si256(four), odd = _mm512_extracti64x4_epi64(four, 1);
    __m256i pairs =
        _mm256_add_epi32(_mm256_unpacklo_epi64(even, odd), _mm256_unpackhi_epi64(even, odd));
    pairs = _mm256_add_epi32(pairs, _mm256_srli_epi64(pairs, 32));
    return _mm_blend_epi32(_mm256_castsi256_si128(pairs),
                           _mm_slli_epi64(_mm256_extracti128_si256(pairs, 1), 32), 0xA);
}

/* Both of the pixels `first` to `end`, and of no other ones, which may be another thread's. */
WITH_AVX512_VNNI static void sum_pixels(const struct int8_dense *a, int64_t first, int64_t end,
                                        int32_t *sums, int8_t *last) {
    const struct features *f = &a->features;
    const __m128i kept = first_lanes(f->valid - (f->surfaces - 1) * LANES);
    const __m256i twice = _mm256_set_m128i(kept, kept);
    const __m512i kept_of_four = join_avx512(twice, twice);
    const int8_t *atom = (const int8_t *)f->base + first * LANES;
    for (; first + 4 <= end; first += 4, atom += 4 * LANES, sums += 4, last += 4 * LANES)
        _mm_storeu_si128((__m128i *)sums, sum_four_pixels(f, atom, kept_of_four, last));
    for (; first < end; first++, atom += LANES, sums++, last += LANES)
        *sums = sum_pixel(f, atom, kept, last);
}

/* Where `sum_pixels` leaves something of so many pixels: the atoms first. Four pixels more have room. */
INLINE int32_t *pixel_sums_in(int8_t *space, int64_t pixels) {
    return (int32_t *)(space + (pixels + 4) * LANES);
}

/* Atoms from pixel `first` on, whose sums and last atoms are those from pixel `done` on in a space for `pixels`. */
INLINE struct atoms atoms_of(const struct int8_dense *a, int64_t first, int8_t *space,
                             int64_t pixels, int64_t done) {
    const struct features *f = &a->features;
    const int64_t before = f->surfaces - 1;
    struct atoms found = {(const int8_t *)f->base + first * LANES, space + done * LANES,
                          pixel_sums_in(space, pixels) + done};
    if (f->valid >= f->surfaces * LANES)
        found.last = found.first + before * f->surface;
    return found;
}

/* Sums of some neighbours' atoms of one surface times a group's weights there, in chains where they are few. */
WITH_AVX512_VNNI INLINE void add_atoms(const int8_t *atoms, const int8_t *weights,
                                       struct sums_avx512_vnni sums[CHAINS][2 * DOT_ROWS],
                                       const int count, const int chains) {
    UNROLLED for (int quad = 0; quad < LANES / 4; quad++) {
        const struct held_avx512_vnni held = hold_avx512_vnni(weights + quad * 4 * COLUMNS);
        UNROLLED for (int r = 0; r < count; r++)
            add_avx512_vnni(&sums[quad % chains][r], &held, atoms + r * LANES + quad * 4, LANES);
    }
}

/* The same of all surfaces, for `count` pixels from number `done` on. */
WITH_AVX512_VNNI INLINE void sum_atoms(const struct fused *f, int64_t done,
                                       struct sums_avx512_vnni *total, const int count) {
    const struct int8_dense *a = f->dense;
    const struct byte_rows begun = {
        (const int8_t *)(f->atoms.sums + done), sizeof *f->atoms.sums, 0, 0, 0, 1};
    const int8_t *atoms = f->atoms.first + done * LANES;
    const int8_t *weights = a->weights + f->group * a->depth * COLUMNS;
    const int chains = count > 4 ? 1 : count > 1 ? 2 : CHAINS;
    struct sums_avx512_vnni sums[CHAINS][2 * DOT_ROWS];
    UNROLLED for (int r = 0; r < count; r++) {
        sums[0][r] = begin_avx512_vnni(&begun, r, a->offsets + f->group * COLUMNS);
        UNROLLED for (int c = 1; c < chains; c++) sums[c][r] = none_avx512_vnni();
    }
    for (int64_t s = 1; s < a->features.surfaces; s++) {
        add_atoms(atoms, weights, sums, count, chains);
        atoms += a->features.surface, weights += LANES * COLUMNS;
    }
    add_atoms(f->atoms.last + done * LANES, weights, sums, count, chains);
    UNROLLED for (int r = 0; r < count; r++) {
        UNROLLED for (int c = 1; c < chains; c++) join_avx512_vnni(&sums[0][r], &sums[c][r]);
        total[r] = sums[0][r];
    }
}

/* Results of the pixels from number `done` on, `count` in the registers, of which `wanted` are there. */
WITH_AVX512_VNNI INLINE void convolve_some(const struct fused *f,
                                           const struct whole_stages_avx512 *w,
                                           const struct whole_channels_avx512 *channels,
                                           int64_t done, int64_t wanted, const int count,
                                           const int follow, const int of_atoms) {
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
    if (of_atoms)
        sum_atoms(f, done, sums, count);
    else {
        struct byte_rows rows = f->rows;
        rows.base += done * rows.stride;
        sum_rows_avx512_vnni(rows, a->weights + f->group * a->depth * COLUMNS,
                             a->offsets + f->group * COLUMNS, NULL, sums, count);
    }
    for (int r = count; r < filled; r++)
        sums[r] = sums[0];
    UNROLLED for (int r = 0; r < count; r += 4) {
        const __m512i four[4] = {sums[r].all, sums[r + 1].all, sums[r + 2].all, sums[r + 3].all};
        run_four_avx512(w, channels, four, e + r * LANES, q + r * LANES, 1, follow);
    }
    if (q == results)
        store(&a->writer, f->group, f->first + done, least(count, wanted), results, LANES);
}

WITH_AVX512_VNNI INLINE void convolve_fused_group(const struct fused *f,
                                                  const struct whole_stages_avx512 *w,
                                                  int64_t count, const int follow,
                                                  const int of_atoms) {
    const struct whole_channels_avx512 channels =
        read_whole_avx512(&f->dense->dpu, f->group * LANES, LANES, follow);
    for (int64_t done = 0, taken; done < count; done += taken) {
        /* Parts of about the same size; of atoms none that aren't there. */
        const int64_t wanted = count - done, fours = of_atoms ? wanted / 4 : (wanted + 3) / 4;
        const int64_t parts = (fours + 2) / 3;
        taken = fours ? (fours + parts - 1) / parts * 4 : 1;
        if (taken == 12)
            convolve_some(f, w, &channels, done, wanted, 12, follow, of_atoms);
        else if (taken == 8)
            convolve_some(f, w, &channels, done, wanted, 8, follow, of_atoms);
        else if (taken == 4 && wanted > 1)
            convolve_some(f, w, &channels, done, wanted, 4, follow, of_atoms);
        else
            convolve_some(f, w, &channels, done, wanted, 1, follow, of_atoms);
    }
}

/* Where a group's results go, and where its operands lie. */
INLINE struct fused fused_of(const struct int8_dense *a, int64_t group, int64_t first) {
    const struct writer *w = &a->writer;
    const struct features *o = &a->dpu.operand;
    struct fused f = {.dense = a, .group = group, .first = first};
    if (a->dpu.operation != NONE)
        f.operands = (int8_t *)atoms_in_a_row((uint8_t *)surface_of(o, group), o->line, o->pixel,
                                              o->width, first, LANES);
    if (w->channels >= (group + 1) * LANES)
        f.results =
            atoms_in_a_row(surface_of_writer(w, group), w->line, w->pixel, w->width, first, LANES);
    return f;
}

WITH_AVX512_VNNI INLINE void convolve_fused_in(const struct int8_dense *a, int64_t begin,
                                               int64_t end, const struct byte_rows *rows,
                                               const struct atoms *atoms, int64_t first,
                                               int64_t count, const int follow) {
    const struct whole_stages_avx512 w = read_stages_avx512(&a->dpu, follow);
    for (int64_t group = begin; group < end; group++) {
        struct fused f = fused_of(a, group, first);
        if (rows)
            f.rows = *rows;
        else
            f.atoms = *atoms;
        convolve_fused_group(&f, &w, count, follow, !rows);
    }
}

/* Results of the groups `begin` to `end` of kernels over gathered rows, of the pixels from `first` on. */
WITH_AVX512_VNNI static void convolve_fused(const struct int8_dense *a, int64_t begin, int64_t end,
                                            const int8_t *gathered, int64_t first, int64_t count) {
    const struct byte_rows rows = {gathered, a->stride, a->depth, 0, a->depth / 4, 1}, *r = &rows;
    switch (a->dpu.short_way.follow) {
    case SPLIT | LEAK: convolve_fused_in(a, begin, end, r, NULL, first, count, SPLIT | LEAK); break;
    case LEAK: convolve_fused_in(a, begin, end, r, NULL, first, count, LEAK); break;
    case ADDITION: convolve_fused_in(a, begin, end, r, NULL, first, count, ADDITION); break;
    default: convolve_fused_in(a, begin, end, r, NULL, first, count, NOTHING);
    }
}

/* The same over atoms. */
WITH_AVX512_VNNI static void convolve_atoms(const struct int8_dense *a, int64_t begin, int64_t end,
                                            const struct atoms *atoms, int64_t first,
                                            int64_t count) {
    if (a->dpu.short_way.follow == ADDITION)
        convolve_fused_in(a, begin, end, NULL, atoms, first, count, ADDITION);
    else
        convolve_fused_in(a, begin, end, NULL, atoms, first, count, NOTHING);
}
#endif

#endif
