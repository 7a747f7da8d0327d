/* The NPU's integer arithmetic on channel blocks: what NumPy would do in many passes, in one.
 *
 * Plain C11, with a second form of the hottest loops for AVX2. Sums are int32; stages compute in
 * double, which is exact while values stay below 2^52. Callers prove all of that when a model is loaded,
 * so the results are those of the integers, bit for bit, whatever the order and whether multiplications
 * and additions are fused. Ties go to the even number, as in the processor's own rounding, but where an
 * output or an operand says otherwise.
 *
 * Every kernel has the form that steps.c calls: arguments, a part of the units of work, and a space of
 * the thread's own.
 *
 * Memory is only touched where the arguments say: whole atoms of features, and of them every one that a
 * view of these strides and counts has, which callers have found to lie inside. Whole vectors are only
 * read from a picture's rows where they end inside `readable`; arrays that have an entry a channel are
 * filled up to whole atoms, or to COLUMNS kernels.
 */
#include <stdint.h>
#include <string.h>

#include "dots.h"
#include "npu_finish.h"
#include "npu_rows.h"
#include "npu_products.h"

_Static_assert((int)DOT_COLUMNS == (int)COLUMNS, "weights lie so for dots.h");

/* ------------------------------------------------------------------------------------- convolutions */

/* Sums of one group of COLUMNS kernels over gathered rows. A slice of the weights stays cached while it
 * meets all rows. */
INLINE void multiply_group(const struct int8_dense *a, int64_t group, const int8_t *rows,
                           int64_t count, int16_t *panel, struct target t, const int form,
                           const int size) {
    const int8_t *weights = a->weights + group * a->depth * COLUMNS;
    const int16_t *offsets = a->offsets + group * COLUMNS;
    for (int64_t first = 0; first < a->depth; first += SLICE) {
        const int64_t places = least(SLICE, a->depth - first);
#ifdef DOTS
        if (size == BYTES) {
            const struct byte_rows bytes = {rows,      a->stride,  a->depth,
                                            first / 4, places / 4, !first};
            multiply_bytes(bytes, weights, offsets, t, count);
            continue;
        }
#endif
        const int16_t *wide = (const int16_t *)rows + first;
#ifdef X86
        if (has_avx2(form)) {
            unpack_avx2(weights + first * COLUMNS, offsets, places / 4, panel);
            multiply_avx2_rows(wide, a->stride, panel, places / 2, t, count, !first);
            continue;
        }
#endif
        unpack(weights + first * COLUMNS, offsets, places / 4, panel);
        multiply_rows(wide, a->stride, panel, places / 2, t, count, !first);
    }
    (void)form, (void)size;
}

#include "npu_fused.h"

/* Those sums, and what follows. */
INLINE void convolve_group(const struct int8_dense *a, int64_t group, const int8_t *rows,
                           int64_t first, int64_t count, int16_t *panel, int32_t *sums,
                           const int lanes, const int form, const int size) {
    const struct target t = {sums, lanes, lanes == COLUMNS ? COLUMNS / 2 : count * lanes};
    multiply_group(a, group, rows, count, panel, t, form, size);
    if (a->truncate)
        truncate_sums(sums, count * COLUMNS, a->truncate, a->truncate_up);
    const int64_t surfaces = (a->writer.channels + lanes - 1) / lanes;
    for (int64_t half = 0; half < COLUMNS / lanes; half++) {
        const int64_t s = group * (COLUMNS / lanes) + half;
        for (int64_t done = 0; done < count && s < surfaces; done += BLOCK)
            finish(&a->dpu, &a->writer, s, first + done,
                   count - done < BLOCK ? count - done : BLOCK,
                   sums + (half * count + done) * lanes, lanes, form);
    }
}

/* The same for the groups `begin` to `end`. */
INLINE void convolve(const struct int8_dense *a, int64_t begin, int64_t end, const int8_t *rows,
                     int64_t first, int64_t count, int16_t *panel, int32_t *sums, const int lanes,
                     const int form, const int size) {
#if defined(X86) && defined(DOTS)
    if (size == BYTES && is_fused(a)) {
        convolve_fused(a, begin, end, rows, first, count);
        return;
    }
#endif
    for (int64_t group = begin; group < end; group++)
        convolve_group(a, group, rows, first, count, panel, sums, lanes, form, size);
}

/* Where the parts of a thread's space lie: weights, sums, rows. */
INLINE int32_t *sums_in(void *scratch) {
    return (int32_t *)((int16_t *)scratch + SLICE * COLUMNS);
}

/* Pixels `first` to `end`, a tile at a time. */
INLINE void convolve_pixels_of(const struct int8_dense *a, int64_t first, int64_t end,
                               void *scratch, const int lanes, const int form, const int size) {
    int32_t *sums = sums_in(scratch);
    int8_t *rows = (int8_t *)(sums + a->tile * COLUMNS);
    const int64_t groups = (a->writer.channels + COLUMNS - 1) / COLUMNS;
    for (; first < end; first += a->tile) {
        const int64_t count = least(end - first, a->tile);
#if defined(X86) && defined(DOTS)
        if (size == BYTES && sees_atoms(a)) {
            int8_t *space = (int8_t *)sums;
            const struct atoms atoms = atoms_of(a, first, space, a->tile, 0);
            sum_pixels(a, first, first + count, pixel_sums_in(space, a->tile), space);
            convolve_atoms(a, 0, groups, &atoms, first, count);
            continue;
        }
#endif
        gather_any(a, first, count, rows, form, size);
        convolve(a, 0, groups, rows, first, count, scratch, sums, lanes, form, size);
    }
}

INLINE void convolve_pixels(const struct int8_dense *a, int64_t first, int64_t end, void *scratch,
                            const int lanes, const int form) {
    if (size_in_rows(a) == BYTES)
        convolve_pixels_of(a, first, end, scratch, lanes, form, BYTES);
    else
        convolve_pixels_of(a, first, end, scratch, lanes, form, WIDE);
}

/* All pixels, gathered before, for groups `first` to `end` of COLUMNS kernels. */
INLINE void convolve_kernels_of(const struct int8_dense *a, int64_t first, int64_t end,
                                void *scratch, const int lanes, const int form, const int size) {
#if defined(X86) && defined(DOTS)
    if (size == BYTES && sees_atoms(a)) {
        const struct atoms atoms = atoms_of(a, 0, a->rows, a->pixels, 0);
        convolve_atoms(a, first, end, &atoms, 0, a->pixels);
        return;
    }
#endif
    convolve(a, first, end, a->rows, 0, a->pixels, scratch, sums_in(scratch), lanes, form, size);
}

INLINE void convolve_kernels(const struct int8_dense *a, int64_t first, int64_t end, void *scratch,
                             const int lanes, const int form) {
    if (size_in_rows(a) == BYTES)
        convolve_kernels_of(a, first, end, scratch, lanes, form, BYTES);
    else
        convolve_kernels_of(a, first, end, scratch, lanes, form, WIDE);
}

/* Rows of the pixels `first` to `end`, or what is needed of them. */
INLINE void gather_rows(const struct int8_dense *a, int64_t first, int64_t end, const int form) {
#if defined(X86) && defined(DOTS)
    if (size_in_rows(a) == BYTES && sees_atoms(a)) {
        sum_pixels(a, first, end, pixel_sums_in(a->rows, a->pixels) + first,
                   a->rows + first * LANES);
        return;
    }
#endif
    if (size_in_rows(a) == BYTES)
        gather_any(a, first, end - first, a->rows + first * a->stride, form, BYTES);
    else
        gather_any(a, first, end - first, a->rows + first * a->stride * WIDE, form, WIDE);
}

#include "npu_depthwise.h"
#include "npu_unweighted.h"

/* ------------------------------------------------------------------------------------------ kernels */

#define BY_LANES(lanes, call, ...)                                                                 \
    if ((lanes) == 16)                                                                             \
        call(__VA_ARGS__, 16, FORM);                                                               \
    else                                                                                           \
        call(__VA_ARGS__, 8, FORM)

#define KERNEL_IN(keyword, name, form, lanes, call, ...)                                           \
    keyword static void name(const void *arguments, int64_t first, int64_t end, void *scratch) {   \
        enum { FORM = form };                                                                      \
        BY_LANES(lanes, call, __VA_ARGS__);                                                        \
        (void)scratch;                                                                             \
    }

/* A kernel in each of its forms. */
#ifdef X86
#define KERNEL(name, ...)                                                                          \
    KERNEL_IN(WITH_AVX2, name##_avx2, AVX2, __VA_ARGS__)                                           \
    KERNEL_IN(, name##_plain, PLAIN, __VA_ARGS__)                                                  \
    EXPORTED_KERNEL(name)
#else
#define KERNEL(name, ...)                                                                          \
    KERNEL_IN(, name##_plain, PLAIN, __VA_ARGS__)                                                  \
    EXPORTED_KERNEL(name)
#endif
#define EXPORTED_KERNEL(name)                                                                      \
    EXPORT void anynpu_npu_##name(const void *arguments, int64_t first, int64_t end,               \
                                  void *scratch) {                                                 \
        IN_THE_FORM(name, (arguments, first, end, scratch));                                       \
    }

#define DENSE ((const struct int8_dense *)arguments)
#define DEPTHWISE ((const struct int8_depthwise *)arguments)
#define PROCESS ((const struct process *)arguments)
#define REMAP ((const struct remap *)arguments)
#define POOL ((const struct pool *)arguments)
#define MOVE ((const struct move *)arguments)

#define GATHER(a, first, end, lanes, form) gather_rows(a, first, end, form)
#define ANY_REMAP(a, first, end, lanes, form) remap(a, first, end, lanes)
#define ANY_POOL(a, first, end, lanes, form) pool(a, first, end, lanes)
#define ANY_MOVE(a, first, end, lanes, form) move(a, first, end, lanes)

/* Units are output pixels, */
KERNEL(convolve_pixels, DENSE->writer.lanes, convolve_pixels, DENSE, first, end, scratch)
KERNEL(gather, 16, GATHER, DENSE, first, end)
/* groups of COLUMNS kernels, */
KERNEL(convolve_kernels, DENSE->writer.lanes, convolve_kernels, DENSE, first, end, scratch)
/* bands of surfaces, */
KERNEL(convolve_depthwise, DEPTHWISE->writer.lanes, convolve_depthwise, DEPTHWISE, first, end,
       scratch)
/* surfaces, */
KERNEL(process, PROCESS->writer.lanes, process, PROCESS, first, end)
KERNEL(remap, REMAP->writer.lanes, ANY_REMAP, REMAP, first, end)
/* and rows of surfaces. */
KERNEL(pool, POOL->writer.lanes, ANY_POOL, POOL, first, end)
KERNEL(move, MOVE->atom, ANY_MOVE, MOVE, first, end)
